// SPDX-License-Identifier: Apache-2.0
/* The three products of conv2d and linear: plain loops over channels-last operands with double sums, in which products of codes are exact
 * (|sum| < 2^53). Parallel over outputs: every sum is formed by one thread, in one order. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

/* Extent of an axis, 1 where a shape lacks it: a matrix is a batch of 1 × 1 images. */
static int64_t extent_of(const qs_shape *shape, int axis) {
    return axis < shape->axes ? shape->dim[axis] : 1;
}

static qs__geometry geometry_of(const qs_case *one) {
    const qs_shape *src = qs__shape(one, qs_case_position(one, QS_SRC) >= 0 ? QS_SRC : QS_DIFF_SRC);
    const qs_shape *dst = qs__shape(one, qs_case_position(one, QS_DST) >= 0 ? QS_DST : QS_DIFF_DST);
    qs__geometry g = {.batch = src->dim[0], .channels = src->dim[1], .outputs = dst->dim[1], .groups = one->attributes.groups};
    g.height = extent_of(src, 2), g.width = extent_of(src, 3);
    g.out_height = extent_of(dst, 2), g.out_width = extent_of(dst, 3);
    qs__window_take(&one->attributes, &g);
    return g;
}

static double flops(const qs_case *one) {
    qs__geometry g = geometry_of(one);
    double kernel = (double)(g.kernel[0] * g.kernel[1]) * (double)(g.channels / g.groups);
    return 2.0 * kernel * (double)(g.batch * g.out_height) * (double)(g.out_width * g.outputs);
}

/* One product at work: decoded operands and the double result. */
typedef struct product {
    const qs__geometry *g;
    float *left, *right;
    double *weights; /* forward: transposed, [group][kh][kw][i][o of the group] */
    double *sum;
} product;

static const qs_role forward_factors[] = {QS_SRC, QS_WEIGHTS}, input_factors[] = {QS_WEIGHTS, QS_DIFF_DST},
                     weight_factors[] = {QS_SRC, QS_DIFF_DST};

static void product_release(product *p) {
    free(p->left);
    free(p->right);
    free(p->weights);
    free(p->sum);
}

static qs_status product_make(const qs_case *one, const qs__geometry *g, const qs_tensor *operands, const qs_role factor[2], qs_role result,
                              product *p) {
    qs_status status;
    *p = (product){.g = g};
    QS_GOTO(qs__read_factor(one, operands, factor[0], &p->left));
    QS_GOTO(qs__read_factor(one, operands, factor[1], &p->right));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, result)), sizeof *p->sum, &p->sum));
    return QS_OK;
done:
    product_release(p);
    return status;
}

/* ---- Forward ---- */

static qs_status transpose_weights(product *p) {
    const qs__geometry *g = p->g;
    int64_t inner = g->kernel[0] * g->kernel[1] * (g->channels / g->groups), group_outputs = g->outputs / g->groups;
    QS_TRY(qs_allocate((size_t)(g->outputs * inner), sizeof *p->weights, &p->weights));
    for (int64_t o = 0; o < g->outputs; o++) {
        double *group = p->weights + o / group_outputs * inner * group_outputs + o % group_outputs;
        for (int64_t k = 0; k < inner; k++) {
            group[k * group_outputs] = p->right[o * inner + k];
        }
    }
    return QS_OK;
}

/* sum[o] += Σ_i x[i] w[i][o] over one kernel position and group. */
static void multiply_add(int64_t inputs, int64_t outputs, const float *x, const double *weights, double *sum) {
    for (int64_t i = 0; i < inputs; i++) {
        double value = x[i];
        for (int64_t o = 0; o < outputs; o++) {
            sum[o] += value * weights[i * outputs + o];
        }
    }
}

