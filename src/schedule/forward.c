// SPDX-License-Identifier: Apache-2.0
/* Forward steps of a node. Operands are bound by role, so that an operator needs no line here: whatever its pass asks for is found among
 * the node's inputs, parameters and saved tensors. Adjustable operators take theirs in the formats of their recipe. */
#include "schedule_internal.h"

qs_status qs__statistics_emit(qs_schedule_draft *draft, int node, int which, qs_shape shape, const qs_format *format, qs_place place) {
    static const char *const names[] = {"src", "weights", "diff_dst"};
    const bool weights = which == 1;
    const int64_t channels = shape.dim[weights ? 0 : 1];
    const size_t bytes = qs_statistics_bytes(channels);
    int buffer = -1;
    QS_TRY(qs__buffer_make(draft, QS_SLOT_STATISTICS + which, QS_STATISTICS_OUT, bytes, node, "statistics", names[which], &buffer));
    const qs_attributes attributes = {.per_channel = weights};
    qs_pending pending = qs__pending_make(node, draft->statistics.op, draft->statistics.pass, &attributes);
    qs__pending_bind(&pending, QS_SRC, shape, format, place.buffer, place.offset);
    qs__pending_bind(&pending, QS_STATISTICS, qs_shape_of(1, (int64_t)(bytes / sizeof(float))), draft->fp32, buffer, 0);
    return qs__step_emit(draft, &pending);
}

static qs_status inputs_measure(qs_schedule_draft *draft, int n, qs_shape src_shape, const qs_parameter *weights) {
    const int input = draft->graph->node[n].input[0];
    QS_TRY(qs__statistics_emit(draft, n, 0, src_shape, draft->facts[input].value, (qs_place){qs__value_number(draft, input), 0}));
    return qs__statistics_emit(draft, n, 1, weights->shape, draft->fp32,
                               (qs_place){draft->frame->masters, (size_t)weights->offset * sizeof(float)});
}

static qs_status adjustable_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const qs_quantizer *weights_quantizer = &draft->recipe[n]->forward.weights;
    const qs_shape src_shape = qs_graph_shape(draft->graph, node->input[0], draft->in.batch);
    const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, QS_WEIGHTS), *bias = qs_graph_parameter(draft->graph, n, QS_BIAS);
    qs_copy src;
    qs_place weights, bias_place = {-1, 0};
    int weights_step = -1;
    QS_TRY(qs__transforms_check(draft, n));
    QS_TRY(qs__input_as(draft, n, 0, &src));
    QS_TRY(qs__saved_make(draft, n));
    QS_TRY(qs__weights_as(draft, n, false, &weights, &weights_step));
    if (bias) QS_TRY(qs__parameter_as(draft, bias, true, &bias_place));
    if (draft->in.mode == QS_MODE_STATISTICS) QS_TRY(inputs_measure(draft, n, src_shape, parameter));
    qs_pending pending = qs__pending_gemm(draft, n, QS_GEMM_FORWARD);
    qs__activation_bind(draft, &pending, QS_SRC, src_shape, &src);
    qs__weights_bind(draft, &pending, parameter, weights_quantizer, weights, weights_step);
    qs__inner_bind(&pending, &src);
    if (bias) qs__pending_bind(&pending, QS_BIAS, bias->shape, draft->fp32, bias_place.buffer, bias_place.offset);
    qs__pending_bind(&pending, QS_DST, qs_graph_shape(draft->graph, n, draft->in.batch), draft->facts[n].value, qs__value_number(draft, n),
                     0);
    return qs__step_emit(draft, &pending);
}

/* An input in the form that the node wants; the step of a fixed-point one comes with it. */
static qs_status input_bind(qs_schedule_draft *draft, qs_pending *pending, int n, qs_role role, int input) {
    const int value = draft->graph->node[n].input[input];
    qs_copy copy;
    QS_TRY(qs__input_as(draft, n, input, &copy));
    qs__pending_bind(pending, role, qs_graph_shape(draft->graph, value, draft->in.batch), copy.quantizer.format, copy.buffer, 0);
    if (copy.step_buffer >= 0) qs__pending_bind(pending, QS_SRC_STEP, qs_shape_of(1, (int64_t)1), draft->fp32, copy.step_buffer, 0);
    return QS_OK;
}

