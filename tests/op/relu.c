// SPDX-License-Identifier: Apache-2.0
// labels: short
/* relu: positive part, ceiling, mask bits, NaN, gradients, those in two parts. */
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

/* A gradient in two parts, bit for bit: add in the format of diff_src, then the pass of the whole gradient. */
TEST(two_parts) {
    int checked = 0;
    for (const char *const *text = qs_op_of("relu")->cases; *text; text++) {
        bound both, sum, whole;
        if (!strstr(*text, " diff_dst2=")) continue;
        bound_parse(&both, *text, 44);
        const qs_tensor *first = bound_tensor(&both, QS_DIFF_DST), *second = bound_tensor(&both, QS_DIFF_DST2);
        const qs_format *format = bound_tensor(&both, QS_DIFF_SRC)->format;
        qs_case add = qs_case_make("add", "forward", NULL), relu = both.one;
        qs_case_bind(&add, QS_SRC, first->shape, first->format);
        qs_case_bind(&add, QS_SRC2, second->shape, second->format);
        qs_case_bind(&add, QS_DST, first->shape, format);
        qs_case_bind(&relu, QS_DIFF_DST, first->shape, format);
        qs_case_bind(&relu, QS_DIFF_DST2, first->shape, NULL);
        bound_make(&sum, &add, 45);
        bound_make(&whole, &relu, 46);
        memcpy(bound_tensor(&sum, QS_SRC)->data, first->data, tensor_bytes(first));
        memcpy(bound_tensor(&sum, QS_SRC2)->data, second->data, tensor_bytes(second));
        memcpy(bound_tensor(&whole, QS_MASK)->data, bound_tensor(&both, QS_MASK)->data, tensor_bytes(bound_tensor(&both, QS_MASK)));
        bound_run(&sum);
        memcpy(bound_tensor(&whole, QS_DIFF_DST)->data, bound_tensor(&sum, QS_DST)->data, tensor_bytes(bound_tensor(&sum, QS_DST)));
        bound_run(&whole);
        bound_run(&both);
        const qs_tensor *got = bound_tensor(&both, QS_DIFF_SRC);
        if (memcmp(got->data, bound_tensor(&whole, QS_DIFF_SRC)->data, tensor_bytes(got))) fail_msg("%s", *text);
        bound_release(&both);
        bound_release(&sum);
        bound_release(&whole);
        checked++;
    }
    assert_true(checked >= 6);
    expect_refused("relu/backward mask=int8[3] diff_dst=fp32[3,7] diff_dst2=fp32[3,8] diff_src=fp32[3,7]", "diff_dst2 is [3,8]");
}

TEST_MAIN(cases, gradients, values_and_mask, ceiling, two_parts)
