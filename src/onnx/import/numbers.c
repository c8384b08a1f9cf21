// SPDX-License-Identifier: Apache-2.0
/* Numbers of the file that are computed while importing: in one world, or, of masks, in two. */
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "qsync/onnx_fields.h"

void *qs__keep_memory(qs__import *one, size_t count, size_t size) {
    void *out = NULL;
    qs__stick(one, qs_grow(&one->out->values, &one->values_capacity, (size_t)one->out->arrays + 1, sizeof *one->out->values));
    if (one->status == QS_OK) qs__stick(one, qs_allocate(count, size, &out));
    if (one->status == QS_OK) one->out->values[one->out->arrays++] = out;
    return out;
}

qs_onnx_tensor *qs__tensor_make(qs__import *one, const qs_onnx_tensor *like, float **values) {
    qs_onnx_tensor *out = qs__keep_memory(one, 1, sizeof *out);
    *values = out ? qs__keep_memory(one, (size_t)like->count, sizeof **values) : NULL;
    if (!*values) return NULL;
    qs__stick(one, qs_onnx_tensor_floats(like, 0, like->count, *values));
    *out = *like;
    out->type = QS_ONNX_FLOAT;
    out->data = *values;
    out->uniform = false;
    return one->status == QS_OK ? out : NULL;
}

/* A matrix [columns, rows] of elements of 4 bytes as [rows, columns], tile by tile: large models have a hundred of millions of numbers. */
static void turn(int64_t rows, int64_t columns, const char *from, char *to) {
    const int64_t tile = 32;
    for (int64_t top = 0; top < rows; top += tile)
        for (int64_t left = 0; left < columns; left += tile)
            for (int64_t r = top; r < rows && r < top + tile; r++)
                for (int64_t c = left; c < columns && c < left + tile; c++)
                    memcpy(to + 4 * (r * columns + c), from + 4 * (c * rows + r), 4);
}

const qs_onnx_tensor *qs__tensor_of(qs__import *one, const qs__value *numbers) {
    const qs_onnx_tensor *from = numbers->tensor;
    const qs__layout *layout = &numbers->layout;
    qs_onnx_tensor *out = qs__keep_memory(one, 1, sizeof *out);
    if (!out) return NULL;
    *out = *from;
    out->rank = layout->axes;
    for (int a = 0; a < layout->axes; a++)
        out->dim[a] = qs__axis_extent(layout, a);
    const size_t bytes = (size_t)qs_onnx_type_bits(from->type) / 8;
    if (qs__layout_in_order(layout, false) || from->uniform) return out;
    if (bytes == 0) {
        qs__refuse_node(one, "%s of another order", qs_onnx_type_name(from->type));
        return NULL;
    }
    char *moved = qs__keep_memory(one, (size_t)from->count, bytes);
    if (moved && bytes == 4 && layout->axes == 2 && qs__layout_in_order(layout, true))
        turn(out->dim[0], out->dim[1], from->data, moved);
    else
        for (int64_t i = 0; moved && i < from->count; i++)
            memcpy(moved + (size_t)i * bytes, (const char *)from->data + (size_t)qs__layout_place(layout, i) * bytes, bytes);
    out->data = moved;
    return moved ? out : NULL;
}

/* Outputs of a node become numbers. */
static void numbers_set(qs__value *out, const qs_onnx_tensor *tensor, bool parameter) {
    out->kind = QS__NUMBERS;
    out->from = NULL;
    out->tensor = tensor;
    out->parameter = parameter && qs_onnx_type_is_float(tensor->type) && tensor->count > 1;
    out->rows = 0;
    out->of_batch = false;
    out->input = -1;
    out->layout = qs__layout_rows(tensor->rank, tensor->dim, false);
}

enum { MOST_INPUTS = 16, MOST_OUTPUTS = 8 };

/* Takes an end of a name away. */
static bool cut(char *name, const char *end) {
    const size_t length = strlen(name);
    if (!qs__ends_in(name, length, end)) return false;
    name[length - strlen(end)] = '\0';
    return true;
}