static void forward_point(const product *p, int64_t n, int64_t oh, int64_t ow, double *sum) {
    const qs__geometry *g = p->g;
    int64_t inputs = g->channels / g->groups, outputs = g->outputs / g->groups;
    for (int64_t kh = 0; kh < g->kernel[0]; kh++) {
        int64_t h = qs__tap_place(g, 0, oh, kh);
        if (h < 0 || h >= g->height) continue;
        for (int64_t kw = 0; kw < g->kernel[1]; kw++) {
            int64_t w = qs__tap_place(g, 1, ow, kw);
            if (w < 0 || w >= g->width) continue;
            const float *x = p->left + ((n * g->height + h) * g->width + w) * g->channels;
            for (int64_t group = 0; group < g->groups; group++) {
                int64_t at = (group * g->kernel[0] + kh) * g->kernel[1] + kw;
                multiply_add(inputs, outputs, x + group * inputs, p->weights + at * inputs * outputs, sum + group * outputs);
            }
        }
    }
}

static void forward_rows(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const qs__geometry *g = p->g;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t ow = 0; ow < g->out_width; ow++) {
            forward_point(p, row / g->out_height, row % g->out_height, ow, p->sum + (row * g->out_width + ow) * g->outputs);
        }
    }
}

/* sum[row][c] × the factors' steps + bias[c]; the steps of floats are 1. */
static void scale_columns(const qs_case *one, const qs_tensor *operands, const qs_role factor[2], const float *bias, int64_t rows,
                          int64_t columns, double *sum) {
    for (int64_t c = 0; c < columns; c++) {
        double scale = qs__factor_step(one, operands, factor[0], c) * qs__factor_step(one, operands, factor[1], c);
        double shift = bias ? (double)bias[c] : 0.0;
        for (int64_t row = 0; row < rows; row++) {
            sum[row * columns + c] = sum[row * columns + c] * scale + shift;
        }
    }
}

static qs_status forward_sums(const qs_case *one, const qs_run *run, product *p) {
    if (one->attributes.accumulator.adder) return qs__narrow_product(one, run, p->g, p->left, p->right, p->sum);
    QS_TRY(transpose_weights(p));
    qs_parallel(p->g->batch * p->g->out_height, 1, forward_rows, p);
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs__geometry g = geometry_of(one);
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    product p;
    QS_TRY(product_make(one, &g, operands, forward_factors, QS_DST, &p));
    qs_status status;
    QS_GOTO(forward_sums(one, run, &p));
    scale_columns(one, operands, forward_factors, qs__present(one, QS_BIAS) ? qs__fp32(one, operands, QS_BIAS) : NULL,
                  g.batch * g.out_height * g.out_width, g.outputs, p.sum);
    QS_GOTO(qs__write_double(dst, p.sum));
done:
    product_release(&p);
    return status;
}

/* ---- Input gradient ---- */

/* Output position, of `extent`, that reads input position `at` with tap k, or -1. */
static int64_t reader(const qs__geometry *g, int axis, int64_t at, int64_t k, int64_t extent) {
    int64_t position = at + g->padding[axis] - k * g->dilation[axis], stride = g->stride[axis];
    if (position < 0 || position % stride != 0 || position / stride >= extent) return -1;
    return position / stride;
}

/* sum[i] += Σ_o dy[o] w[o][kh][kw][i] at one kernel position, group by group. */
static void input_gradient_add(const product *p, int64_t kernel_position, const float *diff_dst, double *sum) {
    const qs__geometry *g = p->g;
    int64_t inputs = g->channels / g->groups, outputs = g->outputs / g->groups, taps = g->kernel[0] * g->kernel[1];
    for (int64_t o = 0; o < g->outputs; o++) {
        double value = diff_dst[o];
        const float *weights = p->left + (o * taps + kernel_position) * inputs;
        double *to = sum + o / outputs * inputs;
        for (int64_t i = 0; i < inputs; i++) {
            to[i] += value * (double)weights[i];
        }
    }
}

static void input_gradient_point(const product *p, int64_t n, int64_t h, int64_t w, double *sum) {
    const qs__geometry *g = p->g;
    for (int64_t kh = 0; kh < g->kernel[0]; kh++) {
        int64_t oh = reader(g, 0, h, kh, g->out_height);
        if (oh < 0) continue;
        for (int64_t kw = 0; kw < g->kernel[1]; kw++) {
            int64_t ow = reader(g, 1, w, kw, g->out_width);
            if (ow < 0) continue;
            const float *diff_dst = p->right + ((n * g->out_height + oh) * g->out_width + ow) * g->outputs;
            input_gradient_add(p, kh * g->kernel[1] + kw, diff_dst, sum);
        }
    }
}

