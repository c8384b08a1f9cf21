// SPDX-License-Identifier: Apache-2.0
// labels: short
/* conv2d: all passes against a seven-loop convolution over logical indices and against differences; int8 exact; bf16 bounded. */
#include "kit/cases.h"

/* Logical N,C,H,W index in channels-last memory. */
static int64_t at(const qs_shape *shape, int64_t n, int64_t c, int64_t h, int64_t w) {
    return ((n * shape->dim[2] + h) * shape->dim[3] + w) * shape->dim[1] + c;
}

/* Element (n, o, oh, ow) of the convolution of x and w; *magnitude = Σ |x w|. */
static double direct(const qs_case *one, const qs_shape *xs, const float *x, const qs_shape *ws, const float *w, const int64_t index[4],
                     double *magnitude) {
    const qs_attributes *with = &one->attributes;
    int64_t group = index[1] / (ws->dim[0] / with->groups);
    double sum = 0;
    *magnitude = 0;
    for (int64_t i = 0; i < ws->dim[1]; i++) {
        for (int64_t kh = 0; kh < ws->dim[2]; kh++) {
            for (int64_t kw = 0; kw < ws->dim[3]; kw++) {
                int64_t h = index[2] * with->stride[0] + kh * with->dilation[0] - with->padding[0];
                int64_t v = index[3] * with->stride[1] + kw * with->dilation[1] - with->padding[1];
                if (h < 0 || v < 0 || h >= xs->dim[2] || v >= xs->dim[3]) continue;
                double term = (double)x[at(xs, index[0], group * ws->dim[1] + i, h, v)] * (double)w[at(ws, index[1], i, kh, kw)];
                sum += term;
                *magnitude += fabs(term);
            }
        }
    }
    return sum;
}

typedef double (*allowance)(double magnitude, double expected);

/* Compares dst with factor × Σ + bias for every element. */
static void against_direct(bound *b, bound *source, allowance allowed) {
    qs_tensor *src = bound_tensor(source, QS_SRC), *weights = bound_tensor(source, QS_WEIGHTS), *dst = bound_tensor(b, QS_DST);
    float *x = factor_values(source, QS_SRC, QS_SRC_GROUP), *w = tensor_values(weights), *y = tensor_values(dst);
    const float *bias = bound_tensor(b, QS_BIAS) ? bound_fp32(b, QS_BIAS) : NULL;
    const float *src_step = bound_tensor(b, QS_SRC_STEP) ? bound_fp32(b, QS_SRC_STEP) : NULL;
    for (int64_t n = 0; n < dst->shape.dim[0]; n++) {
        for (int64_t o = 0; o < dst->shape.dim[1]; o++) {
            double factor = 1;
            if (src_step) {
                bool many = bound_count(b, QS_WEIGHTS_STEP) > 1;
                factor = (double)src_step[0] * (double)bound_fp32(b, QS_WEIGHTS_STEP)[many ? o : 0];
            }
            for (int64_t p = 0; p < dst->shape.dim[2] * dst->shape.dim[3]; p++) {
                const int64_t index[4] = {n, o, p / dst->shape.dim[3], p % dst->shape.dim[3]};
                double magnitude, expected = factor * direct(&b->one, &src->shape, x, &weights->shape, w, index, &magnitude);
                expected += bias ? (double)bias[o] : 0;
                double got = (double)y[at(&dst->shape, n, o, index[2], index[3])];
                if (!(fabs(got - expected) <= allowed(magnitude * factor, expected))) {
                    fail_msg("[%d,%d,%d,%d] is %.9g, expected %.9g", (int)n, (int)o, (int)index[2], (int)index[3], got, expected);
                }
            }
        }
    }
    free(x), free(w), free(y);
}

static double rounding_of_result = 0;
/* Double sums: only the rounding of the result to its format (half an ulp, doubly rounded through fp32) is left. */
static double result_only(double magnitude, double expected) {
    return rounding_of_result * fabs(expected) + 1e-13 * magnitude;
}

TEST(forward_cases) {
    int integer = 0, grouped = 0;
    for (const char *const *text = qs_op_of("conv2d")->cases; *text; text++) {
        if (!strstr(*text, "/forward")) continue;
        bound b;
        bound_parse(&b, *text, 11);
        bound_run(&b);
        rounding_of_result = bound_tensor(&b, QS_DST)->format->epsilon * 0.5 + 0x1p-24;
        against_direct(&b, &b, result_only);
        integer += bound_tensor(&b, QS_SRC_STEP) != NULL;
        grouped += b.one.attributes.groups > 1;
        bound_release(&b);
    }
    assert_true(integer >= 4 && grouped >= 4);
}

