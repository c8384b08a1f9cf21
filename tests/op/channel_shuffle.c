// SPDX-License-Identifier: Apache-2.0
// labels: short
/* channel_shuffle: the order of channels, backward undoes forward, rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

static void cases(void **state) {
    (void)state;
    check_cases("channel_shuffle");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("channel_shuffle");
}

/* By hand: two groups of three channels at two positions. Agrees with channel_shuffle of PyTorch. */
static void order(void **state) {
    (void)state;
    static const float src[] = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, dst[] = {1, 4, 2, 5, 3, 6, 11, 14, 12, 15, 13, 16};
    bound b, back;
    bound_parse(&b, "channel_shuffle/forward src=fp32[1,6,1,2] dst=fp32[1,6,1,2] groups=2", 61);
    memcpy(bound_fp32(&b, QS_SRC), src, sizeof src);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), dst, sizeof dst);
    bound_parse(&back, "channel_shuffle/backward diff_dst=fp32[1,6,1,2] diff_src=fp32[1,6,1,2] groups=2", 62);
    memcpy(bound_fp32(&back, QS_DIFF_DST), dst, sizeof dst);
    bound_run(&back);
    assert_memory_equal(bound_fp32(&back, QS_DIFF_SRC), src, sizeof src);
    bound_release(&b);
    bound_release(&back);
}

static void rules(void **state) {
    (void)state;
    const qs_shape src = qs_shape_of(4, 4, 10, 3, 3), vector = qs_shape_of(1, 4);
    qs_shape dst;
    const qs_op *op = qs_op_of("channel_shuffle");
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.groups = 3}, &src, 0, &dst), QS_USAGE);
    assert_non_null(strstr(qs_message(), "[4,10,3,3] are not 3 equal groups"));
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.groups = 2}, &vector, 0, &dst), QS_USAGE);
    qs_case one;
    assert_ok(qs_case_parse("channel_shuffle/forward src=fp32[2,6] dst=bf16[2,6] groups=2", &one));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
    assert_non_null(strstr(qs_message(), "dst is bf16"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(gradients), cmocka_unit_test(order),
                                       cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
