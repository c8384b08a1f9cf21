// SPDX-License-Identifier: Apache-2.0
/* group_norm: the channels of a sample in `groups` of neighbours, each normalised over its channels and all positions by its mean and
 * biased variance (Wu and He, 2018), then scaled and shifted by channel; and the passes of instance_norm, whose channels are a group each.
 * Passes: forward src scale shift dst; backward src scale diff_dst diff_src diff_scale diff_shift. Nothing is kept between them: backward
 * reads src anyway. With n = (src - mean) r, r = 1 / sqrt(variance + epsilon) and g = diff_dst scale[c]: diff_src = r (g - mean(g) - n
 * mean(g n)), means over the group; diff_scale = Σ diff_dst n and diff_shift = Σ diff_dst over samples and positions. Sums are double. */
#include "norm.h"

#include <math.h>
#include <stdlib.h>

static int64_t groups_of(const qs_op *op, const qs_attributes *with, const qs_shape *src) {
    return op->takes & QS_TAKES_GROUPS ? with->groups : src->dim[1];
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    const int groups = with->groups ? with->groups : 1;
    if (src->axes < 2) return qs_fail(QS_USAGE, "group_norm: input %s needs the axes N,C, N,C,L or N,C,H,W", qs_shape_text(src, text));
    if (groups < 1 || src->dim[1] % groups != 0)
        return qs_fail(QS_USAGE, "group_norm: %d groups must divide %lld channels", groups, (long long)src->dim[1]);
    *dst = *src;
    return QS_OK;
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 4));
    const qs_shape *src = qs__shape(one, QS_SRC), vector = qs_shape_of(1, src->dim[1]);
    qs_shape same;
    QS_TRY(one->op->infer(&one->attributes, src, 0, &same));
    for (int i = 1; i < one->operands; i++) {
        const qs_role role = one->operand[i].role;
        const bool values = role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_SRC;
        QS_TRY(qs__need_shape(one, role, values ? *src : vector));
    }
    if (qs_shape_count(src) / src->dim[0] / groups_of(one->op, &one->attributes, src) >= 2) return QS_OK;
    return qs__refuse(one, "one value in a group has no variance: use fewer groups, or more positions");
}

/* A group at work: element i of it lies `place` behind the sample's first. */
typedef struct group {
    int64_t first, channels, stride, count; /* its first channel, and so many; channels of the sample; elements */
    double mean, inverse;
} group;

static int64_t place(const group *g, int64_t i) {
    return i / g->channels * g->stride + g->first + i % g->channels;
}

