// SPDX-License-Identifier: Apache-2.0
/* Backward steps of a node. The gradient of a value is the sum of what its readers contribute, the last reader first, in the value's own
 * format; weight gradients come before input gradients so that all-reduces start early. */
#include "schedule_internal.h"

/* The gradient of a value as an edge's contribution leaves it; the edge may be one of the segment under construction. */
static qs_gradient gradient_after(const qs_schedule_draft *draft, int edge) {
    if (edge < 0) return (qs_gradient){.buffer = -1};
    const int n = edge / QS_MAX_INPUTS, input = edge % QS_MAX_INPUTS;
    if (n == draft->build.node) return draft->build.gradient[input];
    return draft->segment[qs__backward_segment(draft, n)]->gradient[input];
}

qs_gradient qs__gradient_of(const qs_schedule_draft *draft, int node) {
    if (node == draft->build.node && draft->build.rounded.buffer >= 0) return draft->build.rounded;
    return gradient_after(draft, draft->topology.last[node]);
}

static qs_status diff_cast(qs_schedule_draft *draft, int value, int input, const qs_format *format, qs_gradient *given) {
    const qs_format *wanted = draft->facts[value].value;
    const qs_shape shape = qs_graph_shape(draft->graph, value, draft->in.batch);
    int converted = -1;
    if (format == wanted) return QS_OK;
    QS_TRY(qs__buffer_make(draft, QS_SLOT_DIFF_CAST + input, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), value, "diff",
                           wanted->name, &converted));
    const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
    qs_pending pending = qs__pending_make(value, draft->cast.op, draft->cast.pass, &attributes);
    pending.conversion = true;
    qs__pending_bind(&pending, QS_SRC, shape, format, given->buffer, 0);
    qs__pending_bind(&pending, QS_DST, shape, wanted, converted, 0);
    *given = (qs_gradient){.buffer = converted, .owned = true};
    return qs__step_emit(draft, &pending);
}

/* Adds a reader's contribution to the gradient of one of its inputs. */
static qs_status contribute(qs_schedule_draft *draft, int reader, int input, const qs_format *format, qs_gradient given) {
    const int value = draft->graph->node[reader].input[input];
    const qs_format *wanted = draft->facts[value].value;
    const qs_shape shape = qs_graph_shape(draft->graph, value, draft->in.batch);
    const qs_gradient before = gradient_after(draft, draft->topology.before[qs__edge(reader, input)]);
    QS_TRY(diff_cast(draft, value, input, format, &given));
    draft->build.gradient[input] = given;
    if (before.buffer < 0) return QS_OK;
    int sum = before.buffer;
    if (!before.owned)
        QS_TRY(qs__buffer_make(draft, QS_SLOT_DIFF_SUM + input, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), value, "diff",
                               "sum", &sum));
    qs_pending pending = qs__pending_make(value, draft->sum.op, draft->sum.pass, NULL);
    pending.conversion = true;
    qs__pending_bind(&pending, QS_SRC, shape, wanted, before.buffer, 0);
    qs__pending_bind(&pending, QS_SRC2, shape, wanted, given.buffer, 0);
    qs__pending_bind(&pending, QS_DST, shape, wanted, sum, 0);
    draft->build.gradient[input] = (qs_gradient){.buffer = sum, .owned = true};
    return qs__step_emit(draft, &pending);
}

static qs_status diff_src_make(qs_schedule_draft *draft, int reader, int input, const qs_format *format, int *out) {
    const qs_shape shape = qs_graph_shape(draft->graph, draft->graph->node[reader].input[input], draft->in.batch);
    return qs__buffer_make(draft, QS_SLOT_DIFF_SRC + input, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, format), reader,
                           qs_role_name(input == 0 ? QS_DIFF_SRC : QS_DIFF_SRC2), NULL, out);
}

static void gradient_bind(const qs_schedule_draft *draft, qs_pending *pending, qs_role role, const qs_parameter *parameter) {
    qs__pending_bind(pending, role, parameter->shape, draft->fp32, draft->frame->gradients, (size_t)parameter->offset * sizeof(float));
}

static qs_status weight_gradient_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_parameter *weights = qs_graph_parameter(draft->graph, n, QS_WEIGHTS), *bias = qs_graph_parameter(draft->graph, n, QS_BIAS);
    qs_copy src, diff_dst;
    QS_TRY(qs__saved_as(draft, n, &recipe->weight_gradient.src, &src));
    QS_TRY(qs__gradient_as(draft, n, &recipe->weight_gradient.diff_dst, &diff_dst));
    const qs_shape dst_shape = qs_graph_shape(draft->graph, n, draft->in.batch);
    if (draft->in.mode == QS_MODE_STATISTICS)
        QS_TRY(qs__statistics_emit(draft, n, 2, dst_shape, draft->facts[n].value, (qs_place){qs__gradient_of(draft, n).buffer, 0}));
    qs_pending pending = qs__pending_gemm(draft, n, QS_GEMM_WEIGHT_GRADIENT);
    qs__activation_bind(draft, &pending, QS_SRC, qs_graph_shape(draft->graph, node->input[0], draft->in.batch), &src);
    qs__activation_bind(draft, &pending, QS_DIFF_DST, dst_shape, &diff_dst);
    gradient_bind(draft, &pending, QS_DIFF_WEIGHTS, weights);
    if (bias) gradient_bind(draft, &pending, QS_DIFF_BIAS, bias);
    if (bias) pending.case_.attributes.hadamard = diff_dst.quantizer.hadamard;
    QS_TRY(qs__step_emit(draft, &pending));
    if (bias) QS_TRY(qs__parameter_gradient_round(draft, bias));
    QS_TRY(qs__parameter_gradient_round(draft, weights));
    if (bias) QS_TRY(qs__bucket_gradient_done(draft, bias));
    return qs__bucket_gradient_done(draft, weights);
}

