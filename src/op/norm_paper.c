// SPDX-License-Identifier: Apache-2.0
/* Normalisations on paper: attributes, shapes, parameters. */
#include "norm.h"

#include <math.h>

qs_status qs__norm_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "a normalisation's input %s needs the axes N,C or N,C,H,W", qs_shape_text(src, text));
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
