// SPDX-License-Identifier: Apache-2.0
/* Forward steps. Operands are bound by role, so that an operator needs no line here: whatever its pass asks for is found among the node's
 * inputs, parameters and saved tensors. Adjustable operators take theirs in the formats of their recipe. */
#include "schedule_internal.h"

qs_status qs__statistics_emit(qs_lowerer *lowerer, int node, int which, qs_shape shape, const qs_format *format, qs_place place) {
    static const char *const names[] = {"src", "weights", "diff_dst"};
    const bool weights = which == 1;
    const int64_t channels = shape.dim[weights ? 0 : 1];
    const size_t bytes = qs_statistics_bytes(channels);
    int *buffer = &lowerer->out->statistics_buffer[node * 3 + which];
    QS_TRY(qs__buffer_add(lowerer, QS_STATISTICS_OUT, bytes, buffer, "%s:statistics:%s", lowerer->graph->node[node].name, names[which]));
    const qs_attributes attributes = {.per_channel = weights};
    qs_draft draft = qs__draft_make(node, "statistics", "forward", &attributes);
    qs__draft_bind(&draft, QS_SRC, shape, format, place.buffer, place.offset);
    qs__draft_bind(&draft, QS_STATISTICS, qs_shape_of(1, (int64_t)(bytes / sizeof(float))), lowerer->fp32, *buffer, 0);
    return qs__step_emit(lowerer, &draft);
}

static qs_status adjustable_emit(qs_lowerer *lowerer, int n) {
    const qs_node *node = &lowerer->graph->node[n];
    const qs_recipe *recipe = qs__recipe_of(lowerer, n);
    const qs_shape src_shape = qs_graph_shape(lowerer->graph, node->input[0], lowerer->in->batch);
    const qs_parameter *parameter = qs__parameter_find(lowerer, n, QS_WEIGHTS), *bias = qs__parameter_find(lowerer, n, QS_BIAS);
    qs_copy src;
    qs_place weights;
    int weights_step = -1;
    QS_TRY(qs__value_as(lowerer, node->input[0], &recipe->forward.src, &src));
    QS_TRY(qs__weights_as(lowerer, n, QS_STREAM_WEIGHTS, &recipe->forward.weights, true, &weights, &weights_step));
    if (lowerer->in->mode == QS_MODE_STATISTICS) {
        const int input = node->input[0];
        QS_TRY(qs__statistics_emit(lowerer, n, 0, src_shape, lowerer->out->value_format[input], (qs_place){lowerer->node[input].value, 0}));
        QS_TRY(qs__statistics_emit(lowerer, n, 1, parameter->shape, lowerer->fp32,
                                   (qs_place){lowerer->out->masters, (size_t)parameter->offset * sizeof(float)}));
    }
    qs_draft draft = qs__draft_make(n, node->op->name, "forward", &node->attributes);
    qs__draft_bind(&draft, QS_SRC, src_shape, src.quantizer.format, src.buffer, 0);
    qs__draft_bind(&draft, QS_WEIGHTS, parameter->shape, recipe->forward.weights.format, weights.buffer, weights.offset);
    if (src.step_buffer >= 0) {
        const bool per_channel = recipe->forward.weights.granularity == QS_PER_CHANNEL;
        qs__draft_bind(&draft, QS_SRC_STEP, qs_shape_of(1, (int64_t)1), lowerer->fp32, src.step_buffer, 0);
        qs__draft_bind(&draft, QS_WEIGHTS_STEP, qs_shape_of(1, per_channel ? parameter->shape.dim[0] : (int64_t)1), lowerer->fp32,
                       weights_step, 0);
    }
    if (bias) qs__draft_bind(&draft, QS_BIAS, bias->shape, lowerer->fp32, lowerer->out->masters, (size_t)bias->offset * sizeof(float));
    qs__draft_bind(&draft, QS_DST, qs_graph_shape(lowerer->graph, n, lowerer->in->batch), lowerer->out->value_format[n],
                   lowerer->node[n].value, 0);
    return qs__step_emit(lowerer, &draft);
}

static qs_status saved_vector(qs_lowerer *lowerer, int n, const char *what, int64_t elements, int *buffer) {
    return qs__buffer_add(lowerer, QS_TRANSIENT_ACTIVATIONS, (size_t)elements * sizeof(float), buffer, "%s:%s",
                          lowerer->graph->node[n].name, what);
}

static qs_status input_bind(qs_lowerer *lowerer, qs_draft *draft, int n, qs_role role, int input) {
    const qs_format *format = lowerer->out->value_format[n];
    const qs_quantizer plain = {.format = format, .rounding = QS_NEAREST_EVEN};
    qs_copy copy;
    QS_TRY(qs__value_as(lowerer, input, &plain, &copy));
    qs__draft_bind(draft, role, qs_graph_shape(lowerer->graph, input, lowerer->in->batch), format, copy.buffer, 0);
    return QS_OK;
}

