// SPDX-License-Identifier: Apache-2.0
/* Finding an operator's row, and computing one node whose inputs are constants: its shape rule, room for the results, its evaluator. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* ONNX Runtime's own QuantizeLinear and DequantizeLinear are those of ai.onnx with more types. */
static bool is_contributed(const qs_onnx_node *node) {
    return strcmp(node->domain, "com.microsoft") == 0 &&
           (strcmp(node->op, "QuantizeLinear") == 0 || strcmp(node->op, "DequantizeLinear") == 0);
}

const qs__operator *qs__operator_find(const qs_onnx_node *node) {
    static const qs__operator *const families[] = {qs__rows_arithmetic, qs__rows_functions,  qs__rows_layout,   qs__rows_selection,
                                                   qs__rows_indexing,   qs__rows_reductions, qs__rows_products, qs__rows_layers};
    if (*node->domain && !is_contributed(node)) return NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (const qs__operator *row = families[i]; row->name; row++)
            if (strcmp(row->name, node->op) == 0) return row;
    return NULL;
}

qs_status qs__operator_check(const qs_onnx_node *node) {
    const qs__operator *row = qs__operator_find(node);
    if (!row || *node->domain) return QS_OK;
    const int last = row->last ? row->last : QS__NEWEST_OPSET;
    if (node->opset == 0) return qs_fail(QS_BAD_FILE, "the file imports no opset of ai.onnx");
    if (node->opset < row->first || node->opset > last)
        return qs_fail(QS_UNSUPPORTED, "opset %d: %s is known from opset %d to %d", node->opset, node->op, row->first, last);
    return QS_OK;
}

bool qs_onnx_evaluates(const qs_onnx_node *node) {
    const qs__operator *row = qs__operator_find(node);
    return row && row->evaluate &&
           (is_contributed(node) || (node->opset >= row->first && node->opset <= (row->last ? row->last : QS__NEWEST_OPSET)));
}

bool qs_onnx_says_shape(const qs_onnx_node *node, int input) {
    const qs__operator *row = qs__operator_find(node);
    return row && row->flags & QS__SAYS_SHAPE && (input > 0 || node->inputs == 1);
}

/* An output's shape from its fact: all extents must be fixed. */
static qs_status shape_fix(const qs__fact *fact, qs_onnx_tensor *out) {
    *out = (qs_onnx_tensor){.name = "", .type = fact->type, .rank = fact->rank};
    if (fact->type == QS_ONNX_UNDEFINED || fact->rank < 0) return qs_fail(QS_UNSUPPORTED, "type and shape of its result are not known");
    for (int i = 0; i < fact->rank; i++)
        if (!qs_onnx_extent_is_fixed(&fact->extent[i], &out->dim[i]))
            return qs_fail(QS_UNSUPPORTED, "the shape of its result is not known");
    if (!qs__tensor_count(out->rank, out->dim, &out->count)) return qs_fail(QS_BAD_FILE, "its result would have more than 2^40 elements");
    return QS_OK;
}

/* Integers as extents, for operators of which one operand has symbols; reals that are whole numbers as well. */
static qs_status to_extents(const qs_onnx_tensor *tensor, qs_onnx_memory *memory, const qs_onnx_tensor **out) {
    qs_onnx_tensor *copy;
    qs_onnx_extent *extents;
    *out = tensor;
    if (!tensor || tensor->type == QS_ONNX_EXTENTS) return QS_OK;
    if (tensor->count > QS__MOST_INTS) return qs_fail(QS_UNSUPPORTED, "more than %d integers beside extents", QS__MOST_INTS);
    QS_TRY(qs__onnx_take(memory, 1, sizeof *copy, &copy));
    QS_TRY(qs__onnx_take(memory, (size_t)tensor->count, sizeof *extents, &extents));
    for (int64_t i = 0; i < tensor->count; i++) {
        int64_t value = 0;
        double real = 0;
        if (qs_onnx_type_is_integer(tensor->type)) {
            QS_TRY(qs_onnx_tensor_integers(tensor, i, 1, &value));
            extents[i] = qs_onnx_extent_of(value);
            continue;
        }
        QS_TRY(qs_onnx_tensor_doubles(tensor, i, 1, &real));
        extents[i] = real > -1e15 && real < 1e15 && (double)(int64_t)real == real ? qs_onnx_extent_of((int64_t)real) : qs__extent_unknown;
    }
    *copy = *tensor;
    copy->type = QS_ONNX_EXTENTS;
    copy->data = extents;
    copy->uniform = false;
    *out = copy;
    return QS_OK;
}

