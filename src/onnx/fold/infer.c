// SPDX-License-Identifier: Apache-2.0
/* One node of a model: type and extents of what it writes, and its elements where they do not depend on inputs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* Elements that evaluators may read and write in one folding: beyond, nodes stay as they are. */
#define MOST_WORK (INT64_C(1) << 26)

static qs__fact fact_of_value(const qs_onnx_value *value) {
    qs__fact fact = {.type = value->type, .rank = value->rank, .constant = value->extents};
    if (value->rank > 0) memcpy(fact.extent, value->extent, (size_t)value->rank * sizeof *fact.extent);
    if (value->constant && !value->repeats) fact.constant = value->constant;
    return fact;
}

/* What the file declares fills what is not known; axis 0 may be a batch that the file fixed, and is left alone. */
static void declared_fill(const qs_onnx_value *value, qs__fact *fact) {
    if (fact->type == QS_ONNX_UNDEFINED) fact->type = value->declared_type;
    if (fact->rank < 0 && value->declared_rank >= 0) {
        fact->rank = value->declared_rank;
        for (int i = 0; i < fact->rank; i++)
            fact->extent[i] = qs__extent_unknown;
    }
    for (int i = 1; i < fact->rank && fact->rank == value->declared_rank; i++)
        if (!qs_onnx_extent_is_known(&fact->extent[i]) && value->declared[i].value >= 0)
            fact->extent[i] = qs_onnx_extent_of(value->declared[i].value);
}

static qs_status value_set(qs__folding *folding, qs_onnx_value *value, const qs__fact *fact) {
    qs_onnx_extent *extents = NULL;
    value->type = fact->type;
    value->rank = fact->rank;
    if (fact->rank < 0) return QS_OK;
    QS_TRY(qs__onnx_take(folding->memory, (size_t)fact->rank, sizeof *extents, &extents));
    memcpy(extents, fact->extent, (size_t)fact->rank * sizeof *extents);
    value->extent = extents;
    return QS_OK;
}

/* ---- Constants --------------------------------------------------------------------------------------------------------------------- */

/* An integer tensor whose elements are all fixed, of the type that the value has. */
static qs_status fixed_tensor(qs__folding *folding, const qs_onnx_tensor *symbols, qs_onnx_type type, qs_onnx_tensor *out, bool *fixed) {
    qs__array array;
    void *data;
    *fixed = false;
    *out = *symbols;
    out->type = type;
    out->uniform = false;
    QS_TRY(qs__array_make(type, symbols->count, &array));
    qs_status status = QS_OK;
    for (int64_t i = 0; i < symbols->count; i++) {
        int64_t value;
        if (!qs_onnx_extent_is_fixed(qs_onnx_tensor_extent(symbols, i), &value)) goto done;
        if (array.real)
            array.real[i] = (double)value;
        else
            array.integer[i] = value;
    }
    QS_GOTO(qs__onnx_take(folding->memory, (size_t)symbols->count, qs__element_size(type), &data));
    out->data = data;
    QS_GOTO(qs__array_store(&array, false, out));
    *fixed = true;
done:
    qs__array_release(&array);
    return status;
}

/* Makes a value the constant that was computed for it. */
static qs_status constant_set(qs__folding *folding, int index, const qs_onnx_tensor *tensor, bool repeats) {
    qs_onnx_value *value = &folding->value[index];
    qs_onnx_tensor *copy;
    bool fixed = true;
    QS_TRY(qs__onnx_take(folding->memory, 1, sizeof *copy, &copy));
    *copy = *tensor;
    if (tensor->type == QS_ONNX_EXTENTS) {
        const bool is_number = qs_onnx_type_is_integer(value->type) || qs_onnx_type_is_float(value->type);
        QS_TRY(fixed_tensor(folding, tensor, is_number ? value->type : QS_ONNX_INT64, copy, &fixed));
        if (!fixed) *copy = *tensor;
    }
    copy->name = value->name;
    if (fixed)
        value->constant = copy;
    else
        value->extents = copy;
    value->repeats = repeats;
    folding->computed[index] = true;
    return QS_OK;
}

/* Whether a value may be an operand of an evaluator. */
static bool is_usable(const qs__folding *folding, const qs__operator *row, const qs_onnx_value *value) {
    if (value->extents) return true;
    if (!value->constant) return false;
    return !value->is_parameter || folding->options->parameters || (row->flags & QS__DEPENDS);
}

/* Extents with one sample in place of N. */
static qs_status for_one_sample(qs__folding *folding, const qs_onnx_tensor *symbols, qs_onnx_tensor *out, bool *fixed) {
    qs_onnx_tensor copy = *symbols;
    qs_onnx_extent *extents;
    QS_TRY(qs__onnx_take(folding->memory, (size_t)symbols->count, sizeof *extents, &extents));
    for (int64_t i = 0; i < symbols->count; i++)
        extents[i] = qs__extent_of_one_sample(qs_onnx_tensor_extent(symbols, i));
    copy.data = extents;
    copy.uniform = false;
    return fixed_tensor(folding, &copy, QS_ONNX_INT64, out, fixed);
}

