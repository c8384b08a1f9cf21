// SPDX-License-Identifier: Apache-2.0
/* What others ask a graph: depths, shapes for a batch, nodes by name, parameters by role, which nodes need no kernel (other names of their
 * input, and relus that the normalisation before them does), its signature, and what a node costs on paper: cases of its passes for a
 * batch, FLOPs, and the bytes it keeps from forward to backward. */
#include <inttypes.h>
#include <stdlib.h>
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
    if (owner->table > 0 && (role == QS_WEIGHTS || role == QS_DIFF_WEIGHTS)) return qs_graph_parameter(graph, owner->table, role);
    return NULL;
}

/* The relu that is a node's only reader; -1: there is none. */
static int relu_behind(const qs_graph *graph, int node) {
    if (graph->node[node].consumers != 1) return -1;
    for (int reader = node + 1; reader < graph->nodes; reader++) /* the first one found is the only one */
        for (int i = 0; i < graph->node[reader].inputs; i++)
            if (graph->node[reader].input[i] == node) return graph->node[reader].op->behind_norm ? reader : -1;
    return -1;
}

int qs_graph_fused_relu(const qs_graph *graph, int node) {
    const qs_op *op = graph->node[node].op;
    return op && op->norm && op->beside ? relu_behind(graph, node) : -1;
}

int qs_graph_joined_relu(const qs_graph *graph, int node) {
    const qs_op *op = graph->node[node].op;
    return op && op->does_relu ? relu_behind(graph, node) : -1;
}

/* Its forward pass takes what is added to the result. */
static bool takes_residual(const qs_node *node) {
    const qs_pass *pass = node->op && node->op->norm && !node->op->norm->quantized ? qs_op_pass(node->op, "forward") : NULL;
    for (int i = 0; pass && i < pass->operands; i++)
        if (pass->operand[i].source == QS_FROM_RESIDUAL) return true;
    return false;
}

int qs_graph_joined_norm(const qs_graph *graph, int node) {
    const qs_node *one = &graph->node[node];
    for (int i = 0; one->op && one->op->does_relu && one->inputs == 2 && i < 2; i++)
        if (graph->node[one->input[i]].consumers == 1 && takes_residual(&graph->node[one->input[i]])) return one->input[i];
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
    char text[256];
    snprintf(text, sizeof text, " kernel=%dx%d stride=%dx%d padding=%dx%d groups=%d offset=%d rounding=%s batched=%d per_channel=%d",
             a->kernel[0], a->kernel[1], a->stride[0], a->stride[1], a->padding[0], a->padding[1], a->groups, a->offset,
             qs_rounding_name(a->rounding), a->batched, a->per_channel);
    seed = hash_text(text, seed);
    if (a->dilation[0] > 1 || a->dilation[1] > 1) { /* what was not always there has its word only where it says something */
        snprintf(text, sizeof text, " dilation=%dx%d", a->dilation[0], a->dilation[1]);
        seed = hash_text(text, seed);
    }
    if (a->padding_more[0] || a->padding_more[1]) {
        snprintf(text, sizeof text, " padding_more=%dx%d", a->padding_more[0], a->padding_more[1]);
        seed = hash_text(text, seed);
    }
    if (a->count_padding) seed = hash_text(" count_padding", seed);
    for (int i = 0; node->op && i < qs_op_settings(node->op); i++) {
        snprintf(text, sizeof text, " %s=%a", node->op->setting[i].name, qs_op_value(node->op, a, i));
        seed = hash_text(text, seed);
    }
    return seed;
}

uint64_t qs__parameters_hash(const qs_graph *graph, int index, uint64_t seed) {
    const qs_node *node = &graph->node[index];
    char shape[96], text[256];
    for (int i = 0; i < node->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[node->first_parameter + i];
        snprintf(text, sizeof text, " %s%s%s", qs_role_name(parameter->role), qs_shape_text(&parameter->shape, shape),
                 parameter->origin.constant ? " constant" : "");
        seed = hash_text(text, seed);
    }
    if (node->table == 0) return seed;
    snprintf(text, sizeof text, " weights of %s", graph->node[node->table].name);
    return hash_text(text, seed);
}

static uint64_t hash_input(const qs_input *input, uint64_t seed) {
    static const char *const type[] = {[QS_INPUT_U8] = "u8", [QS_INPUT_I32] = "i32", [QS_INPUT_F32] = "f32"};
    char text[256];
    snprintf(text, sizeof text, "\ninput %s %s varies=%d padding=%" PRId32 " bound=%" PRId64, input->name, type[input->type], input->varies,
             input->padding, input->bound);
    seed = hash_text(text, seed);
    for (int i = 0; i < input->rank; i++) {
        snprintf(text, sizeof text, " %" PRId64, input->extent[i]);
        seed = hash_text(text, seed);
    }
    return seed;
}

static uint64_t hash_target(const qs_target *target, uint64_t seed) {
    static const char *const kind[] = {[QS_TARGET_CLASS] = "class",
                                       [QS_TARGET_CLASS_PER_POSITION] = "class_per_position",
                                       [QS_TARGET_SPAN] = "span",
                                       [QS_TARGET_REAL] = "real"};
    char text[256];
    snprintf(text, sizeof text, "\ntarget %s classes=%" PRId64 " extent=%" PRId64 " ignored=%" PRId32, kind[target->kind], target->classes,
             target->extent, target->ignored);
    return hash_text(text, seed);
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
    for (int i = 0; i < graph->samples.inputs; i++)
        hash = hash_input(&graph->samples.input[i], hash);
    for (int i = 0; i < graph->nodes; i++)
        hash = hash_node(graph, i, hash);
    hash = hash_target(&graph->samples.target, hash);
    snprintf(buffer, 32, "xxh64:%016" PRIx64, hash);
    return buffer;
}

