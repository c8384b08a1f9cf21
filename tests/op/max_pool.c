// SPDX-License-Identifier: Apache-2.0
// labels: short
/* max_pool: maxima, their places, ties, NaN, padding, gradients, shape rule. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("max_pool");
}

TEST(gradients) {
    check_gradients("max_pool");
}

/* A 3 x 3 window with padding 1 over a 2 x 2 image sees the whole image from all four places (places count the padding). */
TEST(places) {
    bound b;
    bound_parse(&b, "max_pool/forward src=fp32[1,1,2,2] mask=int8[1,1,2,2] dst=fp32[1,1,2,2] kernel=3x3 padding=1x1", 61);
    float *x = bound_fp32(&b, QS_SRC);
    const int8_t *mask = bound_tensor(&b, QS_MASK)->data;
    x[0] = -3, x[1] = -1, x[2] = -2, x[3] = -1; /* the first of two maxima counts; padding never wins */
    bound_run(&b);
    const int8_t first[4] = {5, 4, 2, 1};
    for (int i = 0; i < 4; i++) {
        assert_true(bound_fp32(&b, QS_DST)[i] == -1);
        assert_int_equal(mask[i], first[i]);
    }
    x[2] = NAN;
    bound_run(&b);
    const int8_t nan[4] = {7, 6, 4, 3};
    for (int i = 0; i < 4; i++) {
        assert_true(isnan(bound_fp32(&b, QS_DST)[i]));
        assert_int_equal(mask[i], nan[i]);
    }
    for (int i = 0; i < 4; i++)
        x[i] = -INFINITY;
    bound_run(&b);
    assert_int_equal(mask[0], 4); /* the first inside the image */
    bound_release(&b);
}

/* Windows that overlap share a maximum: its gradient is the sum. */
TEST(overlapping_windows) {
    bound b;
    bound_parse(&b, "max_pool/backward mask=int8[1,1,2,2] diff_dst=fp32[1,1,2,2] diff_src=fp32[1,1,3,3] kernel=2x2", 62);
    memcpy(bound_tensor(&b, QS_MASK)->data, (const int8_t[4]){3, 2, 1, 0}, 4); /* all at the centre */
    const float *dy = bound_fp32(&b, QS_DIFF_DST), *dx = bound_fp32(&b, QS_DIFF_SRC);
    bound_run(&b);
    for (int i = 0; i < 9; i++) {
        double expected = i == 4 ? (double)dy[0] + (double)dy[1] + (double)dy[2] + (double)dy[3] : 0;
        assert_true(dx[i] == (float)expected);
    }
    bound_release(&b);
}

TEST(shapes) {
    const qs_op *op = qs_op_of("max_pool");
    qs_shape src = qs_shape_of(4, 2, 3, 112, 111), dst;
    assert_ok(qs_op_infer(op, &(qs_attributes){.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, &src, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {2, 3, 56, 56}}));
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.kernel = {2, 2}, .padding = {2, 2}}, &src, 0, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.kernel = {0, 0}}, &src, 0, &dst), QS_USAGE);
    const qs_attributes up = {.kernel = {3, 3}, .stride = {2, 2}, .padding_more = {1, 0}}; /* rounds up */
    assert_ok(qs_op_infer(op, &up, &src, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {2, 3, 56, 55}}));
    qs_shape one = qs_shape_of(4, 1, 1, 1, 9);
    assert_refused(qs_op_infer(op, &(qs_attributes){.kernel = {2, 1}, .dilation = {2, 1}, .padding = {1, 0}}, &one, 0, &dst), QS_USAGE,
                   "window 0 along the height of 1");
    assert_refused(qs_op_infer(op, &(qs_attributes){.kernel = {1, 3}, .stride = {1, 4}, .padding_more = {0, 6}}, &one, 0, &dst), QS_USAGE,
                   "window 3 along the width of 9");
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.kernel = {12, 12}}, &src, 0, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.kernel = {1, 112}}, &src, 0, &dst), QS_USAGE);
}

TEST_MAIN(cases, gradients, places, overlapping_windows, shapes)
