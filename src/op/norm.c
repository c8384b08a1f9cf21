// SPDX-License-Identifier: Apache-2.0
/* Normalisations of every kind (qs_norm says which): rules and reference passes. What has a mean and a spread of its own is a
 * *group*: a channel in batch norms, a position in layer norms. Vectors are fp32 and sums double, whatever
 * the storage of the activations; the quantized ones work on the codes of src, in units of its step. */
#include "norm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rules ------------------------------------------------------------------------------------------------------------------ */

/* The shape of an operand other than src. */
static qs_shape shape_of(const qs_case *one, qs_role role) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    switch (role) {
    case QS_SRC2:
    case QS_DST:
    case QS_DIFF_DST:
    case QS_DIFF_SRC:
        return *src;
    case QS_MASK:
        return qs__relu_mask(src);
    case QS_SRC_STEP:
    case QS_ABSMAX:
        return qs_shape_of(1, (int64_t)1);
    case QS_MEAN:
    case QS_VARIANCE:
    case QS_DEVIATION:
        return qs_norm_vector(one->op->norm, src);
    default:
        return qs_shape_of(1, src->dim[1]);
    }
}

/* Something is added to what is normalised. */
static bool has_residual(const qs_case *one) {
    return qs_case_position(one, QS_SRC2) >= 0 && qs__present(one, QS_SRC2);
}

static qs_status check_quantized(const qs_case *one) {
    bool wanted = one->op->norm->quantized;
    if (wanted && has_residual(one)) return qs__refuse(one, "src2 is added behind normalisations in floating point only");
    if (qs__is_integer(one, QS_SRC) == wanted && qs__present(one, QS_SRC_STEP) == wanted) return QS_OK;
    return qs__refuse(one, wanted ? "src is normalised in fixed point: give it as int8 with its src_step"
                                  : "src is normalised in floating point: give it as a float without src_step");
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 4));
    for (int i = 1; i < one->operands; i++) {
        QS_TRY(qs__need_shape(one, one->operand[i].role, shape_of(one, one->operand[i].role)));
    }
    QS_TRY(check_quantized(one));
    if (one->op->norm->per_position && qs__shape(one, QS_SRC)->dim[1] < 2)
        return qs__refuse(one, "one channel has no variance: use more channels, or a batch norm");
    return QS_OK;
}

static qs_status check_training(const qs_case *one) {
    QS_TRY(check(one));
    if (qs__present(one, QS_MASK) != one->attributes.relu) {
        return qs__refuse(one, "operand mask and attribute relu come together or not at all");
    }
    const qs_shape *shape = qs__shape(one, QS_SRC);
    if (one->op->norm->per_position || qs_shape_count(shape) >= 2 * shape->dim[1]) return QS_OK;
    return qs__refuse(one, "one value per channel has no variance: use a larger batch or image");
}

/* ---- A case at work ---------------------------------------------------------------------------------------------------------- */

/* Rows (batch and positions) × channels: what channels-last storage is. `mean` is in units of src's values: codes, when src is quantized;
 * `spread`, `scale` and `shift` are in their own. */
typedef struct work {
    const qs_norm *norm;
    int64_t channels, groups, size; /* size: values of a group */
    double step, epsilon;           /* step: what one unit of src is worth; 1 for floats */
    float *src, *diff;
    double *mean, *spread; /* (groups) */
    double *scale, *shift; /* (channels) */
} work;

/* Where value i of a group lies; its channel is that modulo channels. */
static int64_t place(const work *w, int64_t group, int64_t i) {
    return w->norm->per_position ? group * w->channels + i : i * w->channels + group;
}

static void work_release(work *w) {
    free(w->src);
    free(w->diff);
    free(w->mean);
}

static qs_status work_make(const qs_case *one, const qs_tensor *operands, work *out) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    work w = {.norm = one->op->norm, .channels = shape->dim[1], .groups = qs_norm_vector(one->op->norm, shape).dim[0]};
    w.size = qs_shape_count(shape) / w.groups;
    w.step = w.norm->quantized ? (double)qs__fp32(one, operands, QS_SRC_STEP)[0] : 1;
    w.epsilon = one->attributes.epsilon;
    QS_TRY(qs_allocate(2 * (size_t)(w.groups + w.channels), sizeof *w.mean, &w.mean));
    w.spread = w.mean + w.groups;
    w.scale = w.spread + w.groups;
    w.shift = w.scale + w.channels;
    qs_status status = qs__read(qs__operand(one, operands, QS_SRC), &w.src);
    if (status == QS_OK)
        *out = w;
    else
        work_release(&w);
    return status;
}

