// SPDX-License-Identifier: Apache-2.0
/* Recurrent networks. What the input gives to the gates is a linear of all positions, the rest a recurrence.
 *
 * A file holds the parameters of both directions in one tensor each, W [D, G·H, I], R [D, G·H, H] and B [D, 2·G·H], and they stay that:
 * operators that do both directions at once take them as they are. PyTorch has four tensors for each direction, with the gates in another
 * order; its exporters write the slices and concatenations that make the file's of them as nodes. These are found again, so that what is
 * trained are the module's own parameters, under their names and row by row. */
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "fuse.h"
#include "qsync/recurrence.h"

/* Inputs of a node as the rule below leaves it; from WEIGHTS on W, R and B, or, of `groups` directions, weights of the input and of the
 * state and both biases of each, which may be missing. */
enum { INPUT, LENGTHS, STATE, CELL, PEEPHOLES, WEIGHTS, OF_DIRECTION = 4, MOST_INPUTS = WEIGHTS + 2 * OF_DIRECTION };

/* ---- Where parameters come from ------------------------------------------------------------------------------------------- */

/* Rows of a tensor of the file, one behind the other. */
typedef struct run {
    int value;
    int64_t first, count;
} run;
/* How deep nodes are followed, and how many numbers are looked at for all networks of a model, a node counting as some: a file that nests
 * or repeats more has parameters of its own. */
enum { MOST_RUNS = 64, MOST_DEPTH = 8, MOST_WORK = 1 << 24, NODE_WORK = 64 };
typedef struct runs {
    int count;
    run run[MOST_RUNS];
} runs;

static bool append(runs *to, run more) {
    run *last = to->count > 0 ? &to->run[to->count - 1] : NULL;
    if (last && last->value == more.value && last->first + last->count == more.first) {
        last->count += more.count;
        return true;
    }
    if (to->count == MOST_RUNS) return false;
    to->run[to->count++] = more;
    return true;
}

/* Rows first .. first + count - 1 of them. */
static bool cut(const runs *from, int64_t first, int64_t count, runs *out) {
    out->count = 0;
    for (int i = 0; i < from->count && count > 0; first -= from->run[i].count, i++) {
        if (first >= from->run[i].count) continue;
        const int64_t left = from->run[i].count - first, takes = count < left ? count : left;
        if (!append(out, (run){from->run[i].value, from->run[i].first + first, takes})) return false;
        first += takes, count -= takes;
    }
    return count == 0;
}

/* The only number of a list that an input or an attribute gives, `otherwise` where neither does; false where there are several, or none
 * known from the file. */
static bool number_of(qs__import *one, const qs__node *node, const char *name, int input, int64_t otherwise, int64_t *out) {
    int64_t list[QS__MOST_RANK];
    const qs__value *value = qs__read_by(one, node, input);
    if (value && (value->kind != QS__NUMBERS || value->tensor->count != 1)) return false;
    const int count = qs__int_list(one, node, name, input, list);
    *out = count > 0 ? list[0] : otherwise;
    return count < 2;
}

/* The rows that a value is made of by slices and concatenations of its first axis longer than 1. */
static bool runs_of(qs__import *one, int value, int depth, int64_t *work, runs *out) {
    int64_t extent[QS__MOST_RANK], axis, first, end, step;
    const qs__value *is = value >= 0 ? &one->value[value] : NULL;
    if (!is || depth == MOST_DEPTH || (*work -= NODE_WORK) < 0) return false;
    if (is->kind == QS__NUMBERS)
        return is->parameter && is->tensor->rank >= 1 && is->tensor->rank <= 2 && append(out, (run){value, 0, is->tensor->dim[0]});
    const qs__node *node = is->producer >= 0 ? &one->node[is->producer] : NULL;
    if (!node || node->fused || node->inputs < 1) return false;
    if (strcmp(node->op, "Identity") == 0) return runs_of(one, node->input[0], depth + 1, work, out);
    if (strcmp(node->op, "Unsqueeze") == 0)
        return number_of(one, node, "axes", 1, 0, &axis) && axis == 0 && runs_of(one, node->input[0], depth + 1, work, out);
    if (strcmp(node->op, "Concat") == 0) {
        bool all = qs__int(one, node, "axis", 0) == 0;
        for (int i = 0; i < node->inputs && all; i++)
            all = runs_of(one, node->input[i], depth + 1, work, out);
        return all;
    }
    runs whole = {.count = 0}, part;
    if (strcmp(node->op, "Slice") != 0) return false;
    const int rank = qs__extents_of(one, node->input[0], extent);
    if (rank < 1 || rank > 2) return false;
    if (!number_of(one, node, "starts", 1, 0, &first) || !number_of(one, node, "ends", 2, 0, &end) ||
        !number_of(one, node, "axes", 3, 0, &axis) || !number_of(one, node, "steps", 4, 1, &step))
        return false;
    if (axis != 0 || step != 1 || !runs_of(one, node->input[0], depth + 1, work, &whole)) return false;
    first = first < 0 ? first + extent[0] : first;
    end = end < 0 ? end + extent[0] : end > extent[0] ? extent[0] : end;
    if (first < 0 || end <= first || !cut(&whole, first, end - first, &part)) return false;
    for (int i = 0; i < part.count; i++)
        if (!append(out, part.run[i])) return false;
    return true;
}

