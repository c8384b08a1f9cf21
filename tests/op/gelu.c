// SPDX-License-Identifier: Apache-2.0
// labels: short
/* gelu: known values of both forms, far tails, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("gelu");
}

TEST(gradients) {
    check_gradients("gelu");
}

static void check_values(const char *text, const double expected[8]) {
    static const float x[8] = {0, 1, -1, 2, -2, 0.5f, 40, -40};
    bound forward;
    bound_parse(&forward, text, 41);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&forward, QS_DST)[i] - expected[i]) < 1e-7 * (1 + fabs(expected[i])));
    bound_release(&forward);
}

/* From tables of the normal distribution, seven digits; far out the value is x, or 0 from below. */
TEST(values) {
    check_values("gelu/forward src=fp32[1,8] dst=fp32[1,8]",
                 (double[8]){0, 0.8413447, -0.1586553, 1.9544997, -0.0455003, 0.3457312, 40, 0});
}

/* The approximation is another function: off by 1e-4 at 2. */
TEST(by_tanh) {
    check_values("gelu/forward src=fp32[1,8] dst=fp32[1,8] approximate=1",
                 (double[8]){0, 0.8411920, -0.1588080, 1.9545977, -0.0454023, 0.3457140, 40, 0});
}

TEST(half_a_choice) {
    expect_refused("gelu/forward src=fp32[1,8] dst=fp32[1,8] approximate=0.5", "approximate is 0.5");
}

TEST_MAIN(cases, gradients, values, by_tanh, half_a_choice)
