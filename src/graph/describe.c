// SPDX-License-Identifier: Apache-2.0
/* What others ask a graph: depths, shapes for a batch, nodes by name, parameters by role, which nodes need
 * no kernel (other names of their input, and relus that the normalisation before them does), and its signature. */
#include <inttypes.h>
#include <string.h>

#include "graph_internal.h"

void qs_graph_depths(const qs_graph *graph, int *depth) {
    for (int i = 0; i < graph->nodes; i++) {
        const qs_node *node = &graph->node[i];
        depth[i] = 0;
        for (int k = 0; k < node->inputs; k++) {
            int through = depth[node->input[k]] + 1;
            if (through > depth[i]) depth[i] = through;
        }
    }
}

qs_shape qs_graph_shape(const qs_graph *graph, int node, int64_t batch) {
    qs_shape shape = graph->node[node].shape;
    if (graph->node[node].op && graph->node[node].op->kind == QS_FIXED) return shape;
    shape.dim[0] = batch;
    return shape;
}

int qs_graph_find(const qs_graph *graph, const char *name) {
    for (int i = 0; i < graph->nodes; i++) {
        if (strcmp(graph->node[i].name, name) == 0) return i;
    }
    return -1;
}

const qs_parameter *qs_graph_parameter(const qs_graph *graph, int node, qs_role role) {
    const qs_node *owner = &graph->node[node];
    for (int i = 0; i < owner->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[owner->first_parameter + i];
        if (parameter->role == role || (parameter->gradient == role && role != QS_ROLE_COUNT)) return parameter;
    }
    return NULL;
}

int qs_graph_fused_relu(const qs_graph *graph, int node) {
    const qs_op *op = graph->node[node].op;
    if (!op || !op->norm || !op->beside) return -1;
    if (graph->node[node].consumers != 1) return -1;
    for (int reader = node + 1; reader < graph->nodes; reader++) /* the first one found is the only one */
        for (int i = 0; i < graph->node[reader].inputs; i++)
            if (graph->node[reader].input[i] == node) return graph->node[reader].op->behind_norm ? reader : -1;
    return -1;
}

bool qs_graph_is_name(const qs_graph *graph, int node) {
    const qs_node *one = &graph->node[node];
    return one->op && (one->op->alias || (one->inputs == 1 && qs_graph_fused_relu(graph, one->input[0]) == node));
}

/* ---- Signature -------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text, uint64_t seed) {
    return qs_hash(text, strlen(text), seed);
}

uint64_t qs__attributes_hash(const qs_node *node, uint64_t seed) {
    const qs_attributes *a = &node->attributes;
    const double value = node->op ? qs_op_value(node->op, a, 0) : 0, value2 = node->op ? qs_op_value(node->op, a, 1) : 0;
    char text[256];
    snprintf(text, sizeof text,
             " kernel=%dx%d stride=%dx%d padding=%dx%d groups=%d value=%a value2=%a rounding=%s batched=%d per_channel=%d", a->kernel[0],
             a->kernel[1], a->stride[0], a->stride[1], a->padding[0], a->padding[1], a->groups, value, value2,
             qs_rounding_name(a->rounding), a->batched, a->per_channel);
    seed = hash_text(text, seed);
    if (a->offset == 0) return seed; /* so that models without slices keep the signature that older records have */
    snprintf(text, sizeof text, " offset=%d", a->offset);
    return hash_text(text, seed);
}

uint64_t qs__parameters_hash(const qs_graph *graph, int index, uint64_t seed) {
    const qs_node *node = &graph->node[index];
    char shape[96], text[256];
    for (int i = 0; i < node->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[node->first_parameter + i];
        snprintf(text, sizeof text, " %s%s", qs_role_name(parameter->role), qs_shape_text(&parameter->shape, shape));
        seed = hash_text(text, seed);
    }
    return seed;
}

static uint64_t hash_node(const qs_graph *graph, int index, uint64_t seed) {
    const qs_node *node = &graph->node[index];
    char shape[96], text[256];
    snprintf(text, sizeof text, "\n%s %s %s", node->name, node->op ? node->op->name : "input", qs_shape_text(&node->shape, shape));
    uint64_t hash = qs__attributes_hash(node, hash_text(text, seed));
    for (int i = 0; i < node->inputs; i++) {
        snprintf(text, sizeof text, " <%s", graph->node[node->input[i]].name);
        hash = hash_text(text, hash);
    }
    return qs__parameters_hash(graph, index, hash);
}

const char *qs_graph_signature(const qs_graph *graph, char *buffer) {
    uint64_t hash = 0;
    for (int i = 0; i < graph->nodes; i++) {
        hash = hash_node(graph, i, hash);
    }
    snprintf(buffer, 32, "xxh64:%016" PRIx64, hash);
    return buffer;
}
