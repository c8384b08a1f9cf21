// SPDX-License-Identifier: Apache-2.0
/* l2_batch_norm_int8: batch_norm with everything in 8 bits, the variance as well: it spreads as the square of the deviation, so that
 * channels of small variance round to 0. It stands for comparison. */
#include "norm.h"
#include "norm_cases.h"

static const char *const cases[] = {QS__NORM_INT8_CASES("l2_batch_norm_int8", "variance"), NULL};

static const qs_norm norm = {.quantized = true, .spread = QS_VARIANCE, .running = QS_RUNNING_VARIANCE};

const qs_op qs__op_l2_batch_norm_int8 = {.name = "l2_batch_norm_int8", .norm = &norm, QS__BATCH_NORM(variance), .cases = cases};
