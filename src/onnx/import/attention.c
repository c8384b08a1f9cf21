// SPDX-License-Identifier: Apache-2.0
/* Attention: scores of queries and keys, a softmax of them, and the values weighed by it are one operator where the scores are divided by
 * the root of the width of a head, as attention does. The import makes the three; here they are joined, in the record. And the
 * operator Attention of opset 23. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "fuse.h"

/* ---- In the record ---------------------------------------------------------------------------------------------------------- */

static bool is_of(const qs_graph_operator *row, const char *op) {
    const qs_op *is = NULL, *wanted = NULL;
    return row && qs_op_find(row->op, &is) == QS_OK && qs_op_find(op, &wanted) == QS_OK && is == wanted;
}

static qs_graph_operator *row_named(qs_graph_record *graph, const char *name) {
    for (int i = 0; i < graph->operators; i++)
        if (strcmp(graph->operator_[i].name, name) == 0) return &graph->operator_[i];
    return NULL;
}

static int readers_of(const qs_graph_record *graph, const char *name) {
    int readers = strcmp(graph->output, name) == 0;
    for (int i = 0; i < graph->operators; i++)
        for (int k = 0; k < graph->operator_[i].inputs; k++)
            readers += strcmp(graph->operator_[i].input[k], name) == 0;
    return readers;
}

/* The first operator behind the one at `place` that reads a value. */
static qs_graph_operator *reader_of(qs_graph_record *graph, int place, const char *name) {
    for (int i = place + 1; i < graph->operators; i++)
        for (int k = 0; k < graph->operator_[i].inputs; k++)
            if (strcmp(graph->operator_[i].input[k], name) == 0) return &graph->operator_[i];
    return NULL;
}

static double setting_of(const qs_graph_operator *row, const char *name, double otherwise) {
    for (int i = 0; i < row->settings; i++)
        if (strcmp(row->setting[i].name, name) == 0) return row->setting[i].value;
    return otherwise;
}

static void setting_put(qs__import *one, qs_graph_operator *row, const char *name, double value) {
    for (int i = 0; i < row->settings; i++)
        if (strcmp(row->setting[i].name, name) == 0) {
            row->setting[i].value = value;
            return;
        }
    qs__set(one, (int)(row - one->out->graph.operator_), name, value);
}

static void input_set(qs_graph_operator *row, int index, const char *name) {
    memmove(row->input[index], name, strlen(name) + 1);
}

/* Takes a multiplication by a number before `row` away, where it alone reads it and adds nothing; its factor. */
static double factor_before(qs__import *one, qs_graph_operator *row, int index) {
    qs_graph_record *graph = &one->out->graph;
    qs_graph_operator *scaled = row_named(graph, row->input[index]);
    if (!is_of(scaled, "affine") || setting_of(scaled, "term", 0) != 0 || readers_of(graph, scaled->name) != 1) return 1;
    const double factor = setting_of(scaled, "factor", 1);
    if (!(factor > 0)) return 1;
    input_set(row, index, scaled->input[0]);
    scaled->inputs = 0; /* it reads nothing any more, and goes with what leads to no output */
    return factor;
}

/* A value behind reshapes, whose sequence [N,C,L] it is already; else itself. */
static const char *sequence_of(qs_graph_record *graph, const char *name) {
    for (const qs_graph_operator *row = row_named(graph, name); row; row = row_named(graph, name)) {
        if (!is_of(row, "reshape") || row->shape.axes != 3) break;
        const qs_graph_operator *before = row_named(graph, row->input[0]);
        if (!before || !qs_shape_equal(&before->shape, &row->shape)) break;
        name = row->input[0];
    }
    return name;
}

/* Factors of queries and keys that stand before reshapes of them are moved into the softmax as well. */
static double factor_of(qs__import *one, qs_graph_operator *product, int index) {
    qs_graph_record *graph = &one->out->graph;
    double factor = factor_before(one, product, index);
    qs_graph_operator *seen = row_named(graph, product->input[index]);
    if (seen && is_of(seen, "reshape") && readers_of(graph, seen->name) == 1) factor *= factor_before(one, seen, 0);
    return factor;
}

