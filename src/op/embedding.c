// SPDX-License-Identifier: Apache-2.0
/* embedding: rows of a table. ids [N,L], weights [V,D]: dst [N,D,L], in memory row ids[n,l] of the table for each position. V is the
 * setting `vocabulary`, D the number of outputs. Passes: forward ids weights dst; backward ids diff_dst diff_weights.
 *
 * The gradient of a row is the sum of diff_dst over the positions that read it, in fp32, from 0, in the order of positions: the same bits
 * on every device, for any threads. Rows that nobody reads have the gradient 0. With the attribute accumulate sums start from what stands
 * in diff_weights: the gradient of another node that reads the same table. Ids outside the table are refused. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static qs_status infer(const qs_attributes *with, const qs_shape *ids, int64_t outputs, qs_shape *dst) {
    char text[96];
    const double most = 2147483647;
    if (ids->axes != 2) return qs_fail(QS_USAGE, "embedding: ids %s need the axes N,L", qs_shape_text(ids, text));
    if (outputs < 1) return qs_fail(QS_USAGE, "embedding: %lld output features: at least 1", (long long)outputs);
    if (!(with->vocabulary >= 1 && with->vocabulary <= most && with->vocabulary == (double)(int64_t)with->vocabulary))
        return qs_fail(QS_USAGE, "embedding: a vocabulary of %.17g, must be a whole number from 1 to %.0f", with->vocabulary, most);
    *dst = qs_shape_of(3, ids->dim[0], outputs, ids->dim[1]);
    return QS_OK;
}

/* Normal with a variance of 2/D. */
static int parameters(const qs_attributes *with, const qs_shape *ids, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)ids, (void)bias;
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, qs_shape_of(2, (int64_t)with->vocabulary, outputs), 0, outputs};
    return 1;
}

static qs_status check(const qs_case *one, qs_role table, qs_role values) {
    QS_TRY(qs__need_axes(one, table, 2, 2));
    const qs_shape *rows = qs__shape(one, table);
    qs_shape dst;
    QS_TRY(infer(&one->attributes, qs__shape(one, QS_IDS), rows->dim[1], &dst));
    QS_TRY(qs__need_shape(one, table, qs_shape_of(2, (int64_t)one->attributes.vocabulary, rows->dim[1])));
    return qs__need_shape(one, values, dst);
}

static qs_status check_forward(const qs_case *one) {
    return check(one, QS_WEIGHTS, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return check(one, QS_DIFF_WEIGHTS, QS_DIFF_DST);
}

qs_status qs_ids_check(const qs_case *one, const int32_t *ids) {
    const qs_shape *shape = qs__shape(one, QS_IDS);
    const bool table = qs_op_setting(one->op, "vocabulary") >= 0;
    const int64_t count = qs_shape_count(shape),
                  rows = table ? (int64_t)one->attributes.vocabulary
                               : qs__shape(one, qs_case_position(one, QS_SRC) >= 0 ? QS_SRC : QS_DIFF_SRC)->dim[2];
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= rows)
            return qs_fail(QS_USAGE, "id %d of sample %lld, position %lld: the %s 0 to %lld", ids[i], (long long)(i / shape->dim[1]),
                           (long long)(i % shape->dim[1]), table ? "table has rows" : "sequence has positions", (long long)rows - 1);
    return QS_OK;
}

qs_status qs__ids_read(const qs_case *one, const qs_tensor *operands, int32_t **out) {
    const size_t count = (size_t)qs_shape_count(qs__shape(one, QS_IDS));
    QS_TRY(qs_allocate(count, sizeof **out, out));
    memcpy(*out, qs__operand(one, operands, QS_IDS)->data, count * sizeof **out);
    return qs_ids_check(one, *out);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const int64_t count = qs_shape_count(qs__shape(one, QS_IDS)), features = qs__shape(one, QS_WEIGHTS)->dim[1];
    int32_t *ids = NULL;
    float *table = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__ids_read(one, operands, &ids));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_WEIGHTS), &table));
    QS_GOTO(qs_allocate((size_t)(count * features), sizeof *values, &values));
    for (int64_t i = 0; i < count; i++)
        memcpy(values + i * features, table + ids[i] * features, (size_t)features * sizeof *values);
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(ids);
    free(table);
    free(values);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_DIFF_WEIGHTS);
    const int64_t count = qs_shape_count(qs__shape(one, QS_IDS)), features = shape->dim[1];
    float *table = qs__fp32(one, operands, QS_DIFF_WEIGHTS), *gradient = NULL;
    int32_t *ids = NULL;
    qs_status status;
    QS_GOTO(qs__ids_read(one, operands, &ids));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    if (!one->attributes.accumulate) memset(table, 0, (size_t)qs_shape_count(shape) * sizeof *table);
    for (int64_t i = 0; i < count; i++)
        for (int64_t d = 0; d < features; d++)
            table[ids[i] * features + d] += gradient[i * features + d];
done:
    free(ids);
    free(gradient);
    return status;
}

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static double flops_backward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DIFF_DST));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_IDS, .source = QS_FROM_INPUT}, {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_IDS, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

#define EVERY(F, N, L, V, D)                                                                                        \
    "embedding/forward ids=fp32[" N "," L "] weights=fp32[" V "," D "] dst=" F "[" N "," D "," L "] vocabulary=" V, \
        "embedding/backward ids=fp32[" N "," L "] diff_dst=" F "[" N "," D "," L "] diff_weights=fp32[" V "," D "] vocabulary=" V

static const char *const cases[] = {EVERY("fp32", "4", "9", "50", "16"),
                                    EVERY("fp32", "1", "1", "1", "1"),
                                    EVERY("fp32", "3", "40", "5", "7"),
                                    EVERY("bf16", "8", "33", "300", "40"),
                                    EVERY("fp16", "2", "5", "11", "8"),
                                    "embedding/forward ids=fp32[3,5] weights=bf16[20,12] dst=bf16[3,12,5] vocabulary=20",
                                    NULL};

const qs_op qs__op_embedding = {.name = "embedding",
                                .takes = QS_TAKES_OUTPUTS,
                                .shares = true,
                                .kind = QS_DEPENDENT,
                                .decoding = QS_ONE_POSITION,
                                .inputs = 1,
                                .infer = infer,
                                .parameters = parameters,
                                .setting = {QS_SETTING(vocabulary, 0, 1, 2147483647, "rows of the table: ids are 0 to vocabulary - 1")},
                                .passes = 2,
                                .pass = passes,
                                .cases = cases};
