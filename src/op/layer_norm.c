// SPDX-License-Identifier: Apache-2.0
/* layer_norm: normalisation of every position over its channels by mean and standard deviation (L2), in training and evaluation alike. */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__LAYER_CASES("layer_norm", "variance"), NULL};

static const qs_norm norm = {.per_position = true, .spread = QS_VARIANCE};

const qs_op qs__op_layer_norm = {
    .name = "layer_norm", .norm = &norm, .decoding = QS_ONE_POSITION, QS__LAYER_NORM(variance), .cases = cases};
