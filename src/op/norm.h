// SPDX-License-Identifier: Apache-2.0
/* What the normalisations share (norm.c). An operator file names its qs_norm and its test cases and takes the rest from here. */
#ifndef QSYNC_OP_NORM_H
#define QSYNC_OP_NORM_H

#include <math.h>

#include "internal.h"
#include "qsync/norm.h"

qs_status qs__norm_infer(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst);
/* scale, shift, running_mean and the running spread. */
int qs__norm_variance_parameters(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out);
int qs__norm_deviation_parameters(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out);
/* Of layer norms: scale and shift. */
int qs__norm_layer_parameters(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out);

/* Mask of a relu behind it, mean and spread. */
qs_shape qs__norm_beside(const qs_op *op, qs_role role, const qs_shape *dst);

/* forward, inference, backward; for spreads that are variances and for deviations. */
enum { QS__NORM_PASSES = 3 };
extern const qs_pass qs__norm_variance_passes[QS__NORM_PASSES], qs__norm_deviation_passes[QS__NORM_PASSES];
/* The same of layer norms. */
extern const qs_pass qs__norm_layer_variance_passes[QS__NORM_PASSES], qs__norm_layer_deviation_passes[QS__NORM_PASSES];

/* forward and backward of group_norm and instance_norm (group_norm.c). */
enum { QS__GROUP_NORM_PASSES = 2 };
extern const qs_pass qs__group_norm_passes[QS__GROUP_NORM_PASSES];
/* Cases of NAME in format F, of shape S with C channels, with attributes A. */
#define QS__GROUP_NORM_CASES(NAME, F, S, C, A)                                  \
    NAME "/forward src=" F S " scale=fp32[" C "] shift=fp32[" C "] dst=" F S A, \
        NAME "/backward src=" F S " scale=fp32[" C "] diff_dst=" F S " diff_src=" F S " diff_scale=fp32[" C "] diff_shift=fp32[" C "]" A

#define QS__NORM_EPSILON QS_SETTING(epsilon, 1e-5, 1e-30, INFINITY, "added to the spread")

/* Everything of a batch norm, and of a layer norm, but its name, rule and cases. */
#define QS__BATCH_NORM(of)                                                                                                           \
    .kind = QS_DEPENDENT, .inputs = 1, .infer = qs__norm_infer, .parameters = qs__norm_##of##_parameters, .beside = qs__norm_beside, \
    .passes = QS__NORM_PASSES, .pass = qs__norm_##of##_passes,                                                                       \
    .setting = {QS__NORM_EPSILON, QS_SETTING(momentum, 0.1, 0, 1, "share of a batch in running statistics")}

#define QS__LAYER_NORM(of)                                                                                                          \
    .kind = QS_DEPENDENT, .inputs = 1, .infer = qs__norm_infer, .parameters = qs__norm_layer_parameters, .beside = qs__norm_beside, \
    .passes = QS__NORM_PASSES, .pass = qs__norm_layer_##of##_passes, .setting = {QS__NORM_EPSILON}

#endif