static void vector_read(int64_t count, const float *src, double *dst) {
    for (int64_t i = 0; i < count; i++)
        dst[i] = (double)src[i];
}

/* A vector that takes 8 bits where the operator is quantized. */
static void vector_round(const work *w, double *values) {
    if (w->norm->quantized) qs_norm_round_vector(w->channels, values, values);
}

static void parameter_read(const work *w, const float *src, double *dst) {
    vector_read(w->channels, src, dst);
    vector_round(w, dst);
}

/* ---- Statistics -------------------------------------------------------------------------------------------------------------- */

static double mean_of(const work *w, int64_t group) {
    double sum = 0;
    for (int64_t i = 0; i < w->size; i++)
        sum += (double)w->src[place(w, group, i)];
    return sum / (double)w->size;
}

/* The vectors of quantized layer norms are rounded as the fp32 numbers that devices have, in units of src. */
typedef void (*each_round)(int64_t count, float *values);

static void positions_round(int64_t groups, each_round round_, double unit, double *values) {
    for (int64_t g = 0; g < groups; g++) {
        float rounded = (float)(values[g] / unit);
        round_(1, &rounded);
        values[g] = (double)rounded * unit;
    }
}

static bool is_quantized_layer(const work *w) {
    return w->norm->quantized && w->norm->per_position;
}

static void means_round(const work *w) {
    if (w->norm->quantized && !w->norm->per_position) qs_norm_round_means(w->groups, w->mean);
    if (is_quantized_layer(w)) positions_round(w->groups, qs_norm_round_each, 1, w->mean);
}

/* The mean distance from the mean or the mean square of it, in units of src. */
static double spread_of(const work *w, int64_t group, double mean) {
    double sum = 0;
    for (int64_t i = 0; i < w->size; i++) {
        double distance = (double)w->src[place(w, group, i)] - mean;
        sum += w->norm->absolute ? fabs(distance) : distance * distance;
    }
    return sum / (double)w->size;
}

/* Biased spreads in their own units: distances are taken from the rounded mean in L1, from the exact one in L2. */
static void spreads_find(const work *w, const double *exact) {
    for (int64_t g = 0; g < w->groups; g++) {
        double spread = spread_of(w, g, w->norm->absolute ? w->mean[g] : exact[g]);
        if (w->norm->absolute) {
            w->spread[g] = spread * w->step;
        } else {
            spread *= w->step * w->step;
            w->spread[g] = w->norm->spread == QS_VARIANCE ? spread : sqrt(spread);
        }
    }
}

static void spreads_round(const work *w) {
    if (!w->norm->per_position) vector_round(w, w->spread);
    if (is_quantized_layer(w)) positions_round(w->groups, qs_norm_round_deviations, w->step, w->spread);
}

/* Running values follow the unrounded ones; a variance enters unbiased. */
static void running_update(const qs_case *one, const qs_tensor *operands, const work *w, const double *exact) {
    if (w->norm->per_position) return;
    float *mean = qs__fp32(one, operands, QS_RUNNING_MEAN), *spread = qs__fp32(one, operands, w->norm->running);
    double momentum = one->attributes.momentum, unbias = (double)w->size / (double)(w->size - 1);
    if (w->norm->spread != QS_VARIANCE) unbias = 1;
    for (int64_t c = 0; c < w->channels; c++) {
        mean[c] = (float)((1 - momentum) * (double)mean[c] + momentum * exact[c] * w->step);
        spread[c] = (float)((1 - momentum) * (double)spread[c] + momentum * w->spread[c] * unbias);
    }
}

/* Mean and spread of every group from src. */
static qs_status statistics(const qs_case *one, const qs_tensor *operands, const work *w, bool training) {
    double *exact = NULL;
    QS_TRY(qs_allocate((size_t)w->groups, sizeof *exact, &exact));
    for (int64_t g = 0; g < w->groups; g++)
        w->mean[g] = exact[g] = mean_of(w, g);
    means_round(w);
    spreads_find(w, exact);
    if (training) running_update(one, operands, w, exact);
    spreads_round(w);
    free(exact);
    return QS_OK;
}

