// SPDX-License-Identifier: Apache-2.0
/* l1_layer_norm: normalisation of every position over its channels by mean and mean absolute deviation: no squares, no root. */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__LAYER_CASES("l1_layer_norm", "deviation"), NULL};

static const qs_norm norm = {.per_position = true, .absolute = true, .spread = QS_DEVIATION};

const qs_op qs__op_l1_layer_norm = {
    .name = "l1_layer_norm", .norm = &norm, .decoding = QS_ONE_POSITION, QS__LAYER_NORM(deviation), .cases = cases};
