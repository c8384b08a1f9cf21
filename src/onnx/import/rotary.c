// SPDX-License-Identifier: Apache-2.0
/* Positions as rotations: the operator RotaryEmbedding, and the products and sums that exporters write for one, with cosines and sines
 * that the file holds or computes from numbers of positions. Both become `rotary`, which knows its angles: what stands in the file is
 * compared with l · base^(-2i/d) at every position l, so that a model whose angles are others (scaled for longer texts) is never taken
 * for this one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "fuse.h"

enum { MOST_WAVES = 1 << 24 }; /* of a table */

/* ---- Angles ----------------------------------------------------------------------------------------------------------------- */

/* Five digits, where a number is so near to them that its float's rounding explains the rest. */
static double rounded(double base) {
    const double unit = pow(10, floor(log10(base)) - 4), near = rint(base / unit) * unit;
    return fabs(near - base) < 3e-6 * base ? near : base;
}

/* Elements `first` .. of numbers, in the order of their axes. */
static void numbers_read(qs__import *one, const qs__value *numbers, int64_t first, int64_t count, double *out) {
    if (qs__layout_in_order(&numbers->layout, false)) {
        qs__stick(one, qs_onnx_tensor_doubles(numbers->tensor, first, count, out));
        return;
    }
    for (int64_t i = 0; i < count && one->status == QS_OK; i++)
        qs__stick(one, qs_onnx_tensor_doubles(numbers->tensor, qs__layout_place(&numbers->layout, first + i), 1, &out[i]));
}

/* The base, which is found by the slowest pair at position 1; 10000 where there is no such position, 0: there is none. */
static double base_of(int64_t length, int64_t pairs, const double *cosine, const double *sine) {
    if (length < 2 || pairs < 2) return 10000;
    const double angle = atan2(sine[pairs - 1], cosine[pairs - 1]);
    const double base = angle > 0 && angle <= 1 ? rounded(pow(angle, -(double)pairs / (double)(pairs - 1))) : 0;
    return base >= 1 && base <= 1e12 ? base : 0;
}

/* Whether they are cosines and sines [length][pairs · times] of one base. What floats make of an angle grows with it. */
static bool rows_are(qs__import *one, const qs__value *const table[2], int64_t length, int64_t pairs, int64_t times, double *base) {
    const int64_t width = pairs * times;
    double *wave = NULL;
    if (one->status == QS_OK) qs__stick(one, qs_allocate((size_t)(3 * width), sizeof *wave, &wave));
    if (one->status != QS_OK) return false;
    double *const row[2] = {wave + width, wave + 2 * width};
    for (int i = 0; i < 2; i++)
        numbers_read(one, table[i], length > 1 ? width : 0, width, row[i]);
    *base = one->status == QS_OK ? base_of(length, pairs, row[0], row[1]) : 0;
    bool are = *base > 0;
    for (int64_t i = 0; i < width && are; i++)
        wave[i] = pow(*base, -(double)(i % pairs) / (double)pairs);
    for (int64_t l = 0; l < length && are; l++) {
        for (int i = 0; i < 2; i++)
            numbers_read(one, table[i], l * width, width, row[i]);
        are = one->status == QS_OK;
        for (int64_t i = 0; i < width && are; i++) {
            const double angle = (double)l * wave[i], allowed = 1e-6 + 1e-6 * angle;
            are = fabs(row[0][i] - cos(angle)) <= allowed && fabs(row[1][i] - sin(angle)) <= allowed;
        }
    }
    free(wave);
    return are;
}

static bool are_same(const qs_onnx_tensor *a, const qs_onnx_tensor *b) {
    return a == b || (a->type == QS_ONNX_FLOAT && b->type == QS_ONNX_FLOAT && a->count == b->count && !a->uniform && !b->uniform &&
                      memcmp(a->data, b->data, (size_t)a->count * sizeof(float)) == 0);
}

/* The same of numbers whose last axis is the pairs, once or twice, and that have one other axis longer than 1, of positions. Queries and
 * keys of every layer are turned by the same, maybe in tensors of their own. */
static bool waves_are(qs__import *one, const qs__value *cosine, const qs__value *sine, int64_t length, int64_t pairs, double *base) {
    const qs__value *const table[2] = {cosine, sine};
    const int64_t count = cosine->tensor->count, times = length > 0 && pairs > 0 ? count / length / pairs : 0;
    if ((times != 1 && times != 2) || count != length * pairs * times || sine->tensor->count != count || count > MOST_WAVES) return false;
    const bool plain = qs__layout_in_order(&cosine->layout, false) && qs__layout_in_order(&sine->layout, false);
    const qs__waves *last = &one->waves;
    if (plain && last->base > 0 && last->length == length && last->pairs == pairs && are_same(last->table[0], cosine->tensor) &&
        are_same(last->table[1], sine->tensor)) {
        *base = last->base;
        return true;
    }
    if (!rows_are(one, table, length, pairs, times, base)) return false;
    if (plain) one->waves = (qs__waves){{cosine->tensor, sine->tensor}, length, pairs, *base};
    return true;
}

