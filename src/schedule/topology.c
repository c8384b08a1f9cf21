// SPDX-License-Identifier: Apache-2.0
/* What follows from graph, mode and job alone: who reads a value, in which order contributions to a gradient arrive, which gradient
 * completes a bucket. */
#include <stdlib.h>

#include "schedule_internal.h"

/* The relu that a normalisation does behind itself; -1: none. Tensors that are rounded are rounded one by one, so both are kernels then. */
static int fused_relu(const qs_lowering *in, int node) {
    return in->tensors && in->tensors->value ? -1 : qs_graph_fused_relu(in->graph, node);
}

static bool is_fused(const qs_lowering *in, int node) {
    const qs_node *one = &in->graph->node[node];
    return one->inputs == 1 && fused_relu(in, one->input[0]) == node;
}

/* Operators that move no data hand on their input's buffer, and so does a relu that the normalisation before it does; operators that act in
 * training only (dropout) do outside it. */
bool qs__is_alias(const qs_lowering *in, int node) {
    const qs_op *op = in->graph->node[node].op;
    return op && (op->alias || is_fused(in, node) || (op->training_only && in->mode == QS_MODE_EVALUATION));
}

qs_attributes qs__attributes_of(const qs_lowering *in, int node) {
    qs_attributes attributes = in->graph->node[node].attributes;
    const int relu = fused_relu(in, node);
    if (relu < 0) return attributes;
    attributes.relu = true;
    attributes.ceiling = in->graph->node[relu].attributes.ceiling;
    return attributes;
}

const qs_pass *qs__forward_pass(const qs_lowering *in, int node) {
    const qs_op *op = in->graph->node[node].op;
    const qs_pass *inference = in->mode == QS_MODE_EVALUATION ? qs_op_pass(op, "inference") : NULL;
    return inference ? inference : qs_op_pass(op, "forward");
}

static void readers_list(const qs_graph *graph, qs_topology *out) {
    for (int n = 1; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++)
            out->first_reader[graph->node[n].input[i] + 1]++;
    for (int n = 0; n < graph->nodes; n++)
        out->first_reader[n + 1] += out->first_reader[n];
    /* Filling moves each start to the next node's; shifting moves them back. */
    for (int n = 1; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++)
            out->reader[out->first_reader[graph->node[n].input[i]]++] = qs__edge(n, i);
    for (int n = graph->nodes; n > 0; n--)
        out->first_reader[n] = out->first_reader[n - 1];
    out->first_reader[0] = 0;
}

/* Operators without a backward pass (add, flatten) hand their gradient to every input, the others give one where they write it. */
static bool contributes(const qs_graph *graph, const qs_topology *topology, int n, int input) {
    const qs_op *op = graph->node[n].op;
    bool differentiates = false;
    if (!topology->needs_gradient[graph->node[n].input[input]]) return false;
    for (int p = 0; p < op->passes; p++)
        for (int i = 0; i < op->pass[p].operands; i++) {
            const qs_pass_operand *operand = &op->pass[p].operand[i];
            if (operand->source == QS_TO_INPUT_GRADIENT && operand->of == input) return true;
            differentiates |= operand->source == QS_TO_INPUT_GRADIENT;
        }
    return !differentiates;
}

bool qs__pass_is_wanted(const qs_schedule_draft *draft, int n, const qs_pass *pass) {
    const qs_node *node = &draft->graph->node[n];
    for (int i = 0; i < pass->operands; i++) {
        const qs_pass_operand *operand = &pass->operand[i];
        if (operand->source == QS_TO_PARAMETER_GRADIENT) return true;
        if (operand->source == QS_TO_INPUT_GRADIENT && draft->topology.needs_gradient[node->input[operand->of]]) return true;
    }
    return false;
}

static void contributions_order(const qs_graph *graph, qs_topology *out) {
    for (int n = 0; n < graph->nodes; n++)
        out->last[n] = -1;
    for (int e = 0; e < graph->nodes * QS_MAX_INPUTS; e++)
        out->before[e] = out->after[e] = -1;
    for (int n = graph->nodes - 1; n > 0; n--)
        for (int i = 0; i < graph->node[n].inputs; i++) {
            if (!contributes(graph, out, n, i)) continue;
            const int edge = qs__edge(n, i), value = graph->node[n].input[i];
            out->before[edge] = out->last[value];
            if (out->last[value] >= 0) out->after[out->last[value]] = edge;
            out->last[value] = edge;
        }
}

static void roots_find(const qs_lowering *in, qs_topology *out) {
    for (int n = 0; n < in->graph->nodes; n++)
        out->root[n] = n > 0 && qs__is_alias(in, n) ? out->root[in->graph->node[n].input[0]] : n;
}

/* Behind a ReLU, and what pools, sums and moved elements leave of that. */
static void signs_find(const qs_graph *graph, qs_topology *out) {
    for (int n = 1; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        bool kept = node->op->sign == QS_SIGN_KEPT && node->inputs > 0;
        for (int i = 0; i < node->inputs; i++)
            kept = kept && out->non_negative[node->input[i]];
        out->non_negative[n] = kept || node->op->sign == QS_SIGN_NEVER_NEGATIVE || node->attributes.relu;
    }
}

qs_status qs__topology_make(const qs_lowering *in, qs_topology *out) {
    const size_t nodes = (size_t)in->graph->nodes, edges = nodes * QS_MAX_INPUTS;
    QS_TRY(qs_allocate(nodes, sizeof *out->needs_gradient, &out->needs_gradient));
    QS_TRY(qs_allocate(nodes, sizeof *out->non_negative, &out->non_negative));
    QS_TRY(qs_allocate(nodes, sizeof *out->root, &out->root));
    QS_TRY(qs_allocate(nodes + 1, sizeof *out->first_reader, &out->first_reader));
    QS_TRY(qs_allocate(edges, sizeof *out->reader, &out->reader));
    QS_TRY(qs_allocate(edges, sizeof *out->before, &out->before));
    QS_TRY(qs_allocate(edges, sizeof *out->after, &out->after));
    QS_TRY(qs_allocate(nodes, sizeof *out->last, &out->last));
    QS_TRY(qs_allocate((size_t)in->graph->parameters, sizeof *out->bucket_of, &out->bucket_of));
    qs_graph_gradients(in->graph, out->needs_gradient);
    signs_find(in->graph, out);
    roots_find(in, out);
    readers_list(in->graph, out);
    contributions_order(in->graph, out);
    return QS_OK;
}

void qs__topology_release(qs_topology *topology) {
    free(topology->needs_gradient);
    free(topology->non_negative);
    free(topology->root);
    free(topology->first_reader);
    free(topology->reader);
    free(topology->before);
    free(topology->after);
    free(topology->last);
    free(topology->bucket_of);
}