static qs_status mask_bind(qs_lowerer *lowerer, qs_draft *draft, int n) {
    const qs_node *node = &lowerer->graph->node[n];
    if (lowerer->in->mode == QS_MODE_EVALUATION) return QS_OK;
    const qs_shape dst = qs_graph_shape(lowerer->graph, n, lowerer->in->batch), shape = node->op->mask(&dst);
    QS_TRY(
        qs__buffer_add(lowerer, QS_TRANSIENT_ACTIVATIONS, (size_t)qs_shape_count(&shape), &lowerer->node[n].mask, "%s:mask", node->name));
    qs__draft_bind(draft, QS_MASK, shape, lowerer->int8, lowerer->node[n].mask, 0);
    return QS_OK;
}

/* Binds one operand of a dependent or fixed operator's forward or inference pass. */
static qs_status operand_bind(qs_lowerer *lowerer, qs_draft *draft, int n, qs_role role) {
    const qs_node *node = &lowerer->graph->node[n];
    qs_node_state *state = &lowerer->node[n];
    const qs_shape dst = qs_graph_shape(lowerer->graph, n, lowerer->in->batch);
    const qs_parameter *parameter = qs__parameter_find(lowerer, n, role);
    if (parameter) {
        const int flat = parameter->gradient == QS_ROLE_COUNT ? lowerer->out->running : lowerer->out->masters;
        qs__draft_bind(draft, role, parameter->shape, lowerer->fp32, flat, (size_t)parameter->offset * sizeof(float));
        return QS_OK;
    }
    switch (role) {
    case QS_SRC:
        return input_bind(lowerer, draft, n, role, node->input[0]);
    case QS_SRC2:
        return input_bind(lowerer, draft, n, role, node->input[1]);
    case QS_DST:
        qs__draft_bind(draft, role, dst, lowerer->out->value_format[n], state->value, 0);
        return QS_OK;
    case QS_MASK:
        return mask_bind(lowerer, draft, n);
    case QS_LABELS:
        qs__draft_bind(draft, role, qs_shape_of(1, lowerer->in->batch), lowerer->fp32, lowerer->out->labels, 0);
        return QS_OK;
    case QS_LOSS:
        qs__draft_bind(draft, role, qs_shape_of(1, (int64_t)2), lowerer->fp32, lowerer->out->loss, 0);
        return QS_OK;
    case QS_MEAN:
        QS_TRY(saved_vector(lowerer, n, "mean", dst.dim[1], &state->mean));
        qs__draft_bind(draft, role, qs_shape_of(1, dst.dim[1]), lowerer->fp32, state->mean, 0);
        return QS_OK;
    case QS_VARIANCE:
        QS_TRY(saved_vector(lowerer, n, "variance", dst.dim[1], &state->variance));
        qs__draft_bind(draft, role, qs_shape_of(1, dst.dim[1]), lowerer->fp32, state->variance, 0);
        return QS_OK;
    default:
        return qs_fail(QS_FAILED, "operator %s: its forward pass has operand %s, which lowering cannot find", node->name,
                       qs_role_name(role));
    }
}

static qs_status other_emit(qs_lowerer *lowerer, int n) {
    const qs_node *node = &lowerer->graph->node[n];
    const bool evaluation = lowerer->in->mode == QS_MODE_EVALUATION;
    const qs_pass *pass = evaluation ? qs_op_pass(node->op, "inference") : NULL;
    if (!pass) pass = qs_op_pass(node->op, "forward");
    qs_draft draft = qs__draft_make(n, node->op->name, pass->name, &node->attributes);
    for (int i = 0; i < pass->roles; i++)
        QS_TRY(operand_bind(lowerer, &draft, n, pass->role[i]));
    return qs__step_emit(lowerer, &draft);
}

/* Operators that move no data hand on their input's buffer; so do those that act in training only (dropout) outside it. */
static bool is_alias(const qs_lowerer *lowerer, const qs_node *node) {
    return node->op->alias || (node->op->training_only && lowerer->in->mode == QS_MODE_EVALUATION);
}

qs_status qs__forward_emit(qs_lowerer *lowerer) {
    const qs_graph *graph = lowerer->graph;
    for (int n = 1; n < graph->nodes; n++) {
        const qs_node *node = &graph->node[n];
        qs_node_state *state = &lowerer->node[n];
        if (is_alias(lowerer, node)) {
            state->value = lowerer->node[node->input[0]].value;
            continue;
        }
        if (node->op->kind != QS_FIXED) {
            const qs_shape shape = qs_graph_shape(graph, n, lowerer->in->batch);
            QS_TRY(qs__buffer_add(lowerer, QS_TRANSIENT_ACTIVATIONS, qs_tensor_bytes(&shape, lowerer->out->value_format[n]), &state->value,
                                  "%s:dst", node->name));
        }
        QS_TRY(node->op->kind == QS_ADJUSTABLE ? adjustable_emit(lowerer, n) : other_emit(lowerer, n));
    }
    return QS_OK;
}