/* Whether the result is one sample's, N times over: N in front, and nowhere else. */
static bool is_repeated(const qs_onnx_value *value) {
    if (value->rank < 1 || !qs_onnx_extent_is_batch(&value->extent[0])) return false;
    for (int i = 1; i < value->rank; i++)
        if (!qs_onnx_extent_is_fixed(&value->extent[i], NULL)) return false;
    return true;
}

/* Shape and Size need the input's extents alone. */
static qs_status shape_of_value(qs__folding *folding, const qs_onnx_node *node, bool *done) {
    const qs_onnx_value *in = &folding->value[node->input[0]];
    qs_onnx_extent *extents;
    qs_onnx_tensor list = {.name = "", .type = QS_ONNX_EXTENTS};
    if (in->rank < 0) return QS_OK;
    *done = true;
    QS_TRY(qs__onnx_take(folding->memory, (size_t)in->rank, sizeof *extents, &extents));
    list.data = extents;
    if (strcmp(node->op, "Size") == 0) {
        extents[0] = qs__extent_product(in->extent, 0, in->rank);
        list.count = 1;
        return qs_onnx_extent_is_known(&extents[0]) ? constant_set(folding, node->output[0], &list, false) : QS_OK;
    }
    const qs_onnx_value *out = &folding->value[node->output[0]];
    int64_t start;
    QS_TRY(qs_onnx_attribute_int(node, "start", 0, &start));
    start = start < 0 ? start + in->rank : start;
    start = start < 0 ? 0 : start > in->rank ? in->rank : start;
    list.rank = 1;
    if (!qs_onnx_extent_is_fixed(&out->extent[0], &list.count)) return QS_OK;
    list.dim[0] = list.count;
    if (list.count > 0) memcpy(extents, in->extent + start, (size_t)list.count * sizeof *extents);
    return constant_set(folding, node->output[0], &list, false);
}

/* Elements of an operand that an evaluator reads: none where it is too large to be computed with, or its one element is handed on. */
static int64_t work_of(const qs__operator *row, const qs_onnx_tensor *tensor) {
    const bool handed_on = tensor->uniform && row->flags & (QS__REARRANGES | QS__SHARES);
    return handed_on || tensor->count > QS__MOST_ELEMENTS ? 0 : tensor->count;
}

/* Comparisons of a selection: of each element with as many as are taken. */
static int64_t work_of_selection(const qs_onnx_node *node, const qs__operator *row, const qs_onnx_tensor *from,
                                 const qs_onnx_tensor *taken) {
    int64_t axis;
    if (!(row->flags & QS__SELECTS) || qs_onnx_attribute_int(node, "axis", -1, &axis) != QS_OK) return 0;
    axis = axis < 0 ? axis + taken->rank : axis;
    return axis < 0 || axis >= taken->rank ? 0 : from->count * taken->dim[axis]; /* below 2^51: neither is above QS__MOST_ELEMENTS */
}

/* Computes the node for operands that are the same for every sample, or for one of equal samples. For one sample, N is 1 where it says how
 * large the result is; where it is itself an operand of what is computed it is a number that nobody knows yet, and the node stays. */
static qs_status evaluate(qs__folding *folding, const qs_onnx_node *node, const qs__operator *row, const qs_onnx_tensor **in,
                          qs_onnx_tensor *list, bool one_sample, qs_onnx_tensor *out, bool *done) {
    for (int i = 0; i < node->inputs; i++) {
        in[i] = NULL;
        if (node->input[i] < 0) continue;
        const qs_onnx_value *value = &folding->value[node->input[i]];
        in[i] = value->constant ? value->constant : value->extents;
        folding->work += work_of(row, in[i]);
        if (in[i]->type != QS_ONNX_EXTENTS || !one_sample) continue;
        if (!(row->flags & QS__SAYS_SHAPE) || (i == 0 && node->inputs > 1)) return QS_OK;
        bool fixed;
        QS_TRY(for_one_sample(folding, in[i], &list[i], &fixed));
        if (!fixed) return QS_OK;
        in[i] = &list[i];
    }
    const qs_status status = qs__compute(node, in, folding->memory, out);
    if (status == QS_UNSUPPORTED) return QS_OK; /* it stays a node */
    *done = status == QS_OK;
    if (*done) folding->work += work_of_selection(node, row, in[0], &out[0]);
    return status;
}

/* What a DequantizeLinear reads; NULL: it is no such node. */
static qs_onnx_value *codes_of(qs__folding *folding, const qs_onnx_node *node) {
    const bool is = strcmp(node->op, "DequantizeLinear") == 0 && node->inputs > 0 && node->input[0] >= 0;
    return is ? &folding->value[node->input[0]] : NULL;
}

