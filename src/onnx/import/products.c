// SPDX-License-Identifier: Apache-2.0
/* Operators that sum products: matrices of the file and of samples; rows of tables; softmax and the normalisations of positions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

/* ---- A matrix of the file ------------------------------------------------------------------------------------------------- */

/* Whether a matrix [O,I] holds the table's numbers, however it lies. */
static bool is_copy(const qs__value *matrix, const qs_onnx_tensor *table) {
    const qs_onnx_tensor *tensor = matrix->tensor;
    const int64_t rows = table->dim[0], columns = table->dim[1];
    const size_t bytes = (size_t)qs_onnx_type_bits(table->type) / 8;
    const bool turned = matrix->layout.axis[0].at[0] != 0; /* as exporters write it that multiply from the left */
    if (qs__extent(matrix, 0) != rows || qs__extent(matrix, 1) != columns || tensor->count != table->count) return false;
    if (tensor == table || tensor->data == table->data) return !turned;
    if (tensor->type != table->type || tensor->uniform || table->uniform || bytes == 0) return false;
    const char *a = table->data, *b = tensor->data;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            if (memcmp(a + (size_t)(r * columns + c) * bytes, b + (size_t)(turned ? c * rows + r : r * columns + c) * bytes, bytes) != 0)
                return false;
    return true;
}

/* The embedding that a matrix is the table of, or a copy that the exporter made of it; -1: none. */
static int table_of(qs__import *one, const qs__value *matrix) {
    for (int i = 0; i < one->tables; i++) {
        const qs_onnx_tensor *table = one->table[i].tensor;
        if (one->table[i].tied || matrix->layout.axis[0].count != 1 || matrix->layout.axis[1].count != 1 || !is_copy(matrix, table))
            continue;
        if (matrix->tensor->data != table->data)
            qs__note(one, "%s is a copy of %s: they are one parameter, as in the model that was exported",
                     matrix->from ? matrix->from : matrix->name, table->name);
        one->table[i].tied = true;
        return one->table[i].source;
    }
    return -1;
}

bool qs__linear_by(qs__import *one, qs__value *x, int axis, qs__value *matrix, const qs__value *bias) {
    qs_shape shape;
    int source;
    qs__layout_merge(&matrix->layout);
    const int64_t inputs = qs__extent(matrix, 1), outputs = qs__extent(matrix, 0);
    if (qs__extent(x, axis) != inputs || inputs < 1) {
        qs__refuse_node(one, "%lld columns against %lld", (long long)qs__extent(x, axis), (long long)inputs);
        return false;
    }
    if (!qs__flattened(one, x, axis, &source, &shape)) {
        qs__bring_last(one, x, 1, &axis);
        const int64_t rows = qs__layout_count(&x->layout) / inputs;
        shape = rows == 1 ? qs_shape_of(2, (int64_t)1, inputs) : qs_shape_of(3, (int64_t)1, inputs, rows);
        source = qs__seen_as(one, x, &shape);
    }
    shape.dim[1] = outputs;
    const int table = table_of(one, matrix);
    const int made = qs__make(one, "linear", table < 0 || bias ? matrix : NULL, 1, &source, shape);
    qs_graph_operator *row = qs__row(one, made);
    row->outputs = outputs;
    row->bias = bias != NULL;
    if (table >= 0)
        snprintf(row->weights_of, sizeof row->weights_of, "%s", qs__row(one, table)->name);
    else
        qs__give(one, made, "weights", matrix);
    if (bias) qs__give(one, made, "bias", bias);
    qs__layout_replace(&x->layout, axis, outputs);
    x->source = made;
    x->shape = shape;
    return true;
}

static void swap_last(qs__value *value) {
    const int rank = qs__rank(value);
    int order[QS__MOST_RANK];
    for (int a = 0; a < rank; a++)
        order[a] = a < rank - 2 ? a : 2 * rank - 3 - a;
    qs__layout_transpose(&value->layout, rank, order);
}

/* ---- Two matrices of samples ---------------------------------------------------------------------------------------------- */

