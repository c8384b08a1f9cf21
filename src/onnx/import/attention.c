// SPDX-License-Identifier: Apache-2.0
/* Attention: scores of queries and keys, a softmax of them, and the values weighed by it are one operator where the scores are divided by
 * the root of the width of a head, as attention does. The import makes the three; here they are joined, in the record. */
#include "fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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
        if (setting_of(weighed, "transposed", 0) != 0 || setting_of(weighed, "heads", 1) != heads) continue;
        const qs_graph_operator *query = row_named(graph, scores->input[0]), *key = row_named(graph, scores->input[1]),
                                *value = row_named(graph, weighed->input[1]);
        if (!query || !key || !value || query->shape.axes != 3 || key->shape.axes != 3 || value->shape.axes != 3 ||
            (heads > 1 && setting_of(weighed, "merged", 0) != 1) || weighed->shape.axes != 3)
            continue;
        const double width = (double)query->shape.dim[1] / heads;
        if (fabs(scale * sqrt(width) - 1) > 1e-5) continue;
        const bool causal = setting_of(softmax, "causal", 0) == 1;
        snprintf(weighed->op, sizeof weighed->op, "attention");
        input_set(weighed, 2, sequence_of(graph, weighed->input[1]));
        input_set(weighed, 0, sequence_of(graph, scores->input[0]));
        input_set(weighed, 1, sequence_of(graph, scores->input[1]));
        weighed->inputs = 3;
        if (softmax->inputs == 2) input_set(weighed, 3, softmax->input[1]), weighed->inputs = 4;
        weighed->settings = 0;
        one->out->joined++;
        if (heads != 1) setting_put(one, weighed, "heads", heads);
        if (causal) setting_put(one, weighed, "causal", 1);
        if (dropped) setting_put(one, weighed, "probability", setting_of(dropped, "probability", 0));
    }
}
