// SPDX-License-Identifier: Apache-2.0
/* batch_norm: normalisation of every channel over batch and positions, with running statistics for inference. Statistics and affine part
 * are fp32 and sums double, whatever the storage of the activations. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static void defaults(qs_attributes *with) {
    if (with->value == 0) with->value = 1e-5;
    if (with->value2 == 0) with->value2 = 0.1;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "batch_norm: input %s needs the axes N,C or N,C,H,W", qs_shape_text(src, text));
    *dst = *src;
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    qs_shape shape = qs_shape_of(1, src->dim[1]);
    out[0] = (qs_parameter_rule){"scale", QS_SCALE, QS_DIFF_SCALE, shape, 1, 0};
    out[1] = (qs_parameter_rule){"shift", QS_SHIFT, QS_DIFF_SHIFT, shape, 0, 0};
    out[2] = (qs_parameter_rule){"running_mean", QS_RUNNING_MEAN, QS_ROLE_COUNT, shape, 0, 0};
    out[3] = (qs_parameter_rule){"running_variance", QS_RUNNING_VARIANCE, QS_ROLE_COUNT, shape, 1, 0};
    return 4;
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 4));
    qs_shape per_channel = qs_shape_of(1, qs__shape(one, QS_SRC)->dim[1]);
    for (int i = 1; i < one->operands; i++) {
        qs_role role = one->operand[i].role;
        bool activation = role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_SRC;
        QS_TRY(qs__need_shape(one, role, activation ? *qs__shape(one, QS_SRC) : per_channel));
    }
    double epsilon = one->attributes.value, momentum = one->attributes.value2;
    if (epsilon <= 0) return qs__refuse(one, "epsilon (value) is %g: it must be positive", epsilon);
    if (momentum < 0 || momentum > 1) return qs__refuse(one, "momentum (value2) is %g: it must lie in [0, 1]", momentum);
    return QS_OK;
}

static qs_status check_training(const qs_case *one) {
    QS_TRY(check(one));
    const qs_shape *shape = qs__shape(one, QS_SRC);
    if (qs_shape_count(shape) >= 2 * shape->dim[1]) return QS_OK;
    return qs__refuse(one, "one value per channel has no variance: use a larger batch or image");
}

/* Rows (batch and positions) × channels: what channels-last storage is. */
typedef struct matrix {
    int64_t rows, channels;
} matrix;

static matrix matrix_of(const qs_case *one) {
    const qs_shape *shape = qs__shape(one, QS_SRC);
    return (matrix){.rows = qs_shape_count(shape) / shape->dim[1], .channels = shape->dim[1]};
}

/* Mean, then the mean squared distance from it: two passes, no cancellation. */
static void batch_statistics(matrix m, const float *src, int64_t c, double *mean, double *variance) {
    double sum = 0, squares = 0;
    for (int64_t row = 0; row < m.rows; row++) {
        sum += (double)src[row * m.channels + c];
    }
    *mean = sum / (double)m.rows;
    for (int64_t row = 0; row < m.rows; row++) {
        double distance = (double)src[row * m.channels + c] - *mean;
        squares += distance * distance;
    }
    *variance = squares / (double)m.rows;
}