/* The tensor whose gates, all of its rows, these rows from `first` on are, in the order of ONNX; -1: none. `order` is that of the tensor,
 * -1 before it is known. */
static int gates_of(const qs__import *one, const runs *rows, int64_t first, const qs_recurrence *onnx, const qs_recurrence *torch,
                    int *order) {
    int value = -1, found = -1;
    for (int g = 0; g < (int)onnx->gates; g++) {
        runs gate;
        if (!cut(rows, first + g * onnx->hidden, onnx->hidden, &gate) || gate.count != 1) return -1;
        const int64_t at = gate.run[0].first / onnx->hidden;
        if (g > 0 && gate.run[0].value != value) return -1;
        value = gate.run[0].value;
        const bool as_onnx = at == g, as_torch = at == torch->at[g];
        if (gate.run[0].first % onnx->hidden != 0 || !(as_onnx || as_torch)) return -1;
        if (as_onnx && as_torch) continue;
        if (found >= 0 && found != as_torch) return -1;
        found = as_torch;
    }
    if (one->value[value].tensor->dim[0] != onnx->gates * onnx->hidden) return -1;
    if (found < 0) found = *order < 0 ? 0 : *order;
    if (*order >= 0 && *order != found) return -1;
    *order = found;
    return value;
}

static qs_cell cell_of(qs__import *one, const qs__node *node) {
    if (strcmp(node->op, "LSTM") == 0) return QS_CELL_LSTM;
    if (strcmp(node->op, "GRU") == 0) return qs__int(one, node, "linear_before_reset", 0) ? QS_CELL_GRU_LATE : QS_CELL_GRU;
    const qs_onnx_attribute *activations = qs_onnx_attribute_find(node->from, "activations");
    const bool relu = activations && activations->count > 0 && activations->strings && strcmp(activations->strings[0], "Relu") == 0;
    return relu ? QS_CELL_RELU : QS_CELL_TANH;
}

/* What a recurrence of so many channels is; false: they are no whole gates. */
static bool recurrence_of(qs__import *one, const qs__node *node, int directions, int order, int64_t channels, qs_recurrence *out) {
    const qs_attributes with = {.mode = cell_of(one, node), .along = directions > 1 ? 2 : 0, .order = order, .size = 1};
    const qs_shape src = qs_shape_of(3, (int64_t)1, channels, (int64_t)1);
    return channels >= 1 && qs_recurrence_of(&with, &src, out) == QS_OK;
}

/* PyTorch's parameters of each direction, in `input` from WEIGHTS on; false where the file's are made otherwise. */
static bool parameters_find(qs__import *one, const qs__node *node, const int *whole, int64_t *work, int *input, int *directions,
                            int *order) {
    runs rows[3] = {{.count = 0}};
    int64_t extent[QS__MOST_RANK];
    qs_recurrence onnx, torch;
    if (qs__extents_of(one, whole[0], extent) != 3 || extent[0] < 1 || extent[0] > 2) return false;
    if (!recurrence_of(one, node, 1, 0, extent[1], &onnx) || !recurrence_of(one, node, 1, 1, extent[1], &torch)) return false;
    for (int i = 0; i < 3; i++)
        if ((whole[i] >= 0 || i < 2) && !runs_of(one, whole[i], 0, work, &rows[i])) return false;
    *directions = (int)extent[0];
    *order = -1;
    for (int d = 0; d < *directions; d++) {
        int *to = input + d * OF_DIRECTION;
        for (int i = 0; i < OF_DIRECTION; i++) {
            const int64_t first = i < 2 ? d * extent[1] : (2 * d + i - 2) * extent[1];
            to[i] = whole[i < 2 ? i : 2] < 0 ? -1 : gates_of(one, &rows[i < 2 ? i : 2], first, &onnx, &torch, order);
            if (to[i] < 0 && whole[i < 2 ? i : 2] >= 0) return false;
        }
    }
    return true;
}

