// SPDX-License-Identifier: Apache-2.0
/* layer_norm: normalisation of every position over its channels by mean and standard deviation (L2), in training and evaluation alike. */
#include "norm.h"

#define INFERENCE(F, S, C, A) QS__LAYER_INFERENCE("layer_norm", F, S, C, A)
#define TRAINING(F, S, C, P, M, A) QS__LAYER_TRAINING("layer_norm", "variance", F, S, C, P, M, A)
#define EVERY(F, S, C, P) TRAINING(F, S, C, P, "", ""), INFERENCE(F, S, C, "")
#define RELU(F, S, C, P, M, A) TRAINING(F, S, C, P, "mask=int8[" M "] ", A " relu"), INFERENCE(F, S, C, A " relu")

static const char *const cases[] = {EVERY("fp32", "[8,16,8,8]", "16", "512"),
                                    EVERY("fp32", "[2,5,7,3]", "5", "42"),
                                    EVERY("fp32", "[16,33]", "33", "16"),
                                    EVERY("fp32", "[3,257]", "257", "3"),
                                    EVERY("bf16", "[8,16,8,8]", "16", "512"),
                                    EVERY("bf16", "[16,33]", "33", "16"),
                                    EVERY("fp16", "[2,16,4,4]", "16", "32"),
                                    INFERENCE("fp32", "[1,10]", "10", ""),
                                    RELU("fp32", "[2,5,7,3]", "5", "42", "27", ""),
                                    RELU("bf16", "[16,33]", "33", "16", "66", ""),
                                    RELU("bf16", "[8,16,8,8]", "16", "512", "1024", " ceiling=0.5"),
                                    NULL};

static const qs_norm norm = {.per_position = true, .spread = QS_VARIANCE};

const qs_op qs__op_layer_norm = {.name = "layer_norm", .norm = &norm, QS__LAYER_NORM(variance), .cases = cases};
