// SPDX-License-Identifier: Apache-2.0
/* Operators of the record: their names, and values seen in the shapes that operators want, with data moved where memory is in another
 * order. */
#include "import.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERATORS = 1 << 14 }; /* as in graph.json */

/* ---- Names ---------------------------------------------------------------------------------------------------------------- */

bool qs__ends_in(const char *text, size_t length, const char *end) {
    const size_t tail = strlen(end);
    return length > tail && strncmp(text + length - tail, end, tail) == 0;
}

bool qs__is_anonymous(const char *name) {
    return strncmp(name, "onnx::", 6) == 0 || strspn(name, "0123456789") == strlen(name);
}

/* What a node is called after: "layer1.0.conv1" of "layer1.0.conv1.weight", "features.0" of "/features/features.0/Conv". */
static size_t stem(const qs__import *one, const qs__value *parameter, const char **name) {
    static const char *const ends[] = {".weight", ".bias", ".kernel", ".gamma", ".beta", ".w", ".b",
                                       "_weight", "_bias", "_w",      "_b",     "_W",    "_B"};
    const char *called = parameter ? parameter->from ? parameter->from : parameter->name : "";
    if (!qs__is_anonymous(called)) {
        *name = called;
        size_t length = strlen(*name);
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            if (qs__ends_in(*name, length, ends[i])) return length - strlen(ends[i]);
        return length;
    }
    *name = one->at && one->at->from ? one->at->from->name : "";
    size_t length = strlen(*name);
    const char *last = strrchr(*name, '/');
    if (last && last > *name && strncmp(last + 1, one->at->from->op, strlen(one->at->from->op)) == 0) length = (size_t)(last - *name);
    return length;
}