static qs_status input_gradient_emit(qs_schedule_draft *draft, int n, bool first) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, QS_WEIGHTS);
    const qs_quantizer *codes = &recipe->input_gradient.diff_dst;
    /* Sums of codes are written in the format that the gradient of the input has. */
    const qs_format *format = codes->format->kind == QS_KIND_INTEGER ? draft->facts[node->input[0]].value : codes->format;
    qs_copy diff_dst;
    qs_place weights;
    int weights_step = -1, diff_src = -1;
    QS_TRY(qs__gradient_as(draft, n, codes, &diff_dst));
    QS_TRY(qs__weights_as(draft, n, first, &weights, &weights_step));
    QS_TRY(diff_src_make(draft, n, 0, format, &diff_src));
    qs_pending pending = qs__pending_gemm(draft, n, QS_GEMM_INPUT_GRADIENT);
    qs__weights_bind(draft, &pending, parameter, &recipe->input_gradient.weights, weights, weights_step);
    qs__activation_bind(draft, &pending, QS_DIFF_DST, qs_graph_shape(draft->graph, n, draft->in.batch), &diff_dst);
    qs__inner_bind(&pending, &diff_dst);
    qs__pending_bind(&pending, QS_DIFF_SRC, qs_graph_shape(draft->graph, node->input[0], draft->in.batch), format, diff_src, 0);
    QS_TRY(qs__step_emit(draft, &pending));
    return contribute(draft, n, 0, format, (qs_gradient){.buffer = diff_src, .owned = true});
}

/* Converted weights larger than all forms of the saved input are read from the place of their gradient, hence before it is written: the
 * input's gradient then lives longer, which costs less than a second copy of the weights. */
static bool input_comes_first(const qs_schedule_draft *draft, int n) {
    const qs_recipe *recipe = draft->recipe[n];
    const qs_format *wanted = recipe->input_gradient.weights.format, *saved = recipe->forward.src.format,
                    *read = recipe->weight_gradient.src.format;
    const qs_parameter *weights = qs_graph_parameter(draft->graph, n, QS_WEIGHTS);
    const qs_shape src = qs_graph_shape(draft->graph, draft->graph->node[n].input[0], draft->in.batch);
    const size_t inputs = qs_tensor_bytes(&src, saved) + (read == saved ? 0 : qs_tensor_bytes(&src, read));
    return (wanted != draft->fp32 || qs__parameter_quantizer(draft, weights)) && qs_tensor_bytes(&weights->shape, wanted) > inputs;
}

static bool input_is_wanted(const qs_schedule_draft *draft, int n, int input) {
    return draft->topology.needs_gradient[draft->graph->node[n].input[input]];
}

/* The weight gradient first where memory allows, so that its all-reduce starts early. */
static qs_status adjustable_emit(qs_schedule_draft *draft, int n) {
    const bool wanted = input_is_wanted(draft, n, 0), first = wanted && input_comes_first(draft, n);
    if (first) QS_TRY(input_gradient_emit(draft, n, true));
    QS_TRY(weight_gradient_emit(draft, n));
    return wanted && !first ? input_gradient_emit(draft, n, false) : QS_OK;
}

static qs_status src_bind(qs_schedule_draft *draft, qs_pending *pending, int n) {
    qs_copy copy;
    QS_TRY(qs__input_as(draft, n, 0, &copy));
    qs__pending_bind(pending, QS_SRC, qs_graph_shape(draft->graph, draft->graph->node[n].input[0], draft->in.batch), copy.quantizer.format,
                     copy.buffer, 0);
    if (copy.step_buffer >= 0) qs__pending_bind(pending, QS_SRC_STEP, qs_shape_of(1, (int64_t)1), draft->fp32, copy.step_buffer, 0);
    return QS_OK;
}

static qs_status diff_src_bind(qs_schedule_draft *draft, qs_pending *pending, int n, qs_role role, int *diff_src) {
    const int input = role == QS_DIFF_SRC ? 0 : 1;
    const qs_format *format = draft->facts[n].value;
    QS_TRY(diff_src_make(draft, n, input, format, &diff_src[input]));
    qs__pending_bind(pending, role, qs_graph_shape(draft->graph, draft->graph->node[n].input[input], draft->in.batch), format,
                     diff_src[input], 0);
    return QS_OK;
}

