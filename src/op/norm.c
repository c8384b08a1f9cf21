// SPDX-License-Identifier: Apache-2.0
/* Batch normalisations of every kind (qs_norm says which): parameters, rules, reference passes. Vectors are fp32 and sums double, whatever
 * the storage of the activations; the quantized ones work on the codes of src, in units of its step. */
#include "norm.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* ---- The operator on paper ------------------------------------------------------------------------------------------------- */

void qs__norm_defaults(qs_attributes *with) {
    if (with->value == 0) with->value = 1e-5;
    if (with->value2 == 0) with->value2 = 0.1;
}

qs_status qs__norm_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "a normalisation's input %s needs the axes N,C or N,C,H,W", qs_shape_text(src, text));
    *dst = *src;
    return QS_OK;
}

static int parameters(const qs_shape *src, const char *name, qs_role running, qs_parameter_rule *out) {
    qs_shape shape = qs_shape_of(1, src->dim[1]);
    out[0] = (qs_parameter_rule){"scale", QS_SCALE, QS_DIFF_SCALE, shape, 1, 0};
    out[1] = (qs_parameter_rule){"shift", QS_SHIFT, QS_DIFF_SHIFT, shape, 0, 0};
    out[2] = (qs_parameter_rule){"running_mean", QS_RUNNING_MEAN, QS_ROLE_COUNT, shape, 0, 0};
    out[3] = (qs_parameter_rule){name, running, QS_ROLE_COUNT, shape, 1, 0};
    return 4;
}

int qs__norm_variance_parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    return parameters(src, "running_variance", QS_RUNNING_VARIANCE, out);
}

int qs__norm_deviation_parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    return parameters(src, "running_deviation", QS_RUNNING_DEVIATION, out);
}

double qs_norm_inverse(const qs_norm *norm, double spread, double epsilon) {
    return norm->spread == QS_VARIANCE ? 1 / sqrt(spread + epsilon) : 1 / (spread + epsilon);
}

/* ---- Rules ------------------------------------------------------------------------------------------------------------------ */

/* The shape of an operand other than src. */
static qs_shape shape_of(const qs_case *one, qs_role role) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    switch (role) {
    case QS_DST:
    case QS_DIFF_DST:
    case QS_DIFF_SRC:
        return *src;
    case QS_MASK:
        return qs__relu_mask(src);
    case QS_SRC_STEP:
        return qs_shape_of(1, (int64_t)1);
    default:
        return qs_shape_of(1, src->dim[1]);
    }
}

static qs_status check_quantized(const qs_case *one) {
    bool wanted = one->op->norm->quantized;
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
    double epsilon = one->attributes.value, momentum = one->attributes.value2;
    if (epsilon <= 0) return qs__refuse(one, "epsilon (value) is %g: it must be positive", epsilon);
    if (momentum < 0 || momentum > 1) return qs__refuse(one, "momentum (value2) is %g: it must lie in [0, 1]", momentum);
    return QS_OK;
}

static qs_status check_training(const qs_case *one) {
    QS_TRY(check(one));
    if (qs__present(one, QS_MASK) != one->attributes.relu) {
        return qs__refuse(one, "operand mask and attribute relu come together or not at all");
    }
    const qs_shape *shape = qs__shape(one, QS_SRC);
    if (qs_shape_count(shape) >= 2 * shape->dim[1]) return QS_OK;
    return qs__refuse(one, "one value per channel has no variance: use a larger batch or image");
}

/* ---- A case at work ---------------------------------------------------------------------------------------------------------- */

/* Rows (batch and positions) × channels: what channels-last storage is. `mean` is in units of src's values: codes, when src is quantized;
 * `spread`, `scale` and `shift` are in their own. */
typedef struct work {
    const qs_norm *norm;
    int64_t rows, channels;
    double step, epsilon; /* step: what one unit of src is worth; 1 for floats */
    float *src, *diff;
    double *mean, *spread, *scale, *shift; /* (channels) */
} work;

