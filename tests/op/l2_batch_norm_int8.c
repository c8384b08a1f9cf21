// SPDX-License-Identifier: Apache-2.0
// labels: short
/* l2_batch_norm_int8: whole numbers' arithmetic, straight-through gradients, the relu behind; what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "norm_support.h"

static const char forward[] =
    "l2_batch_norm_int8/forward src=int8[4,5,5,5] src_step=fp32[1] scale=fp32[5] shift=fp32[5] mean=fp32[5] variance=fp32[5] "
    "running_mean=fp32[5] running_variance=fp32[5] dst=fp32[4,5,5,5] value=1e-05 value2=0.1";
static const char backward[] = "l2_batch_norm_int8/backward src=int8[4,5,5,5] src_step=fp32[1] scale=fp32[5] mean=fp32[5] variance=fp32[5] "
                               "diff_dst=fp32[4,5,5,5] diff_src=fp32[4,5,5,5] diff_scale=fp32[5] diff_shift=fp32[5] value=1e-05 value2=0.1";

static void cases(void **state) {
    (void)state;
    check_cases("l2_batch_norm_int8");
}

static void whole_numbers(void **state) {
    (void)state;
    check_quantized_forward(forward, false, QS_VARIANCE);
}

static void straight_through(void **state) {
    (void)state;
    check_straight_through(forward, backward, false, QS_VARIANCE);
}

static void relu_behind(void **state) {
    (void)state;
    check_relu_behind("l2_batch_norm_int8");
}

/* Channel 1 spreads a sixteenth of channel 0: its variance, 1/256 of the other's, is below half a step of max/127 and rounds to 0; a
 * deviation of 1/16 does not. */
static void narrow_channels(void **state) {
    (void)state;
    bound b;
    bound_parse(&b,
                "l2_batch_norm_int8/forward src=int8[8,2] src_step=fp32[1] scale=fp32[2] shift=fp32[2] mean=fp32[2] variance=fp32[2] "
                "running_mean=fp32[2] "
                "running_variance=fp32[2] dst=fp32[8,2] value=1e-05 value2=0.1",
                5);
    for (int i = 0; i < 8; i++) {
        ((int8_t *)bound_tensor(&b, QS_SRC)->data)[2 * i] = i % 2 ? 112 : -112;
        ((int8_t *)bound_tensor(&b, QS_SRC)->data)[2 * i + 1] = i % 2 ? 7 : -7;
    }
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_VARIANCE)[0] > 0);
    assert_true(bound_fp32(&b, QS_VARIANCE)[1] == 0);
    bound_release(&b);
}

static void refusals(void **state) {
    (void)state;
    qs_case one;
    assert_ok(qs_case_parse(forward, &one));
    qs_case_bind(&one, QS_SRC, one.operand[0].shape, qs_format_of("fp32"));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
    assert_non_null(strstr(qs_message(), "int8 with its src_step"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases),       cmocka_unit_test(whole_numbers),   cmocka_unit_test(straight_through),
                                       cmocka_unit_test(relu_behind), cmocka_unit_test(narrow_channels), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