static qs_status constants_find(qs__folding *folding, const qs_onnx_node *node, const qs__operator *row) {
    const qs_onnx_tensor **in = NULL;
    qs_onnx_tensor *list = NULL, *out = NULL;
    bool repeats = false, symbols = false, done = false;
    qs_status status = QS_OK;
    if (node->inputs > 0 && node->input[0] >= 0 && (strcmp(node->op, "Shape") == 0 || strcmp(node->op, "Size") == 0)) {
        QS_TRY(shape_of_value(folding, node, &done));
        if (done) return QS_OK;
    }
    const qs_onnx_value *from = codes_of(folding, node);
    const bool first_time = from && from->constant && !from->constant->uniform && !from->codes; /* the file has as many bytes */
    const int64_t work = folding->work;
    if (work > MOST_WORK && !first_time) return QS_OK;
    for (int i = 0; i < node->inputs; i++) {
        const qs_onnx_value *value = node->input[i] < 0 ? NULL : &folding->value[node->input[i]];
        if (value && !is_usable(folding, row, value)) return QS_OK;
        repeats = repeats || (value && value->repeats);
        symbols = symbols || (value && value->extents);
    }
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *in, &in));
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *list, &list));
    QS_GOTO(qs_allocate((size_t)node->outputs, sizeof *out, &out));
    if (!repeats) QS_GOTO(evaluate(folding, node, row, in, list, false, out, &done));
    bool one_sample = false;
    if (!done && (repeats || symbols) && (row->flags & QS__SAMPLEWISE)) {
        one_sample = true;
        for (int k = 0; k < node->outputs; k++)
            one_sample = one_sample && node->output[k] >= 0 && is_repeated(&folding->value[node->output[k]]);
        if (one_sample) QS_GOTO(evaluate(folding, node, row, in, list, true, out, &done));
        for (int k = 0; one_sample && done && k < node->outputs; k++)
            done = out[k].rank == folding->value[node->output[k]].rank && out[k].dim[0] == 1;
    }
    for (int k = 0; done && k < node->outputs; k++) {
        folding->work += out[k].uniform ? 0 : out[k].count;
        if (node->output[k] >= 0) QS_GOTO(constant_set(folding, node->output[k], &out[k], one_sample));
    }
    if (first_time) folding->work = work;
done:
    free(in);
    free(list);
    free(out);
    return status;
}

/* What the file itself says is a weight: a Constant node's tensor, one that is filled to a shape that the file says, what codes stand
 * for. */
static void parameter_mark(qs__folding *folding, const qs_onnx_node *node) {
    const bool constant = strcmp(node->op, "Constant") == 0, quantized = strcmp(node->op, "QuantizeLinear") == 0;
    qs_onnx_value *value = &folding->value[node->output[0]], *codes = codes_of(folding, node);
    if (!value->constant || !(constant || quantized || codes || strcmp(node->op, "ConstantOfShape") == 0)) return;
    if (codes && !codes->codes) codes->codes = codes->name;
    if (codes) value->codes = codes->codes;
    if (quantized) value->codes = folding->value[node->input[0]].name;
    const bool of_file = constant || codes || !folding->computed[node->input[0]];
    if (constant) folding->computed[node->output[0]] = false;
    value->is_parameter = of_file && qs_onnx_type_is_float(value->type) && value->constant->count > 1 && !quantized;
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------------------------- */

/* No extent is negative or above that of any tensor, so that rules of later nodes calculate with none that overflows. */
static qs_status extents_check(const qs__fact *fact) {
    int64_t value;
    for (int i = 0; i < fact->rank; i++)
        if (qs_onnx_extent_is_fixed(&fact->extent[i], &value) && (value < 0 || value > INT64_C(1) << 40))
            return qs_fail(QS_BAD_FILE, "axis %d of its result would have the extent %" PRId64 ": must be 0 to 2^40", i, value);
    return QS_OK;
}

static qs_status shapes_find(qs__folding *folding, const qs_onnx_node *node, const qs__operator *row) {
    qs__fact *in = NULL, *out = NULL;
    bool *present = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *in, &in));
    QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *present, &present));
    QS_GOTO(qs_allocate((size_t)node->outputs, sizeof *out, &out));
    for (int i = 0; i < node->inputs; i++) {
        present[i] = node->input[i] >= 0;
        in[i] = present[i] ? fact_of_value(&folding->value[node->input[i]]) : qs__fact_none();
    }
    for (int k = 0; k < node->outputs; k++)
        out[k] = qs__fact_none();
    if (row) {
        const qs__shaping shaping = {node, node->inputs, node->outputs, in, present, folding->batch, out};
        QS_GOTO(row->shape(&shaping));
    }
    for (int k = 0; k < node->outputs; k++) {
        if (node->output[k] < 0) continue;
        declared_fill(&folding->value[node->output[k]], &out[k]);
        QS_GOTO(extents_check(&out[k]));
        QS_GOTO(value_set(folding, &folding->value[node->output[k]], &out[k]));
    }
done:
    free(in);
    free(present);
    free(out);
    return status;
}

qs_status qs__infer(qs__folding *folding, const qs_onnx_node *node) {
    const qs__operator *row = qs__operator_find(node);
    if (node->outputs == 0) return QS_OK;
    QS_TRY(qs__operator_check(node));
    QS_TRY(shapes_find(folding, node, row));
    if (!row || !row->evaluate || node->output[0] < 0) return QS_OK;
    QS_TRY(constants_find(folding, node, row));
    parameter_mark(folding, node);
    return QS_OK;
}