static void work_release(work *w) {
    free(w->src);
    free(w->diff);
    free(w->mean);
}

static qs_status work_make(const qs_case *one, const qs_tensor *operands, work *out) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    work w = {.norm = one->op->norm, .channels = shape->dim[1], .rows = qs_shape_count(shape) / shape->dim[1]};
    w.step = w.norm->quantized ? (double)qs__fp32(one, operands, QS_SRC_STEP)[0] : 1;
    w.epsilon = one->attributes.value;
    QS_TRY(qs_allocate(4 * (size_t)w.channels, sizeof *w.mean, &w.mean));
    w.spread = w.mean + w.channels;
    w.scale = w.spread + w.channels;
    w.shift = w.scale + w.channels;
    qs_status status = qs__read(qs__operand(one, operands, QS_SRC), &w.src);
    if (status != QS_OK) work_release(&w);
    *out = w;
    return status;
}

static void vector_read(const work *w, const float *src, double *dst) {
    for (int64_t c = 0; c < w->channels; c++)
        dst[c] = (double)src[c];
}

/* A vector that takes 8 bits where the operator is quantized. */
static void vector_round(const work *w, double *values) {
    if (w->norm->quantized) qs_norm_round_vector(w->channels, values, values);
}

/* ---- Statistics -------------------------------------------------------------------------------------------------------------- */

static double mean_of(const work *w, int64_t c) {
    double sum = 0;
    for (int64_t row = 0; row < w->rows; row++)
        sum += (double)w->src[row * w->channels + c];
    return sum / (double)w->rows;
}

/* The mean distance from the mean or the mean square of it, in units of src. */
static double spread_of(const work *w, int64_t c, double mean) {
    double sum = 0;
    for (int64_t row = 0; row < w->rows; row++) {
        double distance = (double)w->src[row * w->channels + c] - mean;
        sum += w->norm->absolute ? fabs(distance) : distance * distance;
    }
    return sum / (double)w->rows;
}

/* Biased spreads in their own units: distances are taken from the rounded mean in L1, from the exact one in L2. */
static void spreads_find(const work *w, const double *exact) {
    for (int64_t c = 0; c < w->channels; c++) {
        double spread = spread_of(w, c, w->norm->absolute ? w->mean[c] : exact[c]);
        if (w->norm->absolute) {
            w->spread[c] = spread * w->step;
        } else {
            spread *= w->step * w->step;
            w->spread[c] = w->norm->spread == QS_VARIANCE ? spread : sqrt(spread);
        }
    }
}

/* Running values follow the unrounded ones; a variance enters unbiased. */
static void running_update(const qs_case *one, const qs_tensor *operands, const work *w, const double *exact) {
    float *mean = qs__fp32(one, operands, QS_RUNNING_MEAN), *spread = qs__fp32(one, operands, w->norm->running);
    double momentum = one->attributes.value2, unbias = (double)w->rows / (double)(w->rows - 1);
    if (w->norm->spread != QS_VARIANCE) unbias = 1;
    for (int64_t c = 0; c < w->channels; c++) {
        mean[c] = (float)((1 - momentum) * (double)mean[c] + momentum * exact[c] * w->step);
        spread[c] = (float)((1 - momentum) * (double)spread[c] + momentum * w->spread[c] * unbias);
    }
}

static qs_status statistics(const qs_case *one, const qs_tensor *operands, const work *w) {
    float *means = qs__fp32(one, operands, QS_MEAN), *spreads = qs__fp32(one, operands, w->norm->spread);
    double *exact = NULL;
    QS_TRY(qs_allocate((size_t)w->channels, sizeof *exact, &exact));
    for (int64_t c = 0; c < w->channels; c++)
        w->mean[c] = exact[c] = mean_of(w, c);
    if (w->norm->quantized) qs_norm_round_means(w->channels, w->mean);
    spreads_find(w, exact);
    running_update(one, operands, w, exact);
    vector_round(w, w->spread);
    for (int64_t c = 0; c < w->channels; c++) {
        means[c] = (float)(w->mean[c] * w->step);
        spreads[c] = (float)w->spread[c];
    }
    free(exact);
    return QS_OK;
}