void qs__stored_name(qs__import *one, qs__value *weights, const char *stored) {
    char *name = qs__keep_memory(one, strlen(stored) + 1, 1);
    if (!name) return;
    memcpy(name, stored, strlen(stored) + 1);
    weights->from = name;
    weights->parameter = qs_onnx_type_is_float(weights->tensor->type) && weights->tensor->count > 1;
    const bool of_ours = strcmp(one->model->producer_name, "qsync") == 0;
    if (!cut(name, QS_ONNX_STORED_CODES) && !cut(name, QS_ONNX_STORED_FLOAT8) && !of_ours) return;
    if (of_ours) cut(name, QS_ONNX_STORED_HALF);
    weights->turned = cut(name, QS_ONNX_STORED_TURNED) && qs__rank(weights) == 2;
}

static bool gathers_own_sample(qs__import *one, const qs__node *node);

bool qs__evaluate(qs__import *one, const qs__node *node) {
    const qs_onnx_tensor *input[MOST_INPUTS] = {NULL};
    bool parameter = false, of_batch = false;
    if (node->fused || node->inputs > MOST_INPUTS || node->outputs > MOST_OUTPUTS || !qs_onnx_evaluates(node->from)) return false;
    for (int i = 0; i < node->inputs; i++) {
        const qs__value *value = qs__read_by(one, node, i);
        if (!value && node->input[i] < 0) continue;
        if (!value || value->kind != QS__NUMBERS || value->rows != 0) return false;
        parameter = parameter || value->parameter;
        of_batch = of_batch || (value->of_batch && !qs_onnx_says_shape(node->from, i) && !gathers_own_sample(one, node));
        input[i] = qs__tensor_of(one, value);
        if (!input[i]) return false;
    }
    qs_onnx_tensor *result = qs__keep_memory(one, (size_t)node->outputs, sizeof *result);
    if (!result || qs_onnx_evaluate(&one->model->graph, node->from, input, one->memory, result) != QS_OK) return false;
    for (int i = 0; i < node->outputs; i++) {
        if (!qs__made_by(one, node, i)) continue;
        result[i].name = qs__made_by(one, node, i)->name;
        numbers_set(qs__made_by(one, node, i), &result[i], parameter);
        qs__made_by(one, node, i)->of_batch = of_batch;
        const qs__value *first = qs__read_by(one, node, 0);
        const char *called = first ? first->from ? first->from : first->name : "";
        if (strcmp(node->op, "QuantizeLinear") == 0) /* codes are called after what was put into them, as where folding makes them */
            qs__made_by(one, node, i)->from = called;
        else if (strcmp(node->op, "DequantizeLinear") == 0)
            qs__stored_name(one, qs__made_by(one, node, i), called);
        else if (qs__made_by(one, node, i)->parameter)
            qs__note(one, "%s is computed from parameters of the file, and trains as one of its own", result[i].name);
    }
    return one->status == QS_OK;
}

/* ---- Masks ---------------------------------------------------------------------------------------------------------------- */

/* An input of integers that are all the same number. */
static const qs_onnx_tensor *filled(qs__import *one, const qs__value *value, int64_t number) {
    qs_onnx_tensor *out = qs__keep_memory(one, 1, sizeof *out);
    int64_t *data = out ? qs__keep_memory(one, (size_t)qs__layout_count(&value->layout), sizeof *data) : NULL;
    if (!data) return NULL;
    *out = (qs_onnx_tensor){
        .name = "", .type = QS_ONNX_INT64, .rank = qs__rank(value), .count = qs__layout_count(&value->layout), .data = data};
    for (int a = 0; a < out->rank; a++)
        out->dim[a] = qs__axis_is_batched(&value->layout, a) ? 1 : qs__extent(value, a);
    for (int64_t i = 0; i < out->count; i++)
        data[i] = number;
    return out;
}

