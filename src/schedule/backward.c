// SPDX-License-Identifier: Apache-2.0
/* Backward steps in reverse node order. The gradient of a value is the sum of what its readers contribute, in the value's own format;
 * weight gradients come before input gradients so that all-reduces start early. */
#include "schedule_internal.h"

/* Adds a reader's contribution to the gradient of `node`'s output. `owned`: the buffer has no other reader, so sums may be formed in it. */
static qs_status contribute(qs_lowerer *lowerer, int node, const qs_format *format, int buffer, bool owned) {
    qs_node_state *state = &lowerer->node[node];
    const char *name = lowerer->graph->node[node].name;
    const qs_format *wanted = lowerer->out->value_format[node];
    const qs_shape shape = qs_graph_shape(lowerer->graph, node, lowerer->in->batch);
    if (format != wanted) {
        int converted = -1;
        QS_TRY(qs__buffer_add(lowerer, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), &converted, "%s:diff:%s", name,
                              wanted->name));
        const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
        qs_draft draft = qs__draft_make(node, "cast", "forward", &attributes);
        draft.conversion = true;
        qs__draft_bind(&draft, QS_SRC, shape, format, buffer, 0);
        qs__draft_bind(&draft, QS_DST, shape, wanted, converted, 0);
        QS_TRY(qs__step_emit(lowerer, &draft));
        buffer = converted;
        owned = true;
    }
    if (state->gradient < 0) {
        state->gradient = buffer;
        state->gradient_owned = owned;
        return QS_OK;
    }
    int sum = state->gradient;
    if (!state->gradient_owned)
        QS_TRY(qs__buffer_add(lowerer, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), &sum, "%s:diff:sum", name));
    qs_draft draft = qs__draft_make(node, "add", "forward", NULL);
    draft.conversion = true;
    qs__draft_bind(&draft, QS_SRC, shape, wanted, state->gradient, 0);
    qs__draft_bind(&draft, QS_SRC2, shape, wanted, buffer, 0);
    qs__draft_bind(&draft, QS_DST, shape, wanted, sum, 0);
    state->gradient = sum;
    state->gradient_owned = true;
    return qs__step_emit(lowerer, &draft);
}

static qs_status diff_src_buffer(qs_lowerer *lowerer, int reader, int input, const qs_format *format, int *out) {
    const qs_shape shape = qs_graph_shape(lowerer->graph, input, lowerer->in->batch);
    return qs__buffer_add(lowerer, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, format), out, "%s:diff_src",
                          lowerer->graph->node[reader].name);
}

static void gradient_bind(qs_lowerer *lowerer, qs_draft *draft, qs_role role, const qs_parameter *parameter) {
    qs__draft_bind(draft, role, parameter->shape, lowerer->fp32, lowerer->out->gradients, (size_t)parameter->offset * sizeof(float));
}

static qs_status weight_gradient_emit(qs_lowerer *lowerer, int n) {
    const qs_node *node = &lowerer->graph->node[n];
    const qs_recipe *recipe = qs__recipe_of(lowerer, n);
    const qs_parameter *weights = qs__parameter_find(lowerer, n, QS_WEIGHTS), *bias = qs__parameter_find(lowerer, n, QS_BIAS);
    qs_copy src, diff_dst;
    QS_TRY(qs__saved_as(lowerer, n, node->input[0], &recipe->forward.src, &recipe->weight_gradient.src, &src));
    QS_TRY(qs__gradient_as(lowerer, n, &recipe->weight_gradient.diff_dst, &diff_dst));
    const qs_shape dst_shape = qs_graph_shape(lowerer->graph, n, lowerer->in->batch);
    if (lowerer->in->mode == QS_MODE_STATISTICS)
        QS_TRY(qs__statistics_emit(lowerer, n, 2, dst_shape, lowerer->out->value_format[n], (qs_place){lowerer->node[n].gradient, 0}));
    qs_draft draft = qs__draft_make(n, node->op->name, "weight_gradient", &node->attributes);
    qs__draft_bind(&draft, QS_SRC, qs_graph_shape(lowerer->graph, node->input[0], lowerer->in->batch), src.quantizer.format, src.buffer, 0);
    qs__draft_bind(&draft, QS_DIFF_DST, dst_shape, diff_dst.quantizer.format, diff_dst.buffer, 0);
    gradient_bind(lowerer, &draft, QS_DIFF_WEIGHTS, weights);
    if (bias) gradient_bind(lowerer, &draft, QS_DIFF_BIAS, bias);
    QS_TRY(qs__step_emit(lowerer, &draft));
    if (bias) QS_TRY(qs__bucket_gradient_done(lowerer, bias));
    return qs__bucket_gradient_done(lowerer, weights);
}

