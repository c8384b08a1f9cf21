// SPDX-License-Identifier: Apache-2.0
// labels: short
/* relu: positive part, mask bits, NaN, gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "op_support.h"

static void cases(void **state) {
    (void)state;
    check_cases("relu");
}

static void gradients(void **state) {
    (void)state;
    check_gradients("relu");
}

static void values_and_mask(void **state) {
    (void)state;
    const float x[11] = {1, -1, 0, -0.0f, NAN, INFINITY, -INFINITY, 0x1p-149f, -0x1p-149f, 2, -2};
    const float expected[11] = {1, 0, 0, 0, NAN, INFINITY, 0, 0x1p-149f, 0, 2, 0};
    bound forward, backward;
    bound_parse(&forward, "relu/forward src=fp32[1,11] mask=int8[2] dst=fp32[1,11]", 41);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    const float *y = bound_fp32(&forward, QS_DST);
    for (int i = 0; i < 11; i++)
        assert_true(isnan(expected[i]) ? isnan(y[i]) : y[i] == expected[i] && !signbit(y[i]));
    const uint8_t *mask = bound_tensor(&forward, QS_MASK)->data;
    assert_int_equal(mask[0], 1 | 1 << 4 | 1 << 5 | 1 << 7);
    assert_int_equal(mask[1], 1 << 1);
    bound_parse(&backward, "relu/backward mask=int8[2] diff_dst=fp32[1,11] diff_src=fp32[1,11]", 42);
    bound_share(&backward, &forward);
    bound_run(&backward);
    for (int i = 0; i < 11; i++) {
        float dy = bound_fp32(&backward, QS_DIFF_DST)[i];
        assert_true(bound_fp32(&backward, QS_DIFF_SRC)[i] == (mask[i / 8] >> i % 8 & 1 ? dy : 0));
    }
    bound_release(&forward);
    bound_release(&backward);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(cases), cmocka_unit_test(gradients), cmocka_unit_test(values_and_mask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
