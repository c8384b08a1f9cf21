// SPDX-License-Identifier: Apache-2.0
// labels: short
/* positions: rows by hand, sums of gradients in order, rows behind the last position, tables that are too short. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("positions");
}

TEST(gradients) {
    check_gradients("positions");
}

TEST(rows) {
    static const float src[8] = {1, 2, 3, 4, 5, 6, 7, 8}, table[6] = {10, 20, 30, 40, 50, 60};
    static const float expected[2][8] = {{11, 22, 33, 44, 15, 26, 37, 48}, {31, 42, 53, 64, 35, 46, 57, 68}};
    static const char *const texts[] = {"positions/forward src=fp32[2,2,2] weights=fp32[3,2] dst=fp32[2,2,2] vocabulary=3",
                                        "positions/forward src=fp32[2,2,2] weights=fp32[3,2] dst=fp32[2,2,2] offset=1 vocabulary=3"};
    for (int offset = 0; offset < 2; offset++) {
        bound f;
        bound_parse(&f, texts[offset], 131);
        memcpy(bound_fp32(&f, QS_SRC), src, sizeof src);
        memcpy(bound_fp32(&f, QS_WEIGHTS), table, sizeof table);
        bound_run(&f);
        assert_memory_equal(bound_fp32(&f, QS_DST), expected[offset], sizeof expected[offset]);
        bound_release(&f);
    }
}

/* Over three samples 2^24 + 1 + 1 is 2^24 in fp32 in this order and 2^24 + 2 in the other one; no position reads the last row. */
TEST(sums_have_an_order) {
    static const float gradient[6] = {0x1p24f, 1, 1, 1, 1, 0x1p24f}, expected[4] = {0x1p24f, 0x1p24f + 2, 0, 0};
    bound b;
    bound_parse(&b, "positions/backward diff_dst=fp32[3,2,1] diff_src=fp32[3,2,1] diff_weights=fp32[2,2] vocabulary=2", 132);
    memcpy(bound_fp32(&b, QS_DIFF_DST), gradient, sizeof gradient);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), gradient, sizeof gradient);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_WEIGHTS), expected, sizeof expected);
    bound_release(&b);
}

/* What S sequences of a sample get is what S samples get: bits of results and of the table's gradient. */
TEST(sequences_are_as_samples) {
    bound one, other;
    bound_parse(&one, "positions/forward src=fp32[2,3,8] weights=fp32[5,3] dst=fp32[2,3,8] vocabulary=5 sequences=2", 133);
    bound_parse(&other, "positions/forward src=fp32[4,3,4] weights=fp32[5,3] dst=fp32[4,3,4] vocabulary=5", 134);
    memcpy(bound_fp32(&other, QS_SRC), bound_fp32(&one, QS_SRC), 48 * sizeof(float));
    memcpy(bound_fp32(&other, QS_WEIGHTS), bound_fp32(&one, QS_WEIGHTS), 15 * sizeof(float));
    bound_run(&one);
    bound_run(&other);
    assert_memory_equal(bound_fp32(&one, QS_DST), bound_fp32(&other, QS_DST), 48 * sizeof(float));
    bound_release(&one);
    bound_release(&other);
    bound_parse(&one, "positions/backward diff_dst=fp32[2,3,8] diff_src=fp32[2,3,8] diff_weights=fp32[5,3] vocabulary=5 sequences=2", 135);
    bound_parse(&other, "positions/backward diff_dst=fp32[4,3,4] diff_src=fp32[4,3,4] diff_weights=fp32[5,3] vocabulary=5", 136);
    memcpy(bound_fp32(&other, QS_DIFF_DST), bound_fp32(&one, QS_DIFF_DST), 48 * sizeof(float));
    bound_run(&one);
    bound_run(&other);
    assert_memory_equal(bound_fp32(&one, QS_DIFF_WEIGHTS), bound_fp32(&other, QS_DIFF_WEIGHTS), 15 * sizeof(float));
    bound_release(&one);
    bound_release(&other);
}

/* Positions at a place take its rows and those behind, and give them their gradients. */
TEST(at_a_place) {
    static const float src[4] = {1, 2, 3, 4}, table[8] = {10, 20, 30, 40, 50, 60, 70, 80}, expected[4] = {51, 62, 73, 84};
    static const float sums[8] = {0, 0, 0, 0, 1, 2, 3, 4};
    bound f, b;
    bound_parse(&f, "positions/forward src=fp32[1,2,2] place=fp32[1,1] weights=fp32[4,2] dst=fp32[1,2,2] vocabulary=4", 133);
    memcpy(bound_fp32(&f, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&f, QS_WEIGHTS), table, sizeof table);
    *(int32_t *)bound_tensor(&f, QS_PLACE)->data = 2;
    bound_run(&f);
    assert_memory_equal(bound_fp32(&f, QS_DST), expected, sizeof expected);
    *(int32_t *)bound_tensor(&f, QS_PLACE)->data = 3;
    assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "2 positions from place 3 on, there are places 0 to 3");
    bound_parse(&b, "positions/backward diff_dst=fp32[1,2,2] place=fp32[1,1] diff_src=fp32[1,2,2] diff_weights=fp32[4,2] vocabulary=4",
                134);
    memcpy(bound_fp32(&b, QS_DIFF_DST), src, sizeof src);
    *(int32_t *)bound_tensor(&b, QS_PLACE)->data = 2;
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_WEIGHTS), sums, sizeof sums);
    bound_release(&f);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("positions/forward src=fp32[2,2,3] weights=fp32[3,2] dst=fp32[2,2,3] sequences=2", "do not divide");
    expect_refused("positions/forward src=fp32[2,2,3] weights=fp32[2,2] dst=fp32[2,2,3] vocabulary=2",
                   "more positions than the table has rows (2)");
    expect_refused("positions/forward src=fp32[2,2] weights=fp32[2,2] dst=fp32[2,2]", "N,C,L");
    expect_refused("positions/forward src=fp32[2,2,3] weights=fp32[3,2] dst=fp32[2,2,3] vocabulary=3.5", "whole number");
    expect_refused("positions/forward src=fp32[2,2,3] weights=fp32[3,3] dst=fp32[2,2,3]", "weights");
    expect_refused("positions/backward diff_dst=bf16[2,2,3] diff_src=fp32[2,2,3] diff_weights=fp32[3,2]", "handed on as it is");
}

TEST_MAIN(cases, gradients, rows, sums_have_an_order, sequences_are_as_samples, at_a_place, refusals)