/* ---- As products and sums --------------------------------------------------------------------------------------------------- */

enum { MOST_DEPTH = 24, MOST_NODES = 64 };

/* An input of integers for each position that angles are multiples of: the positions 0, 1, ... of every sample. */
static bool is_of_positions(qs__import *one, int value) {
    const qs_onnx_value *is = &one->model->graph.value[value];
    int64_t extent[QS__MOST_RANK];
    qs__value *out = &one->value[value];
    if (!is->is_input || !qs_onnx_type_is_integer(is->type) || is->type == QS_ONNX_BOOL) return false;
    if (qs__extents_of(one, value, extent) != 2 || qs__batch_axis(one, value) == 1 || extent[0] != 1 || extent[1] > 1 << 24) return false;
    qs_onnx_tensor *tensor = qs__keep_memory(one, 1, sizeof *tensor);
    int64_t *number = tensor ? qs__keep_memory(one, (size_t)extent[1], sizeof *number) : NULL;
    for (int64_t l = 0; number && l < extent[1]; l++)
        number[l] = l;
    if (!number) return false;
    *tensor =
        (qs_onnx_tensor){.name = is->name, .type = QS_ONNX_INT64, .rank = 2, .dim = {1, extent[1]}, .count = extent[1], .data = number};
    out->kind = QS__NUMBERS;
    out->tensor = tensor;
    out->layout = qs__layout_rows(2, tensor->dim, false);
    qs__note(one, "input %s says where positions stand: they are 0, 1, ... of every sample, and it is not read", is->name);
    return true;
}

/* Whether a value is numbers, or is computed from numbers alone, which is then done. What tables of waves are made of are their lengths: no
 * parameters. `plainly`: on the way from it nothing is done to numbers of positions but to multiply them. */
static bool is_known(qs__import *one, int value, int depth, bool plainly, int *nodes) {
    static const char *const plain[] = {"Cast", "Unsqueeze", "Expand", "Reshape", "Transpose", "Concat", "MatMul",
                                        "Mul",  "Cos",       "Sin",    "Gather",  "Squeeze",   NULL};
    qs__value *is = value >= 0 ? &one->value[value] : NULL;
    if (!is || one->status != QS_OK) return false;
    if (is->kind == QS__NUMBERS) {
        if (depth > 0) is->parameter = false;
        return true;
    }
    if (is->kind != QS__UNKNOWN || depth == MOST_DEPTH || ++*nodes > MOST_NODES) return false;
    if (is->producer < 0) return plainly && depth > 0 && is_of_positions(one, value);
    qs__node *node = &one->node[is->producer];
    const bool multiplied = qs__word_find(node->op, plain) >= 0;
    for (int i = 0; i < node->inputs; i++)
        if (node->input[i] >= 0 && !is_known(one, node->input[i], depth + 1, plainly && multiplied, nodes)) return false;
    node->known = qs__evaluate(one, node) && is->kind == QS__NUMBERS;
    return node->known;
}

static bool number_at(qs__import *one, const qs__node *node, int input, double otherwise, double *out) {
    *out = otherwise;
    return !qs__read_by(one, node, input) || qs__one_number(one, qs__read_by(one, node, input), out);
}

/* Which half of the last axis of *x a value is: 0, 1; -1: none. */
static int half_of(qs__import *one, int value, int *x) {
    int64_t part[QS__MOST_RANK], whole[QS__MOST_RANK];
    const qs__node *slice = qs__maker(one, value, "Slice"), *split = slice ? NULL : qs__maker(one, value, "Split"),
                   *node = slice ? slice : split;
    const int rank = node && node->inputs > 0 ? qs__extents_of(one, node->input[0], whole) : -1;
    double first, axis, step;
    if (rank < 2 || qs__extents_of(one, value, part) != rank || part[rank - 1] * 2 != whole[rank - 1]) return -1;
    *x = node->input[0];
    if (split) {
        if (split->outputs != 2 || (qs__int(one, split, "axis", 0) != -1 && qs__int(one, split, "axis", 0) != rank - 1)) return -1;
        return value == split->output[1];
    }
    if (slice->inputs < 4 || !number_at(one, slice, 1, -1, &first) || !number_at(one, slice, 3, 0, &axis) ||
        !number_at(one, slice, 4, 1, &step))
        return -1;
    if ((axis != -1 && axis != rank - 1) || step != 1) return -1;
    return first == 0 ? 0 : first == (double)part[rank - 1] || first == -(double)part[rank - 1] ? 1 : -1;
}

