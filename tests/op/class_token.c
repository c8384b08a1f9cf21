// SPDX-License-Identifier: Apache-2.0
// labels: short
/* class_token: where the vector stands, its gradient in the order of samples, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("class_token");
}

TEST(gradients) {
    check_gradients("class_token");
}

TEST(in_front) {
    static const float src[8] = {1, 2, 3, 4, 5, 6, 7, 8}, token[2] = {-1, -2}, expected[12] = {-1, -2, 1, 2, 3, 4, -1, -2, 5, 6, 7, 8};
    bound f;
    bound_parse(&f, "class_token/forward src=fp32[2,2,2] weights=fp32[1,2] dst=fp32[2,2,3]", 71);
    memcpy(bound_fp32(&f, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&f, QS_WEIGHTS), token, sizeof token);
    bound_run(&f);
    assert_memory_equal(bound_fp32(&f, QS_DST), expected, sizeof expected);
    bound_release(&f);
}

/* 2^24 + 1 + 1 is 2^24 in fp32 in this order. */
TEST(sums_have_an_order) {
    static const float gradient[6] = {0x1p24f, 7, 1, 8, 1, 9}, rest[3] = {7, 8, 9}, expected = 0x1p24f;
    bound b;
    bound_parse(&b, "class_token/backward diff_dst=fp32[3,1,2] diff_src=fp32[3,1,1] diff_weights=fp32[1,1]", 72);
    memcpy(bound_fp32(&b, QS_DIFF_DST), gradient, sizeof gradient);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), rest, sizeof rest);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_WEIGHTS), &expected, sizeof expected);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("class_token/forward src=fp32[2,2,2] weights=fp32[1,2] dst=fp32[2,2,2]", "dst");
    expect_refused("class_token/forward src=fp32[2,2,2] weights=fp32[2,2] dst=fp32[2,2,3]", "weights");
    expect_refused("class_token/forward src=fp32[2,2,2] weights=fp32[1,2] dst=bf16[2,2,3]", "moved as they are");
}

TEST_MAIN(cases, gradients, in_front, sums_have_an_order, refusals)