/* Whether memory is row-major over the axes in this order. */
static bool lies_as(const qs__layout *layout, int axes, const int *axis) {
    int order[QS__MOST_FACTORS], before = -1;
    const int count = qs__layout_order(layout, axes, axis, order);
    for (int f = 0; f < count; f++) {
        if (layout->factor[order[f]].extent == 1 && !layout->factor[order[f]].batch) continue;
        if (order[f] < before) return false;
        before = order[f];
    }
    return true;
}

/* Matrices of an operand as matmul sees them: [N,C,H,W], one behind the other, or [N,C,L], side by side in the channels. `turned` says
 * that the last two axes lie the other way round. */
static int matrices(qs__import *one, qs__value *value, bool may_turn, int64_t heads, bool *turned, bool *beside) {
    const int rank = qs__rank(value);
    int behind[QS__MOST_RANK], side[QS__MOST_RANK];
    for (int turn = 0; turn < 1 + may_turn; turn++) {
        const int rows = turn ? rank - 1 : rank - 2, columns = turn ? rank - 2 : rank - 1;
        side[0] = rows;
        for (int a = 0; a < rank - 2; a++)
            behind[a] = a, side[a + 1] = a;
        behind[rank - 2] = rows;
        behind[rank - 1] = side[rank - 1] = columns;
        *turned = turn == 1;
        *beside = lies_as(&value->layout, rank, side);
        if (*beside || lies_as(&value->layout, rank, behind)) break;
        if (turn < may_turn) continue;
        int order[QS__MOST_FACTORS];
        for (int a = 0; a < rank; a++)
            behind[a] = a;
        qs__layout_order(&value->layout, rank, behind, order);
        qs__arrange(one, value, order);
        *turned = false;
        *beside = heads == 1;
    }
    const int64_t rows = qs__extent(value, *turned ? rank - 1 : rank - 2), columns = qs__extent(value, *turned ? rank - 2 : rank - 1);
    const qs_shape shape = *beside ? qs_shape_of(3, (int64_t)1, heads * columns, rows) : qs_shape_of(4, (int64_t)1, columns, heads, rows);
    return qs__seen_as(one, value, &shape);
}

static void product(qs__import *one, const qs__node *node, qs__value *x, qs__value *y) {
    const int rank = qs__rank(x) > qs__rank(y) ? qs__rank(x) : qs__rank(y);
    int64_t heads = 1, key_heads = 1;
    if (rank < 2 || qs__rank(x) != rank || qs__rank(y) != rank) {
        qs__refuse_node(one, "of values of %d and %d axes", qs__rank(x), qs__rank(y));
        return;
    }
    for (int a = 0; a < rank - 2; a++) {
        const bool shared = node->fused && a == 1; /* several matrices of the first are for one of the second (fuse.c) */
        if ((qs__extent(x, a) != qs__extent(y, a) && !shared) || qs__axis_is_batched(&x->layout, a) != qs__axis_is_batched(&y->layout, a)) {
            qs__refuse_node(one, "of %lld and %lld matrices along axis %d", (long long)qs__extent(x, a), (long long)qs__extent(y, a), a);
            return;
        }
        heads *= qs__extent(x, a);
        key_heads *= qs__extent(y, a);
    }
    for (int f = 0; f < x->layout.factors; f++)
        if (x->layout.factor[f].batch) heads /= x->layout.factor[f].extent, key_heads /= x->layout.factor[f].extent;
    bool batched = false;
    for (int a = 0; a < rank - 2; a++)
        batched = batched || qs__axis_is_batched(&x->layout, a);
    if (!batched || qs__extent(x, rank - 1) != qs__extent(y, rank - 2)) {
        qs__refuse_node(one, batched ? "extents do not fit" : "it sums over samples");
        return;
    }
    qs__layout_merge(&x->layout);
    qs__layout_merge(&y->layout);
    bool turned, beside, second_beside, none;
    const int64_t rows = qs__extent(x, rank - 2), columns = qs__extent(y, rank - 1);
    const int first = matrices(one, x, false, heads, &none, &beside);
    const int second = matrices(one, y, true, key_heads, &turned, &second_beside);
    const bool merged = !turned && second_beside && heads > 1;
    const qs_shape shape = merged ? qs_shape_of(3, (int64_t)1, heads * columns, rows) : qs_shape_of(4, (int64_t)1, columns, heads, rows);
    const int made = qs__make(one, "matmul", NULL, 2, (int[]){first, second}, shape);
    if (heads > 1) qs__set(one, made, "heads", (double)heads);
    if (key_heads != heads) qs__set(one, made, "key_heads", (double)key_heads);
    if (turned) qs__set(one, made, "transposed", 1);
    if (merged) qs__set(one, made, "merged", 1);
    qs__layout layout = x->layout;
    int all[QS__MOST_RANK], order[QS__MOST_FACTORS];
    for (int a = 0; a < rank; a++)
        all[a] = a;
    qs__layout_order(&layout, rank, all, order);
    qs__layout_permute(&layout, order);
    qs__layout_replace(&layout, rank - 1, columns);
    if (merged) {
        all[0] = rank - 2;
        for (int a = 0; a < rank - 2; a++)
            all[a + 1] = a;
        qs__layout_order(&layout, rank, all, order);
        qs__layout_permute(&layout, order);
    }
    qs__flow(qs__made_by(one, node, 0), made, shape, &layout);
}

