// SPDX-License-Identifier: Apache-2.0
/* quantize: float storage to symmetric integer codes, with one step or one for each index of axis 0, from given absolute maxima. */
#include "internal.h"

#include <stdlib.h>

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    QS_TRY(qs__need_steps(one, QS_ABSMAX, QS_SRC));
    QS_TRY(qs__need_same(one, QS_DST_STEP, QS_ABSMAX));
    if (one->attributes.batched) QS_TRY(qs__need_axes(one, QS_SRC, 1, QS_MAX_AXES));
    if (!qs__is_integer(one, QS_DST)) return qs__refuse(one, "dst must have an integer format: a float one is a cast");
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    const float *absmax = qs__fp32(one, operands, QS_ABSMAX);
    float *steps = qs__fp32(one, operands, QS_DST_STEP), *values;
    qs_random_rows rows = qs_op_random_rows(one, run);
    int64_t step_count = qs_shape_count(qs__shape(one, QS_ABSMAX));
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t i = 0; i < step_count; i++) {
        steps[i] = qs_step_of_absmax(dst->format, absmax[i]);
    }
    for (int64_t row = 0; row < rows.rows; row++) {
        qs_random_stream stream = {rows.key, rows.first + (uint64_t)row * rows.stride};
        float step = steps[step_count > 1 ? row : 0];
        int64_t at = row * rows.per_row;
        qs_quantize_array(dst->format, one->attributes.rounding, stream, step, rows.per_row, values + at, (int8_t *)dst->data + at);
    }
    free(values);
    return QS_OK;
}

static double flops(const qs_case *one) {
    return 3 * (double)qs_shape_count(qs__shape(one, QS_SRC)); /* scale, round, clamp */
}

static const qs_pass passes[] = {{.name = "forward",
                                  .roles = 4,
                                  .role = {QS_SRC, QS_ABSMAX, QS_DST, QS_DST_STEP},
                                  .written = QS__BIT(2) | QS__BIT(3),
                                  .integer = QS__BIT(2),
                                  .reference = forward,
                                  .flops = flops,
                                  .check = check}};

#define TENSOR(F, S, A) "quantize/forward src=" F S " absmax=fp32[1] dst=int8" S " dst_step=fp32[1]" A
#define CHANNEL(F, S, C, A) "quantize/forward src=" F S " absmax=fp32[" C "] dst=int8" S " dst_step=fp32[" C "]" A " per_channel"

static const char *const cases[] = {TENSOR("fp32", "[4,16,8,8]", " rounding=stochastic batched"),
                                    TENSOR("bf16", "[4,16,8,8]", " rounding=stochastic batched"),
                                    TENSOR("fp32", "[3,5,3,3]", " rounding=stochastic batched"),
                                    TENSOR("bf16", "[3,5,3,3]", " rounding=stochastic batched"),
                                    TENSOR("fp32", "[16,5,3,3]", " rounding=stochastic"),
                                    TENSOR("fp32", "[1,37]", ""),
                                    TENSOR("bf16", "[4,16,8,8]", ""),
                                    TENSOR("fp32", "[2,8,4,4]", " rounding=floor"),
                                    TENSOR("fp16", "[2,8,4,4]", " rounding=stochastic batched"),
                                    CHANNEL("fp32", "[16,5,3,3]", "16", " rounding=stochastic"),
                                    CHANNEL("fp32", "[10,64]", "10", " rounding=stochastic"),
                                    CHANNEL("fp32", "[7,33]", "7", ""),
                                    CHANNEL("bf16", "[10,64]", "10", " rounding=stochastic"),
                                    NULL};

const qs_op qs__op_quantize = {.name = "quantize", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
