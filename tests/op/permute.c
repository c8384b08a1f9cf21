// SPDX-License-Identifier: Apache-2.0
// labels: short
/* permute: by hand, shapes of the result, back and forth, extents and orders that are none. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("permute");
}

TEST(gradients) {
    check_gradients("permute");
}

TEST(by_hand) {
    static const float src[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    check_by_hand("permute/forward src=fp32[2,3,2] dst=fp32[2,2,3] extent1=2 extent2=3 order=21", QS_SRC, src, QS_DST,
                  (float[12]){1, 4, 2, 5, 3, 6, 7, 10, 8, 11, 9, 12});
    check_by_hand("permute/forward src=fp32[1,12] dst=fp32[1,3,2,2] extent1=2 extent2=3 extent3=2 order=132", QS_SRC, src, QS_DST,
                  (float[12]){1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12});
}

/* The inverse of the order gives every value its place back: forward with it, and backward. */
TEST(there_and_back) {
    bound there, back, gradient;
    bound_parse(&there, "permute/forward src=fp32[2,24,35] dst=fp32[2,7,4,30] extent1=5 extent2=7 extent3=4 extent4=6 order=3412", 5);
    bound_parse(&back, "permute/forward src=fp32[2,7,4,30] dst=fp32[2,6,5,28] extent1=4 extent2=6 extent3=5 extent4=7 order=3412", 6);
    bound_parse(&gradient,
                "permute/backward diff_dst=fp32[2,7,4,30] diff_src=fp32[2,24,35] extent1=5 extent2=7 extent3=4 extent4=6 order=3412", 7);
    bound_run(&there);
    memcpy(bound_fp32(&back, QS_SRC), bound_fp32(&there, QS_DST), 1680 * sizeof(float));
    memcpy(bound_fp32(&gradient, QS_DIFF_DST), bound_fp32(&there, QS_DST), 1680 * sizeof(float));
    bound_run(&back);
    bound_run(&gradient);
    assert_memory_equal(bound_fp32(&back, QS_DST), bound_fp32(&there, QS_SRC), 1680 * sizeof(float));
    assert_memory_equal(bound_fp32(&gradient, QS_DIFF_SRC), bound_fp32(&there, QS_SRC), 1680 * sizeof(float));
    bound_release(&there);
    bound_release(&back);
    bound_release(&gradient);
}

TEST(refusals) {
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent2=4 order=11", "order 11 is no order of 2 extents");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent2=4 order=321", "order 321 is no order of 2 extents");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent2=4", "order is 0");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent3=4 order=21", "an extent3, but no extent2");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent2=5 order=21", "12 values, the extents say 15");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=5 extent2=-1 order=21", "5 times a whole number");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=-1 extent2=-1 order=21", "only one of them may be -1");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,3,4] extent1=3 extent2=2.5 order=21", "extent2 is 2.5");
    expect_refused("permute/forward src=fp32[1,12] dst=bf16[1,3,4] extent1=3 extent2=4 order=21", "cast before");
    expect_refused("permute/forward src=fp32[1,12] dst=fp32[1,4,3] extent1=3 extent2=4 order=21", "dst");
}

TEST_MAIN(cases, gradients, by_hand, there_and_back, refusals)
