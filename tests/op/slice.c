// SPDX-License-Identifier: Apache-2.0
// labels: short
/* slice: the channels taken, zeros for the others in the gradient, rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

static void cases(void **state) {
    (void)state;
    check_cases("slice");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("slice");
}

/* By hand: channels 1 and 2 of two positions of four; and back. Agrees with x[:, 1:3] of PyTorch and its gradient. */
static void channels(void **state) {
    (void)state;
    static const float whole[] = {1, 2, 3, 4, 5, 6, 7, 8}, taken[] = {2, 3, 6, 7}, back[] = {0, 2, 3, 0, 0, 6, 7, 0};
    bound b, g;
    bound_parse(&b, "slice/forward src=fp32[1,4,1,2] dst=fp32[1,2,1,2] offset=1", 61);
    memcpy(bound_fp32(&b, QS_SRC), whole, sizeof whole);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), taken, sizeof taken);
    bound_parse(&g, "slice/backward diff_dst=fp32[1,2,1,2] diff_src=fp32[1,4,1,2] offset=1", 62);
    memcpy(bound_fp32(&g, QS_DIFF_DST), taken, sizeof taken);
    bound_run(&g);
    assert_memory_equal(bound_fp32(&g, QS_DIFF_SRC), back, sizeof back);
    bound_release(&b);
    bound_release(&g);
}

static void rules(void **state) {
    (void)state;
    const qs_shape src = qs_shape_of(4, 4, 10, 3, 3), vector = qs_shape_of(1, 4);
    qs_shape dst;
    const qs_op *op = qs_op_of("slice");
    assert_ok(qs_op_infer(op, &(qs_attributes){.offset = 4}, &src, 6, &dst));
    assert_int_equal(dst.dim[1], 6);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = 5}, &src, 6, &dst), QS_USAGE);
    assert_non_null(strstr(qs_message(), "[4,10,3,3] has no 6 channels from channel 5"));
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = 0}, &src, 0, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = -1}, &src, 2, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = 0}, &vector, 1, &dst), QS_USAGE);
    qs_case one;
    assert_ok(qs_case_parse("slice/forward src=fp32[2,6,4,4] dst=bf16[2,3,4,4] offset=3", &one));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
    assert_non_null(strstr(qs_message(), "dst is bf16"));
    one.attributes.offset = 4;
    assert_int_equal(qs_case_check(&one), QS_USAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(gradients), cmocka_unit_test(channels),
                                       cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