static void normalize(matrix m, int64_t c, double mean, double factor, double shift, float *values) {
    for (int64_t row = 0; row < m.rows; row++) {
        float *value = &values[row * m.channels + c];
        *value = (float)(((double)*value - mean) * factor + shift);
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    matrix m = matrix_of(one);
    const float *scale = qs__fp32(one, operands, QS_SCALE), *shift = qs__fp32(one, operands, QS_SHIFT);
    float *means = qs__fp32(one, operands, QS_MEAN), *variances = qs__fp32(one, operands, QS_VARIANCE);
    float *running_mean = qs__fp32(one, operands, QS_RUNNING_MEAN), *running_variance = qs__fp32(one, operands, QS_RUNNING_VARIANCE);
    double epsilon = one->attributes.value, momentum = one->attributes.value2, unbias = (double)m.rows / (double)(m.rows - 1);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t c = 0; c < m.channels; c++) {
        double mean, variance;
        batch_statistics(m, values, c, &mean, &variance);
        means[c] = (float)mean;
        variances[c] = (float)variance;
        running_mean[c] = (float)((1 - momentum) * (double)running_mean[c] + momentum * mean);
        running_variance[c] = (float)((1 - momentum) * (double)running_variance[c] + momentum * variance * unbias);
        normalize(m, c, mean, (double)scale[c] / sqrt(variance + epsilon), (double)shift[c], values);
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

static qs_status inference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    matrix m = matrix_of(one);
    const float *scale = qs__fp32(one, operands, QS_SCALE), *shift = qs__fp32(one, operands, QS_SHIFT);
    const float *mean = qs__fp32(one, operands, QS_RUNNING_MEAN), *variance = qs__fp32(one, operands, QS_RUNNING_VARIANCE);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t c = 0; c < m.channels; c++) {
        double factor = (double)scale[c] / sqrt((double)variance[c] + one->attributes.value);
        normalize(m, c, (double)mean[c], factor, (double)shift[c], values);
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

/* With n = (x - mean)/σ: diff_shift = Σ dy, diff_scale = Σ dy n, diff_src = scale/σ (dy - diff_shift/R - n diff_scale/R). Turns `diff`
 * from dy into diff_src. */
static void backward_channel(matrix m, int64_t c, const float *src, double mean, double inverse, double scale, float *diff,
                             double sums[2]) {
    sums[0] = sums[1] = 0;
    for (int64_t at = c; at < m.rows * m.channels; at += m.channels) {
        sums[0] += (double)diff[at] * ((double)src[at] - mean) * inverse;
        sums[1] += (double)diff[at];
    }
    for (int64_t at = c; at < m.rows * m.channels; at += m.channels) {
        double normal = ((double)src[at] - mean) * inverse;
        diff[at] = (float)(scale * inverse * ((double)diff[at] - (sums[1] + normal * sums[0]) / (double)m.rows));
    }
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    matrix m = matrix_of(one);
    const float *scale = qs__fp32(one, operands, QS_SCALE);
    const float *mean = qs__fp32(one, operands, QS_MEAN), *variance = qs__fp32(one, operands, QS_VARIANCE);
    float *diff_scale = qs__fp32(one, operands, QS_DIFF_SCALE), *diff_shift = qs__fp32(one, operands, QS_DIFF_SHIFT);
    float *src = NULL, *diff = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff));
    for (int64_t c = 0; c < m.channels; c++) {
        double sums[2], inverse = 1 / sqrt((double)variance[c] + one->attributes.value);
        backward_channel(m, c, src, (double)mean[c], inverse, (double)scale[c], diff, sums);
        diff_scale[c] = (float)sums[0];
        diff_shift[c] = (float)sums[1];
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), diff);
done:
    free(src);
    free(diff);
    return status;
}

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

static const qs_pass passes[] = {
    {.name = "forward",
     .roles = 8,
     .role = {QS_SRC, QS_SCALE, QS_SHIFT, QS_MEAN, QS_VARIANCE, QS_RUNNING_MEAN, QS_RUNNING_VARIANCE, QS_DST},
     .written = QS__BIT(3) | QS__BIT(4) | QS__BIT(5) | QS__BIT(6) | QS__BIT(7),
     .reference = forward,
     .flops = flops_forward,
     .check = check_training},
    {.name = "inference",
     .roles = 6,
     .role = {QS_SRC, QS_SCALE, QS_SHIFT, QS_RUNNING_MEAN, QS_RUNNING_VARIANCE, QS_DST},
     .written = QS__BIT(5),
     .reference = inference,
     .flops = flops_inference,
     .check = check},
    {.name = "backward",
     .roles = 8,
     .role = {QS_SRC, QS_SCALE, QS_MEAN, QS_VARIANCE, QS_DIFF_DST, QS_DIFF_SRC, QS_DIFF_SCALE, QS_DIFF_SHIFT},
     .written = QS__BIT(5) | QS__BIT(6) | QS__BIT(7),
     .reference = backward,
     .flops = flops_backward,
     .check = check_training},
};

#define V(C) "=fp32[" C "] "
#define WITH " value=1e-05 value2=0.1"
#define INFERENCE(F, S, C) \
    "batch_norm/inference src=" F S " scale" V(C) "shift" V(C) "running_mean" V(C) "running_variance" V(C) "dst=" F S WITH
#define TRAINING(F, S, C)                                                                                               \
    "batch_norm/forward src=" F S                                                                                       \
    " scale" V(C) "shift" V(C) "mean" V(C) "variance" V(C) "running_mean" V(C) "running_variance" V(C) "dst=" F S WITH, \
        "batch_norm/backward src=" F S " scale" V(C) "mean" V(C) "variance" V(C) "diff_dst=" F S " diff_src=" F S       \
                                                                                 " diff_scale" V(C) "diff_shift=fp32[" C "]" WITH
#define EVERY(F, S, C) TRAINING(F, S, C), INFERENCE(F, S, C)

static const char *const cases[] = {EVERY("fp32", "[8,16,8,8]", "16"), EVERY("fp32", "[2,5,7,3]", "5"),
                                    EVERY("fp32", "[1,24,4,4]", "24"), EVERY("fp32", "[16,33]", "33"),
                                    EVERY("bf16", "[8,16,8,8]", "16"), EVERY("bf16", "[2,5,7,3]", "5"),
                                    EVERY("bf16", "[16,33]", "33"),    EVERY("fp16", "[2,16,4,4]", "16"),
                                    INFERENCE("fp32", "[1,10]", "10"), NULL};

const qs_op qs__op_batch_norm = {.name = "batch_norm",
                                 .kind = QS_DEPENDENT,
                                 .inputs = 1,
                                 .infer = infer,
                                 .parameters = parameters,
                                 .saves_src = true,
                                 .passes = 3,
                                 .pass = passes,
                                 .cases = cases,
                                 .defaults = defaults};
