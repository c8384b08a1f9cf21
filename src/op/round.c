// SPDX-License-Identifier: Apache-2.0
/* round: values to those of a narrower float format, kept as fp32 (simulated precision: operators compute in fp32, their results are
 * rounded behind them; docs/method.md §7.1), and in the same pass the packed storage that
 * the backward pass will read. Counts tell when a tensor's range is too small for its format. */
#include "internal.h"

#include <string.h>

static bool writes_packed(const qs_case *one) {
    return qs_case_position(one, QS_PACKED) >= 0;
}

static qs_status check(const qs_case *one) {
    const qs_format *to = one->attributes.to;
    if (!to || to->kind != QS_KIND_FLOAT) return qs__refuse(one, "to=%s must be a float format", to ? to->name : "");
    if (one->attributes.per_channel) return qs__refuse(one, "per_channel has no meaning here");
    for (int i = 0; i < 2; i++) {
        const qs_format *format = one->operand[i].format;
        if (format == qs_format_of("fp32")) continue;
        return qs__refuse(one, "%s is %s, it must be fp32: values are computed in it", qs_role_name(one->operand[i].role), format->name);
    }
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    if (qs__present(one, QS_COUNTS)) QS_TRY(qs__need_shape(one, QS_COUNTS, qs_shape_of(1, (int64_t)4)));
    if (one->attributes.batched) QS_TRY(qs__need_axes(one, QS_SRC, 1, QS_MAX_AXES));
    if (!writes_packed(one)) return QS_OK;
    QS_TRY(qs__need_same(one, QS_PACKED, QS_SRC));
    const qs_format *packed = one->operand[qs_case_position(one, QS_PACKED)].format;
    if (packed != to) return qs__refuse(one, "packed is %s, must be %s", packed->name, to->name);
    if (!one->attributes.batched || to->bits % 8 == 0) return QS_OK;
    return qs__refuse(one, "batched needs a format of whole bytes, %s has %d bits", to->name, to->bits);
}

static qs_status reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_attributes *with = &one->attributes;
    const float *src = qs__fp32(one, operands, QS_SRC);
    float *dst = qs__fp32(one, operands, QS_DST);
    const qs_random_rows rows = qs_op_random_rows(one, run);
    qs_rounding_counts all = {0, 0};
    for (int64_t row = 0; row < rows.rows; row++) {
        const qs_random_stream stream = {rows.key, rows.first + (uint64_t)row * rows.stride};
        const int64_t at = row * rows.per_row;
        const qs_rounding_counts counts =
            qs_round_array(with->to, with->rounding, with->overflow, stream, rows.per_row, src + at, dst + at);
        all.overflows += counts.overflows;
        all.underflows += counts.underflows;
    }
    if (writes_packed(one)) qs__write(qs__operand(one, operands, QS_PACKED), dst);
    if (qs__present(one, QS_COUNTS)) memcpy(qs__fp32(one, operands, QS_COUNTS), &all, sizeof all);
    return QS_OK;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_DST, .source = QS_MADE},
                 {.role = QS_COUNTS, .source = QS_MADE, .optional = true}),
     .reference = reference,
     .check = check},
    {.name = "pack",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_DST, .source = QS_MADE}, {.role = QS_PACKED, .source = QS_MADE},
                 {.role = QS_COUNTS, .source = QS_MADE, .optional = true}),
     .reference = reference,
     .check = check}};

#define ROUND(S, A) "round/forward src=fp32" S " dst=fp32" S " counts=fp32[4]" A
#define PACK(S, F, A) "round/pack src=fp32" S " dst=fp32" S " packed=" F S " counts=fp32[4]" A

static const char *const cases[] = {ROUND("[4,16,8,8]", " to=fp(4,3,4)"),
                                    ROUND("[1,3,5,7]", " to=fp(6,9,0)"),
                                    ROUND("[3,37]", " overflow=inf to=fp(5,2,0)"),
                                    ROUND("[3,5,3,3]", " rounding=stochastic to=fp(4,3,4) batched"),
                                    ROUND("[16,9,3,3]", " rounding=nearest-away to=e4m3fn"),
                                    "round/forward src=fp32[33] dst=fp32[33] rounding=floor to=bf16",
                                    PACK("[4,16,8,8]", "fp(4,3,4)", " to=fp(4,3,4)"),
                                    PACK("[2,8,4,4]", "fp(6,9,0)", " to=fp(6,9,0)"),
                                    PACK("[1,3,5,7]", "fp(4,2,1)", " rounding=toward-zero to=fp(4,2,1)"),
                                    PACK("[3,5,3,3]", "fp(6,9,0)", " rounding=stochastic to=fp(6,9,0) batched"),
                                    PACK("[2,8,4,4]", "bf16", " to=bf16"),
                                    NULL};

const qs_op qs__op_round = {.name = "round", .kind = QS_AUXILIARY, .any_size = true, .passes = 2, .pass = passes, .cases = cases};
