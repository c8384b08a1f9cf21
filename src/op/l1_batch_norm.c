// SPDX-License-Identifier: Apache-2.0
/* l1_batch_norm: normalisation of every channel by mean and mean absolute deviation: no squares, no root. */
#include "norm.h"
#include "norm_cases.h"

#define INFERENCE(F, S, C, A) QS__NORM_INFERENCE("l1_batch_norm", F S, "deviation", F, S, C, A)
#define TRAINING(F, S, C, M, A) QS__NORM_TRAINING("l1_batch_norm", F S, "deviation", F, S, C, M, A)
#define EVERY(F, S, C) TRAINING(F, S, C, "", ""), INFERENCE(F, S, C, "")
#define RESIDUAL(F, S, C, M, E, A) QS__NORM_RESIDUAL("l1_batch_norm", "deviation", F, F, S, C, M, E, A)
#define RELU(F, S, C, M, A) TRAINING(F, S, C, "mask=int8[" M "] ", A " relu"), INFERENCE(F, S, C, A " relu")

static const char *const cases[] = {EVERY("fp32", "[8,16,8,8]", "16"),
                                    EVERY("fp32", "[2,5,7,3]", "5"),
                                    EVERY("fp32", "[16,33]", "33"),
                                    EVERY("bf16", "[8,16,8,8]", "16"),
                                    EVERY("bf16", "[16,33]", "33"),
                                    EVERY("fp16", "[2,16,4,4]", "16"),
                                    INFERENCE("fp32", "[1,10]", "10", ""),
                                    RELU("fp32", "[2,5,7,3]", "5", "27", ""),
                                    RELU("bf16", "[8,16,8,8]", "16", "1024", " ceiling=0.5"),
                                    RESIDUAL("fp32", "[2,5,7,3]", "5", "mask=int8[27] ", "", " relu"),
                                    RESIDUAL("bf16", "[8,16,8,8]", "16", "", QS__NORM_ABSMAX, ""),
                                    NULL};

static const qs_norm norm = {.absolute = true, .spread = QS_DEVIATION, .running = QS_RUNNING_DEVIATION};

const qs_op qs__op_l1_batch_norm = {.name = "l1_batch_norm", .norm = &norm, QS__BATCH_NORM(deviation), .cases = cases};
