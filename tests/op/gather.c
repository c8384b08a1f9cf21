// SPDX-License-Identifier: Apache-2.0
// labels: short
/* gather: positions by hand, sums of gradients in order, positions that nobody takes, ids that are none; in a graph the input's bound. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("gather");
}

TEST(gradients) {
    check_gradients("gather");
}

static const char forward[] = "gather/forward src=fp32[2,2,3] ids=fp32[2,2] dst=fp32[2,2,2]";
static const char backward[] = "gather/backward ids=fp32[2,2] diff_dst=fp32[2,2,2] diff_src=fp32[2,2,3]";

/* Agrees with torch.gather of positions: row after row in memory. */
TEST(positions) {
    static const float src[12] = {0, 1, 10, 11, 20, 21, 30, 31, 40, 41, 50, 51}, expected[8] = {20, 21, 0, 1, 40, 41, 40, 41};
    bound f;
    bound_parse(&f, forward, 141);
    memcpy(bound_tensor(&f, QS_IDS)->data, (const int32_t[4]){2, 0, 1, 1}, 16);
    memcpy(bound_fp32(&f, QS_SRC), src, sizeof src);
    bound_run(&f);
    assert_memory_equal(bound_fp32(&f, QS_DST), expected, sizeof expected);
    bound_release(&f);
}

/* One position may be taken twice: 2^24 + 1 is 2^24 in fp32. */
TEST(sums_have_an_order) {
    static const float gradient[8] = {1, 2, 3, 4, 0x1p24f, 5, 1, 6}, expected[12] = {3, 4, 0, 0, 1, 2, 0, 0, 0x1p24f, 11, 0, 0};
    bound b;
    bound_parse(&b, backward, 142);
    memcpy(bound_tensor(&b, QS_IDS)->data, (const int32_t[4]){2, 0, 1, 1}, 16);
    memcpy(bound_fp32(&b, QS_DIFF_DST), gradient, sizeof gradient);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), expected, sizeof expected);
    bound_release(&b);
}

TEST(ids_are_checked) {
    for (int wrong = 0; wrong < 2; wrong++) {
        bound f;
        bound_parse(&f, forward, 143);
        memcpy(bound_tensor(&f, QS_IDS)->data, wrong ? (const int32_t[4]){2, 0, 1, -1} : (const int32_t[4]){2, 3, 1, 1}, 16);
        assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE,
                       wrong ? "id -1 of sample 1, position 1" : "id 3 of sample 0, position 1: the sequence has positions 0 to 2");
        bound_release(&f);
    }
}

TEST(refusals) {
    expect_refused("gather/forward src=fp32[2,2,3] ids=fp32[3,2] dst=fp32[2,2,2]", "N,C,L and N,K");
    expect_refused("gather/forward src=fp32[2,2,3] ids=fp32[2,2] dst=fp32[2,2,3]", "dst is");
    expect_refused("gather/forward src=fp32[2,2,3] ids=fp32[2,2] dst=bf16[2,2,2]", "moved as they are");
}

TEST_MAIN(cases, gradients, positions, sums_have_an_order, ids_are_checked, refusals)
