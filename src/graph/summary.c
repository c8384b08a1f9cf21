// SPDX-License-Identifier: Apache-2.0
/* What a node costs on paper: cases of its passes for a batch, FLOPs, and the bytes it keeps from forward to backward. */
#include "qsync/graph.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Operands of a node's passes ------------------------------------------------------------------------------------------ */

static bool input_shape(const qs_graph *graph, const qs_node *node, int position, int64_t batch, qs_shape *out) {
    if (position >= node->inputs) return false;
    *out = qs_graph_shape(graph, node->input[position], batch);
    return true;
}

static bool mask_shape(const qs_graph *graph, int node, int64_t batch, qs_shape *out) {
    const qs_op *op = graph->node[node].op;
    if (!op->saves_mask) return false;
    qs_shape dst = qs_graph_shape(graph, node, batch);
    *out = op->mask(&dst);
    return true;
}

static bool parameter_shape(const qs_graph *graph, int node, qs_role role, qs_shape *out) {
    const qs_parameter *parameter = qs_graph_parameter(graph, node, role);
    if (parameter) *out = parameter->shape;
    return parameter != NULL;
}

bool qs_graph_operand(const qs_graph *graph, int node, qs_role role, int64_t batch, qs_shape *out) {
    const qs_node *one = &graph->node[node];
    switch (role) {
    case QS_SRC:
    case QS_DIFF_SRC:
        return input_shape(graph, one, 0, batch, out);
    case QS_SRC2:
    case QS_DIFF_SRC2:
        return input_shape(graph, one, 1, batch, out);
    case QS_DST:
    case QS_DIFF_DST:
        *out = qs_graph_shape(graph, node, batch);
        return true;
    case QS_MASK:
        return mask_shape(graph, node, batch, out);
    case QS_LABELS:
        *out = qs_shape_of(1, batch);
        return true;
    case QS_LOSS:
        *out = qs_shape_of(1, (int64_t)2);
        return true;
    case QS_MEAN:
    case QS_VARIANCE:
    case QS_DEVIATION:
        *out = qs_graph_shape(graph, node, batch);
        *out = qs_norm_vector(one->op->norm, out);
        return true;
    default:
        return parameter_shape(graph, node, role, out);
    }
}

qs_case qs_graph_case(const qs_graph *graph, int node, const qs_pass *pass, int64_t batch) {
    qs_case one = qs_case_make(graph->node[node].op->name, pass->name, &graph->node[node].attributes);
    const qs_format *bytes = qs_format_of("int8"), *fp32 = qs_format_of("fp32");
    for (int i = 0; i < pass->roles; i++) {
        qs_shape shape;
        if (!qs_graph_operand(graph, node, pass->role[i], batch, &shape)) continue;
        qs_case_bind(&one, pass->role[i], shape, pass->role[i] == QS_MASK ? bytes : fp32);
    }
    return one;
}

/* ---- FLOPs ------------------------------------------------------------------------------------------------------------------ */

static int64_t trained_parameters(const qs_graph *graph, const qs_node *node) {
    int64_t count = 0;
    for (int i = 0; i < node->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[node->first_parameter + i];
        if (parameter->gradient != QS_ROLE_COUNT) count += qs_shape_count(&parameter->shape);
    }
    return count;
}

static bool passes_gradient_on(const bool *needed, const qs_node *node) {
    for (int k = 0; k < node->inputs; k++) {
        if (needed[node->input[k]]) return true;
    }
    return false;
}

void qs_graph_gradients(const qs_graph *graph, bool *needed) {
    for (int i = 0; i < graph->nodes; i++) {
        const qs_node *node = &graph->node[i];
        needed[i] = passes_gradient_on(needed, node) || trained_parameters(graph, node) > 0;
    }
}

/* A backward pass runs when something wants what it writes: a parameter, or an input that a gradient flows on to. */
static bool trains_with(const qs_pass *pass, bool gradient_on) {
    if (strcmp(pass->name, "inference") == 0) return false;
    for (int i = 0; i < pass->roles; i++) {
        const bool of_input = pass->role[i] == QS_DIFF_SRC || pass->role[i] == QS_DIFF_SRC2;
        if ((pass->written >> i & 1) && (!of_input || gradient_on)) return true;
    }
    return false;
}

static void count_flops(const qs_graph *graph, int node, int64_t batch, bool gradient_on, qs_node_summary *out) {
    const qs_op *op = graph->node[node].op;
    for (int i = 0; i < op->passes; i++) {
        if (!trains_with(&op->pass[i], gradient_on)) continue;
        qs_case one = qs_graph_case(graph, node, &op->pass[i], batch);
        double flops = qs_case_flops(&one);
        out->total_flops += flops;
        if (strcmp(op->pass[i].name, "forward") == 0) out->forward_flops = flops;
    }
}