/* ---- Operands of a node's passes ------------------------------------------------------------------------------------------ */

bool qs_graph_operand_shape(const qs_graph *graph, int node, const qs_pass_operand *operand, int64_t batch, qs_shape *out) {
    const qs_node *one = &graph->node[node];
    const qs_parameter *parameter;
    switch (operand->source) {
    case QS_FROM_INPUT:
    case QS_TO_INPUT_GRADIENT:
        if (operand->of >= one->inputs) return false;
        *out = qs_graph_shape(graph, one->input[operand->of], batch);
        return true;
    case QS_TO_OUTPUT:
    case QS_FROM_GRADIENT:
        *out = qs_graph_shape(graph, node, batch);
        return true;
    case QS_FROM_FORWARD:
    case QS_TO_BACKWARD:
        *out = qs_graph_shape(graph, node, batch);
        *out = one->op->beside(one->op, operand->role, out);
        return true;
    case QS_FROM_TARGET:
        *out = qs_shape_of(2, batch, qs_target_values(&graph->samples.target));
        if (graph->samples.target.kind == QS_TARGET_CLASS) *out = qs_shape_of(1, batch);
        return true;
    case QS_TO_LOSS:
        *out = qs_shape_of(1, (int64_t)2);
        return true;
    default:
        parameter = qs_graph_parameter(graph, node, operand->role);
        if (parameter) *out = parameter->shape;
        return parameter != NULL;
    }
}

/* A result beside the output that this node's forward pass does not write. */
static bool is_left_out(const qs_node *node, const qs_pass_operand *operand) {
    const bool beside = operand->source == QS_TO_BACKWARD || operand->source == QS_FROM_FORWARD;
    return beside && !qs_op_keeps(node->op, &node->attributes, operand);
}

qs_case qs_graph_case(const qs_graph *graph, int node, const qs_pass *pass, int64_t batch) {
    const qs_node *of = &graph->node[node];
    qs_case one;
    qs_case_start(&one, of->op, pass, &of->attributes);
    for (int i = 0; i < pass->operands; i++) {
        const qs_format *format = qs_role_format(pass->operand[i].role);
        qs_shape shape;
        if (is_left_out(of, &pass->operand[i]) || !qs_graph_operand_shape(graph, node, &pass->operand[i], batch, &shape)) continue;
        qs_case_bind(&one, pass->operand[i].role, shape, format ? format : qs_format_of("fp32"));
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

static bool learns(const qs_graph *graph, const qs_node *node) {
    for (int i = 0; i < node->parameters; i++)
        if (qs_parameter_learns(&graph->parameter[node->first_parameter + i])) return true;
    return node->table > 0 && qs_parameter_learns(qs_graph_parameter(graph, node->table, QS_WEIGHTS));
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
        needed[i] = passes_gradient_on(needed, node) || learns(graph, node);
    }
}

/* A backward pass runs when something wants what it writes: a parameter that learns, or an input that a gradient flows on to. */
static bool trains_with(const qs_pass *pass, bool gradient_on, bool learns) {
    if (strcmp(pass->name, "inference") == 0) return false;
    for (int i = 0; i < pass->operands; i++)
        switch (pass->operand[i].source) {
        case QS_TO_INPUT_GRADIENT:
            if (gradient_on) return true;
            break;
        case QS_TO_PARAMETER_GRADIENT:
            if (learns) return true;
            break;
        default:
            if (qs_pass_writes(pass, i)) return true;
        }
    return false;
}

static void count_flops(const qs_graph *graph, int node, int64_t batch, bool gradient_on, qs_node_summary *out) {
    const qs_op *op = graph->node[node].op;
    for (int i = 0; i < op->passes; i++) {
        if (!trains_with(&op->pass[i], gradient_on, learns(graph, &graph->node[node]))) continue;
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
    return qs_op_multiplies(op) ? compute : storage;
}

/* True when an earlier node, or this one as an earlier input, saves the same tensor in the same format. */
static bool saved_before(const qs_graph *graph, int node, int input, const qs_format *compute, const qs_format *storage) {
    const int tensor = producer(graph, graph->node[node].input[input]);
    const qs_format *format = saved_format(graph->node[node].op, compute, storage);
    for (int i = graph->samples.inputs; i <= node; i++) {
        const qs_node *other = &graph->node[i];
        for (int k = 0; k < (i == node ? input : other->inputs); k++)
            if (producer(graph, other->input[k]) == tensor && qs_op_saves(other->op, k) &&
                saved_format(other->op, compute, storage) == format)
                return true;
    }
    return false;
}

/* Inputs that backward passes read, and what the forward pass writes for them beside its output: masks, mean and variance. */
static int64_t saved_bytes(const qs_graph *graph, int node, int64_t batch, const qs_format *compute, const qs_format *storage) {
    const qs_node *one = &graph->node[node];
    const qs_pass *forward = qs_op_pass(one->op, "forward");
    int64_t bytes = 0;
    for (int i = 0; forward && i < forward->operands; i++) {
        const qs_pass_operand *operand = &forward->operand[i];
        qs_shape shape;
        if (operand->source != QS_TO_BACKWARD || is_left_out(one, operand)) continue;
        qs_graph_operand_shape(graph, node, operand, batch, &shape);
        bytes += (int64_t)qs_tensor_bytes(&shape, qs_role_format(operand->role));
    }
    for (int k = 0; k < one->inputs; k++) {
        const qs_shape src = qs_graph_shape(graph, one->input[k], batch);
        if (qs_op_saves(one->op, k) && !saved_before(graph, node, k, compute, storage))
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