static void input_gradient_rows(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const qs__geometry *g = p->g;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t w = 0; w < g->width; w++) {
            input_gradient_point(p, row / g->height, row % g->height, w, p->sum + (row * g->width + w) * g->channels);
        }
    }
}

static qs_status input_gradient(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_status status;
    qs__geometry g = geometry_of(one);
    const qs_tensor *diff_src = qs__operand(one, operands, QS_DIFF_SRC);
    product p;
    QS_TRY(product_make(one, &g, operands, input_factors, QS_DIFF_SRC, &p));
    if (one->attributes.accumulator.adder) {
        QS_GOTO(qs__narrow_product(one, run, &g, p.left, p.right, p.sum));
    } else {
        qs_parallel(g.batch * g.height, 1, input_gradient_rows, &p);
    }
    scale_columns(one, operands, input_factors, NULL, g.batch * g.height * g.width, g.channels, p.sum);
    QS_GOTO(qs__write_double(diff_src, p.sum));
done:
    product_release(&p);
    return status;
}

/* ---- Weight gradient ---- */

/* Σ over the batch of dy[o] x[i] for one output and kernel position. */
static void weight_gradient_tap(const product *p, int64_t o, int64_t kh, int64_t kw, double *sum) {
    const qs__geometry *g = p->g;
    int64_t inputs = g->channels / g->groups, group = o / (g->outputs / g->groups);
    for (int64_t row = 0; row < g->batch * g->out_height; row++) {
        int64_t h = qs__tap_place(g, 0, row % g->out_height, kh);
        if (h < 0 || h >= g->height) continue;
        for (int64_t ow = 0; ow < g->out_width; ow++) {
            int64_t w = qs__tap_place(g, 1, ow, kw);
            if (w < 0 || w >= g->width) continue;
            const float *x = p->left + ((row / g->out_height * g->height + h) * g->width + w) * g->channels + group * inputs;
            double value = p->right[(row * g->out_width + ow) * g->outputs + o];
            for (int64_t i = 0; i < inputs; i++) {
                sum[i] += value * (double)x[i];
            }
        }
    }
}

static void weight_gradient_outputs(void *context, int64_t begin, int64_t end) {
    const product *p = context;
    const qs__geometry *g = p->g;
    int64_t inputs = g->channels / g->groups, taps = g->kernel[0] * g->kernel[1];
    for (int64_t at = begin * taps; at < end * taps; at++) {
        weight_gradient_tap(p, at / taps, at % taps / g->kernel[1], at % g->kernel[1], p->sum + at * inputs);
    }
}

/* Of factors transformed over samples in blocks of `block` (0: of none), a block's first sample holds its sum / sqrt(block). */
static void bias_gradient(const product *p, double step, int block, float *diff_bias) {
    int64_t pixels = p->g->out_height * p->g->out_width, outputs = p->g->outputs;
    for (int64_t o = 0; o < outputs; o++) {
        double sum = 0;
        for (int64_t row = 0; row < p->g->batch * pixels; row++) {
            if (block == 0 || row / pixels % block == 0) sum += (double)p->right[row * outputs + o];
        }
        diff_bias[o] = (float)(sum * step * sqrt(block > 0 ? block : 1));
    }
}

static qs_status weight_gradient(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_status status;
    qs__geometry g = geometry_of(one);
    const qs_tensor *diff_weights = qs__operand(one, operands, QS_DIFF_WEIGHTS);
    product p;
    QS_TRY(product_make(one, &g, operands, weight_factors, QS_DIFF_WEIGHTS, &p));
    if (one->attributes.accumulator.adder) {
        QS_GOTO(qs__narrow_product(one, run, &g, p.left, p.right, p.sum));
    } else {
        qs_parallel(g.outputs, 1, weight_gradient_outputs, &p);
    }
    scale_columns(one, operands, weight_factors, NULL, qs_shape_count(&diff_weights->shape), 1, p.sum);
    if (qs__present(one, QS_DIFF_BIAS)) {
        bias_gradient(&p, qs__factor_step(one, operands, QS_DIFF_DST, 0), one->attributes.hadamard, qs__fp32(one, operands, QS_DIFF_BIAS));
    }
    QS_GOTO(qs__write_double(diff_weights, p.sum));
done:
    product_release(&p);
    return status;
}