/* Whether a value is 0 everywhere, also where its extents are the batch's. */
static bool is_zero(qs__import *one, int value, int depth, int64_t *work) {
    static const char *const moves[] = {"Slice", "Expand", "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Identity", "Gather"};
    const qs__value *is = value >= 0 ? &one->value[value] : NULL;
    if (!is || depth == MOST_DEPTH) return false;
    if (is->kind == QS__NUMBERS) {
        if ((*work -= is->tensor->count) < 0) return false;
        double *all = qs__all_numbers(one, is);
        bool zero = all != NULL;
        for (int64_t i = 0; zero && i < is->tensor->count; i++)
            zero = all[i] == 0;
        free(all);
        return zero;
    }
    const qs__node *node = is->producer >= 0 ? &one->node[is->producer] : NULL;
    if (!node || node->fused) return false;
    if (strcmp(node->op, "ConstantOfShape") == 0) {
        const qs_onnx_attribute *filled = qs_onnx_attribute_find(node->from, "value");
        double number = 0;
        if (filled && filled->tensors && filled->tensors->count == 1 && qs_onnx_tensor_doubles(filled->tensors, 0, 1, &number) != QS_OK)
            return false;
        return number == 0;
    }
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
        if (node->inputs > 0 && strcmp(node->op, moves[i]) == 0) return is_zero(one, node->input[0], depth + 1, work);
    return false;
}

static void inputs_find(qs__import *one, qs__node *node, int64_t *work) {
    if (strcmp(node->op, "LSTM") != 0 && strcmp(node->op, "GRU") != 0 && strcmp(node->op, "RNN") != 0) return;
    if (!qs__is_standard(node)) return;
    int from[8], input[MOST_INPUTS], directions = 0, order = 0;
    for (int i = 0; i < 8; i++)
        from[i] = i < node->inputs ? node->input[i] : -1;
    for (int i = 0; i < MOST_INPUTS; i++)
        input[i] = -1;
    input[INPUT] = from[0], input[LENGTHS] = from[4], input[PEEPHOLES] = from[7];
    input[STATE] = is_zero(one, from[5], 0, work) ? -1 : from[5];
    input[CELL] = is_zero(one, from[6], 0, work) ? -1 : from[6];
    if (!parameters_find(one, node, from + 1, work, input + WEIGHTS, &directions, &order)) {
        directions = 0;
        for (int i = WEIGHTS; i < MOST_INPUTS; i++)
            input[i] = i - WEIGHTS < 3 ? from[1 + i - WEIGHTS] : -1;
    }
    qs__node_replace(node, node->op, MOST_INPUTS, input, order > 0 ? 1 : 0);
    node->groups = directions;
}

void qs__recurrent_find(qs__import *one) {
    int64_t work = MOST_WORK;
    for (int n = 0; n < one->nodes && one->status == QS_OK; n++)
        if (!one->node[n].dead) inputs_find(one, &one->node[n], &work);
    qs__readers_count(one);
}

/* ---- The operators -------------------------------------------------------------------------------------------------------- */