/* An operator that tells which ids are padding: equal to a number where they are. */
static bool tells_padding(qs__import *one, const qs__node *node, const qs__value *ids) {
    if (strcmp(node->op, "Equal") != 0 || !ids->is_ids) return false;
    for (int world = 0; world < 2; world++) {
        qs_onnx_tensor *out = qs__keep_memory(one, 1, sizeof *out);
        bool *data = out ? qs__keep_memory(one, (size_t)qs__layout_count(&ids->layout), sizeof *data) : NULL;
        const qs_onnx_tensor *shape = filled(one, ids, 0);
        if (!data || !shape) return false;
        *out = *shape;
        out->type = QS_ONNX_BOOL;
        out->data = data;
        memset(data, world == 0, (size_t)out->count);
        *(world ? &qs__made_by(one, node, 0)->counting : &qs__made_by(one, node, 0)->tensor) = out;
    }
    qs__value *out = qs__made_by(one, node, 0);
    out->kind = QS__MASK;
    out->input = ids->input;
    out->layout = ids->layout;
    return true;
}

/* Whether a value is 0, 1, ... of the samples, each its own number, seen in some shape. */
static bool counts_samples(qs__import *one, int value) {
    static const char *const seen[] = {"Unsqueeze", "Squeeze", "Expand", "Reshape", "Cast", "Identity", NULL};
    for (int at = value < 0 ? -1 : one->value[value].producer; at >= 0; at = value < 0 ? -1 : one->value[value].producer) {
        const qs__node *node = &one->node[at];
        double first, step;
        if (strcmp(node->op, "Range") == 0 && node->inputs == 3) {
            const qs_onnx_value *range = &one->model->graph.value[value];
            return qs__one_number(one, qs__read_by(one, node, 0), &first) && first == 0 &&
                   qs__one_number(one, qs__read_by(one, node, 2), &step) && step == 1 && range->rank == 1 &&
                   qs_onnx_extent_is_batch(&range->extent[0]);
        }
        if (qs__word_find(node->op, seen) < 0 || node->inputs < 1) return false;
        value = node->input[0];
    }
    return false;
}

int64_t qs__sample_step(qs__import *one, int value) {
    for (int at = value < 0 ? -1 : one->value[value].producer; at >= 0; at = value < 0 ? -1 : one->value[value].producer) {
        const qs__node *node = &one->node[at];
        double step;
        int of = 0;
        if (counts_samples(one, value)) return 1;
        const bool product = strcmp(node->op, "Mul") == 0, sum = strcmp(node->op, "Add") == 0;
        if (product || sum) { /* of the numbers of samples and what does not depend on them */
            const qs__value *a = qs__read_by(one, node, 0), *b = qs__read_by(one, node, 1);
            if (!a || !b || a->of_batch == b->of_batch) return 0;
            of = a->of_batch ? 0 : 1;
            if (product)
                return counts_samples(one, node->input[of]) && qs__one_number(one, of ? a : b, &step) && step > 0 && step < 1e15
                           ? (int64_t)step
                           : 0;
        } else if (node->inputs < 1 || (strcmp(node->op, "Unsqueeze") != 0 && strcmp(node->op, "Reshape") != 0))
            return 0;
        value = node->input[of];
    }
    return 0;
}

/* The same of a mask whose samples stand one behind the other in one axis, by the place where each begins. */
static bool gathers_own_places(qs__import *one, const qs__node *node) {
    const qs__value *data = qs__read_by(one, node, 0);
    const qs__node *seen = data && data->producer >= 0 ? &one->node[data->producer] : NULL;
    if (!seen || (strcmp(seen->op, "Flatten") != 0 && strcmp(seen->op, "Reshape") != 0) || qs__int(one, node, "axis", 0) != 0) return false;
    const qs_onnx_value *before = &one->model->graph.value[seen->input[0]];
    return before->rank > 0 && qs_onnx_extent_is_batch(&before->extent[0]) && qs__rank(data) > 0 &&
           qs__sample_step(one, node->input[1]) == qs__extent(data, 0);
}