void qs__import_MatMul(qs__import *one, const qs__node *node) {
    const qs__value *a = qs__read_by(one, node, 0), *b = qs__read_by(one, node, 1);
    if (!a || !b || a->kind == QS__UNKNOWN || b->kind == QS__UNKNOWN) return;
    qs__value x = *a, y = *b;
    if (x.kind == QS__FLOW && y.kind == QS__FLOW) {
        product(one, node, &x, &y);
        return;
    }
    const bool left = x.kind == QS__FLOW;
    if (!(left && y.kind == QS__NUMBERS) && !(y.kind == QS__FLOW && x.kind == QS__NUMBERS)) {
        qs__refuse_node(one, "of integers or masks");
        return;
    }
    qs__value *value = left ? &x : &y, *matrix = left ? &y : &x;
    while (qs__rank(matrix) > 2 && matrix->layout.axis[0].count == 0)
        qs__layout_remove(&matrix->layout, 0);
    if (qs__rank(matrix) != 2 || matrix->rows != 0 || qs__rank(value) < 2) {
        qs__refuse_node(one, "of %d axes of the file", qs__rank(matrix));
        return;
    }
    /* x W: as [O,I]; W x: the transposes of both. */
    if (left) {
        qs__torch_weights(one, node, matrix);
        swap_last(matrix);
    } else
        swap_last(value);
    if (!qs__linear_by(one, value, qs__rank(value) - 1, matrix, NULL)) return;
    if (!left) swap_last(value);
    qs__flow(qs__made_by(one, node, 0), value->source, value->shape, &value->layout);
}

void qs__import_Gemm(qs__import *one, const qs__node *node) {
    const qs__value *b = qs__read_by(one, node, 1), *c = qs__read_by(one, node, 2);
    const double alpha = qs__float(one, node, "alpha", 1), beta = qs__float(one, node, "beta", 1);
    qs__value x, matrix;
    if (!b || b->kind == QS__UNKNOWN || !qs__flow_in(one, node, 0, &x)) return;
    if (b->kind != QS__NUMBERS || qs__rank(b) != 2 || (c && c->kind != QS__NUMBERS) || (c && beta != 1)) {
        qs__refuse_node(one, "its matrix or its bias are not numbers of the file, or beta is not 1");
        return;
    }
    matrix = *b;
    if (qs__int(one, node, "transA", 0)) swap_last(&x);
    if (!qs__int(one, node, "transB", 0)) swap_last(&matrix);
    if (alpha != 1) {
        const int scaled = qs__make(one, "affine", NULL, 1, &x.source, x.shape);
        qs__set(one, scaled, "factor", alpha);
        x.source = scaled;
    }
    const bool whole = c && c->tensor->count == qs__extent(&matrix, 0);
    qs__value bias = {0};
    if (whole) {
        bias = *c;
        while (qs__rank(&bias) > 1)
            qs__layout_remove(&bias.layout, bias.layout.axis[0].count == 0 ? 0 : 1);
    }
    if (c && !whole) {
        qs__refuse_node(one, "a bias of %lld numbers for %lld outputs", (long long)c->tensor->count, (long long)qs__extent(&matrix, 0));
        return;
    }
    if (qs__linear_by(one, &x, 1, &matrix, whole ? &bias : NULL)) qs__flow(qs__made_by(one, node, 0), x.source, x.shape, &x.layout);
}