/* What a value repeats that stands side by side for several heads each: the sequence of `heads` / *repeats heads of that width, and
 * *repeats; NULL: it is none. Of one key head all that is repeated lies together. */
static const qs_graph_operator *repeated_of(qs_graph_record *graph, const char *name, double heads, int64_t width, int64_t length,
                                            double *repeats) {
    qs_graph_operator *row = row_named(graph, name);
    while (row && is_of(row, "reshape"))
        row = row_named(graph, row->input[0]);
    if (!row || !is_of(row, "expand") || row->shape.axes != 4 || row->shape.dim[1] != width) return NULL;
    *repeats = (double)row->shape.dim[3];
    const char *from = row->input[0];
    for (row = row_named(graph, from); row && is_of(row, "reshape"); row = row_named(graph, from))
        from = row->input[0];
    const double key_heads = heads / *repeats;
    if (!row || !(*repeats > 1) || row->shape.axes != 3 || (double)row->shape.dim[1] != key_heads * (double)width ||
        row->shape.dim[2] != length)
        return NULL;
    return row;
}

void qs__attention_join(qs__import *one) {
    qs_graph_record *graph = &one->out->graph;
    for (int i = 0; i < graph->operators && one->status == QS_OK; i++) {
        qs_graph_operator *softmax = &graph->operator_[i];
        if (!is_of(softmax, "softmax")) continue;
        double scale = setting_of(softmax, "scale", 1);
        double factor = factor_before(one, softmax, 0);
        qs_graph_operator *scores = row_named(graph, softmax->input[0]);
        if (is_of(scores, "matmul") && readers_of(graph, scores->name) == 1)
            factor *= factor_of(one, scores, 0) * factor_of(one, scores, 1);
        scale *= factor;
        if (factor != 1) setting_put(one, softmax, "scale", scale);
        softmax = &graph->operator_[i];
        scores = row_named(graph, softmax->input[0]);
        if (!is_of(scores, "matmul") || setting_of(scores, "transposed", 0) != 1 || readers_of(graph, scores->name) != 1 ||
            readers_of(graph, softmax->name) != 1)
            continue;
        /* The one reader weighs values, maybe behind a dropout. */
        const qs_graph_operator *dropped = reader_of(graph, i, softmax->name);
        if (!is_of(dropped, "dropout") || readers_of(graph, dropped->name) != 1) dropped = NULL;
        qs_graph_operator *weighed = reader_of(graph, i, dropped ? dropped->name : softmax->name);
        if (!is_of(weighed, "matmul") || strcmp(weighed->input[0], dropped ? dropped->name : softmax->name) != 0) continue;
        const double heads = setting_of(scores, "heads", 1);
        const double said = setting_of(scores, "key_heads", heads);
        if (setting_of(weighed, "transposed", 0) != 0 || setting_of(weighed, "heads", 1) != heads ||
            setting_of(weighed, "key_heads", heads) != said)
            continue;
        const qs_graph_operator *query = row_named(graph, scores->input[0]), *key = row_named(graph, scores->input[1]),
                                *value = row_named(graph, weighed->input[1]);
        if (!query || !key || !value || query->shape.axes != 3 || key->shape.axes != 3 || value->shape.axes != 3 ||
            (heads > 1 && setting_of(weighed, "merged", 0) != 1) || weighed->shape.axes != 3)
            continue;
        const double width = (double)query->shape.dim[1] / heads;
        double repeats = 1, again = 1;
        const qs_graph_operator *shared =
            said == heads ? repeated_of(graph, key->name, heads, (int64_t)width, key->shape.dim[2], &repeats) : NULL;
        const qs_graph_operator *weighs =
            shared ? repeated_of(graph, value->name, heads, value->shape.dim[1] / (int64_t)heads, value->shape.dim[2], &again) : NULL;
        const bool grouped = shared && weighs && repeats == again;
        const double key_heads = grouped ? heads / repeats : said;
        if (fabs(scale * sqrt(width) - 1) > 1e-5) continue;
        const bool causal = setting_of(softmax, "causal", 0) == 1;
        snprintf(weighed->op, sizeof weighed->op, "attention");
        input_set(weighed, 2, grouped ? weighs->name : sequence_of(graph, weighed->input[1]));
        input_set(weighed, 0, sequence_of(graph, scores->input[0]));
        input_set(weighed, 1, grouped ? shared->name : sequence_of(graph, scores->input[1]));
        weighed->inputs = 3;
        if (softmax->inputs == 2) input_set(weighed, 3, softmax->input[1]), weighed->inputs = 4;
        weighed->settings = 0;
        one->out->joined++;
        if (heads != 1) setting_put(one, weighed, "heads", heads);
        if (key_heads != heads) setting_put(one, weighed, "key_heads", key_heads);
        if (causal) setting_put(one, weighed, "causal", 1);
        if (dropped) setting_put(one, weighed, "probability", setting_of(dropped, "probability", 0));
    }
}