static void statistics_save(const qs_case *one, const qs_tensor *operands, const work *w) {
    float *means = qs__fp32(one, operands, QS_MEAN), *spreads = qs__fp32(one, operands, w->norm->spread);
    for (int64_t g = 0; g < w->groups; g++) {
        means[g] = (float)(w->mean[g] * w->step);
        spreads[g] = (float)w->spread[g];
    }
}

/* ---- Forward ------------------------------------------------------------------------------------------------------------------ */

/* `more`: what is added, rounded with the rest; NULL: nothing, not even 0, which would change the sign of one. */
static void group_normalize(const work *w, int64_t group, const float *more) {
    const double unit = w->step * qs_norm_inverse(w->norm, w->spread[group], w->epsilon);
    for (int64_t i = 0; i < w->size; i++) {
        const int64_t at = place(w, group, i), c = at % w->channels;
        const double normalized = ((double)w->src[at] - w->mean[group]) * (w->scale[c] * unit) + w->shift[c];
        w->src[at] = (float)(more ? normalized + (double)more[at] : normalized);
    }
}

/* Turns src into dst and stores it. */
static qs_status normalize(const qs_case *one, const qs_tensor *operands, const work *w) {
    float *more = NULL;
    if (has_residual(one)) QS_TRY(qs__read(qs__operand(one, operands, QS_SRC2), &more));
    parameter_read(w, qs__fp32(one, operands, QS_SCALE), w->scale);
    parameter_read(w, qs__fp32(one, operands, QS_SHIFT), w->shift);
    for (int64_t g = 0; g < w->groups; g++)
        group_normalize(w, g, more);
    if (one->attributes.relu) qs__relu_behind(one, operands, w->groups * w->size, w->src);
    qs__write(qs__operand(one, operands, QS_DST), w->src);
    free(more);
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    QS_TRY(work_make(one, operands, &w));
    qs_status status;
    QS_GOTO(statistics(one, operands, &w, true));
    statistics_save(one, operands, &w);
    QS_GOTO(normalize(one, operands, &w));
    status = qs__deliver_absmax(one, operands, QS_DST);
done:
    work_release(&w);
    return status;
}

static void running_read(const qs_case *one, const qs_tensor *operands, const work *w) {
    const float *mean = qs__fp32(one, operands, QS_RUNNING_MEAN);
    for (int64_t c = 0; c < w->channels; c++)
        w->mean[c] = (double)mean[c] / w->step;
    if (w->norm->quantized) qs_norm_round_means(w->channels, w->mean);
    parameter_read(w, qs__fp32(one, operands, w->norm->running), w->spread);
}

static qs_status inference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    qs_status status = QS_OK;
    QS_TRY(work_make(one, operands, &w));
    if (w.norm->per_position)
        status = statistics(one, operands, &w, false);
    else
        running_read(one, operands, &w);
    if (status == QS_OK) status = normalize(one, operands, &w);
    work_release(&w);
    return status;
}

/* ---- Backward ----------------------------------------------------------------------------------------------------------------- */

/* What backward reads of the forward pass; the mean is a whole number of 2^-8 units of a quantized src, which storing it in fp32 hides. */
static void saved_read(const qs_case *one, const qs_tensor *operands, work *w) {
    const float *mean = qs__fp32(one, operands, QS_MEAN);
    for (int64_t g = 0; g < w->groups; g++)
        w->mean[g] = w->norm->quantized ? rint((double)mean[g] / w->step * 256) / 256 : (double)mean[g];
    vector_read(w->groups, qs__fp32(one, operands, w->norm->spread), w->spread);
    parameter_read(w, qs__fp32(one, operands, QS_SCALE), w->scale);
}

static double sign(double x) {
    return (x > 0) - (x < 0);
}

/* With n = (x - mean) inverse and g = dy scale: diff_shift += dy, diff_scale += dy n, by channels, and diff_src = inverse (g - mean(g) -
 * d mean(g n)), where d is n in L2 and sign(x - mean) less its mean in L1. Turns `diff` from dy into diff_src. */