/* x, where a value is the second half of its last axis with another sign, and the first half behind it; -1 else. */
static int turned_of(qs__import *one, int value) {
    const qs__node *joined = qs__maker(one, value, "Concat");
    if (!joined || joined->inputs != 2) return -1;
    int64_t extent[QS__MOST_RANK];
    const int rank = qs__extents_of(one, value, extent);
    const int64_t axis = qs__int(one, joined, "axis", 0);
    const qs__node *negative = qs__maker(one, joined->input[0], "Neg");
    int first = -1, second = -1;
    if (rank < 2 || (axis != -1 && axis != rank - 1) || !negative || half_of(one, negative->input[0], &second) != 1) return -1;
    return half_of(one, joined->input[1], &first) == 0 && first == second ? first : -1;
}

/* The axis of x that the waves go along: the only one of theirs, but for the last, that is longer than 1; -1: none such. Of one position it
 * is the one before the last. */
static int axis_of_positions(qs__import *one, int x, int waves, int64_t *length) {
    int64_t extent[QS__MOST_RANK], wave[QS__MOST_RANK];
    const int rank = qs__extents_of(one, x, extent), waves_rank = qs__extents_of(one, waves, wave);
    int axis = -1;
    if (rank < 3 || waves_rank < 1 || waves_rank > rank || wave[waves_rank - 1] != extent[rank - 1]) return -1;
    for (int a = 0; a + 1 < waves_rank; a++) {
        if (wave[a] == 1) continue;
        if (axis >= 0) return -1;
        axis = a + rank - waves_rank;
        if (wave[a] != extent[axis]) return -1;
    }
    *length = axis < 0 ? 1 : extent[axis];
    return axis < 0 && extent[rank - 2] == 1 ? rank - 2 : axis;
}

static void rotary_at(qs__import *one, qs__node *node) {
    if (strcmp(node->op, "Add") != 0 || node->inputs != 2) return;
    for (int way = 0; way < 8; way++) { /* which summand is turned, and which factor of each is a wave */
        const qs__node *straight = qs__maker(one, node->input[way & 1], "Mul"), *turned = qs__maker(one, node->input[!(way & 1)], "Mul");
        if (!straight || !turned || straight->inputs != 2 || turned->inputs != 2) return;
        const int x = straight->input[way >> 1 & 1], cosine = straight->input[!(way >> 1 & 1)];
        const int half = turned->input[way >> 2 & 1], sine = turned->input[!(way >> 2 & 1)];
        int64_t extent[QS__MOST_RANK], length = 0;
        int nodes = 0;
        double base;
        if (x < 0 || turned_of(one, half) != x) continue;
        const int axis = axis_of_positions(one, x, cosine, &length), rank = qs__extents_of(one, x, extent);
        if (axis < 1 || axis_of_positions(one, x, sine, &length) != axis || !is_known(one, cosine, 0, true, &nodes) ||
            !is_known(one, sine, 0, true, &nodes))
            return;
        if (!waves_are(one, &one->value[cosine], &one->value[sine], length, extent[rank - 1] / 2, &base)) return;
        qs__node_replace(node, "RotaryEmbedding", 1, &x, base);
        node->groups = axis;
        return;
    }
}

void qs__rotary_find(qs__import *one) {
    for (int n = 0; n < one->nodes && one->status == QS_OK; n++)
        if (!one->node[n].dead && !one->node[n].fused) rotary_at(one, &one->node[n]);
    qs__readers_count(one);
}

/* ---- The operator ----------------------------------------------------------------------------------------------------------- */

/* Numbers of the positions of the samples: 0, 1, ... of every one, as an input of them is taken to say. */
static bool are_in_order(qs__import *one, const qs__value *ids, int64_t length) {
    if (ids->kind == QS__INTEGERS && ids->producer < 0 && qs__layout_count(&ids->layout) == length) {
        qs__note(one, "input %s says where positions stand: they are 0, 1, ... of every sample, and it is not read", ids->name);
        return true;
    }
    bool are = ids->kind == QS__NUMBERS && ids->tensor->count == length && !qs_onnx_type_is_float(ids->tensor->type);
    double *all = are ? qs__all_numbers(one, ids) : NULL;
    for (int64_t l = 0; are && l < length; l++)
        are = all && all[l] == (double)l;
    free(all);
    return are;
}

