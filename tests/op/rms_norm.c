// SPDX-License-Identifier: Apache-2.0
// labels: short
/* rms_norm: values by hand, gradients by differences, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("rms_norm");
}

TEST(gradients) {
    check_gradients("rms_norm");
}

/* Positions 3, 4, 0, 0 and 1, 1, -1, -1 have mean squares of 6.25 and 1; fp32 rounds what is below 8 by at most 2^-22. */
TEST(by_hand) {
    bound b;
    bound_parse(&b, "rms_norm/forward src=fp32[2,4] scale=fp32[4] dst=fp32[2,4] epsilon=1e-05", 51);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){3, 4, 0, 0, 1, 1, -1, -1}, 8 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SCALE), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    bound_run(&b);
    const double wide = sqrt(6.25 + 1e-5), one = sqrt(1 + 1e-5);
    const double expected[] = {3 / wide, 8 / wide, 0, 0, 1 / one, 2 / one, -3 / one, -4 / one};
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&b, QS_DST)[i] - expected[i]) < 0x1p-21);
    bound_release(&b);
}

/* Where mean square and epsilon are alike, epsilon shows. */
TEST(epsilon) {
    bound b;
    bound_parse(&b, "rms_norm/forward src=fp32[1,2] scale=fp32[2] dst=fp32[1,2] epsilon=3", 52);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, -1}, 2 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SCALE), (float[]){1, 1}, 2 * sizeof(float));
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_DST)[0] == 0.5f && bound_fp32(&b, QS_DST)[1] == -0.5f);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("rms_norm/forward src=fp32[2,4] scale=fp32[2] dst=fp32[2,4] epsilon=1e-05", "scale");
    expect_refused("rms_norm/forward src=fp32[2,4] scale=fp32[4] dst=fp32[4,2] epsilon=1e-05", "dst");
    expect_refused("rms_norm/forward src=fp32[2,4] scale=fp32[4] dst=fp32[2,4] epsilon=-1", "epsilon");
}

TEST_MAIN(cases, gradients, by_hand, epsilon, refusals)
