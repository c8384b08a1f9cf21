// SPDX-License-Identifier: Apache-2.0
/* dropout: drops an element with the probability p and scales those that it keeps by 1/(1 - p). No mask is stored: backward draws it
 * again. */
#include "internal.h"

#include <stdlib.h>

static qs_status check_forward(const qs_case *one) {
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    return qs__need_same(one, QS_DST, QS_SRC);
}

static qs_status check_backward(const qs_case *one) {
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    return qs__need_same(one, QS_DIFF_SRC, QS_DIFF_DST);
}

/* Both passes: operand 0 masked into operand 1. */
static qs_status apply(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_random_rows rows = qs_op_random_rows(one, run);
    float threshold = (float)one->attributes.probability;
    double scale = 1 / (1 - one->attributes.probability);
    float *values;
    QS_TRY(qs__read(&operands[0], &values));
    int64_t count = rows.rows * rows.per_row; /* stride is per_row: one run of counters */
    for (int64_t i = 0; i < count; i++) {
        bool kept = qs_random_uniform(rows.key, rows.first + (uint64_t)i) >= threshold;
        values[i] = kept ? (float)((double)values[i] * scale) : 0;
    }
    qs__write(&operands[1], values);
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = apply,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = apply,
     .check = check_backward},
};

#define EVERY(F, S, A) "dropout/forward src=" F S " dst=" F S A, "dropout/backward diff_dst=" F S " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[4,65]", " probability=0.5 batched"),
                                    EVERY("fp32", "[2,8,5,5]", " probability=0.1 batched"),
                                    EVERY("fp32", "[3,7]", " probability=0.25"),
                                    EVERY("bf16", "[4,65]", " probability=0.5 batched"),
                                    EVERY("fp16", "[4,64]", " probability=0.5 batched"),
                                    EVERY("fp32", "[2,9]", " batched"),
                                    NULL};

const qs_op qs__op_dropout = {.name = "dropout",
                              .takes = QS_TAKES_BATCHED,
                              .kind = QS_DEPENDENT,
                              .decoding = QS_ONE_POSITION,
                              .sign = QS_SIGN_KEPT,
                              .inputs = 1,
                              .training_only = true,
                              .setting = {QS_SETTING(probability, 0, 0, 0.9999999, "of an element to be dropped")},
                              .passes = 2,
                              .pass = passes,
                              .cases = cases};
