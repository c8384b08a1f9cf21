// SPDX-License-Identifier: Apache-2.0
/* cast: from one float storage format to another. */
#include "internal.h"

#include <stdlib.h>

static qs_status check(const qs_case *one) {
    const qs_format *format = one->operand[1].format;
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    if (!one->attributes.batched) return QS_OK;
    QS_TRY(qs__need_axes(one, QS_SRC, 1, QS_MAX_AXES));
    if (format->bits % 8 == 0) return QS_OK;
    return qs__refuse(one, "batched needs a format of whole bytes, %s has %d bits", format->name, format->bits);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    qs_random_rows rows = qs_op_random_rows(one, run);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t row = 0; row < rows.rows; row++) {
        qs_random_stream stream = {rows.key, rows.first + (uint64_t)row * rows.stride};
        char *to = (char *)dst->data + qs_format_bytes(dst->format, row * rows.per_row);
        qs_convert_from_fp32(dst->format, one->attributes.rounding, one->attributes.overflow, stream, rows.per_row,
                             values + row * rows.per_row, to);
    }
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_DST, .source = QS_MADE}),
                                  .reference = forward,
                                  .check = check}};

#define CAST(F, G, S) "cast/forward src=" F S " dst=" G S

static const char *const cases[] = {CAST("fp32", "bf16", "[4,16,8,8]"),
                                    CAST("bf16", "fp32", "[4,16,8,8]"),
                                    CAST("fp32", "bf16", "[1,3,5,7]"),
                                    CAST("bf16", "fp32", "[1,3,5,7]"),
                                    CAST("fp32", "fp32", "[3,5]"),
                                    CAST("fp32", "fp16", "[2,8,4,4]"),
                                    CAST("fp16", "fp32", "[2,8,4,4]"),
                                    CAST("fp16", "bf16", "[33]"),
                                    CAST("fp32", "tf32", "[3,5,3,3]"),
                                    CAST("tf32", "bf16", "[2,8,4,4]"),
                                    CAST("fp32", "tf32", "[2,37]") " rounding=stochastic batched",
                                    CAST("fp32", "bf16", "[16,16,3,3]"),
                                    CAST("fp32", "bf16", "[3,5,3,3]") " rounding=stochastic batched",
                                    CAST("fp32", "bf16", "[16,9,3,3]") " rounding=stochastic",
                                    CAST("fp32", "fp16", "[3,5,3,3]") " rounding=stochastic batched",
                                    CAST("fp32", "bf16", "[37]") " rounding=toward-zero",
                                    CAST("fp32", "fp16", "[3,5,3,3]") " overflow=saturate",
                                    CAST("fp32", "fp(5,2,0)", "[3,5,3,3]") " overflow=inf",
                                    CAST("fp(4,3,4)", "fp32", "[3,5,3,3]"),
                                    NULL};

const qs_op qs__op_cast = {
    .name = "cast", .kind = QS_AUXILIARY, .converts = true, .any_size = true, .passes = 1, .pass = passes, .cases = cases};