/* ---- Saved bytes --------------------------------------------------------------------------------------------------------------- */

/* The node whose memory a node's output lies in. */
static int producer(const qs_graph *graph, int node) {
    while (graph->node[node].op && graph->node[node].op->alias) {
        node = graph->node[node].input[0];
    }
    return node;
}

static const qs_format *saved_format(const qs_op *op, const qs_format *compute, const qs_format *storage) {
    if (op->kind == QS_FIXED) return qs_format_of("fp32");
    if (op->norm && op->norm->quantized) return qs_format_of("int8");
    return op->kind == QS_ADJUSTABLE ? compute : storage;
}

/* True when an earlier node saves the same tensor in the same format. */
static bool saved_before(const qs_graph *graph, int node, const qs_format *compute, const qs_format *storage) {
    int tensor = producer(graph, graph->node[node].input[0]);
    const qs_format *format = saved_format(graph->node[node].op, compute, storage);
    for (int i = 1; i < node; i++) {
        const qs_node *other = &graph->node[i];
        if (!other->op->saves_src || producer(graph, other->input[0]) != tensor) continue;
        if (saved_format(other->op, compute, storage) == format) return true;
    }
    return false;
}

static bool read_backward(const qs_op *op, qs_role role) {
    const qs_pass *backward = qs_op_pass(op, "backward");
    for (int i = 0; backward && i < backward->roles; i++) {
        if (backward->role[i] == role && !(backward->written >> i & 1)) return true;
    }
    return false;
}

/* What the forward pass writes beside its output and the backward pass reads: masks, mean and variance. */
static int64_t side_results(const qs_graph *graph, int node, int64_t batch) {
    const qs_op *op = graph->node[node].op;
    const qs_pass *forward = qs_op_pass(op, "forward");
    int64_t bytes = 0;
    for (int i = 0; forward && i < forward->roles; i++) {
        qs_role role = forward->role[i];
        qs_shape shape;
        if (!(forward->written >> i & 1) || !read_backward(op, role)) continue;
        if (!qs_graph_operand(graph, node, role, batch, &shape)) continue;
        bytes += (int64_t)qs_tensor_bytes(&shape, qs_format_of(role == QS_MASK ? "int8" : "fp32"));
    }
    return bytes;
}

static int64_t saved_bytes(const qs_graph *graph, int node, int64_t batch, const qs_format *compute, const qs_format *storage) {
    const qs_node *one = &graph->node[node];
    int64_t bytes = side_results(graph, node, batch);
    if (one->op->saves_src && !saved_before(graph, node, compute, storage)) {
        qs_shape src = qs_graph_shape(graph, one->input[0], batch);
        bytes += (int64_t)qs_tensor_bytes(&src, saved_format(one->op, compute, storage));
    }
    return bytes;
}

/* ---- Summary -------------------------------------------------------------------------------------------------------------------- */

static const char *kind_name(const qs_op *op) {
    if (!op) return "input";
    return op->kind == QS_ADJUSTABLE ? "adjustable" : op->kind == QS_DEPENDENT ? "dependent" : "fixed";
}

static qs_status check_batch(const qs_graph *graph, int64_t batch) {
    for (int i = 0; i < graph->nodes; i++) {
        qs_shape shape = qs_graph_shape(graph, i, batch);
        QS_TRY(qs_fail_within(qs_shape_check(&shape, graph->node[i].name), "a batch of %" PRId64, batch));
    }
    return QS_OK;
}

qs_status qs_graph_summarize(const qs_graph *graph, int64_t batch, const qs_format *compute, const qs_format *storage,
                             qs_node_summary *out) {
    QS_TRY(check_batch(graph, batch));
    bool *needed = NULL;
    int *depth = NULL;
    qs_status status;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *needed, &needed));
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *depth, &depth));
    qs_graph_gradients(graph, needed);
    qs_graph_depths(graph, depth);
    for (int i = 0; i < graph->nodes; i++) {
        const qs_node *node = &graph->node[i];
        out[i] = (qs_node_summary){.kind = kind_name(node->op), .shape = qs_graph_shape(graph, i, batch), .depth = depth[i]};
        if (!node->op) continue;
        out[i].parameters = trained_parameters(graph, node);
        count_flops(graph, i, batch, passes_gradient_on(needed, node), &out[i]);
        out[i].saved_bytes = saved_bytes(graph, i, batch, compute, storage);
    }
done:
    free(needed);
    free(depth);
    return status;
}
