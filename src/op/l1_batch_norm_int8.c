// SPDX-License-Identifier: Apache-2.0
/* l1_batch_norm_int8: l1_batch_norm with everything in 8 bits (L1BNQ of ShiftQuant). */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__NORM_INT8_CASES("l1_batch_norm_int8", "deviation"), NULL};

static const qs_norm norm = {.absolute = true, .quantized = true, .spread = QS_DEVIATION, .running = QS_RUNNING_DEVIATION};

const qs_op qs__op_l1_batch_norm_int8 = {.name = "l1_batch_norm_int8", .norm = &norm, QS__BATCH_NORM(deviation), .cases = cases};