/* Exporters write mask[sample, position] as a gathering by both numbers: every sample reads its own, as if there were one sample. */
static bool gathers_own_sample(qs__import *one, const qs__node *node) {
    if (strcmp(node->op, "Gather") == 0) return gathers_own_places(one, node);
    const qs__value *index = qs__read_by(one, node, 1);
    if (strcmp(node->op, "GatherND") != 0 || !index || index->producer < 0 || qs__int(one, node, "batch_dims", 0) != 0) return false;
    const qs__node *joined = &one->node[index->producer];
    const int rank = qs__rank(index);
    if (strcmp(joined->op, "Concat") != 0 || joined->inputs < 2 || qs__batch_axis(one, node->input[0]) != 0) return false;
    const int64_t axis = qs__int(one, joined, "axis", 0);
    if ((axis != -1 && axis != rank - 1) || !counts_samples(one, joined->input[0])) return false;
    for (int i = 0; i < joined->inputs; i++) {
        const qs__value *part = qs__read_by(one, joined, i);
        if (!part || part->kind != QS__NUMBERS || qs__rank(part) != rank || (i == 0 ? qs__extent(part, rank - 1) != 1 : part->of_batch))
            return false;
    }
    return true;
}

bool qs__is_alike(qs__import *one, const qs_onnx_tensor *a, const qs_onnx_tensor *b) {
    double *values[2] = {NULL, NULL};
    int64_t each[2];
    if (a == b) return true;
    qs_onnx_tensor of[2] = {qs_onnx_tensor_distinct(a, &each[0]), qs_onnx_tensor_distinct(b, &each[1])};
    if (each[0] != each[1]) of[0] = *a, of[1] = *b; /* one of them is not uniform */
    bool same = a->count == b->count && a->type != QS_ONNX_STRING && b->type != QS_ONNX_STRING;
    const int64_t count = of[0].count;
    for (int i = 0; i < 2 && same; i++) {
        qs__stick(one, qs_allocate((size_t)count, sizeof **values, &values[i]));
        if (one->status == QS_OK) qs__stick(one, qs_onnx_tensor_doubles(&of[i], 0, count, values[i]));
        same = one->status == QS_OK;
    }
    for (int64_t i = 0; i < count && same; i++)
        same = values[0][i] == values[1][i];
    free(values[0]);
    free(values[1]);
    return same;
}

bool qs__mask_node(qs__import *one, const qs__node *node) {
    const qs_onnx_tensor *input[2][MOST_INPUTS] = {{NULL}};
    const qs__value *of = NULL;
    if (node->fused || node->inputs > MOST_INPUTS || node->outputs > MOST_OUTPUTS) return false;
    for (int i = 0; i < node->inputs; i++) {
        const qs__value *value = qs__read_by(one, node, i);
        if (!value) continue;
        if (value->kind != QS__NUMBERS && value->kind != QS__MASK && value->kind != QS__INTEGERS) return false;
        if (value->kind != QS__NUMBERS && of && of->input != value->input) return false;
        if (value->kind != QS__NUMBERS) of = value;
    }
    if (!of) return false;
    if (of->kind == QS__INTEGERS && tells_padding(one, node, of)) return true;
    if (!qs_onnx_evaluates(node->from)) return false;
    for (int i = 0; i < node->inputs; i++) {
        const qs__value *value = qs__read_by(one, node, i);
        if (!value) continue;
        if (value->kind == QS__NUMBERS && value->rows != 0) return false;
        if (value->of_batch && !qs_onnx_says_shape(node->from, i) && !gathers_own_sample(one, node)) return false;
        for (int world = 0; world < 2; world++)
            input[world][i] = value->kind == QS__INTEGERS ? filled(one, value, world)
                              : value->kind == QS__MASK   ? (world ? value->counting : value->tensor)
                                                          : qs__tensor_of(one, value);
        if (!input[0][i] || !input[1][i]) return false;
    }
    qs_onnx_tensor *result[2];
    for (int world = 0; world < 2; world++) {
        result[world] = qs__keep_memory(one, (size_t)node->outputs, sizeof **result);
        if (!result[world] || qs_onnx_evaluate(&one->model->graph, node->from, input[world], one->memory, result[world]) != QS_OK)
            return false;
    }
    for (int i = 0; i < node->outputs; i++) {
        qs__value *out = qs__made_by(one, node, i);
        if (!out) continue;
        if (result[0][i].type == result[1][i].type && qs__is_alike(one, &result[0][i], &result[1][i])) { /* of any input */
            numbers_set(out, &result[0][i], false);
            continue;
        }
        out->kind = QS__MASK;
        out->tensor = &result[0][i];
        out->counting = &result[1][i];
        out->input = of->input;
        out->layout = qs__layout_rows(result[0][i].rank, result[0][i].dim, false);
    }
    return true;
}