static qs_status mask_bind(qs_schedule_draft *draft, qs_pending *pending, int n) {
    int mask = -1;
    if (draft->in.mode == QS_MODE_EVALUATION || !qs__writes_mask(&draft->in, n)) return QS_OK;
    const qs_shape dst = qs_graph_shape(draft->graph, n, draft->in.batch), shape = draft->graph->node[n].op->mask(&dst);
    QS_TRY(qs__buffer_make(draft, QS_SLOT_MASK, QS_TRANSIENT_ACTIVATIONS, (size_t)qs_shape_count(&shape), n, "mask", NULL, &mask));
    qs__pending_bind(pending, QS_MASK, shape, draft->int8, mask, 0);
    return QS_OK;
}

static qs_status vector_bind(qs_schedule_draft *draft, qs_pending *pending, int n, qs_role role, int slot, const char *what) {
    const qs_shape dst = qs_graph_shape(draft->graph, n, draft->in.batch);
    const qs_shape shape = qs_norm_vector(draft->graph->node[n].op->norm, &dst);
    int buffer = -1;
    QS_TRY(qs__buffer_make(draft, slot, QS_TRANSIENT_ACTIVATIONS, (size_t)shape.dim[0] * sizeof(float), n, what, NULL, &buffer));
    qs__pending_bind(pending, role, shape, draft->fp32, buffer, 0);
    return QS_OK;
}

/* Binds one operand of a dependent or fixed operator's forward or inference pass. */
static qs_status operand_bind(qs_schedule_draft *draft, qs_pending *pending, int n, qs_role role) {
    const qs_schedule *frame = draft->frame;
    const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, role);
    if (parameter) {
        qs_place place = {frame->running, (size_t)parameter->offset * sizeof(float)};
        if (parameter->gradient != QS_ROLE_COUNT) QS_TRY(qs__parameter_as(draft, parameter, true, &place));
        qs__pending_bind(pending, role, parameter->shape, draft->fp32, place.buffer, place.offset);
        return QS_OK;
    }
    switch (role) {
    case QS_SRC:
        return input_bind(draft, pending, n, role, 0);
    case QS_SRC_STEP: /* with src */
        return QS_OK;
    case QS_SRC2:
        return input_bind(draft, pending, n, role, 1);
    case QS_DST:
        qs__pending_bind(pending, role, qs_graph_shape(draft->graph, n, draft->in.batch), draft->facts[n].value, qs__value_number(draft, n),
                         0);
        return QS_OK;
    case QS_ABSMAX:
        return qs__value_delivers(draft, n) ? qs__absmax_bind(draft, pending, QS_SLOT_VALUE_ABSMAX, "dst") : QS_OK;
    case QS_MASK:
        return mask_bind(draft, pending, n);
    case QS_LABELS:
        qs__pending_bind(pending, role, qs_shape_of(1, draft->in.batch), draft->fp32, frame->labels, 0);
        return QS_OK;
    case QS_LOSS:
        qs__pending_bind(pending, role, qs_shape_of(1, (int64_t)2), draft->fp32, frame->loss, 0);
        return QS_OK;
    case QS_MEAN:
        return vector_bind(draft, pending, n, role, QS_SLOT_MEAN, "mean");
    case QS_VARIANCE:
    case QS_DEVIATION:
        return vector_bind(draft, pending, n, role, QS_SLOT_SPREAD, qs_role_name(role));
    default:
        return qs_fail(QS_FAILED, "operator %s: its forward pass has operand %s, which lowering cannot find", draft->graph->node[n].name,
                       qs_role_name(role));
    }
}

static qs_status other_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const qs_pass *pass = qs__forward_pass(&draft->in, n);
    const qs_attributes attributes = qs__attributes_of(&draft->in, n);
    qs_pending pending = qs__pending_make(n, node->op, pass, &attributes);
    for (int i = 0; i < pass->roles; i++)
        QS_TRY(operand_bind(draft, &pending, n, pass->role[i]));
    return qs__step_emit(draft, &pending);
}

qs_status qs__forward_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    if (n == 0) return qs__value_round(draft, n);
    if (qs__is_alias(&draft->in, n)) return QS_OK;
    if (node->op->kind != QS_FIXED) {
        const qs_shape shape = qs_graph_shape(draft->graph, n, draft->in.batch);
        int value = -1;
        QS_TRY(qs__buffer_make(draft, QS_SLOT_VALUE, QS_TRANSIENT_ACTIVATIONS, qs_tensor_bytes(&shape, draft->facts[n].value), n, "dst",
                               NULL, &value));
    }
    QS_TRY(node->op->kind == QS_ADJUSTABLE ? adjustable_emit(draft, n) : other_emit(draft, n));
    return qs__value_round(draft, n);
}
