// SPDX-License-Identifier: Apache-2.0
// labels: short
/* gelu: known values, far tails, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("gelu");
}

TEST(gradients) {
    check_gradients("gelu");
}

/* From tables of the normal distribution, seven digits; far out the value is x, or 0 from below. */
TEST(values) {
    const float x[8] = {0, 1, -1, 2, -2, 0.5f, 40, -40};
    const double expected[8] = {0, 0.8413447, -0.1586553, 1.9544997, -0.0455003, 0.3457312, 40, 0};
    bound forward;
    bound_parse(&forward, "gelu/forward src=fp32[1,8] dst=fp32[1,8]", 41);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&forward, QS_DST)[i] - expected[i]) < 1e-7 * (1 + fabs(expected[i])));
    bound_release(&forward);
}

TEST_MAIN(cases, gradients, values)