/* ---- Forward ------------------------------------------------------------------------------------------------------------------ */

/* Turns src into dst and stores it; the mask is NULL outside training. */
static void normalize(const qs_case *one, const qs_tensor *operands, const work *w, uint8_t *mask) {
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    int64_t count = w->rows * w->channels;
    vector_read(w, qs__fp32(one, operands, QS_SCALE), w->scale);
    vector_read(w, qs__fp32(one, operands, QS_SHIFT), w->shift);
    vector_round(w, w->scale);
    vector_round(w, w->shift);
    for (int64_t c = 0; c < w->channels; c++) {
        double factor = w->scale[c] * w->step * qs_norm_inverse(w->norm, w->spread[c], w->epsilon);
        for (int64_t at = c; at < count; at += w->channels)
            w->src[at] = (float)(((double)w->src[at] - w->mean[c]) * factor + w->shift[c]);
    }
    if (one->attributes.relu) {
        qs_round_array(dst->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, w->src, w->src);
        qs__relu_values(count, (float)one->attributes.ceiling, w->src, mask);
    }
    qs__write(dst, w->src);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    QS_TRY(work_make(one, operands, &w));
    qs_status status = statistics(one, operands, &w);
    if (status == QS_OK) normalize(one, operands, &w, one->attributes.relu ? qs__operand(one, operands, QS_MASK)->data : NULL);
    work_release(&w);
    return status;
}

static qs_status inference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    QS_TRY(work_make(one, operands, &w));
    const float *mean = qs__fp32(one, operands, QS_RUNNING_MEAN);
    for (int64_t c = 0; c < w.channels; c++)
        w.mean[c] = (double)mean[c] / w.step;
    vector_read(&w, qs__fp32(one, operands, w.norm->running), w.spread);
    if (w.norm->quantized) qs_norm_round_means(w.channels, w.mean);
    vector_round(&w, w.spread);
    normalize(one, operands, &w, NULL);
    work_release(&w);
    return QS_OK;
}

/* ---- Backward ----------------------------------------------------------------------------------------------------------------- */

/* What backward reads of the forward pass; the mean is a whole number of 2^-8 units of a quantized src, which storing it in fp32 hides. */
static void saved_read(const qs_case *one, const qs_tensor *operands, work *w) {
    const float *mean = qs__fp32(one, operands, QS_MEAN);
    for (int64_t c = 0; c < w->channels; c++)
        w->mean[c] = w->norm->quantized ? rint((double)mean[c] / w->step * 256) / 256 : (double)mean[c];
    vector_read(w, qs__fp32(one, operands, w->norm->spread), w->spread);
    vector_read(w, qs__fp32(one, operands, QS_SCALE), w->scale);
    vector_round(w, w->scale);
}

static double sign(double x) {
    return (x > 0) - (x < 0);
}

/* With n = (x - mean) inverse: diff_shift = Σ dy, diff_scale = Σ dy n, and diff_src = scale inverse (dy - mean(dy) - d mean(dy n)), where d
 * is n in L2 and sign(x - mean) less its mean in L1. Turns `diff` from dy into diff_src. */