/* ---- Hidden scores -------------------------------------------------------------------------------------------------------- */

enum { VISIBLE, CAUSAL, HIDDEN, OTHER };

/* What a world hides of scores whose last two axes have `rows` and `columns`: nothing, what is behind the row's own place, all, or else. */
static int pattern_of(qs__import *one, const qs_onnx_tensor *tensor, int64_t rows, int64_t columns, bool (*hides)(double)) {
    const int64_t last = tensor->rank > 0 ? tensor->dim[tensor->rank - 1] : 1,
                  before = tensor->rank > 1 ? tensor->dim[tensor->rank - 2] : 1;
    bool visible = true, hidden = true, causal = last == columns && before == rows && rows == columns;
    double *values = NULL;
    if ((last != columns && last != 1) || (before != rows && before != 1)) return OTHER;
    if (one->status == QS_OK) qs__stick(one, qs_allocate((size_t)tensor->count, sizeof *values, &values));
    if (one->status == QS_OK) qs__stick(one, qs_onnx_tensor_doubles(tensor, 0, tensor->count, values));
    for (int64_t i = 0; i < tensor->count && one->status == QS_OK; i++) {
        const bool is = hides(values[i]);
        visible = visible && !is;
        hidden = hidden && is;
        causal = causal && is == (i % last > i / last % before);
        if (!is && hides(-1e30) && values[i] != 0) visible = causal = false; /* it adds something to what it shows */
    }
    free(values);
    return visible ? VISIBLE : hidden ? HIDDEN : causal ? CAUSAL : OTHER;
}

/* Numbers that are added: very small ones hide. Numbers that say what is shown, or what is not. */
static bool very_small(double value) {
    return value < -999;
}
static bool is_false(double value) {
    return value == 0;
}
static bool is_true(double value) {
    return value != 0;
}

/* The scores, with what their softmax has to know. */
static bool hidden(qs__import *one, const qs__value *scores, const qs__value *mask, bool (*hides)(double), qs__value *out) {
    const int rank = qs__rank(scores);
    if (rank < 2 || mask->tensor->rank > rank) return false;
    const int64_t rows = qs__extent(scores, rank - 2), columns = qs__extent(scores, rank - 1);
    const int without = mask->kind == QS__MASK ? pattern_of(one, mask->tensor, rows, columns, hides) : OTHER;
    const int with = pattern_of(one, mask->kind == QS__MASK ? mask->counting : mask->tensor, rows, columns, hides);
    *out = *scores;
    if (with == OTHER || with == HIDDEN) return false;
    if (mask->kind == QS__MASK && without != with && without != HIDDEN) return false;
    out->causal = scores->causal || with == CAUSAL;
    if (mask->kind == QS__MASK && without == HIDDEN) {
        if (scores->input >= 0 && scores->input != mask->input) return false;
        out->input = mask->input;
        one->out->graph.input[mask->input].bound = 2;
    }
    return true;
}

static bool hide(qs__import *one, const qs__node *node, const qs__value *scores, const qs__value *mask, bool (*hides)(double)) {
    qs__value out;
    if (!hidden(one, scores, mask, hides, &out)) return false;
    qs__pass_on(one, node, &out);
    return true;
}

