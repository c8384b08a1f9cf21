// SPDX-License-Identifier: Apache-2.0
// labels: short
/* position: the first and the last one by hand, the gradient of the others, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("position");
}

TEST(gradients) {
    check_gradients("position");
}

TEST(first_and_last) {
    static const float src[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}; /* [2,2,3]: position after position */
    check_by_hand("position/forward src=fp32[2,2,3] dst=fp32[2,2]", QS_SRC, src, QS_DST, (float[4]){0, 1, 6, 7});
    check_by_hand("position/forward src=fp32[2,2,3] dst=fp32[2,2] position=-1", QS_SRC, src, QS_DST, (float[4]){4, 5, 10, 11});
}

TEST(others_have_no_gradient) {
    check_by_hand("position/backward diff_dst=fp32[2,2] diff_src=fp32[2,2,3] position=1", QS_DIFF_DST, (float[4]){1, 2, 3, 4}, QS_DIFF_SRC,
                  (float[12]){0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0});
}

/* Of three sequences of two, the last position of each. */
TEST(of_each_sequence) {
    static const float src[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    check_by_hand("position/forward src=fp32[1,2,6] dst=fp32[1,2,3] position=-1 sequences=3", QS_SRC, src, QS_DST,
                  (float[6]){2, 3, 6, 7, 10, 11});
    expect_refused("position/forward src=fp32[1,2,6] dst=fp32[1,2,3] position=2 sequences=3", "no position 2: 0 to 1");
    expect_refused("position/forward src=fp32[1,2,6] dst=fp32[1,2,4] sequences=4", "4 sequences do not divide the positions of [1,2,6]");
}

TEST(refusals) {
    expect_refused("position/forward src=fp32[2,2,3] dst=fp32[2,2] position=3", "no position 3: 0 to 2");
    expect_refused("position/forward src=fp32[2,2,3] dst=fp32[2,2] position=-4", "no position -4");
    expect_refused("position/forward src=fp32[2,2,3] dst=fp32[2,2] position=0.5", "no position 0.5");
    expect_refused("position/forward src=fp32[2,2,3] dst=bf16[2,2]", "moved as they are");
}

TEST_MAIN(cases, gradients, first_and_last, others_have_no_gradient, of_each_sequence, refusals)