/* ---- The operator ----------------------------------------------------------------------------------------------------------- */

bool qs__heads_apart(qs__import *one, qs__value *x, int64_t heads) {
    const int64_t apart[] = {qs__extent(x, 0), qs__extent(x, 1), heads, qs__extent(x, 2) / heads};
    if (!qs__layout_reshape(&x->layout, 4, apart, 0)) qs__bring_rows(one, x);
    if (qs__rank(x) == 4 || qs__layout_reshape(&x->layout, 4, apart, 0)) return true;
    qs__refuse_node(one, "its heads are cut across each other");
    return false;
}

/* Queries, keys or values with the axes sample, position, head, channel, in memory too; *heads is said by an attribute where they have
 * three axes. */
static bool heads_bring(qs__import *one, const qs__node *node, int input, const char *attribute, qs__value *x, int64_t *heads) {
    static const int positions_first[] = {0, 2, 1, 3}, all[] = {0, 1, 2, 3};
    int order[QS__MOST_FACTORS];
    if (!qs__flow_in(one, node, input, x)) return false;
    const int rank = qs__rank(x);
    *heads = rank == 4 ? qs__extent(x, 1) : qs__int(one, node, attribute, 0);
    if ((rank != 3 && rank != 4) || !qs__axis_is_batched(&x->layout, 0) || *heads < 1 || qs__extent(x, 2) % (rank == 3 ? *heads : 1) != 0) {
        qs__refuse_node(one, "its input %d has %d axes and %lld heads", input, rank, (long long)*heads);
        return false;
    }
    if (rank == 4)
        qs__layout_transpose(&x->layout, 4, positions_first);
    else if (!qs__heads_apart(one, x, *heads))
        return false;
    qs__layout_order(&x->layout, 4, all, order);
    qs__arrange(one, x, order);
    return one->status == QS_OK;
}

/* What this operator has of others that ours has not. */
static const char *more_than_attention(qs__import *one, const qs__node *node) {
    static const char *const outputs[] = {"present_key", "present_value", "qk_matmul_output"};
    static const char *const known[] = {"is_causal", "kv_num_heads", "q_num_heads",       "qk_matmul_output_mode",
                                        "scale",     "softcap",      "softmax_precision", NULL};
    for (int i = 1; i <= 3; i++)
        if (qs__made_by(one, node, i) && qs__made_by(one, node, i)->readers > 0) return outputs[i - 1];
    if (qs__read_by(one, node, 4) || qs__read_by(one, node, 5)) return "past_key and past_value: generation has caches of its own";
    if (qs__read_by(one, node, 6)) return "nonpad_kv_seqlen";
    for (int a = 0; a < node->from->attributes; a++) /* later opsets have more: windows */
        if (qs__word_find(node->from->attribute[a].name, known) < 0) return node->from->attribute[a].name;
    return qs__float(one, node, "softcap", 0) != 0 ? "softcap" : NULL;
}

