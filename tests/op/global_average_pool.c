// SPDX-License-Identifier: Apache-2.0
// labels: short
/* global_average_pool: equals average_pool with a window of the image's size; gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("global_average_pool");
}

TEST(gradients) {
    check_gradients("global_average_pool");
}

TEST(equals_a_large_window) {
    bound global, window;
    bound_parse(&global, "global_average_pool/forward src=fp32[3,5,4,6] dst=fp32[3,5,1,1]", 81);
    bound_parse(&window, "average_pool/forward src=fp32[3,5,4,6] dst=fp32[3,5,1,1] kernel=4x6", 81);
    bound_run(&global);
    bound_run(&window);
    assert_close(15, bound_fp32(&global, QS_DST), bound_fp32(&window, QS_DST), 0, 0, "global average");
    bound_release(&global);
    bound_release(&window);
}

TEST_MAIN(cases, gradients, equals_a_large_window)
