// SPDX-License-Identifier: Apache-2.0
// labels: short
/* tanh: known values, far tails, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("tanh");
}

TEST(gradients) {
    check_gradients("tanh");
}

/* Seven digits; far out the value is 1, or -1. */
TEST(values) {
    static const float x[8] = {0, 1, -1, 2, -2, 0.5f, 40, -40};
    static const double expected[8] = {0, 0.7615942, -0.7615942, 0.9640276, -0.9640276, 0.4621172, 1, -1};
    bound forward;
    bound_parse(&forward, "tanh/forward src=fp32[1,8] dst=fp32[1,8]", 41);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&forward, QS_DST)[i] - expected[i]) < 1e-7 * (1 + fabs(expected[i])));
    bound_release(&forward);
}

TEST_MAIN(cases, gradients, values)