static void backward_channel(const work *w, int64_t c, double *diff_scale, double *diff_shift) {
    const double inverse = qs_norm_inverse(w->norm, w->spread[c], w->epsilon), rows = (double)w->rows;
    const int64_t end = w->rows * w->channels;
    double signs = 0;
    *diff_scale = *diff_shift = 0;
    for (int64_t at = c; at < end; at += w->channels) {
        double distance = (double)w->src[at] - w->mean[c];
        *diff_scale += (double)w->diff[at] * distance * w->step * inverse;
        *diff_shift += (double)w->diff[at];
        signs += sign(distance);
    }
    for (int64_t at = c; at < end; at += w->channels) {
        double distance = (double)w->src[at] - w->mean[c];
        double direction = w->norm->absolute ? sign(distance) - signs / rows : distance * w->step * inverse;
        w->diff[at] = (float)(w->scale[c] * inverse * ((double)w->diff[at] - (*diff_shift + direction * *diff_scale) / rows));
    }
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    work w;
    QS_TRY(work_make(one, operands, &w));
    float *diff_scale = qs__fp32(one, operands, QS_DIFF_SCALE), *diff_shift = qs__fp32(one, operands, QS_DIFF_SHIFT);
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &w.diff));
    if (one->attributes.relu) qs__relu_mask_values(w.rows * w.channels, qs__operand(one, operands, QS_MASK)->data, w.diff);
    saved_read(one, operands, &w);
    for (int64_t c = 0; c < w.channels; c++) {
        double sums[2];
        backward_channel(&w, c, &sums[0], &sums[1]);
        diff_scale[c] = (float)sums[0];
        diff_shift[c] = (float)sums[1];
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), w.diff);
done:
    work_release(&w);
    return status;
}

/* ---- The passes ---------------------------------------------------------------------------------------------------------------- */

/* Operations an element: statistics 3, normalisation 2; inference 2; backward 8. */
static double elements(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_SRC));
}
static double flops_forward(const qs_case *one) {
    return 5 * elements(one);
}
static double flops_inference(const qs_case *one) {
    return 2 * elements(one);
}
static double flops_backward(const qs_case *one) {
    return 8 * elements(one);
}

#define PASSES(SPREAD, RUNNING)                                                                                                         \
    {                                                                                                                                   \
        {.name = "forward",                                                                                                             \
         .roles = 10,                                                                                                                   \
         .role = {QS_SRC, QS_SRC_STEP, QS_SCALE, QS_SHIFT, QS_MEAN, SPREAD, QS_RUNNING_MEAN, RUNNING, QS_MASK, QS_DST},                 \
         .optional = QS__BIT(1) | QS__BIT(8),                                                                                           \
         .written = QS__BIT(4) | QS__BIT(5) | QS__BIT(6) | QS__BIT(7) | QS__BIT(8) | QS__BIT(9),                                        \
         .reference = forward,                                                                                                          \
         .flops = flops_forward,                                                                                                        \
         .integer = QS__BIT(0),                                                                                                         \
         .check = check_training},                                                                                                      \
            {.name = "inference",                                                                                                       \
             .roles = 7,                                                                                                                \
             .role = {QS_SRC, QS_SRC_STEP, QS_SCALE, QS_SHIFT, QS_RUNNING_MEAN, RUNNING, QS_DST},                                       \
             .optional = QS__BIT(1),                                                                                                    \
             .written = QS__BIT(6),                                                                                                     \
             .reference = inference,                                                                                                    \
             .flops = flops_inference,                                                                                                  \
             .integer = QS__BIT(0),                                                                                                     \
             .check = check},                                                                                                           \
            {.name = "backward",                                                                                                        \
             .roles = 10,                                                                                                               \
             .role = {QS_SRC, QS_SRC_STEP, QS_SCALE, QS_MEAN, SPREAD, QS_MASK, QS_DIFF_DST, QS_DIFF_SRC, QS_DIFF_SCALE, QS_DIFF_SHIFT}, \
             .optional = QS__BIT(1) | QS__BIT(5),                                                                                       \
             .written = QS__BIT(7) | QS__BIT(8) | QS__BIT(9),                                                                           \
             .reference = backward,                                                                                                     \
             .flops = flops_backward,                                                                                                   \
             .integer = QS__BIT(0),                                                                                                     \
             .check = check_training},                                                                                                  \
    }

const qs_pass qs__norm_variance_passes[QS__NORM_PASSES] = PASSES(QS_VARIANCE, QS_RUNNING_VARIANCE);
const qs_pass qs__norm_deviation_passes[QS__NORM_PASSES] = PASSES(QS_DEVIATION, QS_RUNNING_DEVIATION);
