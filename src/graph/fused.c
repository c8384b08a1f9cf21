// SPDX-License-Identifier: Apache-2.0
/* Which nodes need no kernel: other names of their input, and relus that the normalisation before them does. */
#include "qsync/graph.h"

static bool reads(const qs_node *one, int node) {
    for (int i = 0; i < one->inputs; i++)
        if (one->input[i] == node) return true;
    return false;
}

static int only_reader(const qs_graph *graph, int node) {
    if (graph->node[node].consumers != 1) return -1;
    int reader = node + 1;
    while (reader < graph->nodes && !reads(&graph->node[reader], node))
        reader++;
    return reader < graph->nodes ? reader : -1;
}

int qs_graph_fused_relu(const qs_graph *graph, int node) {
    const qs_op *op = graph->node[node].op;
    if (!op || !op->norm || !op->beside) return -1;
    const int reader = only_reader(graph, node);
    return reader >= 0 && graph->node[reader].op->behind_norm ? reader : -1;
}

bool qs_graph_is_name(const qs_graph *graph, int node) {
    const qs_node *one = &graph->node[node];
    return one->op && (one->op->alias || (one->inputs == 1 && qs_graph_fused_relu(graph, one->input[0]) == node));
}