static group group_at(const qs_case *one, const float *sample, int64_t index) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    const int64_t groups = groups_of(one->op, &one->attributes, src), channels = src->dim[1] / groups;
    group g = {.first = index * channels, .channels = channels, .stride = src->dim[1]};
    g.count = qs_shape_count(src) / src->dim[0] / groups;
    double sum = 0, square = 0;
    for (int64_t i = 0; i < g.count; i++)
        sum += (double)sample[place(&g, i)];
    g.mean = sum / (double)g.count;
    for (int64_t i = 0; i < g.count; i++) {
        const double distance = (double)sample[place(&g, i)] - g.mean;
        square += distance * distance;
    }
    g.inverse = 1 / sqrt(square / (double)g.count + one->attributes.epsilon);
    return g;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *src = qs__shape(one, QS_SRC);
    const int64_t groups = groups_of(one->op, &one->attributes, src), count = qs_shape_count(src) / src->dim[0];
    const float *scale = qs__fp32(one, operands, QS_SCALE), *shift = qs__fp32(one, operands, QS_SHIFT);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t at = 0; at < src->dim[0] * groups; at++) {
        float *sample = values + at / groups * count;
        const group g = group_at(one, sample, at % groups);
        for (int64_t i = 0; i < g.count; i++) {
            const int64_t c = g.first + i % g.channels;
            float *x = &sample[place(&g, i)];
            *x = (float)(((double)*x - g.mean) * g.inverse * (double)scale[c] + (double)shift[c]);
        }
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

/* The gradient of a group in the place of that of its output; what it adds to those of scale and shift. */
static void group_backward(const group *g, const float *sample, const float *scale, float *diff, double *diff_scale, double *diff_shift) {
    double sum = 0, product = 0;
    for (int64_t i = 0; i < g->count; i++) {
        const int64_t c = g->first + i % g->channels;
        const double n = ((double)sample[place(g, i)] - g->mean) * g->inverse, dy = (double)diff[place(g, i)];
        diff_scale[c] += dy * n;
        diff_shift[c] += dy;
        sum += dy * (double)scale[c];
        product += dy * (double)scale[c] * n;
    }
    for (int64_t i = 0; i < g->count; i++) {
        const double n = ((double)sample[place(g, i)] - g->mean) * g->inverse;
        float *dy = &diff[place(g, i)];
        const double own = (double)*dy * (double)scale[g->first + i % g->channels];
        *dy = (float)(g->inverse * (own - (sum + n * product) / (double)g->count));
    }
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *src = qs__shape(one, QS_SRC);
    const int64_t channels = src->dim[1], groups = groups_of(one->op, &one->attributes, src), count = qs_shape_count(src) / src->dim[0];
    float *values = NULL, *diff = NULL, *diff_scale = qs__fp32(one, operands, QS_DIFF_SCALE),
          *diff_shift = qs__fp32(one, operands, QS_DIFF_SHIFT);
    double *sums = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    QS_GOTO(qs_allocate(2 * (size_t)channels, sizeof *sums, &sums)); /* zeros */
    for (int64_t at = 0; at < src->dim[0] * groups; at++) {
        const group g = group_at(one, values + at / groups * count, at % groups);
        group_backward(&g, values + at / groups * count, qs__fp32(one, operands, QS_SCALE), diff + at / groups * count, sums,
                       sums + channels);
    }
    for (int64_t c = 0; c < channels; c++) {
        diff_scale[c] = (float)sums[c];
        diff_shift[c] = (float)sums[channels + c];
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), diff);
done:
    free(values);
    free(diff);
    free(sums);
    return status;
}

/* Operations an element: a sum, a square and its sum, the normalisation; and twice as many backward. */
static double flops_forward(const qs_case *one) {
    return 7 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static double flops_backward(const qs_case *one) {
    return 14 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

const qs_pass qs__group_norm_passes[QS__GROUP_NORM_PASSES] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},
                 {.role = QS_SHIFT, .source = QS_FROM_PARAMETER}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SCALE, .source = QS_TO_PARAMETER_GRADIENT}, {.role = QS_DIFF_SHIFT, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = check},
};

#define EVERY(F, S, C, A) QS__GROUP_NORM_CASES("group_norm", F, S, C, A)

static const char *const cases[] = {EVERY("fp32", "[2,16,4,4]", "16", " groups=4 epsilon=1e-05"),
                                    EVERY("fp32", "[3,6,7,5]", "6", " groups=3 epsilon=1e-05"),
                                    EVERY("fp32", "[2,35,9]", "35", " groups=5 epsilon=0.001"),
                                    EVERY("fp32", "[4,24]", "24", " groups=2 epsilon=1e-05"),
                                    EVERY("fp32", "[2,5,3,3]", "5", " epsilon=1e-05"),
                                    EVERY("bf16", "[2,64,5,5]", "64", " groups=32 epsilon=1e-05"),
                                    EVERY("bf16", "[1,21,17,19]", "21", " groups=7 epsilon=1e-05"),
                                    EVERY("fp16", "[2,8,4,4]", "8", " groups=8 epsilon=1e-05"),
                                    NULL};

const qs_op qs__op_group_norm = {.name = "group_norm",
                                 .takes = QS_TAKES_GROUPS,
                                 .kind = QS_DEPENDENT,
                                 .inputs = 1,
                                 .infer = infer,
                                 .parameters = qs__norm_layer_parameters,
                                 .setting = {QS__NORM_EPSILON},
                                 .passes = QS__GROUP_NORM_PASSES,
                                 .pass = qs__group_norm_passes,
                                 .cases = cases};