/* Binds one operand of a dependent or fixed operator's backward pass; diff_src[input] receives the new buffer. */
static qs_status operand_bind(qs_schedule_draft *draft, qs_pending *pending, int n, qs_role role, int *diff_src) {
    const qs_node *node = &draft->graph->node[n];
    const qs_format *format = draft->facts[n].value;
    const qs_shape dst = qs_graph_shape(draft->graph, n, draft->in.batch);
    const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, role);
    if (parameter) {
        qs_place place = {draft->frame->gradients, (size_t)parameter->offset * sizeof(float)};
        if (parameter->gradient != role) QS_TRY(qs__parameter_as(draft, parameter, false, &place));
        qs__pending_bind(pending, role, parameter->shape, draft->fp32, place.buffer, place.offset);
        return QS_OK;
    }
    switch (role) {
    case QS_SRC:
        return src_bind(draft, pending, n);
    case QS_SRC_STEP: /* with src */
        return QS_OK;
    case QS_DIFF_DST:
        qs__pending_bind(pending, role, dst, format, qs__gradient_of(draft, n).buffer, 0);
        return QS_OK;
    case QS_MEAN:
        qs__pending_bind(pending, role, qs_norm_vector(node->op->norm, &dst), draft->fp32, qs__number(draft, n, QS_SLOT_MEAN), 0);
        return QS_OK;
    case QS_VARIANCE:
    case QS_DEVIATION:
        qs__pending_bind(pending, role, qs_norm_vector(node->op->norm, &dst), draft->fp32, qs__number(draft, n, QS_SLOT_SPREAD), 0);
        return QS_OK;
    case QS_MASK:
        if (!qs__writes_mask(&draft->in, n)) return QS_OK;
        qs__pending_bind(pending, role, node->op->mask(&dst), draft->int8, qs__number(draft, n, QS_SLOT_MASK), 0);
        return QS_OK;
    case QS_LABELS:
        qs__pending_bind(pending, role, qs_shape_of(1, draft->in.batch), draft->fp32, draft->frame->labels, 0);
        return QS_OK;
    case QS_ABSMAX:
        return qs__gradient_delivers(draft, n) ? qs__absmax_bind(draft, pending, QS_SLOT_DIFF_ABSMAX, "diff_src") : QS_OK;
    case QS_DIFF_SRC:
    case QS_DIFF_SRC2:
        return diff_src_bind(draft, pending, n, role, diff_src);
    default:
        return qs_fail(QS_FAILED, "operator %s: its backward pass has operand %s, which lowering cannot find", node->name,
                       qs_role_name(role));
    }
}

static qs_status other_emit(qs_schedule_draft *draft, int n, const qs_pass *pass) {
    const qs_node *node = &draft->graph->node[n];
    int diff_src[QS_MAX_INPUTS];
    const qs_attributes attributes = qs__attributes_of(&draft->in, n);
    qs_pending pending = qs__pending_make(n, node->op, pass, &attributes);
    for (int i = 0; i < pass->roles; i++)
        QS_TRY(operand_bind(draft, &pending, n, pass->role[i], diff_src));
    QS_TRY(qs__step_emit(draft, &pending));
    for (int i = 0; i < node->parameters; i++)
        QS_TRY(qs__parameter_gradient_round(draft, &draft->graph->parameter[node->first_parameter + i]));
    for (int i = 0; i < node->parameters; i++)
        QS_TRY(qs__bucket_gradient_done(draft, &draft->graph->parameter[node->first_parameter + i]));
    for (int i = 0; i < node->inputs; i++)
        if (qs__gives(pass, i) && input_is_wanted(draft, n, i))
            QS_TRY(contribute(draft, n, i, draft->facts[n].value, (qs_gradient){.buffer = diff_src[i], .owned = true}));
    return QS_OK;
}

/* Operators without a backward pass (add, flatten) and other names of their input hand their gradient to every input as it is. */
static qs_status hand_on(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    qs_gradient given = qs__gradient_of(draft, n);
    given.owned = given.owned && node->inputs == 1;
    for (int i = 0; i < node->inputs; i++)
        if (input_is_wanted(draft, n, i)) QS_TRY(contribute(draft, n, i, draft->facts[n].value, given));
    return QS_OK;
}

qs_status qs__backward_emit(qs_schedule_draft *draft, int n) {
    if (n == 0 || !draft->topology.needs_gradient[n]) return QS_OK;
    const qs_op *op = draft->graph->node[n].op;
    const qs_pass *pass = qs_op_pass(op, "backward");
    QS_TRY(qs__gradient_round(draft, n));
    if (op->kind == QS_ADJUSTABLE) return adjustable_emit(draft, n);
    return pass && !qs__is_alias(&draft->in, n) ? other_emit(draft, n, pass) : hand_on(draft, n);
}