void qs__import_Attention(qs__import *one, const qs__node *node) {
    static const int heads_first[] = {0, 2, 1, 3};
    qs__value q, k, v;
    int64_t heads, key_heads, value_heads;
    const char *more = more_than_attention(one, node);
    if (more) {
        qs__refuse_node(one, "with %s", more);
        return;
    }
    if (!heads_bring(one, node, 0, "q_num_heads", &q, &heads) || !heads_bring(one, node, 1, "kv_num_heads", &k, &key_heads) ||
        !heads_bring(one, node, 2, "kv_num_heads", &v, &value_heads))
        return;
    const int64_t queries = qs__extent(&q, 1), width = qs__extent(&q, 3), value_width = qs__extent(&v, 3);
    const bool causal = qs__int(one, node, "is_causal", 0) != 0;
    int64_t keys = qs__extent(&k, 1);
    if (value_heads != key_heads || heads % key_heads != 0 || qs__extent(&k, 3) != width || qs__extent(&v, 1) != keys) {
        qs__refuse_node(one, "%lld heads of queries, %lld and %lld of keys and values, or their extents, do not fit", (long long)heads,
                        (long long)key_heads, (long long)value_heads);
        return;
    }
    if (causal && keys > queries) { /* of as many positions from the first one on: keys behind them are seen by none */
        qs__cut(one, &k, 1, 0, queries, 1);
        qs__cut(one, &v, 1, 0, queries, 1);
        keys = queries;
    }
    if (causal && queries != keys) {
        qs__refuse_node(one, "causal of %lld queries and %lld keys", (long long)queries, (long long)keys);
        return;
    }
    const qs__value *mask = qs__read_by(one, node, 3);
    const int64_t extent[] = {qs__extent(&q, 0), heads, queries, keys}, weighed[] = {qs__extent(&q, 0), queries, heads, value_width},
                  joined[] = {qs__extent(&q, 0), queries, heads * value_width};
    qs__value scores = {.input = -1, .causal = causal, .layout = qs__layout_rows(4, extent, true)};
    if (mask && !qs__hide_scores(one, &scores, mask)) {
        qs__refuse_node(one, "a mask that says more than which positions count, or what is behind a position");
        return;
    }
    const double factor = qs__float(one, node, "scale", 1 / sqrt((double)width)) * sqrt((double)width);
    if (!(factor > 0)) {
        qs__refuse_node(one, "a scale that is not positive");
        return;
    }
    const qs_shape seen[] = {qs_shape_of(3, (int64_t)1, heads * width, queries), qs_shape_of(3, (int64_t)1, key_heads * width, keys),
                             qs_shape_of(3, (int64_t)1, key_heads * value_width, keys)};
    int source[] = {qs__seen_as(one, &q, &seen[0]), qs__seen_as(one, &k, &seen[1]), qs__seen_as(one, &v, &seen[2]), -1 - scores.input};
    if (fabs(factor - 1) > 1e-6) {
        const int scaled = qs__make(one, "affine", NULL, 1, source, seen[0]);
        qs__set(one, scaled, "factor", factor);
        source[0] = scaled;
    }
    const qs_shape shape = qs_shape_of(3, (int64_t)1, heads * value_width, queries);
    const int made = qs__make(one, "attention", NULL, scores.input < 0 ? 3 : 4, source, shape);
    if (heads != 1) qs__set(one, made, "heads", (double)heads);
    if (key_heads != heads) qs__set(one, made, "key_heads", (double)key_heads);
    if (scores.causal) qs__set(one, made, "causal", 1);
    const bool side_by_side = qs__rank(qs__read_by(one, node, 0)) == 3;
    qs__layout layout = side_by_side ? qs__layout_rows(3, joined, true) : qs__layout_rows(4, weighed, true);
    if (!side_by_side) qs__layout_transpose(&layout, 4, heads_first);
    qs__flow(qs__made_by(one, node, 0), made, shape, &layout);
}