/* ---- Softmax, and normalisations of positions ----------------------------------------------------------------------------- */

/* Axes from `first` on; or that one alone. */
static int axes_from(const qs__value *value, int first, bool rest, int *axis) {
    int count = 0;
    for (int a = first; a < (rest ? qs__rank(value) : first + 1); a++)
        axis[count++] = a;
    return count;
}

static void softmax(qs__import *one, const qs__node *node, bool logarithm) {
    qs__value x;
    qs_shape shape;
    int axes[QS__MOST_RANK];
    if (!qs__flow_in(one, node, 0, &x)) return;
    const bool old = node->from->opset < 13;
    const int axis = qs__axis_at(one, qs__int(one, node, "axis", old ? 1 : -1), qs__rank(&x)), count = axes_from(&x, axis, old, axes);
    const qs__value *out = qs__made_by(one, node, 0);
    if (out && out->is_output && out->readers == 1 && x.input < 0 && !x.causal && qs__is_learned(one, out)) {
        qs__note(one, "the %s of %s is left to the loss, which does it", node->op, out->name);
        qs__pass_on(one, node, &x);
        return;
    }
    const bool causal = x.causal, masked = causal || x.input >= 0;
    const int keep = x.input, rank = qs__rank(&x);
    const int64_t channels = qs__bring_last(one, &x, count, axes);
    int source[2] = {0, -1 - keep};
    if (masked) { /* scores: keys, matrices, queries */
        const int64_t rows = rank > 1 ? qs__extent(&x, rank - 2) : 1;
        shape = qs_shape_of(4, (int64_t)1, channels, qs__layout_count(&x.layout) / channels / rows, rows);
        source[0] = qs__seen_as(one, &x, &shape);
    } else
        source[0] = qs__seen(one, &x, channels, &shape);
    const int made = qs__make(one, "softmax", NULL, keep < 0 ? 1 : 2, source, shape);
    if (causal) qs__set(one, made, "causal", 1);
    int result = made;
    if (logarithm) result = qs__make(one, "log", NULL, 1, &made, shape);
    qs__flow(qs__made_by(one, node, 0), result, shape, &x.layout);
}

void qs__import_Softmax(qs__import *one, const qs__node *node) {
    softmax(one, node, false);
}

void qs__import_LogSoftmax(qs__import *one, const qs__node *node) {
    softmax(one, node, true);
}

/* What a normalisation has that the file does not say. */
static void standard_give(qs__import *one, int source, const char *parameter, int64_t count, double fill) {
    qs__give_constant(one, source, parameter, parameter, count, NULL, fill);
}

static void position_norm(qs__import *one, const qs__node *node, const char *op, bool shifts) {
    qs__value x;
    qs_shape shape;
    int axes[QS__MOST_RANK];
    const qs__value *scale = qs__read_by(one, node, 1), *shift = shifts ? qs__read_by(one, node, 2) : NULL;
    if (!qs__flow_in(one, node, 0, &x)) return;
    if ((scale && scale->kind != QS__NUMBERS) || (shift && shift->kind != QS__NUMBERS)) {
        qs__refuse_node(one, "its scale or shift are not numbers of the file");
        return;
    }
    const int axis = qs__axis_at(one, node->fused ? -1 : qs__int(one, node, "axis", -1), qs__rank(&x)),
              count = axes_from(&x, axis, true, axes);
    const int64_t channels = qs__bring_last(one, &x, count, axes);
    const int source = qs__seen(one, &x, channels, &shape);
    const int made = qs__make(one, op, scale, 1, &source, shape);
    qs__set(one, made, "epsilon", node->fused ? node->setting : qs__float(one, node, "epsilon", 1e-5));
    if (scale)
        qs__give(one, made, "scale", scale);
    else
        standard_give(one, made, "scale", channels, 1);
    if (shift)
        qs__give(one, made, "shift", shift);
    else if (shifts)
        standard_give(one, made, "shift", channels, 0);
    qs__flow(qs__made_by(one, node, 0), made, shape, &x.layout);
}

