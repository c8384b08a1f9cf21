// SPDX-License-Identifier: Apache-2.0
/* dropout: keeps an element with probability 1 - value and scales it by 1/(1 - value). No mask is stored: backward draws it again. */
#include "internal.h"

#include <stdlib.h>

static qs_status check_probability(const qs_case *one) {
    double probability = one->attributes.value;
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    if (probability >= 0 && probability < 1) return QS_OK;
    return qs__refuse(one, "probability (value) is %g: it must lie in [0, 1)", probability);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    return check_probability(one);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_DIFF_DST));
    return check_probability(one);
}

/* Both passes: operand 0 masked into operand 1. */
static qs_status apply(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_random_rows rows = qs_op_random_rows(one, run);
    float threshold = (float)one->attributes.value;
    double scale = 1 / (1 - one->attributes.value);
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
    {.name = "forward", .roles = 2, .role = {QS_SRC, QS_DST}, .written = QS__BIT(1), .reference = apply, .check = check_forward},
    {.name = "backward",
     .roles = 2,
     .role = {QS_DIFF_DST, QS_DIFF_SRC},
     .written = QS__BIT(1),
     .reference = apply,
     .check = check_backward},
};

#define EVERY(F, S, A) "dropout/forward src=" F S " dst=" F S A, "dropout/backward diff_dst=" F S " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[4,65]", " value=0.5 batched"),
                                    EVERY("fp32", "[2,8,5,5]", " value=0.1 batched"),
                                    EVERY("fp32", "[3,7]", " value=0.25"),
                                    EVERY("bf16", "[4,65]", " value=0.5 batched"),
                                    EVERY("fp16", "[4,64]", " value=0.5 batched"),
                                    EVERY("fp32", "[2,9]", " batched"),
                                    NULL};

const qs_op qs__op_dropout = {.name = "dropout",
                              .kind = QS_DEPENDENT,
                              .sign = QS_SIGN_KEPT,
                              .inputs = 1,
                              .training_only = true,
                              .passes = 2,
                              .pass = passes,
                              .cases = cases};