static void backward_group(const work *w, int64_t group, double *diff_scale, double *diff_shift) {
    const double inverse = qs_norm_inverse(w->norm, w->spread[group], w->epsilon), size = (double)w->size;
    double sum = 0, product = 0, signs = 0;
    for (int64_t i = 0; i < w->size; i++) {
        const int64_t at = place(w, group, i), c = at % w->channels;
        const double distance = (double)w->src[at] - w->mean[group], dy = (double)w->diff[at], n = distance * w->step * inverse;
        diff_scale[c] += dy * n;
        diff_shift[c] += dy;
        sum += dy * w->scale[c];
        product += dy * w->scale[c] * n;
        signs += sign(distance);
    }
    for (int64_t i = 0; i < w->size; i++) {
        const int64_t at = place(w, group, i);
        const double distance = (double)w->src[at] - w->mean[group], g = (double)w->diff[at] * w->scale[at % w->channels];
        const double direction = w->norm->absolute ? sign(distance) - signs / size : distance * w->step * inverse;
        w->diff[at] = (float)(inverse * (g - (sum + direction * product) / size));
    }
}

static void vector_write(int64_t count, const double *src, float *dst) {
    for (int64_t i = 0; i < count; i++)
        dst[i] = (float)src[i];
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    double *diff_scale = NULL;
    QS_TRY(work_make(one, operands, &w));
    qs_status status;
    QS_GOTO(qs_allocate(2 * (size_t)w.channels, sizeof *diff_scale, &diff_scale));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &w.diff));
    if (one->attributes.relu) qs__relu_mask_values(w.groups * w.size, qs__operand(one, operands, QS_MASK)->data, w.diff);
    saved_read(one, operands, &w);
    for (int64_t g = 0; g < w.groups; g++)
        backward_group(&w, g, diff_scale, diff_scale + w.channels);
    vector_write(w.channels, diff_scale, qs__fp32(one, operands, QS_DIFF_SCALE));
    vector_write(w.channels, diff_scale + w.channels, qs__fp32(one, operands, QS_DIFF_SHIFT));
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), w.diff);
    status = qs__deliver_absmax(one, operands, QS_DIFF_SRC);
done:
    free(diff_scale);
    work_release(&w);
    return status;
}

/* ---- What rounding does to normalised values ----------------------------------------------------------------------------------- */

static double normalized(const work *w, int64_t group, int64_t at) {
    return ((double)w->src[at] - w->mean[group]) * w->step * qs_norm_inverse(w->norm, w->spread[group], w->epsilon);
}

static void exact_statistics(const work *w) {
    for (int64_t g = 0; g < w->groups; g++)
        w->mean[g] = mean_of(w, g);
    spreads_find(w, w->mean);
}

static void gap_sum(const work *rounded, const work *codes, const work *exact, qs_norm_gap *sum) {
    for (int64_t g = 0; g < exact->groups; g++) {
        for (int64_t i = 0; i < exact->size; i++) {
            const int64_t at = place(exact, g, i);
            const double got = normalized(rounded, g, at), of_codes = normalized(codes, g, at), wanted = normalized(exact, g, at);
            sum->distance2 += (got - wanted) * (got - wanted);
            sum->statistics2 += (got - of_codes) * (got - of_codes);
            sum->norm2 += wanted * wanted;
        }
    }
}

qs_status qs_norm_gap_add(const qs_case *one, const qs_tensor *operands, const float *unrounded, qs_norm_gap *sum) {
    work rounded = {0}, codes = {0}, exact = {0};
    qs_status status = QS_OK;
    QS_GOTO(work_make(one, operands, &rounded));
    QS_GOTO(work_make(one, operands, &codes));
    QS_GOTO(work_make(one, operands, &exact));
    saved_read(one, operands, &rounded);
    exact_statistics(&codes);
    memcpy(exact.src, unrounded, (size_t)(exact.groups * exact.size) * sizeof *unrounded);
    exact.step = 1;
    exact_statistics(&exact);
    gap_sum(&rounded, &codes, &exact, sum);
done:
    work_release(&rounded);
    work_release(&codes);
    work_release(&exact);
    return status;
}

/* ---- The passes ---------------------------------------------------------------------------------------------------------------- */

