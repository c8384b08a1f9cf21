// SPDX-License-Identifier: Apache-2.0
/* Tensors of a gradient computation, and the groups between matrix multiplications in which precision assignments change them. */
#include <stdlib.h>

#include "graph_internal.h"

const char *qs_graph_tensor_name(const qs_graph *graph, const qs_graph_tensor *tensor) {
    return tensor->parameter < 0 ? graph->node[tensor->node].name : graph->parameter[tensor->parameter].name;
}

static bool is_gemm(const qs_graph *graph, int node) {
    return graph->node[node].op && qs_op_multiplies(graph->node[node].op);
}

static void first_wins(int *leader, int candidate) {
    if (candidate >= 0 && (*leader < 0 || candidate < *leader)) *leader = candidate;
}

/* leader[n]: the first multiplication that n's output reaches without passing another; -1: none, it only reaches the loss. A reader stands
 * behind what it reads, so one walk from the end sees every path. */
static void leaders_find(const qs_graph *graph, int *leader) {
    for (int n = 0; n < graph->nodes; n++)
        leader[n] = -1;
    for (int reader = graph->nodes - 1; reader > 0; reader--)
        for (int i = 0; i < graph->node[reader].inputs; i++)
            first_wins(&leader[graph->node[reader].input[i]], is_gemm(graph, reader) ? reader : leader[reader]);
}

/* A multiplication that reads the same values as earlier ones leads no group; what reaches none comes last. */
static int groups_number(const qs_graph *graph, const int *leader, int *number) {
    int groups = 0;
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        bool leads = false;
        for (int i = 0; i < graph->node[n].inputs; i++)
            leads = leads || leader[graph->node[n].input[i]] == n;
        number[n] = is_gemm(graph, n) && leads ? groups++ : -1;
    }
    return groups + 1;
}

typedef struct lister {
    const qs_graph *graph;
    int64_t batch;
    const int *leader; /* (nodes) */
    const int *number; /* (nodes) of the group that a multiplication leads */
    const bool *gradient;
    qs_groups *out;
} lister;

/* A tensor beside the output of node `value`. */
static void tensor_add(lister *one, int value, qs_graph_tensor tensor) {
    const int leader = one->leader[value];
    tensor.group = leader < 0 ? one->out->groups - 1 : one->number[leader];
    qs_tensor_group *group = &one->out->group[tensor.group];
    const int64_t all = tensor.gradient ? 2 * tensor.elements : tensor.elements;
    group->leader = leader;
    group->tensors++;
    group->elements += all;
    group->demotable += tensor.parameter < 0 ? all : tensor.elements;
    one->out->elements += all;
    one->out->demotable += tensor.parameter < 0 ? all : tensor.elements;
    one->out->tensor[one->out->tensors++] = tensor;
}

static void node_list(lister *one, int n) {
    const qs_node *node = &one->graph->node[n];
    for (int i = node->first_parameter; i < node->first_parameter + node->parameters; i++) {
        const qs_parameter *parameter = &one->graph->parameter[i];
        if (parameter->gradient == QS_ROLE_COUNT) continue;
        const qs_graph_tensor tensor = {
            .node = n, .parameter = i, .elements = qs_shape_count(&parameter->shape), .gradient = !parameter->frozen};
        tensor_add(one, node->input[0], tensor);
    }
    if (node->op ? node->op->alias || node->op->kind == QS_FIXED : one->graph->samples.input[n].type == QS_INPUT_I32) return;
    const qs_shape shape = qs_graph_shape(one->graph, n, one->batch);
    tensor_add(one, n, (qs_graph_tensor){.node = n, .parameter = -1, .elements = qs_shape_count(&shape), .gradient = one->gradient[n]});
}

qs_status qs_graph_groups(const qs_graph *graph, int64_t batch, qs_groups *out) {
    const size_t nodes = (size_t)graph->nodes;
    qs_groups groups = {0};
    int *leader = NULL, *number = NULL;
    bool *gradient = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(nodes, sizeof *leader, &leader));
    QS_GOTO(qs_allocate(nodes, sizeof *number, &number));
    QS_GOTO(qs_allocate(nodes, sizeof *gradient, &gradient));
    qs_graph_gradients(graph, gradient);
    leaders_find(graph, leader);
    groups.groups = groups_number(graph, leader, number);
    QS_GOTO(qs_allocate((size_t)groups.groups, sizeof *groups.group, &groups.group));
    QS_GOTO(qs_allocate(nodes + (size_t)graph->parameters, sizeof *groups.tensor, &groups.tensor));
    lister one = {graph, batch, leader, number, gradient, &groups};
    for (int n = 0; n < graph->nodes; n++)
        node_list(&one, n);
    *out = groups;
    groups = (qs_groups){0};
done:
    qs_groups_release(&groups);
    free(leader);
    free(number);
    free(gradient);
    return status;
}

void qs_groups_release(qs_groups *groups) {
    free(groups->tensor);
    free(groups->group);
    *groups = (qs_groups){0};
}