/* Whether the file's curves are those of the cell. */
static bool curves_are(const qs__node *node, qs_cell cell, int directions) {
    static const char *const of[QS_CELLS][3] = {{"Tanh"}, {"Relu"}, {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh"}};
    const qs_onnx_attribute *given = qs_onnx_attribute_find(node->from, "activations");
    const size_t each = cell == QS_CELL_LSTM ? 3 : cell == QS_CELL_GRU || cell == QS_CELL_GRU_LATE ? 2 : 1;
    if (!given) return true;
    bool same = given->strings && given->count == each * (size_t)directions;
    for (size_t i = 0; i < given->count && same; i++)
        same = strcmp(given->strings[i], of[cell][i % each]) == 0;
    return same;
}

/* Lengths of all samples are that of the sequence, where the file says so. */
static bool lengths_are(qs__import *one, const qs__value *lengths, int64_t length) {
    if (!lengths) return true;
    double *all = lengths->kind == QS__NUMBERS ? qs__all_numbers(one, lengths) : NULL;
    bool same = all != NULL;
    for (int64_t i = 0; same && i < lengths->tensor->count; i++)
        same = all[i] == (double)length;
    free(all);
    return same;
}

/* The reason why a node cannot be; NULL: it can. */
static const char *hindrance(qs__import *one, const qs__node *node, const qs__value *x, int directions, int64_t length) {
    const qs__value *cell = qs__made_by(one, node, 2);
    if (qs__rank(x) != 3 || !qs__axis_is_batched(&x->layout, 0)) return "the samples are not its batch";
    if (!lengths_are(one, qs__read_by(one, node, LENGTHS), length))
        return "lengths by sample: pad all to one length and export without sequence_lens (PyTorch: no pack_padded_sequence)";
    if (qs__read_by(one, node, STATE) || qs__read_by(one, node, CELL))
        return "a first state that is not 0: export it without one (PyTorch: call the module with the sequence alone)";
    if (qs__read_by(one, node, PEEPHOLES)) return "peepholes";
    if (qs_onnx_attribute_find(node->from, "clip")) return "its sums are clipped";
    if (qs__int(one, node, "input_forget", 0) != 0) return "input and forget gates are coupled";
    if (!curves_are(node, cell_of(one, node), directions)) return "activations other than its own";
    if (cell && cell->readers > 0) return "its last cell state is read: let what follows read the last state h, which is Y_h";
    return NULL;
}

/* States [N,U,L] of a recurrence over what the input gives to its gates. */
static int recurrence(qs__import *one, const qs__node *node, qs__value *gates, int direction, const qs__value *weights,
                      const qs__value *bias, int biases, const qs_recurrence *of, int64_t length) {
    const qs_shape src = qs_shape_of(3, (int64_t)1, of->channels, length);
    const int source = qs__seen_as(one, gates, &src);
    const int made = qs__make(one, "recurrence", weights, 1, &source, qs_shape_of(3, (int64_t)1, of->units, length));
    const double cell = (double)cell_of(one, node);
    if (cell != 0) qs__set(one, made, "cell", cell);
    if (direction != 0) qs__set(one, made, "direction", direction);
    if (node->setting != 0) qs__set(one, made, "order", node->setting);
    if (biases != 1) qs__set(one, made, "biases", biases);
    qs__row(one, made)->bias = bias != NULL;
    qs__give(one, made, "weights", weights);
    if (bias) qs__give(one, made, "bias", bias);
    return made;
}

/* A tensor of the file with its axes one behind the other as so many. */
static bool as_axes(qs__value *numbers, int rank, const int64_t *extent) {
    return numbers->kind == QS__NUMBERS && numbers->rows == 0 && qs__layout_reshape(&numbers->layout, rank, extent, -1);
}

/* States of all directions of the file's own W, R and B; -1: refused. */
static int whole(qs__import *one, const qs__node *node, qs__value *x, int directions, int64_t length, qs_recurrence *of) {
    const qs__value *bias = qs__read_by(one, node, WEIGHTS + 2);
    qs__value w = *qs__read_by(one, node, WEIGHTS), r = *qs__read_by(one, node, WEIGHTS + 1), b = {0};
    const bool three = w.kind == QS__NUMBERS && r.kind == QS__NUMBERS && qs__rank(&w) == 3 && qs__rank(&r) == 3;
    const int64_t channels = three ? qs__extent(&w, 0) * qs__extent(&w, 1) : 0, inputs = three ? qs__extent(&w, 2) : 0;
    bool fits = three && recurrence_of(one, node, directions, 0, channels, of);
    fits = fits && as_axes(&w, 2, (const int64_t[]){channels, inputs}) && as_axes(&r, 2, (const int64_t[]){channels, of->hidden});
    if (bias) b = *bias;
    if (!fits || (bias && !as_axes(&b, 1, (const int64_t[]){2 * channels}))) {
        qs__refuse_node(one, "its weights are not numbers of the file, or of other extents than [directions, gates, ..]");
        return -1;
    }
    if (!qs__linear_by(one, x, 2, &w, NULL)) return -1;
    const bool back = strcmp(qs__word(one, node, "direction", "forward"), "reverse") == 0;
    return recurrence(one, node, x, directions == 2 ? 2 : back, &r, bias ? &b : NULL, bias ? 2 : 1, of, length);
}

/* The same of PyTorch's parameters of each direction. */
static int by_direction(qs__import *one, const qs__node *node, const qs__value *x, int directions, int64_t length, qs_recurrence *of) {
    int made[2] = {-1, -1};
    const bool back = strcmp(qs__word(one, node, "direction", "forward"), "reverse") == 0;
    for (int d = 0; d < directions; d++) {
        const int at = WEIGHTS + d * OF_DIRECTION;
        qs__value own = *x, w = *qs__read_by(one, node, at);
        const qs__value *r = qs__read_by(one, node, at + 1), *input_bias = qs__read_by(one, node, at + 2),
                        *bias = qs__read_by(one, node, at + 3);
        if (qs__rank(&w) != 2 || qs__rank(r) != 2 || (bias && (qs__rank(bias) != 1 || qs__rank(input_bias) != 1)) ||
            !recurrence_of(one, node, 1, (int)node->setting, qs__extent(&w, 0), of) || qs__extent(r, 1) != of->hidden) {
            qs__refuse_node(one, "weights of other extents than gates and states have");
            return -1;
        }
        if (!qs__linear_by(one, &own, 2, &w, input_bias)) return -1;
        made[d] = recurrence(one, node, &own, d == 1 || back, r, bias, 1, of, length);
    }
    if (directions == 1) return made[0];
    of->units *= 2;
    return qs__make(one, "concat", NULL, 2, made, qs_shape_of(3, (int64_t)1, of->units, length));
}

/* [N,U]: of each direction the state of the position that it ends at. */
static int last_states(qs__import *one, const qs__node *node, int states, int directions, const qs_recurrence *of) {
    const bool back = strcmp(qs__word(one, node, "direction", "forward"), "reverse") == 0;
    int part[2];
    for (int d = 0; d < directions; d++) {
        const qs_shape all = qs_shape_of(2, (int64_t)1, of->units), own = qs_shape_of(2, (int64_t)1, of->units / directions);
        part[d] = qs__make(one, "position", NULL, 1, &states, all);
        qs__set(one, part[d], "position", d == 1 || back ? 0 : -1);
        if (directions == 1) return part[0];
        part[d] = qs__make(one, "slice", NULL, 1, &part[d], own);
        qs__row(one, part[d])->offset = (int)(d * own.dim[1]);
        qs__row(one, part[d])->outputs = own.dim[1];
    }
    return qs__make(one, "concat", NULL, 2, part, qs_shape_of(2, (int64_t)1, of->units));
}

static void recurrent(qs__import *one, const qs__node *node) {
    qs__value x;
    qs_recurrence of;
    if (!qs__flow_in(one, node, INPUT, &x)) return;
    if (!qs__read_by(one, node, WEIGHTS) || !qs__read_by(one, node, WEIGHTS + 1)) {
        qs__refuse_node(one, "weights are missing");
        return;
    }
    const bool batch_first = qs__int(one, node, "layout", 0) != 0;
    const int directions = strcmp(qs__word(one, node, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
    if (!batch_first && qs__rank(&x) == 3) qs__layout_transpose(&x.layout, 3, (const int[]){1, 0, 2});
    const int64_t length = qs__rank(&x) == 3 ? qs__extent(&x, 1) : 0;
    const char *why = hindrance(one, node, &x, directions, length);
    if (!why && node->groups > 0 && node->groups != directions) why = "it has weights of another number of directions";
    if (why) {
        qs__refuse_node(one, "%s", why);
        return;
    }
    qs__bring_rows(one, &x);
    const int states =
        node->groups > 0 ? by_direction(one, node, &x, directions, length, &of) : whole(one, node, &x, directions, length, &of);
    if (states < 0 || one->status != QS_OK) return;
    const int64_t hidden = of.units / directions;
    qs__layout layout = qs__rows_like(&x, 4, (const int64_t[]){1, length, directions, hidden});
    if (!batch_first) qs__layout_transpose(&layout, 4, (const int[]){1, 2, 0, 3});
    qs__flow(qs__made_by(one, node, 0), states, qs_shape_of(3, (int64_t)1, of.units, length), &layout);
    const qs__value *last = qs__made_by(one, node, 1);
    if (!last || last->readers == 0) return;
    const int end = last_states(one, node, states, directions, &of);
    layout = qs__rows_like(&x, 3, (const int64_t[]){1, directions, hidden});
    if (!batch_first) qs__layout_transpose(&layout, 3, (const int[]){1, 0, 2});
    qs__flow(qs__made_by(one, node, 1), end, qs_shape_of(2, (int64_t)1, of.units), &layout);
}

void qs__import_LSTM(qs__import *one, const qs__node *node) {
    recurrent(one, node);
}

void qs__import_GRU(qs__import *one, const qs__node *node) {
    recurrent(one, node);
}

void qs__import_RNN(qs__import *one, const qs__node *node) {
    recurrent(one, node);
}
