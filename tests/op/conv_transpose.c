// SPDX-License-Identifier: Apache-2.0
// labels: short
/* conv_transpose: all passes against the definition over logical indices, in which every place of the input spreads its filter, and against
 * differences; codes exact; extents, output padding; what it refuses. */
#include "kit/cases.h"

/* Logical N,C,H,W index in channels-last memory. */
static int64_t at(const qs_shape *shape, int64_t n, int64_t c, int64_t h, int64_t w) {
    return ((n * shape->dim[2] + h) * shape->dim[3] + w) * shape->dim[1] + c;
}

/* dst = Σ src × weights spread over the windows, in double; and Σ of magnitudes. */
static void spread(const bound *b, const qs_tensor *src, const float *x, const qs_tensor *weights, const float *w, const qs_shape *dst,
                   double *sum, double *terms) {
    const qs_attributes *with = &b->one.attributes;
    const qs_shape *xs = &src->shape, *ws = &weights->shape;
    const int64_t inputs = xs->dim[1] / with->groups, outputs = ws->dim[1];
    memset(sum, 0, (size_t)qs_shape_count(dst) * sizeof *sum);
    memset(terms, 0, (size_t)qs_shape_count(dst) * sizeof *terms);
    for (int64_t k = 0; k < qs_shape_count(xs) * qs_shape_count(ws) / xs->dim[1]; k++) {
        const int64_t o = k % outputs, kw = k / outputs % ws->dim[3], kh = k / outputs / ws->dim[3] % ws->dim[2];
        const int64_t element = k / (outputs * ws->dim[2] * ws->dim[3]), i = element % xs->dim[1], pixel = element / xs->dim[1];
        const int64_t column = pixel % xs->dim[3], row = pixel / xs->dim[3] % xs->dim[2], n = pixel / xs->dim[3] / xs->dim[2];
        const int64_t h = row * with->stride[0] - with->padding[0] + kh * with->dilation[0];
        const int64_t v = column * with->stride[1] - with->padding[1] + kw * with->dilation[1];
        if (h < 0 || v < 0 || h >= dst->dim[2] || v >= dst->dim[3]) continue;
        const double term = (double)x[at(xs, n, i, row, column)] * (double)w[at(ws, i, o, kh, kw)];
        const int64_t to = at(dst, n, i / inputs * outputs + o, h, v);
        sum[to] += term;
        terms[to] += fabs(term);
    }
}

TEST(forward_cases) {
    int integer = 0;
    for (const char *const *text = qs_op_of("conv_transpose")->cases; *text; text++) {
        if (!strstr(*text, "/forward")) continue;
        bound b;
        bound_parse(&b, *text, 11);
        bound_run(&b);
        const qs_tensor *src = bound_tensor(&b, QS_SRC), *weights = bound_tensor(&b, QS_WEIGHTS), *dst = bound_tensor(&b, QS_DST);
        const int64_t count = qs_shape_count(&dst->shape), columns = weights->shape.dim[1];
        float *x = factor_values(&b, QS_SRC, QS_SRC_GROUP), *w = tensor_values(weights), *y = tensor_values(dst);
        double *sum = malloc(2 * (size_t)count * sizeof *sum);
        assert_non_null(sum);
        spread(&b, src, x, weights, w, &dst->shape, sum, sum + count);
        for (int64_t i = 0; i < count; i++) {
            double factor = 1;
            if (bound_tensor(&b, QS_SRC_STEP)) {
                const bool many = bound_count(&b, QS_WEIGHTS_STEP) > 1;
                const int64_t channel = i % dst->shape.dim[1];
                factor = (double)bound_fp32(&b, QS_SRC_STEP)[0] * (double)bound_fp32(&b, QS_WEIGHTS_STEP)[many ? channel % columns : 0];
            }
            /* double sums: the rounding of the result to its format, through fp32, is left */
            const double expected = sum[i] * factor, allowed = (dst->format->epsilon * 0.5 + 0x1p-24) * fabs(expected);
            if (!(fabs((double)y[i] - expected) <= allowed + 1e-13 * factor * sum[count + i]))
                fail_msg("%s: element %d is %.9g, expected %.9g", *text, (int)i, (double)y[i], expected);
        }
        integer += bound_tensor(&b, QS_SRC_STEP) != NULL;
        free(x), free(w), free(y), free(sum);
        bound_release(&b);
    }
    assert_true(integer >= 4);
}

TEST(cases) {
    check_cases("conv_transpose");
}

TEST(gradients) {
    check_gradients("conv_transpose");
}

/* A filter of its stride's size covers every result once: it is a copy, enlarged. */
TEST(by_hand) {
    bound b;
    bound_parse(&b, "conv_transpose/forward src=fp32[1,1,1,2] weights=fp32[1,1,1,2] dst=fp32[1,1,1,4] kernel=1x2 stride=1x2", 12);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2}, 2 * sizeof(float));
    memcpy(bound_fp32(&b, QS_WEIGHTS), (float[]){3, 5}, 2 * sizeof(float));
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), ((float[]){3, 5, 6, 10}), 4 * sizeof(float));
    bound_release(&b);
}

TEST(shapes_and_parameters) {
    const qs_op *op = qs_op_of("conv_transpose");
    qs_attributes with = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .padding_more = {-1, 0}, .groups = 2};
    qs_shape src = qs_shape_of(4, 5, 8, 9, 7), dst, matrix = qs_shape_of(2, 5, 8);
    assert_ok(qs_op_infer(op, &with, &src, 6, &dst)); /* output padding 1 in height */
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {5, 6, 18, 13}}));
    qs_parameter_rule rules[QS_MAX_PARAMETERS];
    assert_int_equal(op->parameters(&with, &src, 6, false, rules), 1);
    assert_true(qs_shape_equal(&rules[0].shape, &(qs_shape){4, {8, 3, 3, 3}}));
    assert_int_equal(rules[0].fan_in, 4 * 2 * 2);
    with.groups = 3;
    assert_refused(qs_op_infer(op, &with, &src, 6, &dst), QS_USAGE, "3 groups must divide");
    with = (qs_attributes){.kernel = {1, 1}, .padding = {5, 0}};
    assert_refused(qs_op_infer(op, &with, &src, 6, &dst), QS_USAGE, "height of 9 would become -1");
    assert_refused(qs_op_infer(op, &with, &matrix, 6, &dst), QS_USAGE, "needs the axes");
}

TEST(operations) {
    qs_case one;
    assert_ok(
        qs_case_parse("conv_transpose/forward src=fp32[2,16,4,4] weights=fp32[16,8,3,3] dst=fp32[2,8,9,9] kernel=3x3 stride=2x2", &one));
    assert_true(qs_case_flops(&one) == 2.0 * 2 * 16 * 16 * 8 * 9);
}

TEST(refusals) {
    expect_refused("conv_transpose/forward src=fp32[2,16,4,4] weights=fp32[8,16,2,2] dst=fp32[2,8,8,8] kernel=2x2 stride=2x2", "weights");
    expect_refused("conv_transpose/forward src=fp32[2,16,4,4] weights=fp32[16,8,2,2] dst=fp32[2,8,8,9] kernel=2x2 stride=2x2", "dst");
    expect_refused("conv_transpose/forward src=int8[2,16,4,4] src_step=fp32[1] weights=int8[16,8,2,2] weights_step=fp32[16] "
                   "dst=fp32[2,8,8,8] kernel=2x2 stride=2x2",
                   "weights_step");
}

TEST_MAIN(cases, forward_cases, gradients, by_hand, shapes_and_parameters, operations, refusals)
