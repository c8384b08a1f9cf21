// SPDX-License-Identifier: Apache-2.0
// labels: short
/* linear: all passes against plain sums and against differences; int8 exact. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("linear");
}

TEST(gradients) {
    check_gradients("linear");
}

/* Double sums: what is left is the rounding of the result to its format. */
static void forward_case(const char *text) {
    bound b;
    bound_parse(&b, text, 21);
    bound_run(&b);
    qs_tensor *src = bound_tensor(&b, QS_SRC), *weights = bound_tensor(&b, QS_WEIGHTS), *dst = bound_tensor(&b, QS_DST);
    float *x = factor_values(&b, QS_SRC, QS_SRC_GROUP), *w = tensor_values(weights), *y = tensor_values(dst);
    int64_t inner = src->shape.dim[1], outputs = dst->shape.dim[1];
    bool integer = bound_tensor(&b, QS_SRC_STEP) != NULL;
    for (int64_t at = 0; at < qs_shape_count(&dst->shape); at++) {
        double sum = 0, magnitude = 0, factor = 1;
        for (int64_t i = 0; i < inner; i++) {
            double term = (double)x[at / outputs * inner + i] * (double)w[at % outputs * inner + i];
            sum += term;
            magnitude += fabs(term);
        }
        if (integer) {
            bool many = bound_count(&b, QS_WEIGHTS_STEP) > 1;
            factor = (double)bound_fp32(&b, QS_SRC_STEP)[0] * (double)bound_fp32(&b, QS_WEIGHTS_STEP)[many ? at % outputs : 0];
        }
        double expected = sum * factor + (bound_tensor(&b, QS_BIAS) ? (double)bound_fp32(&b, QS_BIAS)[at % outputs] : 0);
        double allowed = (dst->format->epsilon * 0.5 + 0x1p-24) * fabs(expected) + 1e-13 * magnitude * factor;
        if (!(fabs((double)y[at] - expected) <= allowed)) fail_msg("%s: %d is %.9g, expected %.9g", text, (int)at, (double)y[at], expected);
    }
    free(x), free(w), free(y);
    bound_release(&b);
}

TEST(forward_cases) {
    for (const char *const *text = qs_op_of("linear")->cases; *text; text++) {
        if (strstr(*text, "/forward")) forward_case(*text);
    }
}

TEST(shapes) {
    const qs_op *op = qs_op_of("linear");
    qs_attributes with = {0};
    qs_shape src = qs_shape_of(2, 4, 100), positions = qs_shape_of(3, 4, 100, 7), image = qs_shape_of(4, 4, 25, 2, 2), dst;
    assert_ok(qs_op_infer(op, &with, &src, 10, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){2, {4, 10}}));
    assert_ok(qs_op_infer(op, &with, &positions, 10, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){3, {4, 10, 7}}));
    assert_refused(qs_op_infer(op, &with, &image, 10, &dst), QS_USAGE, "flatten");
    qs_case one;
    assert_ok(qs_case_parse(op->cases[0], &one));
    assert_true(qs_case_flops(&one) == 2.0 * 8 * 64 * 10);
}

TEST_MAIN(cases, forward_cases, gradients, shapes)