/* Operations an element: statistics 3, normalisation 2; inference 2; what is added 1; backward 8. */
static double elements(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_SRC));
}
static double flops_forward(const qs_case *one) {
    return (has_residual(one) ? 6 : 5) * elements(one);
}
static double flops_inference(const qs_case *one) {
    return (has_residual(one) ? 3 : 2) * elements(one);
}
static double flops_backward(const qs_case *one) {
    return 8 * elements(one);
}

#define BACKWARD(SPREAD)                                                                                                         \
    {                                                                                                                            \
        .name = "backward",                                                                                                      \
        QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},                                                  \
                    {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},                                 \
                    {.role = QS_SCALE, .source = QS_FROM_PARAMETER}, {.role = QS_MEAN, .source = QS_FROM_FORWARD},               \
                    {.role = SPREAD, .source = QS_FROM_FORWARD}, {.role = QS_MASK, .source = QS_FROM_FORWARD, .optional = true}, \
                    {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},    \
                    {.role = QS_DIFF_SCALE, .source = QS_TO_PARAMETER_GRADIENT},                                                 \
                    {.role = QS_DIFF_SHIFT, .source = QS_TO_PARAMETER_GRADIENT},                                                 \
                    {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DIFF_SRC, .optional = true}),                           \
        .reference = backward, .flops = flops_backward, .check = check_training                                                  \
    }

/* UPDATED, KEPT: what batch norms alone have: the statistics for evaluation, which training updates and inference reads, and what a sum
 * behind them adds. */
#define PASSES(SPREAD, UPDATED, KEPT, FLOPS_INFERENCE)                                                                          \
    {                                                                                                                           \
        {.name = "forward",                                                                                                     \
         QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},                                                \
                     {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},                               \
                     {.role = QS_SCALE, .source = QS_FROM_PARAMETER}, {.role = QS_SHIFT, .source = QS_FROM_PARAMETER},          \
                     {.role = QS_MEAN, .source = QS_TO_BACKWARD}, {.role = SPREAD, .source = QS_TO_BACKWARD} UPDATED,           \
                     {.role = QS_MASK, .source = QS_TO_BACKWARD, .optional = true}, {.role = QS_DST, .source = QS_TO_OUTPUT},   \
                     {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),                              \
         .reference = forward,                                                                                                  \
         .flops = flops_forward,                                                                                                \
         .check = check_training},                                                                                              \
            {.name = "inference",                                                                                               \
             QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},                                            \
                         {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},                           \
                         {.role = QS_SCALE, .source = QS_FROM_PARAMETER}, {.role = QS_SHIFT, .source = QS_FROM_PARAMETER} KEPT, \
                         {.role = QS_DST, .source = QS_TO_OUTPUT}),                                                             \
             .reference = inference,                                                                                            \
             .flops = FLOPS_INFERENCE,                                                                                          \
             .check = check},                                                                                                   \
            BACKWARD(SPREAD),                                                                                                   \
    }
#define ALSO(...) , __VA_ARGS__
#define RESIDUAL \
    { .role = QS_SRC2, .source = QS_FROM_RESIDUAL, .optional = true }
#define BATCH_PASSES(SPREAD, RUNNING)                                                                                                    \
    PASSES(SPREAD,                                                                                                                       \
           ALSO({.role = QS_RUNNING_MEAN, .source = QS_UPDATED_PARAMETER}, {.role = RUNNING, .source = QS_UPDATED_PARAMETER}, RESIDUAL), \
           ALSO({.role = QS_RUNNING_MEAN, .source = QS_FROM_PARAMETER}, {.role = RUNNING, .source = QS_FROM_PARAMETER}, RESIDUAL),       \
           flops_inference)
/* Every group of layer norms is normalised by itself in evaluation as well. */
#define LAYER_PASSES(SPREAD) PASSES(SPREAD, , , flops_forward)

const qs_pass qs__norm_variance_passes[QS__NORM_PASSES] = BATCH_PASSES(QS_VARIANCE, QS_RUNNING_VARIANCE);
const qs_pass qs__norm_deviation_passes[QS__NORM_PASSES] = BATCH_PASSES(QS_DEVIATION, QS_RUNNING_DEVIATION);
const qs_pass qs__norm_layer_variance_passes[QS__NORM_PASSES] = LAYER_PASSES(QS_VARIANCE);
const qs_pass qs__norm_layer_deviation_passes[QS__NORM_PASSES] = LAYER_PASSES(QS_DEVIATION);
