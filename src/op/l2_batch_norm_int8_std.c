// SPDX-License-Identifier: Apache-2.0
/* l2_batch_norm_int8_std: batch_norm with everything in 8 bits that keeps the standard deviation in place of the variance. */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__NORM_INT8_CASES("l2_batch_norm_int8_std", "deviation"), NULL};

static const qs_norm norm = {.quantized = true, .spread = QS_DEVIATION, .running = QS_RUNNING_DEVIATION};

const qs_op qs__op_l2_batch_norm_int8_std = {.name = "l2_batch_norm_int8_std", .norm = &norm, QS__BATCH_NORM(deviation), .cases = cases};
