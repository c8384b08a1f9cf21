// SPDX-License-Identifier: Apache-2.0
// labels: short
/* silu: known values, far tails, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("silu");
}

TEST(gradients) {
    check_gradients("silu");
}

/* Seven digits; far out the value is x, or 0 from below. */
TEST(values) {
    static const float x[8] = {0, 1, -1, 2, -2, 0.5f, 40, -40};
    static const double expected[8] = {0, 0.7310586, -0.2689414, 1.7615942, -0.2384058, 0.3112297, 40, 0};
    bound forward;
    bound_parse(&forward, "silu/forward src=fp32[1,8] dst=fp32[1,8]", 41);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&forward, QS_DST)[i] - expected[i]) < 1e-7 * (1 + fabs(expected[i])));
    bound_release(&forward);
}

TEST_MAIN(cases, gradients, values)
