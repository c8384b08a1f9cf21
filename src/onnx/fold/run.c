// SPDX-License-Identifier: Apache-2.0
/* Evaluating: one node, or a whole model whose operators are all known to the evaluator. */
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

qs_status qs_onnx_evaluate(const qs_onnx_graph *graph, const qs_onnx_node *node, const qs_onnx_tensor *const *input, qs_onnx_memory *memory,
                           qs_onnx_tensor *output) {
    char text[QS_ONNX_NODE_TEXT];
    const qs_status status = qs__compute(node, input, memory, output);
    return status == QS_OK ? status : qs_fail_within(status, "%s", qs_onnx_node_text(graph, node, text));
}

/* Values of a graph that are known so far; what it takes from outside is there. */
static qs_status graph_run(const qs_onnx_graph *graph, const qs_onnx_tensor **value, qs_onnx_memory *memory, int depth);

/* The branch that the condition chooses. */
static qs_status branch_run(const qs_onnx_graph *graph, const qs_onnx_node *node, const qs_onnx_tensor **value, qs_onnx_memory *memory,
                            int depth) {
    const qs_onnx_tensor *condition = node->inputs > 0 && node->input[0] >= 0 ? value[node->input[0]] : NULL;
    int64_t yes;
    char text[QS_ONNX_NODE_TEXT];
    if (!condition || condition->count != 1) return qs_fail(QS_BAD_FILE, "%s: no condition", qs_onnx_node_text(graph, node, text));
    QS_TRY(qs_onnx_tensor_integers(condition, 0, 1, &yes));
    const qs_onnx_attribute *branch = qs_onnx_attribute_find(node, yes ? "then_branch" : "else_branch");
    if (!branch || branch->type != QS_ONNX_ATTRIBUTE_GRAPH || branch->graphs[0]->outputs != node->outputs || branch->graphs[0]->inputs > 0)
        return qs_fail(QS_BAD_FILE, "%s: its branch must be a graph with %d outputs", qs_onnx_node_text(graph, node, text), node->outputs);
    const qs_onnx_graph *inner = branch->graphs[0];
    const qs_onnx_tensor **inside;
    QS_TRY(qs_allocate((size_t)inner->values, sizeof *inside, &inside));
    for (int i = 0; i < inner->values; i++)
        if (inner->value[i].captured >= 0) inside[i] = value[inner->value[i].captured];
    const qs_status status = graph_run(inner, inside, memory, depth + 1);
    for (int k = 0; status == QS_OK && k < node->outputs; k++)
        if (node->output[k] >= 0) value[node->output[k]] = inside[inner->output[k]];
    free(inside);
    return status;
}

static qs_status graph_run(const qs_onnx_graph *graph, const qs_onnx_tensor **value, qs_onnx_memory *memory, int depth) {
    qs_status status = QS_OK;
    const qs_onnx_tensor **in = NULL;
    for (int i = 0; i < graph->values; i++)
        if (graph->value[i].constant && !value[i]) value[i] = graph->value[i].constant;
    for (int n = 0; n < graph->nodes; n++) {
        const qs_onnx_node *node = &graph->node[n];
        qs_onnx_tensor *out;
        if (strcmp(node->op, "If") == 0 && !*node->domain && depth < QS_ONNX_MAX_DEPTH) {
            QS_GOTO(branch_run(graph, node, value, memory, depth));
            continue;
        }
        QS_GOTO(qs_allocate((size_t)node->inputs, sizeof *in, &in));
        for (int i = 0; i < node->inputs; i++)
            in[i] = node->input[i] >= 0 ? value[node->input[i]] : NULL;
        QS_GOTO(qs__onnx_take(memory, (size_t)node->outputs, sizeof *out, &out));
        QS_GOTO(qs_onnx_evaluate(graph, node, in, memory, out));
        for (int k = 0; k < node->outputs; k++)
            if (node->output[k] >= 0) value[node->output[k]] = &out[k];
        free(in);
        in = NULL;
    }
done:
    free(in);
    return status;
}

qs_status qs_onnx_run(const qs_onnx_model *model, const qs_onnx_tensor *const *input, qs_onnx_memory *memory, qs_onnx_tensor *output) {
    const qs_onnx_graph *graph = &model->graph;
    const qs_onnx_tensor **value;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)graph->values, sizeof *value, &value));
    for (int i = 0; i < graph->inputs; i++)
        value[graph->input[i]] = input[i];
    QS_GOTO(graph_run(graph, value, memory, 0));
    for (int i = 0; i < graph->outputs; i++) {
        const qs_onnx_tensor *result = value[graph->output[i]];
        if (!result) QS_GOTO(qs_fail(QS_BAD_FILE, "output \"%.64s\" has no value", graph->value[graph->output[i]].name));
        output[i] = *result;
    }
done:
    free(value);
    return status == QS_OK ? status : qs_fail_within(status, "%s", model->path);
}
