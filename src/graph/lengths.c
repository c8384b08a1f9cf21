// SPDX-License-Identifier: Apache-2.0
/* A model at the lengths of its samples: the same nodes, parameters and places of these, other shapes. */
#include <string.h>

#include "graph_internal.h"

/* Shape of a node from its inputs at hand. Its parameters must be the very ones that it has. */
static qs_status node_reshape(qs_graph *graph, int index) {
    qs_node *node = &graph->node[index];
    qs_shape src[QS_MAX_INPUTS] = {{0}}, shape;
    qs_parameter_rule rule[QS_MAX_PARAMETERS];
    char has[96], wants[96];
    for (int i = 0; i < node->inputs; i++)
        src[i] = graph->node[node->input[i]].shape;
    shape = src[0];
    QS_TRY(qs__integers_check(graph, node));
    if (node->op->infer) QS_TRY(node->op->infer(&node->attributes, src, node->outputs, &shape));
    const int rules = node->op->parameters ? node->op->parameters(&node->attributes, src, node->outputs, node->bias, rule) : 0;
    for (int i = 0; i < rules; i++) {
        const qs_parameter *parameter = qs_graph_parameter(graph, index, rule[i].role);
        if (parameter && !qs_shape_equal(&parameter->shape, &rule[i].shape))
            return qs_fail(QS_USAGE,
                           "its %s are %s, of this length they would be %s: only models whose parameters do not depend on it run "
                           "at several lengths",
                           rule[i].name, qs_shape_text(&parameter->shape, has), qs_shape_text(&rule[i].shape, wants));
    }
    node->shape = shape;
    return qs_shape_check(&shape, "the output");
}

static qs_status arrays_copy(const qs_graph *graph, qs_graph *out) {
    out->node = NULL;
    out->parameter = NULL;
    out->node_capacity = (size_t)graph->nodes;
    out->parameter_capacity = (size_t)graph->parameters;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->node, &out->node));
    memcpy(out->node, graph->node, (size_t)graph->nodes * sizeof *out->node);
    QS_TRY(qs_allocate((size_t)graph->parameters, sizeof *out->parameter, &out->parameter));
    if (graph->parameters > 0) memcpy(out->parameter, graph->parameter, (size_t)graph->parameters * sizeof *out->parameter);
    return QS_OK;
}

qs_status qs_graph_of_length(const qs_graph *graph, int64_t length, qs_graph **out) {
    qs_samples samples;
    qs_graph *made = NULL, *inputs = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_fail_within(qs_samples_of_length(&graph->samples, length, &samples), "model %s", graph->name));
    QS_TRY(qs_allocate(1, sizeof *made, &made));
    *made = *graph;
    QS_GOTO(arrays_copy(graph, made));
    made->samples = samples;
    QS_GOTO(qs_graph_create(graph->name, samples.unit, samples.inputs, samples.input, &inputs));
    for (int n = 0; n < graph->nodes; n++) {
        if (n < samples.inputs)
            made->node[n].shape = inputs->node[n].shape;
        else
            QS_GOTO(qs_fail_within(node_reshape(made, n), "model %s at length %lld: node \"%s\"", graph->name, (long long)length,
                                   graph->node[n].name));
    }
    *out = made;
    made = NULL;
done:
    qs_graph_release(inputs);
    qs_graph_release(made);
    return status;
}

qs_status qs_graph_lengths_make(const qs_graph *graph, const qs_lengths *lengths, qs_graph_lengths *out) {
    char text[QS_LENGTHS_TEXT];
    const int last = lengths->count - 1;
    *out = (qs_graph_lengths){.count = 1, .graph = {graph}};
    if (lengths->count == 0) return QS_OK;
    QS_TRY(qs_lengths_check(lengths));
    const int64_t whole = qs_samples_length(&graph->samples);
    if (whole == 0)
        return qs_fail(QS_USAGE, "lengths %s: model %s takes no samples of a length that varies", qs_lengths_text(lengths, text),
                       graph->name);
    if (lengths->at[last] != whole)
        return qs_fail(QS_USAGE,
                       "lengths %s: the longest must be the length of the samples, %lld; the option length=%lld of the data set makes it "
                       "that",
                       qs_lengths_text(lengths, text), (long long)whole, (long long)lengths->at[last]);
    out->count = lengths->count;
    out->graph[last] = graph;
    for (int i = 0; i < last; i++) {
        QS_TRY(qs_graph_of_length(graph, lengths->at[i], &out->made[i]));
        out->graph[i] = out->made[i];
    }
    return QS_OK;
}

void qs_graph_lengths_release(qs_graph_lengths *one) {
    for (int i = 0; i < QS_MOST_LENGTHS; i++)
        qs_graph_release(one->made[i]);
    *one = (qs_graph_lengths){0};
}