void qs__import_LayerNormalization(qs__import *one, const qs__node *node) {
    position_norm(one, node, "layer_norm", true);
}

void qs__import_RMSNormalization(qs__import *one, const qs__node *node) {
    position_norm(one, node, "rms_norm", false);
}

/* ---- Rows of tables, parts of values -------------------------------------------------------------------------------------- */

/* Numbers first, first + 1, ...: then how many, else 0. */
static int64_t ascending(qs__import *one, const qs_onnx_tensor *tensor, int64_t *first) {
    int64_t *all = NULL, count = tensor->count;
    if (count < 1 || one->status != QS_OK || qs_allocate((size_t)count, sizeof *all, &all) != QS_OK) return 0;
    if (qs_onnx_tensor_integers(tensor, 0, count, all) != QS_OK) count = 0;
    for (int64_t i = 1; i < count; i++)
        if (all[i] != all[0] + i) count = 0;
    if (count > 0) *first = all[0];
    free(all);
    return count;
}

/* Whether all numbers are the same, *value. */
static bool is_constant(qs__import *one, const qs_onnx_tensor *tensor, int64_t *value) {
    int64_t *all = NULL;
    bool same = one->status == QS_OK && qs_allocate((size_t)tensor->count, sizeof *all, &all) == QS_OK &&
                qs_onnx_tensor_integers(tensor, 0, tensor->count, all) == QS_OK;
    for (int64_t i = 1; same && i < tensor->count; i++)
        same = all[i] == all[0];
    if (same && tensor->count > 0) *value = all[0];
    free(all);
    return same && tensor->count > 0;
}

/* Ids of an input: rows of a table. */
static void embedding(qs__import *one, const qs__node *node, const qs__value *table, const qs__value *ids) {
    const qs_onnx_tensor *tensor = table->tensor;
    const int64_t length = qs__layout_count(&ids->layout), channels = qs__extent(table, 1), rows = qs__extent(table, 0);
    const qs_shape shape = qs_shape_of(3, (int64_t)1, channels, length);
    const int source = -1 - ids->input;
    const int made = qs__make(one, "embedding", table, 1, &source, shape);
    qs__layout layout = ids->layout;
    layout.axes++;
    layout.axis[layout.axes - 1].count = 0;
    qs__layout_replace(&layout, layout.axes - 1, channels);
    qs__row(one, made)->outputs = channels;
    qs__set(one, made, "vocabulary", (double)rows);
    qs__give(one, made, "weights", table);
    if (one->tables < QS__MOST_TABLES && table->parameter) one->table[one->tables++] = (qs__table){.tensor = tensor, .source = made};
    qs__flow(qs__made_by(one, node, 0), made, shape, &layout);
}

/* Rows of a table, for positions: from the first one on, or, where tables have others before that (RoBERTa), from a later one. Or one row
 * for all of them, as of token types where a model was exported without its input of types. */
static bool position_rows(qs__import *one, const qs__node *node, const qs__value *table, const qs_onnx_tensor *ids) {
    int64_t first = 0;
    const bool same = ids->count > 1 && is_constant(one, ids, &first);
    const int64_t count = same ? 1 : ascending(one, ids, &first), rows = qs__extent(table, 0), channels = qs__extent(table, 1);
    qs__value *out = qs__made_by(one, node, 0);
    if (count < 1 || first < 0 || first + count > rows) return false;
    int64_t extent[QS__MOST_RANK];
    int rank = 0;
    for (int a = 0; a < ids->rank; a++)
        extent[rank++] = ids->dim[a];
    extent[rank++] = channels;
    *out = (qs__value){.name = out->name, .producer = out->producer, .readers = out->readers, .is_output = out->is_output};
    out->kind = QS__NUMBERS;
    out->from = table->from ? table->from : table->name;
    out->parameter = table->parameter;
    out->tensor = table->tensor;
    out->rows = rows;
    out->first = first;
    out->same_row = same;
    out->input = -1;
    out->layout = qs__layout_rows(rank, extent, false);
    if (first > 0 && !same)
        qs__note(one, "positions begin at row %lld of %s: the rows before it stay as they are", (long long)first, out->from);
    return true;
}