static qs_status input_gradient_emit(qs_lowerer *lowerer, int n, bool first) {
    const qs_node *node = &lowerer->graph->node[n];
    const int input = node->input[0];
    const qs_recipe *recipe = qs__recipe_of(lowerer, n);
    const qs_parameter *parameter = qs__parameter_find(lowerer, n, QS_WEIGHTS);
    const qs_format *format = recipe->input_gradient.diff_dst.format;
    qs_copy diff_dst;
    qs_place weights;
    int weights_step = -1, diff_src = -1;
    QS_TRY(qs__gradient_as(lowerer, n, &recipe->input_gradient.diff_dst, &diff_dst));
    QS_TRY(qs__weights_as(lowerer, n, QS_STREAM_INPUT_WEIGHTS, &recipe->input_gradient.weights, first, &weights, &weights_step));
    QS_TRY(diff_src_buffer(lowerer, n, input, format, &diff_src));
    qs_draft draft = qs__draft_make(n, node->op->name, "input_gradient", &node->attributes);
    qs__draft_bind(&draft, QS_WEIGHTS, parameter->shape, recipe->input_gradient.weights.format, weights.buffer, weights.offset);
    qs__draft_bind(&draft, QS_DIFF_DST, qs_graph_shape(lowerer->graph, n, lowerer->in->batch), format, diff_dst.buffer, 0);
    qs__draft_bind(&draft, QS_DIFF_SRC, qs_graph_shape(lowerer->graph, input, lowerer->in->batch), format, diff_src, 0);
    QS_TRY(qs__step_emit(lowerer, &draft));
    return contribute(lowerer, input, format, diff_src, true);
}

/* Converted weights larger than all forms of the saved input are read from the place of their gradient, hence before it is written: the
 * input's gradient then lives longer, which costs less than a second copy of the weights. */
static bool input_comes_first(const qs_lowerer *lowerer, int n) {
    const qs_recipe *recipe = qs__recipe_of(lowerer, n);
    const qs_format *wanted = recipe->input_gradient.weights.format, *saved = recipe->forward.src.format,
                    *read = recipe->weight_gradient.src.format;
    const qs_shape src = qs_graph_shape(lowerer->graph, lowerer->graph->node[n].input[0], lowerer->in->batch);
    const size_t inputs = qs_tensor_bytes(&src, saved) + (read == saved ? 0 : qs_tensor_bytes(&src, read));
    return wanted != lowerer->fp32 && qs_tensor_bytes(&qs__parameter_find(lowerer, n, QS_WEIGHTS)->shape, wanted) > inputs;
}

/* The weight gradient first where memory allows, so that its all-reduce starts early. */
static qs_status adjustable_emit(qs_lowerer *lowerer, int n) {
    const bool wanted = lowerer->node[lowerer->graph->node[n].input[0]].needs_gradient, first = wanted && input_comes_first(lowerer, n);
    if (first) QS_TRY(input_gradient_emit(lowerer, n, true));
    QS_TRY(weight_gradient_emit(lowerer, n));
    return wanted && !first ? input_gradient_emit(lowerer, n, false) : QS_OK;
}

/* The role of a trained parameter's gradient in a backward pass, if `role` is one. */
static const qs_parameter *parameter_of_gradient(const qs_lowerer *lowerer, int n, qs_role role) {
    const qs_node *node = &lowerer->graph->node[n];
    for (int i = 0; i < node->parameters; i++) {
        const qs_parameter *parameter = &lowerer->graph->parameter[node->first_parameter + i];
        if (parameter->gradient == role) return parameter;
    }
    return NULL;
}

static qs_status src_bind(qs_lowerer *lowerer, qs_draft *draft, int n) {
    const int input = lowerer->graph->node[n].input[0];
    const qs_quantizer plain = {.format = lowerer->out->value_format[n], .rounding = QS_NEAREST_EVEN};
    qs_copy copy;
    QS_TRY(qs__value_as(lowerer, input, &plain, &copy));
    qs__draft_bind(draft, QS_SRC, qs_graph_shape(lowerer->graph, input, lowerer->in->batch), plain.format, copy.buffer, 0);
    return QS_OK;
}