/* Room for a result, or what it shares with an input. */
static qs_status room_make(const qs__operator *row, const qs_onnx_tensor *first, bool symbols, qs_onnx_memory *memory, qs_onnx_tensor *out,
                           bool *done) {
    void *data;
    *done = true;
    if (symbols && out->type != QS_ONNX_BOOL) {
        if (out->count > QS__MOST_INTS) return qs_fail(QS_UNSUPPORTED, "more than %d extents", QS__MOST_INTS);
        out->type = QS_ONNX_EXTENTS;
    }
    if ((row->flags & QS__REARRANGES) && first && out->count > 1 && (first->uniform || first->count == 1)) {
        out->data = first->data;
        out->uniform = true;
        return QS_OK;
    }
    *done = false;
    if (row->flags & QS__SHARES) return QS_OK;
    const bool of_file = row->flags & QS__BY_PIECES && first && !first->uniform && first->count == out->count;
    if (out->count > QS__MOST_ELEMENTS && !of_file)
        return qs_fail(QS_UNSUPPORTED, "%" PRId64 " elements: at most 2^25 are computed", out->count);
    QS_TRY(qs__onnx_take(memory, (size_t)out->count, qs__element_size(out->type), &data));
    out->data = data;
    return QS_OK;
}

static qs_status compute(const qs_onnx_node *node, const qs__operator *row, const qs_onnx_tensor **in, qs__fact *facts, const bool *present,
                         qs_onnx_memory *memory, qs_onnx_tensor *out) {
    const int outputs = node->outputs;
    qs_status status = QS_OK;
    qs__fact *results = NULL;
    bool symbols = false, all_done = true;
    QS_GOTO(qs_allocate((size_t)outputs, sizeof *results, &results));
    for (int k = 0; k < outputs; k++)
        results[k] = qs__fact_none();
    for (int i = 0; i < node->inputs; i++)
        symbols = symbols || (in[i] && in[i]->type == QS_ONNX_EXTENTS && row->symbols >> (i < 15 ? i : 15) & 1 && row->evaluate &&
                              !(row->flags & QS__SHARES));
    for (int i = 0; i < node->inputs; i++) {
        if (!in[i]) continue;
        const bool may = row->symbols >> (i < 15 ? i : 15) & 1;
        if (in[i]->type == QS_ONNX_EXTENTS && !may) QS_GOTO(qs_fail(QS_UNSUPPORTED, "input %d depends on the batch or the length", i));
        if (symbols && may) QS_GOTO(to_extents(in[i], memory, &in[i]));
        facts[i] = qs__fact_of(in[i]);
    }
    const qs__shaping shaping = {.node = node, .inputs = node->inputs, .outputs = outputs, .in = facts, .present = present, .out = results};
    QS_GOTO(row->shape(&shaping));
    for (int k = 0; k < outputs; k++) {
        bool done;
        QS_GOTO(shape_fix(&results[k], &out[k]));
        QS_GOTO(room_make(row, node->inputs > 0 ? in[0] : NULL, symbols, memory, &out[k], &done));
        all_done = all_done && (done || out[k].count == 0);
    }
    for (int i = 0; i < node->inputs && !all_done && !(row->flags & (QS__SHARES | QS__BY_PIECES)); i++)
        if (in[i] && in[i]->count > QS__MOST_ELEMENTS)
            QS_GOTO(qs_fail(QS_UNSUPPORTED, "an operand of %" PRId64 " elements: at most 2^25 are computed with", in[i]->count));
    if (!all_done) {
        const qs__evaluation evaluation = {node, node->inputs, outputs, in, out, memory};
        QS_GOTO(row->evaluate(&evaluation));
    }
done:
    free(results);
    return status;
}

qs_status qs__compute(const qs_onnx_node *node, const qs_onnx_tensor *const *in, qs_onnx_memory *memory, qs_onnx_tensor *out) {
    const qs__operator *row = qs__operator_find(node);
    qs__fact *facts = NULL;
    bool *present = NULL;
    const qs_onnx_tensor **inputs = NULL;
    qs_status status = QS_OK;
    if (!row || !row->evaluate)
        return qs_fail(QS_UNSUPPORTED, "%s%s%s is not computed here", node->domain, *node->domain ? "." : "", node->op);
    QS_TRY(qs__operator_check(node));
    if (node->outputs < 1) return qs_fail(QS_BAD_FILE, "it has no output");
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *facts, &facts));
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *present, &present));
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *inputs, &inputs));
    for (int i = 0; i < node->inputs; i++) {
        inputs[i] = in[i];
        present[i] = in[i] != NULL;
        facts[i] = in[i] ? qs__fact_of(in[i]) : qs__fact_none();
    }
    QS_GOTO(compute(node, row, inputs, facts, present, memory, out));
done:
    free(facts);
    free(present);
    free(inputs);
    return status;
}
