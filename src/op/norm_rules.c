// SPDX-License-Identifier: Apache-2.0
/* Normalisations without their passes: shapes, parameters, and the 8-bit vectors of the quantized ones, which a reference and the kernels
 * of devices must round alike. */
#include "norm.h"

#include <math.h>
#include <string.h>

/* ---- Shapes and parameters ---- */

qs_status qs__norm_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 2)
        return qs_fail(QS_USAGE, "a normalisation's input %s needs the axes N,C, N,C,L or N,C,H,W", qs_shape_text(src, text));
    *dst = *src;
    return QS_OK;
}

int qs__norm_layer_parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    qs_shape shape = qs_shape_of(1, src->dim[1]);
    out[0] = (qs_parameter_rule){"scale", QS_SCALE, QS_DIFF_SCALE, shape, 1, 0};
    out[1] = (qs_parameter_rule){"shift", QS_SHIFT, QS_DIFF_SHIFT, shape, 0, 0};
    return 2;
}

static int batch_parameters(const qs_shape *src, const char *name, qs_role running, qs_parameter_rule *out) {
    qs_shape shape = qs_shape_of(1, src->dim[1]);
    qs__norm_layer_parameters(NULL, src, 0, false, out);
    out[2] = (qs_parameter_rule){"running_mean", QS_RUNNING_MEAN, QS_ROLE_COUNT, shape, 0, 0};
    out[3] = (qs_parameter_rule){name, running, QS_ROLE_COUNT, shape, 1, 0};
    return 4;
}

int qs__norm_variance_parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    return batch_parameters(src, "running_variance", QS_RUNNING_VARIANCE, out);
}

int qs__norm_deviation_parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    return batch_parameters(src, "running_deviation", QS_RUNNING_DEVIATION, out);
}

qs_shape qs__norm_beside(const qs_op *op, qs_role role, const qs_shape *dst) {
    return role == QS_MASK ? qs__relu_mask(dst) : qs_norm_vector(op->norm, dst);
}

qs_shape qs_norm_vector(const qs_norm *norm, const qs_shape *src) {
    return qs_shape_of(1, norm->per_position ? qs_shape_count(src) / src->dim[1] : src->dim[1]);
}

double qs_norm_inverse(const qs_norm *norm, double spread, double epsilon) {
    return norm->spread == QS_VARIANCE ? 1 / sqrt(spread + epsilon) : 1 / (spread + epsilon);
}

/* ---- Vectors in 8 bits ---- */

enum { MOST_SHIFT = 8, MOST_CODE = 127 };

/* A mean that is not a number stays one and decides nothing. */
int qs_norm_round_means(int64_t channels, double *means) {
    double largest = 0;
    int shift = MOST_SHIFT;
    for (int64_t c = 0; c < channels; c++)
        if (fabs(means[c]) > largest) largest = fabs(means[c]);
    while (shift > -MOST_SHIFT && rint(ldexp(largest, shift)) > MOST_CODE)
        shift--;
    for (int64_t c = 0; c < channels; c++)
        if (!isnan(means[c])) means[c] = ldexp(fmax(fmin(rint(ldexp(means[c], shift)), MOST_CODE), -MOST_CODE), -shift);
    return shift;
}

/* Seven significant bits, nearest-even, which are whole numbers of 64 to 127 of some unit; below a quarter whole numbers of 2^-8, which
 * are what the sum with a number of that unit keeps. */
void qs_norm_round_each(int64_t count, float *values) {
    const float least = 0.25f, coarse = 49152.0f;
    for (int64_t i = 0; i < count; i++) {
        const float fine = (values[i] + coarse) - coarse;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = (bits + 0xFFFF + (bits >> 17 & 1)) & ~UINT32_C(0x1FFFF);
        memcpy(&values[i], fabsf(values[i]) < least ? (const void *)&fine : (const void *)&bits, sizeof *values);
    }
}

void qs_norm_round_deviations(int64_t count, float *values) {
    const float least = 0.25f;
    qs_norm_round_each(count, values);
    for (int64_t i = 0; i < count; i++)
        values[i] = values[i] < least ? least : values[i];
}

void qs_norm_round_vector(int64_t channels, const double *src, double *dst) {
    const qs_format *format = qs_format_of("int8");
    double largest = 0;
    for (int64_t c = 0; c < channels; c++)
        if (!(fabs(src[c]) <= largest)) largest = fabs(src[c]);
    const float step = qs_step_of_absmax(format, (float)largest);
    for (int64_t c = 0; c < channels; c++)
        dst[c] =
            (double)step * (double)qs_round_value(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (float)(src[c] / (double)step), 0, NULL);
}
