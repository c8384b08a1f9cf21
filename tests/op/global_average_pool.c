// SPDX-License-Identifier: Apache-2.0
// labels: short
/* global_average_pool: equals average_pool with a window of the image's size; gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

static void cases(void **state) {
    (void)state;
    check_cases("global_average_pool");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("global_average_pool");
}

static void equals_a_large_window(void **state) {
    (void)state;
    bound global, window;
    bound_parse(&global, "global_average_pool/forward src=fp32[3,5,4,6] dst=fp32[3,5,1,1]", 81);
    bound_parse(&window, "average_pool/forward src=fp32[3,5,4,6] dst=fp32[3,5,1,1] kernel=4x6", 81);
    bound_run(&global);
    bound_run(&window);
    assert_close(15, bound_fp32(&global, QS_DST), bound_fp32(&window, QS_DST), 0, 0, "global average");
    bound_release(&global);
    bound_release(&window);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(gradients), cmocka_unit_test(equals_a_large_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