/* The base of a node of opset 23, 0: refused. Its tables have a row for every number that a position can have, and `pairs` columns. */
static double base_of_tables(qs__import *one, const qs__node *node, int64_t length, int64_t pairs) {
    const qs__value *cosine = qs__read_by(one, node, 1), *sine = qs__read_by(one, node, 2), *ids = qs__read_by(one, node, 3);
    double base;
    if (!cosine || !sine || cosine->kind != QS__NUMBERS || sine->kind != QS__NUMBERS) {
        qs__refuse_node(one, "its cosines and sines are no numbers of the file");
        return 0;
    }
    if (ids && !are_in_order(one, ids, length)) {
        qs__refuse_node(one, "its positions are computed, and not 0, 1, ...: export it without position_ids, or with a range");
        return 0;
    }
    const int64_t rows = pairs > 0 ? cosine->tensor->count / pairs : 0;
    if (rows < length || (!ids && rows != length) || !waves_are(one, cosine, sine, rows, pairs, &base)) {
        qs__refuse_node(one, "its angles are no multiples of base^(-2i/d) of %lld positions from 0 on", (long long)length);
        return 0;
    }
    return base;
}

/* A head's channels 0, 2, 4, ... and 1, 3, 5, ... are pairs: its first half and its second, in another order of memory. */
static bool pairs_split(qs__value *x, int rank) {
    static const int swap_last[] = {0, 1, 2, 4, 3};
    int64_t extent[QS__MOST_RANK];
    for (int a = 0; a < rank; a++)
        extent[a] = qs__extent(x, a);
    extent[rank] = 2;
    extent[rank - 1] /= 2;
    if (!qs__layout_reshape(&x->layout, rank + 1, extent, 0)) return false;
    qs__layout_transpose(&x->layout, rank + 1, swap_last);
    return true;
}

void qs__import_RotaryEmbedding(qs__import *one, const qs__node *node) {
    qs__value x;
    int64_t extent[QS__MOST_RANK];
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int rank = qs__rank(&x);
    const int64_t given = node->fused ? 0 : qs__int(one, node, "num_heads", 0),
                  part = node->fused ? 0 : qs__int(one, node, "rotary_embedding_dim", 0);
    const bool interleaved = !node->fused && qs__int(one, node, "interleaved", 0) != 0;
    int positions = node->fused ? (int)node->groups : rank == 3 ? 1 : 2;
    if (rank < 3 || (!node->fused && rank > 4) || !qs__axis_is_batched(&x.layout, 0)) {
        qs__refuse_node(one, "of %d axes, or not of samples", rank);
        return;
    }
    for (int a = 0; a < rank; a++)
        extent[a] = qs__extent(&x, a);
    if (rank == 3 && !node->fused) { /* heads side by side */
        if (given < 1 || extent[2] % given != 0) {
            qs__refuse_node(one, "%lld heads of %lld channels", (long long)given, (long long)extent[2]);
            return;
        }
        if (!qs__heads_apart(one, &x, given)) return;
    }
    const int axes = qs__rank(&x);
    const int64_t width = qs__extent(&x, axes - 1), length = qs__extent(&x, positions), all = qs__layout_count(&x.layout);
    if (width < 2 || width % 2 != 0 || length < 1 || (part != 0 && part != width)) {
        qs__refuse_node(one, "of %lld of %lld channels of a head: all are turned, in pairs", (long long)(part ? part : width),
                        (long long)width);
        return;
    }
    const double base = node->fused ? node->setting : base_of_tables(one, node, length, width / 2);
    if (base == 0) return;
    if (interleaved && (axes != 4 || !pairs_split(&x, axes))) {
        qs__refuse_node(one, "its pairs are cut across each other");
        return;
    }
    const int64_t channels = all / length;
    /* Positions, then heads one behind the other, then the channels of a head. */
    int order[QS__MOST_FACTORS], by[QS__MOST_RANK] = {0, positions}, count = 2;
    for (int a = 1; a < qs__rank(&x); a++)
        if (a != positions) by[count++] = a;
    qs__layout_order(&x.layout, count, by, order);
    qs__arrange(one, &x, order);
    const qs_shape shape = qs_shape_of(3, (int64_t)1, channels, length);
    const int source = qs__seen_as(one, &x, &shape), made = qs__make(one, "rotary", NULL, 1, &source, shape);
    qs__set(one, made, "heads", (double)(channels / width));
    qs__set(one, made, "base", base);
    if (interleaved) { /* back, which is seen so */
        static const int swap_last[] = {0, 1, 2, 4, 3};
        qs__layout_transpose(&x.layout, 5, swap_last);
    }
    if (!qs__layout_reshape(&x.layout, rank, extent, 0)) {
        qs__refuse_node(one, "its heads are cut across each other");
        return;
    }
    qs__flow(qs__made_by(one, node, 0), made, shape, &x.layout);
}
