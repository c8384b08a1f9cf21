// SPDX-License-Identifier: Apache-2.0
// labels: short
/* embedding: rows by hand, sums of gradients in order, rows that nobody reads, ids outside the table. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("embedding");
}

TEST(gradients) {
    check_gradients("embedding");
}

static const char forward[] = "embedding/forward ids=fp32[2,2] weights=fp32[4,3] dst=fp32[2,3,2] vocabulary=4";
static const char backward[] = "embedding/backward ids=fp32[2,2] diff_dst=fp32[2,3,2] diff_weights=fp32[4,3] vocabulary=4";

/* Row after row in memory, the features of a position side by side. */
TEST(rows) {
    static const float table[12] = {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    static const float expected[12] = {30, 31, 32, 0, 1, 2, 30, 31, 32, 20, 21, 22};
    bound f;
    bound_parse(&f, forward, 131);
    memcpy(bound_tensor(&f, QS_IDS)->data, (const int32_t[4]){3, 0, 3, 2}, 16);
    memcpy(bound_fp32(&f, QS_WEIGHTS), table, sizeof table);
    bound_run(&f);
    assert_memory_equal(bound_fp32(&f, QS_DST), expected, sizeof expected);
    bound_release(&f);
}

/* 2^24 + 1 + 1 is 2^24 in fp32 in this order and 2^24 + 2 in the other one; row 1 has no reader. */
TEST(sums_have_an_order) {
    static const float gradient[12] = {0x1p24f, 1, 1, 1, 1, 1, 1, 1, 0x1p24f, 5, 6, 7};
    static const float expected[12] = {0x1p24f, 3, 0x1p24f + 2, 0, 0, 0, 5, 6, 7, 0, 0, 0};
    bound b;
    bound_parse(&b, backward, 132);
    memcpy(bound_tensor(&b, QS_IDS)->data, (const int32_t[4]){0, 0, 0, 2}, 16);
    memcpy(bound_fp32(&b, QS_DIFF_DST), gradient, sizeof gradient);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_WEIGHTS), expected, sizeof expected);
    bound_release(&b);
}

/* Sums go on from what stands there: another reader's gradient of the same table. */
TEST(gradients_of_two_readers) {
    static const float expected[12] = {11, 22, 33, 40, 50, 60, 73, 86, 99, 100, 110, 120};
    static const char text[] = "embedding/backward ids=fp32[2,2] diff_dst=fp32[2,3,2] diff_weights=fp32[4,3] vocabulary=4 accumulate";
    bound b;
    bound_parse(&b, text, 134);
    memcpy(bound_tensor(&b, QS_IDS)->data, (const int32_t[4]){0, 2, 2, 2}, 16);
    for (int i = 0; i < 12; i++)
        bound_fp32(&b, QS_DIFF_WEIGHTS)[i] = (float)(10 * (i + 1));
    for (int i = 0; i < 12; i++)
        bound_fp32(&b, QS_DIFF_DST)[i] = (float)(1 + i % 3);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_WEIGHTS), expected, sizeof expected);
    bound_release(&b);
    expect_refused("embedding/forward ids=fp32[2,2] weights=fp32[4,3] dst=fp32[2,3,2] vocabulary=4 accumulate", "accumulate");
}

TEST(ids_are_checked) {
    bound f;
    bound_parse(&f, forward, 133);
    for (int32_t wrong = -1; wrong < 5; wrong += 5) {
        ((int32_t *)bound_tensor(&f, QS_IDS)->data)[3] = wrong;
        assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "of sample 1, position 1: the table has rows 0 to 3");
    }
    bound_release(&f);
}

TEST(shapes) {
    expect_refused("embedding/forward ids=fp32[2,2] weights=fp32[4,3] dst=fp32[2,2,3] vocabulary=4", "dst");
    expect_refused("embedding/forward ids=fp32[2,2] weights=fp32[5,3] dst=fp32[2,3,2] vocabulary=4", "weights");
    expect_refused("embedding/forward ids=fp32[2,2,1] weights=fp32[4,3] dst=fp32[2,3,2] vocabulary=4", "N,L");
    expect_refused("embedding/forward ids=fp32[2,2] weights=fp32[4,3] dst=fp32[2,3,2]", "vocabulary");
}

TEST_MAIN(cases, gradients, rows, sums_have_an_order, gradients_of_two_readers, ids_are_checked, shapes)