/* Binds one operand of a dependent or fixed operator's backward pass; *diff_src receives the new buffer. */
static qs_status operand_bind(qs_lowerer *lowerer, qs_draft *draft, int n, qs_role role, int *diff_src) {
    const qs_node *node = &lowerer->graph->node[n];
    const qs_node_state *state = &lowerer->node[n];
    const qs_format *format = lowerer->out->value_format[n];
    const qs_shape dst = qs_graph_shape(lowerer->graph, n, lowerer->in->batch);
    const qs_parameter *gradient = parameter_of_gradient(lowerer, n, role), *parameter = qs__parameter_find(lowerer, n, role);
    if (gradient) {
        gradient_bind(lowerer, draft, role, gradient);
        return QS_OK;
    }
    if (parameter) {
        qs__draft_bind(draft, role, parameter->shape, lowerer->fp32, lowerer->out->masters, (size_t)parameter->offset * sizeof(float));
        return QS_OK;
    }
    switch (role) {
    case QS_SRC:
        return src_bind(lowerer, draft, n);
    case QS_DIFF_DST:
        qs__draft_bind(draft, role, dst, format, state->gradient, 0);
        return QS_OK;
    case QS_MEAN:
        qs__draft_bind(draft, role, qs_shape_of(1, dst.dim[1]), lowerer->fp32, state->mean, 0);
        return QS_OK;
    case QS_VARIANCE:
        qs__draft_bind(draft, role, qs_shape_of(1, dst.dim[1]), lowerer->fp32, state->variance, 0);
        return QS_OK;
    case QS_MASK:
        qs__draft_bind(draft, role, node->op->mask(&dst), lowerer->int8, state->mask, 0);
        return QS_OK;
    case QS_LABELS:
        qs__draft_bind(draft, role, qs_shape_of(1, lowerer->in->batch), lowerer->fp32, lowerer->out->labels, 0);
        return QS_OK;
    case QS_DIFF_SRC:
        QS_TRY(diff_src_buffer(lowerer, n, node->input[0], format, diff_src));
        qs__draft_bind(draft, role, qs_graph_shape(lowerer->graph, node->input[0], lowerer->in->batch), format, *diff_src, 0);
        return QS_OK;
    default:
        return qs_fail(QS_FAILED, "operator %s: its backward pass has operand %s, which lowering cannot find", node->name,
                       qs_role_name(role));
    }
}

static qs_status other_emit(qs_lowerer *lowerer, int n, const qs_pass *pass) {
    const qs_node *node = &lowerer->graph->node[n];
    int diff_src = -1;
    qs_draft draft = qs__draft_make(n, node->op->name, pass->name, &node->attributes);
    for (int i = 0; i < pass->roles; i++)
        QS_TRY(operand_bind(lowerer, &draft, n, pass->role[i], &diff_src));
    QS_TRY(qs__step_emit(lowerer, &draft));
    for (int i = 0; i < node->parameters; i++)
        if (lowerer->graph->parameter[node->first_parameter + i].gradient != QS_ROLE_COUNT)
            QS_TRY(qs__bucket_gradient_done(lowerer, &lowerer->graph->parameter[node->first_parameter + i]));
    if (!lowerer->node[node->input[0]].needs_gradient) return QS_OK;
    return contribute(lowerer, node->input[0], lowerer->out->value_format[n], diff_src, true);
}

/* Operators without a backward pass (add, flatten) hand their gradient to every input as it is. */
static qs_status hand_on(qs_lowerer *lowerer, int n) {
    const qs_node *node = &lowerer->graph->node[n];
    const qs_node_state *state = &lowerer->node[n];
    for (int i = 0; i < node->inputs; i++)
        if (lowerer->node[node->input[i]].needs_gradient)
            QS_TRY(contribute(lowerer, node->input[i], lowerer->out->value_format[n], state->gradient,
                              state->gradient_owned && node->inputs == 1));
    return QS_OK;
}

qs_status qs__backward_emit(qs_lowerer *lowerer) {
    for (int n = lowerer->graph->nodes - 1; n > 0; n--) {
        const qs_node *node = &lowerer->graph->node[n];
        const qs_pass *pass = qs_op_pass(node->op, "backward");
        if (!lowerer->node[n].needs_gradient) continue;
        if (node->op->kind == QS_ADJUSTABLE)
            QS_TRY(adjustable_emit(lowerer, n));
        else if (pass)
            QS_TRY(other_emit(lowerer, n, pass));
        else
            QS_TRY(hand_on(lowerer, n));
    }
    return QS_OK;
}
