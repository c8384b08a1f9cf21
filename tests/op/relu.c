// SPDX-License-Identifier: Apache-2.0
// labels: short
/* relu: positive part, ceiling, mask bits, NaN, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("relu");
}

TEST(gradients) {
    check_gradients("relu");
}

TEST(values_and_mask) {
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

/* At the ceiling and above the value is the ceiling and no gradient passes; a NaN passes with its gradient. */
TEST(ceiling) {
    const float x[8] = {5, 6, 7, INFINITY, NAN, -6, 0x1.7ffffep2f, 0};
    const float expected[8] = {5, 6, 6, 6, NAN, 0, 0x1.7ffffep2f, 0};
    bound forward;
    bound_parse(&forward, "relu/forward src=fp32[1,8] mask=int8[1] dst=fp32[1,8] ceiling=6", 43);
    memcpy(bound_fp32(&forward, QS_SRC), x, sizeof x);
    bound_run(&forward);
    const float *y = bound_fp32(&forward, QS_DST);
    for (int i = 0; i < 8; i++)
        assert_true(isnan(expected[i]) ? isnan(y[i]) : y[i] == expected[i]);
    assert_int_equal(*(const uint8_t *)bound_tensor(&forward, QS_MASK)->data, 1 | 1 << 4 | 1 << 6);
    bound_release(&forward);
    qs_case one;
    static const char *const refused[] = {"relu/forward src=fp32[1,8] dst=fp32[1,8] ceiling=-1",
                                          "relu/forward src=fp32[1,8] dst=fp32[1,8] ceiling=0.1"};
    for (int i = 0; i < 2; i++) {
        assert_ok(qs_case_parse(refused[i], &one));
        assert_refused(qs_case_check(&one), QS_USAGE, "ceiling");
    }
}

TEST_MAIN(cases, gradients, values_and_mask, ceiling)
