// SPDX-License-Identifier: Apache-2.0
/* batch_norm: normalisation of every channel over batch and positions by mean and standard deviation (L2), with running statistics for
 * inference. */
#include "norm.h"
#include "norm_cases.h"

#define INFERENCE(F, S, C, A) QS__NORM_INFERENCE("batch_norm", F S, "variance", F, S, C, A)
#define TRAINING(F, S, C, M, A) QS__NORM_TRAINING("batch_norm", F S, "variance", F, S, C, M, A)
#define EVERY(F, S, C) TRAINING(F, S, C, "", ""), INFERENCE(F, S, C, "")
#define DELIVERS(F, S, C, M, A) QS__NORM_TRAINING_WITH("batch_norm", F S, "variance", F, S, C, M, QS__NORM_ABSMAX, A)
#define RESIDUAL(F, G, S, C, M, E, A) QS__NORM_RESIDUAL("batch_norm", "variance", F, G, S, C, M, E, A)
#define RELU(F, S, C, M, A) TRAINING(F, S, C, "mask=int8[" M "] ", A " relu"), INFERENCE(F, S, C, A " relu")

static const char *const cases[] = {EVERY("fp32", "[8,16,8,8]", "16"),
                                    EVERY("fp32", "[2,5,7,3]", "5"),
                                    EVERY("fp32", "[1,24,4,4]", "24"),
                                    EVERY("fp32", "[16,33]", "33"),
                                    EVERY("bf16", "[8,16,8,8]", "16"),
                                    EVERY("bf16", "[2,5,7,3]", "5"),
                                    EVERY("bf16", "[16,33]", "33"),
                                    EVERY("fp16", "[2,16,4,4]", "16"),
                                    EVERY("tf32", "[2,16,4,4]", "16"),
                                    INFERENCE("fp32", "[1,10]", "10", ""),
                                    RELU("fp32", "[8,16,8,8]", "16", "1024", ""),
                                    RELU("fp32", "[2,5,7,3]", "5", "27", " ceiling=1"),
                                    RELU("bf16", "[16,33]", "33", "66", ""),
                                    RELU("bf16", "[8,16,8,8]", "16", "1024", " ceiling=0.5"),
                                    RELU("fp16", "[2,16,4,4]", "16", "64", ""),
                                    DELIVERS("fp32", "[3,23,9,7]", "23", "", ""),
                                    DELIVERS("fp32", "[8,16,8,8]", "16", "mask=int8[1024] ", " relu"),
                                    DELIVERS("bf16", "[8,48,8,8]", "48", "", ""),
                                    DELIVERS("bf16", "[5,5,31,3]", "5", "mask=int8[291] ", " relu"),
                                    DELIVERS("fp16", "[2,16,4,4]", "16", "mask=int8[64] ", " relu"),
                                    RESIDUAL("fp32", "fp32", "[8,16,8,8]", "16", "", "", ""),
                                    RESIDUAL("fp32", "fp32", "[2,5,7,3]", "5", "mask=int8[27] ", "", " ceiling=1 relu"),
                                    RESIDUAL("bf16", "bf16", "[8,48,8,8]", "48", "mask=int8[3072] ", "", " relu"),
                                    RESIDUAL("bf16", "bf16", "[16,33]", "33", "mask=int8[66] ", QS__NORM_ABSMAX, " relu"),
                                    RESIDUAL("bf16", "bf16", "[2,16,4,4]", "16", "", QS__NORM_ABSMAX, ""),
                                    RESIDUAL("bf16", "fp32", "[2,16,4,4]", "16", "mask=int8[64] ", QS__NORM_ABSMAX, " ceiling=0.5 relu"),
                                    RESIDUAL("fp16", "fp16", "[2,16,4,4]", "16", "mask=int8[64] ", "", " relu"),
                                    NULL};

static const qs_norm norm = {.spread = QS_VARIANCE, .running = QS_RUNNING_VARIANCE};

const qs_op qs__op_batch_norm = {.name = "batch_norm", .norm = &norm, QS__BATCH_NORM(variance), .cases = cases};