/* ---- The passes ---- */

/* Shapes of input, weights and result of any of the three. */
static qs_status check_shapes(const qs_case *one, qs_role src, qs_role weights, qs_role dst) {
    QS_TRY(qs__need_axes(one, src, 2, 4));
    QS_TRY(qs__need_axes(one, dst, 2, 4));
    int64_t outputs = qs__shape(one, dst)->dim[1];
    qs_parameter_rule rule[2];
    QS_TRY(qs__need_inferred(one, src, outputs, dst));
    one->op->parameters(&one->attributes, qs__shape(one, src), outputs, false, rule);
    QS_TRY(qs__need_shape(one, weights, rule[0].shape));
    qs__geometry g = geometry_of(one);
    return qs__check_accumulator(one, &g);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(check_shapes(one, QS_SRC, QS_WEIGHTS, QS_DST));
    QS_TRY(qs__check_factors(one, forward_factors, QS_SRC));
    return qs__need_shape(one, QS_BIAS, qs_shape_of(1, qs__shape(one, QS_DST)->dim[1]));
}

static qs_status check_input_gradient(const qs_case *one) {
    QS_TRY(check_shapes(one, QS_DIFF_SRC, QS_WEIGHTS, QS_DIFF_DST));
    return qs__check_factors(one, input_factors, QS_DIFF_DST);
}

static qs_status check_samples(const qs_case *one) {
    const int block = one->attributes.hadamard;
    if (block == 0) return QS_OK;
    if (!qs__is_integer(one, QS_DIFF_DST) || !qs__present(one, QS_DIFF_BIAS))
        return qs__refuse(one, "hadamard=%d: it is said of integers, where there is a diff_bias", block);
    const int64_t samples = qs__shape(one, QS_DIFF_DST)->dim[0];
    return samples % block == 0 ? QS_OK : qs__refuse(one, "hadamard=%d: it does not divide %lld samples", block, (long long)samples);
}

static qs_status check_weight_gradient(const qs_case *one) {
    QS_TRY(check_shapes(one, QS_SRC, QS_DIFF_WEIGHTS, QS_DIFF_DST));
    QS_TRY(check_samples(one));
    QS_TRY(qs__check_factors(one, weight_factors, QS_ROLE_COUNT));
    return qs__need_shape(one, QS_DIFF_BIAS, qs_shape_of(1, qs__shape(one, QS_DIFF_DST)->dim[1]));
}

const qs_product qs__gemm_products[QS__GEMM_PASSES] = {[QS_GEMM_FORWARD] = {QS_GEMM_FORWARD, {QS_SRC, QS_WEIGHTS}},
                                                       [QS_GEMM_INPUT_GRADIENT] = {QS_GEMM_INPUT_GRADIENT, {QS_DIFF_DST, QS_WEIGHTS}},
                                                       [QS_GEMM_WEIGHT_GRADIENT] = {QS_GEMM_WEIGHT_GRADIENT, {QS_SRC, QS_DIFF_DST}}};

const qs_pass qs__gemm_passes[QS__GEMM_PASSES] = {
    {.name = "forward",
     QS__GEMM_FORWARD({.role = QS_BIAS, .source = QS_FROM_PARAMETER, .optional = true}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops,
     .check = check_forward},
    {.name = "input_gradient", QS__GEMM_INPUT_GRADIENT, .reference = input_gradient, .flops = flops, .check = check_input_gradient},
    {.name = "weight_gradient",
     QS__GEMM_WEIGHT_GRADIENT({.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT},
                              {.role = QS_DIFF_BIAS, .source = QS_TO_PARAMETER_GRADIENT, .optional = true}),
     .reference = weight_gradient,
     .flops = flops,
     .check = check_weight_gradient},
};
