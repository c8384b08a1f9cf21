// SPDX-License-Identifier: Apache-2.0
/* The order of nodes, and who reads what. A node reads its inputs, and what its sub-graphs capture. */
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

/* Values of this graph that a node reads, one after the other: *at counts; -1 where there are no more. Absent inputs are passed over. */
typedef struct reading {
    int input, attribute;
    size_t graph;
    int value;
} reading;

static int next_read(const qs_onnx_node *node, reading *at) {
    while (at->input < node->inputs) {
        const int value = node->input[at->input++];
        if (value >= 0) return value;
    }
    for (; at->attribute < node->attributes; at->attribute++, at->graph = 0) {
        const qs_onnx_attribute *attribute = &node->attribute[at->attribute];
        if (!attribute->graphs) continue;
        for (; at->graph < attribute->count; at->graph++, at->value = 0) {
            const qs_onnx_graph *graph = attribute->graphs[at->graph];
            while (at->value < graph->values) {
                const int captured = graph->value[at->value++].captured;
                if (captured >= 0) return captured;
            }
        }
    }
    return -1;
}

void qs__graph_count_uses(qs_onnx_graph *graph) {
    for (int i = 0; i < graph->values; i++)
        graph->value[i].uses = 0;
    for (int i = 0; i < graph->nodes; i++) {
        reading at = {0};
        for (int value; (value = next_read(&graph->node[i], &at)) >= 0;)
            graph->value[value].uses++;
    }
    for (int i = 0; i < graph->outputs; i++)
        graph->value[graph->output[i]].uses++;
}

/* Whether each node stands behind those that write what it reads. */
static bool in_order(const qs_onnx_graph *graph) {
    for (int i = 0; i < graph->nodes; i++) {
        reading at = {0};
        for (int value; (value = next_read(&graph->node[i], &at)) >= 0;)
            if (graph->value[value].producer >= i) return false;
    }
    return true;
}

/* Depth first from the first node on, without recursion: a node is placed once all that it reads are. */
static qs_status place(const qs_onnx_graph *graph, char *state, int *stack, reading *at, qs_onnx_node *sorted) {
    enum { NEW, OPEN, PLACED };
    int placed = 0;
    for (int first = 0; first < graph->nodes; first++) {
        if (state[first] != NEW) continue;
        int depth = 0;
        stack[depth++] = first;
        state[first] = OPEN;
        at[first] = (reading){0};
        while (depth > 0) {
            const int node = stack[depth - 1], value = next_read(&graph->node[node], &at[node]);
            if (value < 0) {
                sorted[placed++] = graph->node[node];
                state[node] = PLACED;
                depth--;
                continue;
            }
            const int producer = graph->value[value].producer;
            if (producer < 0 || state[producer] == PLACED) continue;
            if (state[producer] == OPEN) {
                char text[QS_ONNX_NODE_TEXT];
                return qs_fail(QS_BAD_FILE, "%s is part of a cycle: it needs its own result",
                               qs_onnx_node_text(graph, &graph->node[producer], text));
            }
            state[producer] = OPEN;
            at[producer] = (reading){0};
            stack[depth++] = producer;
        }
    }
    return QS_OK;
}

qs_status qs__graph_order(qs_onnx_graph *graph) {
    if (in_order(graph)) return QS_OK;
    const size_t count = (size_t)graph->nodes;
    char *state = NULL;
    int *stack = NULL;
    reading *at = NULL;
    qs_onnx_node *sorted = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(count, sizeof *state, &state));
    QS_GOTO(qs_allocate(count, sizeof *stack, &stack));
    QS_GOTO(qs_allocate(count, sizeof *at, &at));
    QS_GOTO(qs_allocate(count, sizeof *sorted, &sorted));
    QS_GOTO(place(graph, state, stack, at, sorted));
    memcpy(graph->node, sorted, count * sizeof *sorted);
    for (int i = 0; i < graph->nodes; i++)
        for (int k = 0; k < graph->node[i].outputs; k++)
            if (graph->node[i].output[k] >= 0) graph->value[graph->node[i].output[k]].producer = i;
done:
    free(state);
    free(stack);
    free(at);
    free(sorted);
    return status;
}

const char *qs_onnx_node_text(const qs_onnx_graph *graph, const qs_onnx_node *node, char text[QS_ONNX_NODE_TEXT]) {
    const char *first = node->outputs > 0 && node->output[0] >= 0 ? graph->value[node->output[0]].name : "";
    if (*node->name)
        snprintf(text, QS_ONNX_NODE_TEXT, "node \"%.80s\" (%.40s)", node->name, node->op);
    else
        snprintf(text, QS_ONNX_NODE_TEXT, "node that writes \"%.80s\" (%.40s)", first, node->op);
    return text;
}