/* The table of one row, as of token types where a model has but one, where whoever reads its row at all positions adds it to a value that
 * has the positions: then the row stands for its repetitions, and is the parameter that the file has. */
static bool only_row(qs__import *one, const qs__node *node, const qs__value *table, const qs_onnx_tensor *ids) {
    const int row = node->output[0];
    int64_t sum[QS__MOST_RANK], other[QS__MOST_RANK];
    if (qs__extent(table, 0) != 1 || ids->rank >= QS__MOST_RANK) return false;
    for (int n = 0; n < one->nodes; n++) {
        const qs__node *reader = &one->node[n];
        for (int i = 0; i < reader->inputs && !reader->dead; i++) {
            if (reader->input[i] != row) continue;
            if (strcmp(reader->op, "Add") != 0 || reader->inputs != 2) return false;
            const int rank = qs__extents_of(one, reader->output[0], sum);
            if (rank < 0 || qs__extents_of(one, reader->input[1 - i], other) != rank || memcmp(sum, other, (size_t)rank * sizeof *sum) != 0)
                return false;
        }
    }
    qs__value out = *table;
    qs__layout_remove(&out.layout, 0);
    for (int a = 0; a < ids->rank; a++)
        qs__layout_insert(&out.layout, 0);
    qs__pass_on(one, node, &out);
    return true;
}

/* All elements of all samples, in one axis, gathered in their order into other extents: how strides are written that change nothing. */
static bool all_in_order(qs__import *one, const qs__node *node, const qs__value *from, const qs__value *ids) {
    int64_t extent[QS__MOST_RANK], first = 0;
    const int rank = qs__extents_of(one, node->output[0], extent), batch = qs__batch_axis(one, node->output[0]);
    const int64_t each = from->kind == QS__FLOW ? qs__layout_count(&from->layout) : 0;
    qs__value x = *from;
    if (each == 0 || qs__rank(from) != 1 || ids->tensor->count != each || ascending(one, ids->tensor, &first) != each || first != 0)
        return false;
    if (qs__sample_step(one, node->input[1]) != each || rank < 1 || !qs__layout_reshape(&x.layout, rank, extent, batch)) return false;
    qs__pass_on(one, node, &x);
    return true;
}

void qs__import_Gather(qs__import *one, const qs__node *node) {
    const qs__value *from = qs__read_by(one, node, 0), *ids = qs__read_by(one, node, 1);
    int64_t first = 0;
    if (!from || !ids || from->kind == QS__UNKNOWN || ids->kind == QS__UNKNOWN) return;
    const int axis = qs__axis_at(one, qs__int(one, node, "axis", 0), qs__rank(from));
    if (ids->of_batch) {
        if (!(from->kind == QS__NUMBERS && qs__evaluate(one, node)) && !qs__mask_node(one, node) && !all_in_order(one, node, from, ids))
            qs__refuse_node(one, "by numbers that depend on the batch");
        return;
    }
    const bool table = from->kind == QS__NUMBERS && from->rows == 0 && qs__rank(from) == 2 && axis == 0 && from->layout.axis[0].count <= 1;
    if (table && ids->kind == QS__INTEGERS && qs__rank(ids) == 2) {
        embedding(one, node, from, ids);
        return;
    }
    if (table && ids->kind == QS__MASK && position_rows(one, node, from, ids->counting)) {
        qs__note(one, "%s is read by where ids that are no padding stand: padding must stand behind them", from->tensor->name);
        return;
    }
    if (table && ids->kind == QS__NUMBERS && (only_row(one, node, from, ids->tensor) || position_rows(one, node, from, ids->tensor)))
        return;
    if (from->kind == QS__NUMBERS && ids->kind == QS__NUMBERS && qs__evaluate(one, node)) return;
    qs__value x;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int64_t count = ids->kind == QS__NUMBERS ? ascending(one, ids->tensor, &first) : 0;
    if (first < 0) first += qs__extent(&x, axis);
    if (count < 1 || ids->tensor->rank > 1 || first < 0 || first + count > qs__extent(&x, axis)) {
        qs__refuse_node(one, "by ids that are not numbers of the file, one behind the other");
        return;
    }
    qs__cut(one, &x, axis, first, count, 1);
    if (ids->tensor->rank == 0 && x.layout.axis[axis].count == 0) qs__layout_remove(&x.layout, axis);
    qs__pass_on(one, node, &x);
}

