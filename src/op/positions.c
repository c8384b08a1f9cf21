// SPDX-License-Identifier: Apache-2.0
/* positions: learned positions. src [N,C,L], weights [V,C]: dst = src + row offset + l of the table at position l, a sum in fp32 rounded to
 * dst. V is the setting `vocabulary`, 0: offset + L. A table of V > offset + L rows serves sequences of several lengths; tables of RoBERTa
 * and OPT have 2 rows before that of the first position. With `sequences` S a sample is S sequences of equal length L, one behind the
 * other, and each begins at row `offset`: the same as S samples. Passes: forward src place? weights dst; backward diff_dst place? diff_src
 * diff_weights. With the input `place`, of one sample that is one sequence, the positions at hand stand at place, place + 1, ... of it, and
 * l is that; places without a row are refused.
 *
 * diff_src is diff_dst as it is. The gradient of row l is the sum of diff_dst over the samples, in fp32, from 0, in their order: the same
 * bits on every device, for any threads. Rows that no position reads have the gradient 0. */
#include "internal.h"

#include "qsync/attention.h"

#include <stdlib.h>
#include <string.h>

static int64_t length_of(const qs_attributes *with, const qs_shape *src) {
    return src->dim[2] / qs__sequences(with);
}

static int64_t rows_of(const qs_attributes *with, const qs_shape *src) {
    return with->vocabulary > 0 ? (int64_t)with->vocabulary : with->offset + length_of(with, src);
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes != 3) return qs_fail(QS_USAGE, "positions: input %s needs the axes N,C,L", qs_shape_text(src, text));
    if (with->vocabulary != (double)(int64_t)with->vocabulary)
        return qs_fail(QS_USAGE, "positions: a table of %.17g rows, must be a whole number", with->vocabulary);
    QS_TRY(qs__need_sequences(with, src, "positions"));
    if (with->offset < 0) return qs_fail(QS_USAGE, "positions: offset %d, must not be negative", with->offset);
    const int64_t rows = rows_of(with, src) - with->offset;
    if (rows < length_of(with, src))
        return qs_fail(QS_USAGE,
                       "positions: input %s has more positions than the table has rows (%lld) from row %d on: cut the sequences or take a "
                       "larger vocabulary",
                       qs_shape_text(src, text), (long long)rows, with->offset);
    *dst = *src;
    return QS_OK;
}

/* Normal with a variance of 2/C, as an embedding's. */
static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)outputs, (void)bias;
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, qs_shape_of(2, rows_of(with, src), src->dim[1]), 0, src->dim[1]};
    return 1;
}

static qs_status check(const qs_case *one, qs_role from, qs_role to, qs_role table) {
    const qs_shape *src = qs__shape(one, from);
    QS_TRY(qs__check_place(one));
    QS_TRY(qs__need_inferred(one, from, 0, to));
    return qs__need_shape(one, table, qs_shape_of(2, rows_of(&one->attributes, src), src->dim[1]));
}

static qs_status check_forward(const qs_case *one) {
    return check(one, QS_SRC, QS_DST, QS_WEIGHTS);
}

static qs_status check_backward(const qs_case *one) {
    const qs_format *diff = one->operand[qs_case_position(one, QS_DIFF_DST)].format,
                    *given = one->operand[qs_case_position(one, QS_DIFF_SRC)].format;
    if (diff != given) return qs__refuse(one, "diff_dst is %s and diff_src is %s: it is handed on as it is", diff->name, given->name);
    return check(one, QS_DIFF_DST, QS_DIFF_SRC, QS_DIFF_WEIGHTS);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t sample = shape->dim[1] * length_of(&one->attributes, shape), count = qs_shape_count(shape);
    const int32_t place = qs__place_read(one, operands), first = one->attributes.offset;
    float *table = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs_place_check(one, place, length_of(&one->attributes, shape), rows_of(&one->attributes, shape) - first));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_WEIGHTS), &table));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t i = 0; i < count; i++)
        values[i] += table[(first + place) * shape->dim[1] + i % sample];
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(table);
    free(values);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_DIFF_DST), *rows = qs__shape(one, QS_DIFF_WEIGHTS);
    const int64_t sample = shape->dim[1] * length_of(&one->attributes, shape), count = qs_shape_count(shape);
    const int32_t place = qs__place_read(one, operands), first = one->attributes.offset;
    float *table = qs__fp32(one, operands, QS_DIFF_WEIGHTS), *values;
    QS_TRY(qs_place_check(one, place, length_of(&one->attributes, shape), rows->dim[0] - first));
    QS_TRY(qs__read(qs__operand(one, operands, QS_DIFF_DST), &values));
    memset(table, 0, (size_t)qs_shape_count(rows) * sizeof *table);
    for (int64_t i = 0; i < count; i++)
        table[(first + place) * shape->dim[1] + i % sample] += values[i];
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_PLACE, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_PLACE, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}, {.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = backward,
     .check = check_backward},
};

#define EVERY(F, S, T, W)                                         \
    "positions/forward src=" F S " weights=fp32" T " dst=" F S W, \
        "positions/backward diff_dst=" F S " diff_src=" F S " diff_weights=fp32" T W

static const char *const cases[] = {EVERY("fp32", "[4,16,8]", "[8,16]", ""),
                                    EVERY("fp32", "[3,7,5]", "[9,7]", " vocabulary=9"),
                                    EVERY("fp32", "[1,1,1]", "[1,1]", ""),
                                    EVERY("bf16", "[9,24,31]", "[64,24]", " vocabulary=64"),
                                    EVERY("fp16", "[2,8,5]", "[5,8]", ""),
                                    EVERY("fp32", "[3,7,12]", "[9,7]", " vocabulary=9 sequences=4"),
                                    EVERY("bf16", "[2,24,62]", "[31,24]", " sequences=2"),
                                    EVERY("fp32", "[3,7,5]", "[9,7]", " offset=2 vocabulary=9"),
                                    EVERY("bf16", "[2,24,62]", "[34,24]", " offset=2 vocabulary=34 sequences=2"),
                                    "positions/forward src=bf16[3,12,5] weights=bf16[5,12] dst=fp32[3,12,5]",
                                    "positions/forward src=fp32[1,12,1] place=fp32[1,1] weights=fp32[9,12] dst=fp32[1,12,1] vocabulary=9",
                                    "positions/forward src=fp32[1,12,2] place=fp32[1,1] weights=fp32[9,12] dst=fp32[1,12,2] offset=3 "
                                    "vocabulary=9",
                                    "positions/forward src=bf16[1,12,5] place=fp32[1,1] weights=fp32[9,12] dst=bf16[1,12,5] vocabulary=9",
                                    "positions/backward diff_dst=fp32[1,12,5] place=fp32[1,1] diff_src=fp32[1,12,5] "
                                    "diff_weights=fp32[9,12] vocabulary=9",
                                    NULL};

const qs_op qs__op_positions = {.name = "positions",
                                .kind = QS_DEPENDENT,
                                .decoding = QS_PLACED_POSITION,
                                .inputs = 2,
                                .optional = 1,
                                .takes = QS_TAKES_OFFSET,
                                .infer = infer,
                                .parameters = parameters,
                                .setting = {QS_SETTING(vocabulary, 0, 0, 2147483647, "rows of the table; 0: as many as positions"),
                                            QS_SETTING(sequences, 0, 0, 65536, "one behind the other, each from the first row on; 0: one")},
                                .passes = 2,
                                .pass = passes,
                                .cases = cases};
