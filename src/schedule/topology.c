// SPDX-License-Identifier: Apache-2.0
/* What follows from graph, mode and job alone and never changes: who reads a value, in which order contributions to a gradient arrive, the
 * gradient buckets, and the frame: the buffers that belong to no operator. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

/* ---- Nodes ---- */

/* The relu that a normalisation does behind itself; -1: none. Tensors that are rounded are rounded one by one, so both are kernels then. */
static int fused_relu(const qs_lowering *in, int node) {
    return in->tensors && in->tensors->value ? -1 : qs_graph_fused_relu(in->graph, node);
}

bool qs__is_joining(const qs_lowering *in) {
    return in->joins && in->mode == QS_MODE_TRAIN && !(in->tensors && in->tensors->value);
}

/* The relu that the sum before it does in its forward pass; -1: none. */
static int joined_relu(const qs_lowering *in, int node) {
    return qs__is_joining(in) ? qs_graph_joined_relu(in->graph, node) : -1;
}

int qs__joined_norm(const qs_lowering *in, int sum) {
    const int *block = in->tensors ? in->tensors->recomputed : NULL;
    const int norm = qs__is_joining(in) ? qs_graph_joined_norm(in->graph, sum) : -1;
    return norm >= 0 && block && block[norm] != block[sum] ? -1 : norm;
}

int qs__joined_sum(const qs_lowering *in, int norm) {
    for (int n = norm + 1; qs__is_joining(in) && in->graph->node[norm].consumers == 1 && n < in->graph->nodes; n++)
        for (int i = 0; i < in->graph->node[n].inputs; i++)
            if (in->graph->node[n].input[i] == norm) return qs__joined_norm(in, n) == norm ? n : -1;
    return -1;
}

/* Operators that move no data hand on their input's buffer, and so does a relu that the normalisation or the sum before it does; operators
 * that act in training only (dropout) do outside it. */
bool qs__is_alias(const qs_lowering *in, int node) {
    const qs_node *one = &in->graph->node[node];
    if (!one->op) return false;
    if (one->op->alias || (one->op->training_only && in->mode == QS_MODE_EVALUATION)) return true;
    return one->inputs == 1 && (fused_relu(in, one->input[0]) == node || joined_relu(in, one->input[0]) == node);
}

bool qs__hands_gradient_on(const qs_lowering *in, int node) {
    return qs__is_alias(in, node) && joined_relu(in, in->graph->node[node].input[0]) != node;
}