/* ---- Reductions ----------------------------------------------------------------------------------------------------------- */

static void reduce(qs__import *one, const qs__node *node, const char *op, bool mean) {
    qs__value x;
    qs_shape shape;
    int64_t given[QS__MOST_RANK];
    bool gone[QS__MOST_RANK] = {false};
    int last[QS__MOST_RANK], count = 0, factors = 0, first = 1;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int named = qs__int_list(one, node, "axes", 1, given), rank = qs__rank(&x);
    const bool keep = qs__int(one, node, "keepdims", 1) != 0;
    if (named == 0 && qs__int(one, node, "noop_with_empty_axes", 0) != 0) {
        qs__pass_on(one, node, &x);
        return;
    }
    for (int i = 0; i < named; i++)
        gone[qs__axis_at(one, given[i], rank)] = true;
    qs__layout_merge(&x.layout);
    for (int a = 0; a < rank; a++) {
        if (named == 0) gone[a] = true;
        if (!gone[a]) continue;
        if (qs__axis_is_batched(&x.layout, a)) {
            qs__refuse_node(one, "over the batch");
            return;
        }
        last[count++] = a;
        factors += x.layout.axis[a].count;
    }
    /* Positions: the first factors in memory. */
    bool reduced[QS__MOST_FACTORS] = {false};
    for (int i = 0; i < count; i++)
        for (int k = 0; k < x.layout.axis[last[i]].count; k++)
            reduced[(int)x.layout.axis[last[i]].at[k]] = true;
    while (first < x.layout.factors && reduced[first])
        first++;
    const bool all = factors + 1 == x.layout.factors, positions = !all && first == factors + 1;
    int made = x.source;
    if (factors > 0 && (all || !positions)) {
        const int64_t channels = qs__bring_last(one, &x, count, last);
        const int source = qs__seen(one, &x, channels, &shape);
        made = qs__make(one, op, NULL, 1, &source, shape);
        qs__set(one, made, "over", 1);
        shape.dim[1] = 1;
    } else if (factors > 0) {
        const int64_t channels = qs__layout_span(&x.layout, first, x.layout.factors);
        const int source = qs__seen(one, &x, channels, &shape);
        made = qs__make(one, mean ? "global_average_pool" : op, NULL, 1, &source, shape);
        for (int a = 2; a < shape.axes; a++)
            shape.dim[a] = 1;
    } else
        shape = x.shape;
    if (factors > 0) {
        qs_shape said = shape;
        said.dim[0] = QS_GRAPH_BATCH;
        if (one->status == QS_OK) qs__row(one, made)->shape = said;
    }
    for (int i = count - 1; i >= 0; i--) {
        qs__layout_replace(&x.layout, last[i], 1);
        if (!keep) qs__layout_remove(&x.layout, last[i]);
    }
    qs__flow(qs__made_by(one, node, 0), made, shape, &x.layout);
}

void qs__import_ReduceMean(qs__import *one, const qs__node *node) {
    reduce(one, node, "reduce_mean", true);
}

void qs__import_ReduceSum(qs__import *one, const qs__node *node) {
    reduce(one, node, "reduce_sum", false);
}

void qs__import_ReduceMax(qs__import *one, const qs__node *node) {
    reduce(one, node, "reduce_max", false);
}