/* Letters, digits, dots, dashes and underlines; at most 63 of them, with a hash of the whole where more were cut; each name once. */
static void name_choose(qs__import *one, const char *op, const qs__value *parameter, char out[QS_NAME]) {
    const char *from;
    char plain[QS_ONNX_MAX_NAME + 1];
    size_t length = stem(one, parameter, &from), used = 0;
    for (size_t i = 0; i < length && used < sizeof plain - 1; i++) {
        const char c = from[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (used == 0 && (c == '/' || c == '.')) continue;
        plain[used++] = letter || c == '-' || c == '_' || c == '.' ? c : c == '/' ? '.' : '_';
    }
    plain[used] = '\0';
    if (used == 0) snprintf(plain, sizeof plain, "%s_%d", op, one->out->graph.operators);
    if (strlen(plain) >= QS_NAME - 6)
        snprintf(out, QS_NAME, "%.40s~%016" PRIx64, plain, qs_hash(plain, strlen(plain), 0));
    else
        snprintf(out, QS_NAME, "%s", plain);
    const size_t end = strlen(out);
    int64_t again, others;
    for (bool free = qs__name_take(one, &one->operators, out, &again); !free; free = qs__name_take(one, &one->operators, out, &others))
        snprintf(out + end, QS_NAME - end, "_%" PRId64, again++);
}

/* ---- Operators ------------------------------------------------------------------------------------------------------------ */

qs_graph_operator *qs__row(qs__import *one, int source) {
    static qs_graph_operator none;
    return one->status == QS_OK && source >= 0 && source < one->out->graph.operators ? &one->out->graph.operator_[source] : &none;
}

bool qs__is_of(qs__import *one, int source, const char *op) {
    const qs_op *is = NULL, *wanted = NULL;
    return source >= 0 && one->status == QS_OK && qs_op_find(qs__row(one, source)->op, &is) == QS_OK && qs_op_find(op, &wanted) == QS_OK &&
           is == wanted;
}

static const char *name_of(qs__import *one, int source) {
    return source < 0 ? one->out->graph.input[-1 - source].name : one->out->graph.operator_[source].name;
}

int qs__make(qs__import *one, const char *op, const qs__value *parameter, int inputs, const int *source, qs_shape shape) {
    qs_graph_record *graph = &one->out->graph;
    if (graph->operators == MOST_OPERATORS)
        qs__stick(one, qs_fail(QS_UNSUPPORTED, "it would become more than %d operators", MOST_OPERATORS));
    qs_graph_operator row = {.inputs = inputs, .groups = 0, .shape = shape};
    qs__stick(one, qs_grow(&graph->operator_, &one->operator_capacity, (size_t)graph->operators + 1, sizeof row));
    if (one->status != QS_OK) return 0;
    name_choose(one, op, parameter, row.name);
    snprintf(row.op, sizeof row.op, "%s", op);
    for (int i = 0; i < inputs; i++)
        snprintf(row.input[i], sizeof row.input[i], "%s", name_of(one, source[i]));
    row.shape.dim[0] = QS_GRAPH_BATCH;
    graph->operator_[graph->operators] = row;
    return graph->operators++;
}

void qs__set(qs__import *one, int source, const char *setting, double value) {
    qs_graph_operator *row = qs__row(one, source);
    size_t capacity = (size_t)row->settings;
    if (one->status != QS_OK) return;
    qs__stick(one, qs_grow(&row->setting, &capacity, capacity + 1, sizeof *row->setting));
    if (one->status != QS_OK) return;
    row->setting[row->settings].value = value;
    snprintf(row->setting[row->settings++].name, sizeof row->setting->name, "%s", setting);
}

/* An operator of one input and only settings, that is there already with the same; else a new one. */
static int make_once(qs__import *one, const char *op, int source, qs_shape shape, int settings, const char *const *name,
                     const double *value) {
    const qs_graph_record *graph = &one->out->graph;
    if (one->status != QS_OK) return 0;
    for (int i = 0; i < graph->operators; i++) {
        const qs_graph_operator *row = &graph->operator_[i];
        bool same = strcmp(row->op, op) == 0 && strcmp(row->input[0], name_of(one, source)) == 0 && row->settings == settings;
        for (int k = 0; k < settings && same; k++)
            same = strcmp(row->setting[k].name, name[k]) == 0 && row->setting[k].value == value[k];
        if (same) return i;
    }
    const int made = qs__make(one, op, NULL, 1, &source, shape);
    for (int k = 0; k < settings; k++)
        qs__set(one, made, name[k], value[k]);
    return made;
}

void qs__flow(qs__value *out, int source, qs_shape shape, const qs__layout *layout) {
    if (!out) return;
    out->kind = QS__FLOW;
    out->source = source;
    out->shape = shape;
    out->shape.dim[0] = 1;
    out->layout = *layout;
    out->input = -1;
    out->causal = false;
}

/* The batch of a value, as the file says it. */
static int64_t batch_of(const qs__value *like) {
    for (int f = 0; f < like->layout.factors; f++)
        if (like->layout.factor[f].batch) return like->layout.factor[f].extent;
    return 1;
}

qs__layout qs__rows_like(const qs__value *like, int rank, const int64_t *extent) {
    int64_t all[QS__MOST_RANK];
    memcpy(all, extent, (size_t)rank * sizeof *all);
    all[0] = batch_of(like);
    return qs__layout_rows(rank, all, true);
}

qs__layout qs__image_like(const qs__value *like, int64_t channels, int spatial, const int64_t *extent) {
    qs__layout out = {.axes = 2 + spatial, .factors = 1, .factor = {{batch_of(like), true}}, .axis = {{1, {0}}}};
    for (int i = 0; i <= spatial; i++) {
        const int axis = i < spatial ? 2 + i : 1;
        const int64_t has = i < spatial ? extent[i] : channels;
        if (has == 1) continue;
        out.axis[axis] = (qs__axis_parts){1, {(signed char)out.factors}};
        out.factor[out.factors++] = (qs__factor){has, false};
    }
    return out;
}

/* ---- Shapes --------------------------------------------------------------------------------------------------------------- */

int qs__seen_as(qs__import *one, qs__value *value, const qs_shape *shape) {
    static const char *const names[] = {"height", "width", "channels"};
    qs_shape plain = *shape;
    plain.dim[0] = 1;
    if (one->status != QS_OK || qs_shape_equal(&value->shape, &plain)) return value->source;
    if (plain.axes == 2 && value->shape.axes > 2 && value->shape.dim[1] == plain.dim[1])
        return make_once(one, "flatten", value->source, plain, 0, NULL, NULL); /* of one position */
    const double extent[] = {shape->axes > 2 ? (double)shape->dim[2] : 0, shape->axes > 3 ? (double)shape->dim[3] : 0,
                             (double)shape->dim[1]};
    const char *said[3];
    double number[3];
    int settings = 0;
    for (int i = 0; i < 3; i++)
        if (extent[i] != 0) said[settings] = names[i], number[settings++] = extent[i];
    /* What a reshape reads may be seen at once. */
    int source = value->source;
    while (qs__is_of(one, source, "reshape")) {
        const char *before = one->out->graph.operator_[source].input[0];
        int at = source - 1;
        while (at >= 0 && strcmp(one->out->graph.operator_[at].name, before) != 0)
            at--;
        for (int i = 0; i < one->out->graph.inputs && at < 0; i++)
            if (strcmp(one->out->graph.input[i].name, before) == 0) at = -1 - i;
        source = at;
        if (at < 0) break;
    }
    return make_once(one, "reshape", source, plain, settings, said, number);
}

int qs__seen(qs__import *one, qs__value *value, int64_t channels, qs_shape *shape) {
    const int64_t all = qs__layout_count(&value->layout);
    if (value->shape.axes > 1 && value->shape.dim[1] == channels) {
        *shape = value->shape;
        return value->source;
    }
    *shape = all == channels ? qs_shape_of(2, (int64_t)1, channels) : qs_shape_of(3, (int64_t)1, channels, all / channels);
    return qs__seen_as(one, value, shape);
}

/* Neighbours that stay neighbours are one extent of a permute; more than five are refused. */
static int permute_make(qs__import *one, const qs__value *value, const int *order, qs_shape *shape) {
    static const char *const names[] = {"extent1", "extent2", "extent3", "extent4", "extent5", "order"};
    const int count = value->layout.factors;
    int first[QS__MOST_FACTORS], runs = 0, place[QS__MOST_FACTORS], at[QS__MOST_FACTORS];
    int64_t extent[QS__MOST_FACTORS];
    for (int f = 1, before = 0; f < count; f++) { /* runs of the wanted order */
        const int64_t has = value->layout.factor[order[f]].extent;
        if (has == 1) continue;
        bool next = before > 0;
        for (int k = before + 1; k < order[f] && next; k++)
            next = value->layout.factor[k].extent == 1;
        if (next && order[f] > before)
            extent[runs - 1] *= has;
        else
            first[runs] = order[f], extent[runs++] = has;
        before = order[f];
    }
    if (runs > 5) {
        qs__refuse_node(one, "its values would have to be moved over %d axes, at most 5 can be", runs);
        return value->source;
    }
    double number[6], digits = 0;
    for (int r = 0; r < runs; r++) { /* where each stands in memory now */
        place[r] = 0;
        for (int k = 0; k < runs; k++)
            place[r] += first[k] < first[r];
        at[place[r]] = r;
        digits = digits * 10 + place[r] + 1;
    }
    const char *said[6];
    for (int r = 0; r < runs; r++)
        said[r] = names[r], number[r] = (double)extent[at[r]];
    said[runs] = names[5];
    number[runs] = digits;
    int64_t between = 1;
    for (int r = 1; r + 1 < runs; r++)
        between *= extent[r];
    *shape =
        runs == 2 ? qs_shape_of(3, (int64_t)1, extent[1], extent[0]) : qs_shape_of(4, (int64_t)1, extent[runs - 1], extent[0], between);
    return make_once(one, "permute", value->source, *shape, runs + 1, said, number);
}

/* ---- Order in memory ------------------------------------------------------------------------------------------------------ */

/* Whether data moves, and over how many runs of neighbours. */
static int runs_of(const qs__layout *layout, const int *order) {
    int runs = 0, before = -1;
    bool moves = false;
    for (int f = 1; f < layout->factors; f++) {
        if (layout->factor[order[f]].extent == 1) continue;
        bool next = before >= 0 && order[f] > before;
        for (int k = before + 1; next && k < order[f]; k++)
            next = layout->factor[k].extent == 1;
        moves = moves || order[f] < before;
        runs += !next;
        before = order[f];
    }
    return moves ? runs : 0;
}

static void move(qs__import *one, qs__value *value, const int *order) {
    qs_shape shape;
    if (runs_of(&value->layout, order) > 0) {
        value->source = permute_make(one, value, order, &shape);
        value->shape = shape;
    }
    qs__layout_permute(&value->layout, order);
}

void qs__arrange(qs__import *one, qs__value *value, const int *order) {
    int wanted[QS__MOST_FACTORS], step[QS__MOST_FACTORS];
    const int factors = value->layout.factors;
    memcpy(wanted, order, (size_t)factors * sizeof *wanted);
    /* Too many runs for one permute: blocks are brought to their places one by one until there are few enough. */
    while (one->status == QS_OK && runs_of(&value->layout, wanted) > 5) {
        int at = 0, length = 1, count = 0;
        while (wanted[at] == at)
            at++;
        const int from = wanted[at];
        while (at + length < factors && wanted[at + length] == from + length)
            length++;
        for (int f = 0; f < at; f++)
            step[count++] = f;
        for (int f = from; f < from + length; f++)
            step[count++] = f;
        for (int f = at; f < factors; f++)
            if (f < from || f >= from + length) step[count++] = f;
        move(one, value, step);
        for (int f = 0; f < factors; f++) { /* where what is wanted stands now */
            int now = 0;
            while (step[now] != wanted[f])
                now++;
            wanted[f] = now;
        }
    }
    if (one->status == QS_OK) move(one, value, wanted);
}

int64_t qs__bring_last(qs__import *one, qs__value *value, int axes, const int *axis) {
    int order[QS__MOST_FACTORS], tail[QS__MOST_FACTORS], count = 0, last = 0;
    bool moved[QS__MOST_FACTORS] = {false};
    int64_t channels = 1;
    qs__layout_merge(&value->layout);
    for (int a = 0; a < axes; a++)
        for (int i = 0; i < value->layout.axis[axis[a]].count; i++) {
            const int f = value->layout.axis[axis[a]].at[i];
            if (value->layout.factor[f].batch) {
                qs__refuse_node(one, "it goes along the batch");
                return 1;
            }
            moved[f] = true;
            tail[last++] = f;
            channels *= value->layout.factor[f].extent;
        }
    for (int f = 0; f < value->layout.factors; f++)
        if (!moved[f]) order[count++] = f;
    memcpy(order + count, tail, (size_t)last * sizeof *tail);
    qs__arrange(one, value, order);
    return channels;
}

void qs__bring_rows(qs__import *one, qs__value *value) {
    int order[QS__MOST_FACTORS], all[QS__MOST_RANK];
    qs__layout_merge(&value->layout);
    for (int a = 0; a < value->layout.axes; a++)
        all[a] = a;
    qs__layout_order(&value->layout, value->layout.axes, all, order);
    qs__arrange(one, value, order);
}

int qs__bring_image(qs__import *one, qs__value *value, qs_shape *shape) {
    static const int axes[3][4] = {{0, 1}, {0, 2, 1}, {0, 2, 3, 1}};
    const int rank = qs__rank(value);
    int order[QS__MOST_FACTORS];
    *shape = qs_shape_of(4, (int64_t)1, (int64_t)1, (int64_t)1, (int64_t)1);
    qs__layout_merge(&value->layout);
    if (rank < 2 || rank > 4 || value->layout.axis[0].count != 1 || !qs__axis_is_batched(&value->layout, 0)) {
        qs__refuse_node(one, "it reads %d axes, the first of which is %sthe batch: images have 4, sequences 3", rank,
                        rank > 0 ? "not " : "");
        return value->source;
    }
    qs__layout_order(&value->layout, rank, axes[rank - 2], order);
    qs__arrange(one, value, order);
    *shape = qs_shape_of(4, (int64_t)1, qs__extent(value, 1), rank == 4 ? qs__extent(value, 2) : (int64_t)1,
                         rank > 2 ? qs__extent(value, rank - 1) : (int64_t)1);
    return qs__seen_as(one, value, shape);
}

bool qs__bring_alike(qs__import *one, const qs__value *left, qs__value *right) {
    qs__layout a = left->layout, b = right->layout;
    int order[QS__MOST_FACTORS], count = 0;
    if (!qs__layout_align(&a, &b) || a.factors != b.factors) return false;
    for (int f = 0; f < a.factors; f++) /* the factor of b that is a's f */
        for (int x = 0; x < a.axes; x++)
            for (int i = 0; i < a.axis[x].count; i++)
                if (a.axis[x].at[i] == f) order[count++] = b.axis[x].at[i];
    right->layout = b;
    if (right->kind == QS__FLOW)
        qs__arrange(one, right, order);
    else
        qs__layout_permute(&right->layout, order);
    return true;
}
