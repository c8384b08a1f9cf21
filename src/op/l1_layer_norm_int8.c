// SPDX-License-Identifier: Apache-2.0
/* l1_layer_norm_int8: l1_layer_norm with everything in 8 bits. */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__LAYER_INT8_CASES("l1_layer_norm_int8", "deviation"), NULL};

static const qs_norm norm = {.per_position = true, .absolute = true, .quantized = true, .spread = QS_DEVIATION};

const qs_op qs__op_l1_layer_norm_int8 = {.name = "l1_layer_norm_int8", .norm = &norm, QS__LAYER_NORM(deviation), .cases = cases};