static double exact(double magnitude, double expected) {
    (void)magnitude, (void)expected;
    return 0;
}

/* With steps that are powers of two and no bias every result is an fp32 number (|sum| < 288 · 127² < 2^24): no error is allowed. */
TEST(integer_is_exact) {
    bound b;
    bound_parse(&b,
                "conv2d/forward src=int8[2,32,6,6] src_step=fp32[1] weights=int8[8,32,3,3] weights_step=fp32[8] dst=fp32[2,8,6,6] "
                "kernel=3x3 padding=1x1",
                12);
    bound_fp32(&b, QS_SRC_STEP)[0] = 0x1p-7f;
    for (int o = 0; o < 8; o++)
        bound_fp32(&b, QS_WEIGHTS_STEP)[o] = ldexpf(1, -o);
    memset(bound_tensor(&b, QS_SRC)->data, 127, 2 * 32 * 36 / 2); /* the largest sums: one image of extremes */
    bound_run(&b);
    against_direct(&b, &b, exact);
    bound_release(&b);
}

/* bf16 operands carry a relative error of at most u = 2^-9 each (half of ε = 2^-7, nearest-even), so |y - y32| <= (2u + u²) Σ |x w|. */
static double bf16_operands(double magnitude, double expected) {
    const double u = 0x1p-9 * 2; /* half an ulp is at most 2^-8 of the value */
    return (2 * u + u * u) * magnitude + 0x1p-24 * fabs(expected);
}

TEST(bf16_stays_within_its_bound) {
    bound narrow, wide;
    bound_parse(&narrow, "conv2d/forward src=bf16[2,16,8,8] weights=bf16[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", 13);
    bound_parse(&wide, "conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1", 13);
    bound_share(&narrow, &wide);
    bound_run(&narrow);
    against_direct(&narrow, &wide, bf16_operands);
    bound_release(&narrow);
    bound_release(&wide);
}

TEST(cases) {
    check_cases("conv2d");
}

TEST(gradients) {
    check_gradients("conv2d");
}

TEST(shapes_and_parameters) {
    const qs_op *op = qs_op_of("conv2d");
    qs_attributes with = {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .groups = 2};
    qs_shape src = qs_shape_of(4, 5, 8, 9, 32), dst;
    assert_ok(qs_op_infer(op, &with, &src, 6, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {5, 6, 5, 16}}));
    qs_parameter_rule rules[QS_MAX_PARAMETERS];
    assert_int_equal(op->parameters(&with, &src, 6, true, rules), 2);
    assert_true(qs_shape_equal(&rules[0].shape, &(qs_shape){4, {6, 4, 3, 3}}));
    assert_int_equal(rules[0].fan_in, 36);
    assert_int_equal(op->parameters(&with, &src, 6, false, rules), 1);
    with.groups = 3;
    assert_int_equal(qs_op_infer(op, &with, &src, 6, &dst), QS_USAGE);
    with = (qs_attributes){.kernel = {11, 11}};
    assert_refused(qs_op_infer(op, &with, &src, 6, &dst), QS_USAGE, "height of 9");
    with = (qs_attributes){.kernel = {3, 3}, .dilation = {4, 2}, .padding = {0, 1}, .padding_more = {1, -1}};
    assert_ok(qs_op_infer(op, &with, &src, 6, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {5, 6, 2, 29}}));
    with.dilation[0] = 5;
    assert_refused(qs_op_infer(op, &with, &src, 6, &dst), QS_USAGE, "reaches over 11 does not fit the height of 9");
    with = (qs_attributes){.kernel = {1, 1}};
    assert_int_equal(qs_op_infer(op, &with, &src, 0, &dst), QS_USAGE);
    qs_shape matrix = qs_shape_of(2, 5, 8);
    assert_int_equal(qs_op_infer(op, &with, &matrix, 6, &dst), QS_USAGE);
}

TEST(operations) {
    qs_case one;
    assert_ok(qs_case_parse("conv2d/weight_gradient src=bf16[2,16,8,8] diff_dst=bf16[2,32,4,4] diff_weights=fp32[32,8,3,3] kernel=3x3 "
                            "stride=2x2 padding=1x1 groups=2",
                            &one));
    assert_true(qs_case_flops(&one) == 2.0 * 2 * 32 * 16 * 8 * 9);
    assert_true(qs_case_bytes(&one) == 2.0 * (2 * 16 * 64 + 2 * 32 * 16) + 4.0 * 32 * 8 * 9);
}

TEST_MAIN(cases, forward_cases, integer_is_exact, bf16_stays_within_its_bound, gradients, shapes_and_parameters, operations)
