// SPDX-License-Identifier: Apache-2.0
/* Largest magnitudes as by-products of writing values. A quantizer with one step for the whole tensor needs nothing else of it: where
 * the pass that writes the tensor can deliver its absmax (normalisations, relu, add), no step reads the tensor for it. Who wants it follows
 * from the facts of the readers, so the writer's segment and the reader's agree without asking each other. */
#include "schedule_internal.h"

/* One step for the whole tensor. */
bool qs__takes_one_step(const qs_quantizer *quantizer) {
    return quantizer->format && quantizer->format->kind == QS_KIND_INTEGER && quantizer->granularity == QS_PER_TENSOR;
}

static bool can_deliver(const qs_pass *pass) {
    const int absmax = qs_pass_position(pass, QS_ABSMAX);
    return absmax >= 0 && pass->operand[absmax].source == QS_ABSMAX_OF;
}

/* ---- Outputs ---- */

/* What lies in a node's buffer is what its forward pass wrote there. */
bool qs__value_can_deliver(const qs_schedule_draft *draft, int node) {
    return node > 0 && can_deliver(qs__forward_pass(&draft->in, node)) && !qs__has_own_format(draft, node);
}

/* By readers of the node, or of operators that hand its buffer on. */
static bool value_is_wanted(const qs_schedule_draft *draft, int node) {
    const qs_topology *topology = &draft->topology;
    for (int i = topology->first_reader[node]; i < topology->first_reader[node + 1]; i++) {
        const int edge = topology->reader[i], reader = edge / QS_MAX_INPUTS;
        if (qs__takes_one_step(&draft->facts[reader].want[edge % QS_MAX_INPUTS])) return true;
        if (qs__is_alias(&draft->in, reader) && value_is_wanted(draft, reader)) return true;
    }
    return false;
}

bool qs__value_delivers(const qs_schedule_draft *draft, int node) {
    return qs__value_can_deliver(draft, node) && value_is_wanted(draft, node);
}

int qs__value_absmax(const qs_schedule_draft *draft, int value, const qs_quantizer *quantizer) {
    const int root = draft->topology.root[value];
    return qs__takes_one_step(quantizer) && qs__value_can_deliver(draft, root) ? qs__number(draft, root, QS_SLOT_VALUE_ABSMAX) : -1;
}

/* ---- Gradients ---- */

/* The backward pass of the node's only reader writes the gradient of its output, */
bool qs__gradient_may_deliver(const qs_schedule_draft *draft, int node) {
    const int edge = draft->topology.last[node], reader = edge / QS_MAX_INPUTS;
    if (edge < 0 || draft->topology.before[edge] >= 0 || qs__is_alias(&draft->in, reader) || qs__has_own_format(draft, node)) return false;
    return edge % QS_MAX_INPUTS == 0 && can_deliver(qs_op_pass(draft->graph->node[reader].op, "backward"));
}

/* in the format that it has. */
static bool gradient_can(const qs_schedule_draft *draft, int node) {
    if (!qs__gradient_may_deliver(draft, node)) return false;
    return draft->facts[draft->topology.last[node] / QS_MAX_INPUTS].value == draft->facts[node].value;
}

bool qs__gradient_is_wanted(const qs_schedule_draft *draft, int node) {
    const qs_node *one = &draft->graph->node[node];
    if (node == 0 || one->op->kind != QS_ADJUSTABLE) return false;
    for (int p = 0; p < one->op->passes; p++) {
        const qs_product *product = one->op->pass[p].product;
        for (int f = 0; product && f < 2; f++) {
            const qs_quantizer form = qs__operand_form(draft, node, qs__factor_quantizer(draft->recipe[node], product->gemm, f));
            if (product->factor[f] == QS_DIFF_DST && qs__takes_one_step(&form) && qs__pass_is_wanted(draft, node, &one->op->pass[p]))
                return true;
        }
    }
    return false;
}

bool qs__gradient_delivers(const qs_schedule_draft *draft, int reader) {
    const int value = draft->graph->node[reader].input[0];
    return draft->topology.last[value] == qs__edge(reader, 0) && gradient_can(draft, value) && qs__gradient_is_wanted(draft, value);
}

int qs__gradient_absmax(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    if (!qs__takes_one_step(quantizer) || !gradient_can(draft, node)) return -1;
    return qs__number(draft, draft->topology.last[node] / QS_MAX_INPUTS, QS_SLOT_DIFF_ABSMAX);
}

/* ---- Steps ---- */

qs_status qs__absmax_bind(qs_schedule_draft *draft, qs_pending *pending, int slot, const char *what) {
    const qs_shape one = qs_shape_of(1, (int64_t)1);
    int buffer = -1;
    QS_TRY(qs__buffer_make(draft, slot, QS_CONVERTED, qs_tensor_bytes(&one, draft->fp32), draft->build.node, what, "absmax", &buffer));
    qs__pending_bind(pending, QS_ABSMAX, one, draft->fp32, buffer, 0);
    return QS_OK;
}

/* ---- Changes ---- */

void qs__absmax_dirty(qs_schedule_draft *draft, int node) {
    const qs_node *one = &draft->graph->node[node];
    const int edge = draft->topology.last[node];
    for (int i = 0; i < one->inputs; i++)
        qs__mark(&draft->dirty, qs__forward_segment(draft->topology.root[one->input[i]]));
    if (edge >= 0) qs__mark(&draft->dirty, qs__backward_segment(draft, edge / QS_MAX_INPUTS));
}