bool qs__hide_scores(qs__import *one, qs__value *scores, const qs__value *mask) {
    qs__value as = *mask, out;
    if ((mask->kind != QS__NUMBERS && mask->kind != QS__MASK) || mask->rows != 0 || mask->of_batch) return false;
    if (mask->kind == QS__NUMBERS && (mask->tensor->count > INT64_C(1) << 26 || !(as.tensor = qs__tensor_of(one, mask)))) return false;
    if (!hidden(one, scores, &as, qs_onnx_type_is_float(as.tensor->type) ? very_small : is_false, &out)) return false;
    *scores = out;
    return true;
}

bool qs__hide(qs__import *one, const qs__node *node, const qs__value *scores, const qs__value *mask, qs__value *rest) {
    const int rank = qs__rank(scores);
    if (hide(one, node, scores, mask, very_small)) return true;
    const bool fits = rank >= 2 && mask->tensor->rank <= rank &&
                      pattern_of(one, mask->tensor, qs__extent(scores, rank - 2), qs__extent(scores, rank - 1), very_small) == HIDDEN;
    *rest = *mask;
    rest->kind = QS__NUMBERS;
    rest->tensor = mask->counting;
    rest->input = -1;
    double *values = fits ? qs__all_numbers(one, rest) : NULL;
    bool plain = values != NULL;
    for (int64_t i = 0; plain && i < rest->tensor->count; i++)
        plain = !very_small(values[i]);
    free(values);
    if (!plain) qs__refuse_node(one, "a mask that says more than which positions count");
    return !plain;
}

void qs__hide_by(qs__import *one, const qs__node *node, const qs__value *mask) {
    qs__value *out = qs__made_by(one, node, 0);
    if (!out || out->kind != QS__FLOW) return;
    out->input = mask->input;
    one->out->graph.input[mask->input].bound = 2;
}

bool qs__hide_constant(qs__import *one, const qs__node *node, const qs__value *scores, const qs__value *numbers) {
    const qs_onnx_tensor *tensor = numbers->rows == 0 && !numbers->parameter ? qs__tensor_of(one, numbers) : NULL;
    qs__value as = *numbers;
    if (!tensor || numbers->tensor->count > (INT64_C(1) << 26)) return false;
    as.tensor = tensor;
    const int rank = qs__rank(scores);
    if (rank < 2) return false;
    const int pattern = pattern_of(one, tensor, qs__extent(scores, rank - 2), qs__extent(scores, rank - 1), very_small);
    if (pattern != CAUSAL && pattern != VISIBLE) return false; /* zeros hide nothing */
    return hide(one, node, scores, &as, very_small);
}

void qs__import_Where(qs__import *one, const qs__node *node) {
    const qs__value *condition = qs__read_by(one, node, 0), *yes = qs__read_by(one, node, 1), *no = qs__read_by(one, node, 2);
    double number;
    if (!condition || !yes || !no || condition->kind == QS__UNKNOWN || yes->kind == QS__UNKNOWN || no->kind == QS__UNKNOWN) return;
    if (condition->kind == QS__NUMBERS && condition->tensor->count == 1 && qs__one_number(one, condition, &number)) {
        qs__pass_on(one, node, number != 0 ? yes : no);
        return;
    }
    const bool first = yes->kind == QS__FLOW;
    const qs__value *scores = first ? yes : no, *other = first ? no : yes;
    qs__value as = *condition;
    if (condition->kind == QS__NUMBERS && !(as.tensor = qs__tensor_of(one, condition))) return;
    if (scores->kind != QS__FLOW || !qs__one_number(one, other, &number) || !very_small(number) ||
        !hide(one, node, scores, &as, first ? is_false : is_true))
        qs__refuse_node(one, "that hides no scores from a softmax");
}

/* A guard of exporters behind softmax, whose results are numbers here. */
void qs__import_IsNaN(qs__import *one, const qs__node *node) {
    static const bool no = false;
    static const qs_onnx_tensor never = {.name = "", .type = QS_ONNX_BOOL, .count = 1, .data = &no};
    if (qs__read_by(one, node, 0) && qs__read_by(one, node, 0)->kind == QS__FLOW) numbers_set(qs__made_by(one, node, 0), &never, false);
}