qs_attributes qs__attributes_of(const qs_lowering *in, int node) {
    qs_attributes attributes = in->graph->node[node].attributes;
    const int fused = fused_relu(in, node), relu = fused >= 0 ? fused : joined_relu(in, node);
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

bool qs__pass_is_wanted(const qs_schedule_draft *draft, int n, const qs_pass *pass) {
    const qs_node *node = &draft->graph->node[n];
    for (int i = 0; i < pass->operands; i++) {
        const qs_pass_operand *operand = &pass->operand[i];
        const qs_parameter *parameter =
            operand->source == QS_TO_PARAMETER_GRADIENT ? qs_graph_parameter(draft->graph, n, operand->role) : NULL;
        if (parameter && !parameter->frozen) return true;
        if (operand->source == QS_TO_INPUT_GRADIENT && draft->topology.needs_gradient[node->input[operand->of]]) return true;
    }
    return false;
}

/* ---- Readers and contributions ---- */

static void readers_list(const qs_graph *graph, qs_topology *out) {
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        for (int i = 0; i < graph->node[n].inputs; i++)
            out->first_reader[graph->node[n].input[i] + 1]++;
    for (int n = 0; n < graph->nodes; n++)
        out->first_reader[n + 1] += out->first_reader[n];
    /* Filling moves each start to the next node's; shifting moves them back. */
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
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

qs_status qs__topology_make(const qs_lowering *in, qs_topology *out) {
    const qs_graph *graph = in->graph;
    const size_t nodes = (size_t)graph->nodes, edges = nodes * QS_MAX_INPUTS;
    QS_TRY(qs_allocate(nodes, sizeof *out->needs_gradient, &out->needs_gradient));
    QS_TRY(qs_allocate(nodes, sizeof *out->non_negative, &out->non_negative));
    QS_TRY(qs_allocate(nodes, sizeof *out->root, &out->root));
    QS_TRY(qs_allocate(nodes + 1, sizeof *out->first_reader, &out->first_reader));
    QS_TRY(qs_allocate(edges, sizeof *out->reader, &out->reader));
    QS_TRY(qs_allocate(edges, sizeof *out->before, &out->before));
    QS_TRY(qs_allocate(edges, sizeof *out->after, &out->after));
    QS_TRY(qs_allocate(nodes, sizeof *out->last, &out->last));
    QS_TRY(qs_allocate((size_t)graph->parameters, sizeof *out->bucket_of, &out->bucket_of));
    qs_graph_gradients(graph, out->needs_gradient);
    /* Not negative: behind a relu, and what pools, sums and moved elements leave of that. */
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        bool kept = node->op->sign == QS_SIGN_KEPT && node->inputs > 0;
        for (int i = 0; i < node->inputs; i++)
            kept = kept && out->non_negative[node->input[i]];
        out->non_negative[n] = kept || node->op->sign == QS_SIGN_NEVER_NEGATIVE || node->attributes.relu;
    }
    for (int n = 0; n < graph->nodes; n++)
        out->root[n] = qs__is_alias(in, n) ? out->root[graph->node[n].input[0]] : n;
    readers_list(graph, out);
    contributions_order(graph, out);
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

/* ---- Buckets ---- */

/* Gradients are written node by node in reverse order; an adjustable node's bias comes before its weights, others keep their order. */
static bool is_written_later(const qs_graph *graph, int one, int other) {
    const qs_parameter *a = &graph->parameter[one], *b = &graph->parameter[other];
    if (a->node != b->node) return a->node < b->node;
    return qs_op_multiplies(graph->node[a->node].op) ? one < other : one > other;
}

/* Buckets are consecutive pieces of the flat gradient buffer, closed when they reach the job's bucket size, counted from the last
 * parameter. */
qs_status qs__buckets_make(const qs_lowering *in, qs_schedule *frame, int *bucket_of) {
    const qs_graph *graph = in->graph;
    size_t capacity = 0;
    int64_t end = graph->trained_elements;
    for (int i = graph->parameters - 1, last = -1; i >= 0; i--) {
        bucket_of[i] = -1;
        if (!qs_parameter_learns(&graph->parameter[i])) continue;
        if (last < 0 || is_written_later(graph, i, last)) {
            if (last >= 0) bucket_of[last] = -1;
            last = i;
            bucket_of[last] = frame->buckets;
        }
        const int64_t first = graph->parameter[i].offset;
        if ((end - first) * (int64_t)sizeof(float) < in->job->bucket_bytes && first > 0) continue;
        QS_TRY(qs_grow(&frame->bucket, &capacity, (size_t)frame->buckets + 1, sizeof *frame->bucket));
        frame->bucket[frame->buckets++] = (qs_bucket){first, end - first, -1, -1};
        end = first;
        last = -1;
    }
    return QS_OK;
}

/* ---- The frame ---- */

enum { SLOT = 4 }; /* bytes of a value of the batch: fp32 or int32 */

/* What lasts from step to step is persistent. */
static qs_status buffer_add(qs_schedule *frame, size_t *capacity, qs_category category, size_t bytes, const char *name, int *out) {
    QS_TRY(qs_grow(&frame->buffer, capacity, (size_t)frame->buffers + 1, sizeof *frame->buffer));
    qs_buffer *buffer = &frame->buffer[frame->buffers];
    snprintf(buffer->name, sizeof buffer->name, "%s", name);
    buffer->bytes = bytes;
    buffer->category = category;
    buffer->first = buffer->last = -2;
    *out = frame->buffers++;
    return QS_OK;
}

static qs_status persistent_add(qs_schedule *frame, size_t *capacity, qs_category category, int64_t elements, const char *name, int *out) {
    QS_TRY(buffer_add(frame, capacity, category, (size_t)elements * sizeof(float), name, out));
    frame->buffer[*out].persistent = true;
    return QS_OK;
}

/* Weights, running statistics, what the optimiser keeps (one flat buffer a state, in the order of the weights) and residuals lie at the
 * same place in every mode, so that evaluation may run over the memory of training; it has no use for gradients, which come last: what it
 * computes may lie where they were. */
static qs_status buffers_add(const qs_lowering *in, qs_schedule *frame) {
    const qs_graph *graph = in->graph;
    const bool evaluation = in->mode == QS_MODE_EVALUATION;
    const qs_op *optimizer = NULL;
    size_t capacity = 0;
    QS_TRY(qs_optimizer_find(in->job->optimizer.name, &optimizer));
    const int64_t weights = graph->trained_elements + graph->frozen_elements;
    QS_TRY(persistent_add(frame, &capacity, QS_MASTER_WEIGHTS, weights, "masters", &frame->masters));
    QS_TRY(persistent_add(frame, &capacity, QS_RUNNING_STATISTICS, graph->statistics_elements, "running statistics", &frame->running));
    for (; frame->states < optimizer->optimizer->states; frame->states++)
        QS_TRY(persistent_add(frame, &capacity, QS_OPTIMIZER_STATE, graph->trained_elements,
                              qs_role_name(qs_optimizer_state(optimizer, frame->states)), &frame->state[frame->states]));
    if (strcmp(in->job->wire, "fp32") != 0)
        QS_TRY(persistent_add(frame, &capacity, QS_WIRE_RESIDUALS, graph->trained_elements, "wire residuals", &frame->residuals));
    if (!evaluation) QS_TRY(persistent_add(frame, &capacity, QS_GRADIENTS, graph->trained_elements, "gradients", &frame->gradients));
    for (; frame->inputs < graph->samples.inputs; frame->inputs++) {
        const qs_input *input = &graph->samples.input[frame->inputs];
        const qs_shape shape = qs_graph_shape(graph, frame->inputs, in->batch);
        const bool images = frame->inputs == 0 && qs_input_is_image(input);
        QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, (size_t)qs_shape_count(&shape) * SLOT, images ? "images" : input->name,
                          &frame->input[frame->inputs]));
    }
    const qs_target *target = &graph->samples.target;
    QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, (size_t)(in->batch * qs_target_values(target)) * SLOT,
                      target->kind == QS_TARGET_REAL ? "target" : "labels", &frame->target));
    QS_TRY(buffer_add(frame, &capacity, QS_INPUT_BATCH, 2 * sizeof(float), "loss", &frame->loss));
    if (!evaluation && in->tensors && in->tensors->value) {
        const size_t places = 2 * (size_t)graph->nodes + (size_t)graph->parameters;
        QS_TRY(buffer_add(frame, &capacity, QS_STATISTICS_OUT, places * QS_COUNTS_PITCH, "rounding counts", &frame->counts));
    }
    if (evaluation || !in->job->dynamic_loss_scaling) return QS_OK;
    return buffer_add(frame, &capacity, QS_GRADIENTS, sizeof(float), "finite flag", &frame->flag);
}

qs_status qs__frame_make(const qs_lowering *in, qs_schedule **out) {
    qs_schedule *frame = NULL;
    QS_TRY(qs_allocate(1, sizeof *frame, &frame));
    frame->batch = in->batch;
    frame->mode = in->mode;
    frame->nodes = in->graph->nodes;
    frame->masters = frame->running = frame->gradients = -1;
    frame->target = frame->loss = frame->flag = frame->counts = frame->residuals = -1;
    snprintf(frame->wire, sizeof frame->wire, "%s", in->job->wire);
    const qs_status status = buffers_add(in, frame);
    if (status == QS_OK)
        *out = frame;
    else
        qs_schedule_release(frame);
    return status;
}
