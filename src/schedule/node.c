// SPDX-License-Identifier: Apache-2.0
/* Forward and backward steps of a node. Operands are bound as the operator declares them (qs_pass_operand), so that an
 * operator needs no line here. Factors of products come in the formats of the node's recipe. The gradient of a value is the sum of what its
 * readers contribute, the last reader first, in the value's own format; weight gradients come before input gradients so that all-reduces
 * start early. */
#include "schedule_internal.h"

#include "qsync/inner.h"

/* ---- Gradients of values ---- */

/* The last two contributions to the gradient of the node's value are added up by its own backward pass as it reads them, so nothing has to
 * write the sum. It follows from who contributes, not from what did: where only what is read is looked for, cases are the same. */
static bool comes_in_two(const qs_schedule_draft *draft, int node) {
    const qs_op *op = draft->graph->node[node].op;
    const qs_pass *pass = op ? qs_op_pass(op, "backward") : NULL;
    const int last = draft->topology.last[node];
    if (!qs__is_joining(&draft->in) || !pass || qs__hands_gradient_on(&draft->in, node)) return false;
    if (last < 0 || draft->topology.before[last] < 0) return false;
    for (int i = 0; i < pass->operands; i++)
        if (pass->operand[i].source == QS_FROM_SECOND_GRADIENT) return true;
    return false;
}

/* Adds a reader's contribution, in a format of its own, to the gradient of one of its inputs. */
static qs_status contribute(qs_schedule_draft *draft, int reader, int input, const qs_format *format, qs_gradient given) {
    const int value = draft->graph->node[reader].input[input];
    const qs_format *wanted = draft->facts[value].value;
    const qs_shape shape = qs_graph_shape(draft->graph, value, draft->in.batch);
    const qs_gradient before = qs__gradient_after(draft, draft->topology.before[qs__edge(reader, input)]);
    if (format != wanted) {
        int converted = -1;
        QS_TRY(qs__buffer_make(draft, QS_SLOT_DIFF_CAST + input, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), value, "diff",
                               wanted->name, &converted));
        const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN, .batched = true};
        qs_pending pending;
        qs__conversion_make(&pending, value, 0, &draft->cast, &attributes);
        qs__pending_bind(&pending, QS_SRC, shape, format, given.buffer, 0);
        qs__pending_bind(&pending, QS_DST, shape, wanted, converted, 0);
        given = (qs_gradient){.buffer = converted, .second = -1, .owned = true};
        QS_TRY(qs__step_emit(draft, &pending));
    }
    draft->build.gradient[input] = given;
    if (before.buffer < 0) return QS_OK;
    if (draft->topology.after[qs__edge(reader, input)] < 0 && comes_in_two(draft, value)) {
        draft->build.gradient[input] = (qs_gradient){.buffer = before.buffer, .second = given.buffer};
        return QS_OK;
    }
    int sum = before.buffer;
    if (!before.owned)
        QS_TRY(qs__buffer_make(draft, QS_SLOT_DIFF_SUM + input, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, wanted), value, "diff",
                               "sum", &sum));
    qs_pending pending;
    qs__conversion_make(&pending, value, 0, &draft->sum, NULL);
    qs__pending_bind(&pending, QS_SRC, shape, wanted, before.buffer, 0);
    qs__pending_bind(&pending, QS_SRC2, shape, wanted, given.buffer, 0);
    qs__pending_bind(&pending, QS_DST, shape, wanted, sum, 0);
    draft->build.gradient[input] = (qs_gradient){.buffer = sum, .second = -1, .owned = true};
    return qs__step_emit(draft, &pending);
}

static bool input_is_wanted(const qs_schedule_draft *draft, int n, int input) {
    return draft->topology.needs_gradient[draft->graph->node[n].input[input]];
}

/* Where a pass writes the gradient of a frozen parameter, which it cannot leave out: it runs for what else it writes. */
static qs_status unused_gradient(qs_schedule_draft *draft, int n, const qs_parameter *parameter, qs_place *out) {
    *out = (qs_place){-1, 0};
    return qs__buffer_make(draft, QS_SLOT_UNUSED_GRADIENT + qs__parameter_slot(draft->graph, parameter), QS_GRADIENTS,
                           qs_tensor_bytes(&parameter->shape, draft->fp32), n, qs_role_name(parameter->gradient), "unused", &out->buffer);
}

/* Where a pass that is computed again updates running statistics, which had their update. */
static qs_status unused_running(qs_schedule_draft *draft, int n, const qs_parameter *parameter, qs_place *out) {
    *out = (qs_place){-1, 0};
    return qs__buffer_make(draft, QS_SLOT_UNUSED_GRADIENT + qs__parameter_slot(draft->graph, parameter), QS_SCRATCH,
                           qs_tensor_bytes(&parameter->shape, draft->fp32), n, qs_role_name(parameter->role), "unused", &out->buffer);
}

/* ---- Operands ---- */

/* What a device may join to a pass: the other part of a gradient that nobody has added up; what the sum `n` adds to a normalisation. Absent
 * where nothing is joined. */
static qs_status joined_bind(qs_schedule_draft *draft, qs_pending *pending, int n, const qs_pass_operand *operand) {
    const qs_shape shape = qs_graph_shape(draft->graph, n, draft->in.batch);
    const int norm = qs__joined_norm(&draft->in, n);
    if (operand->source == QS_FROM_SECOND_GRADIENT) {
        if (comes_in_two(draft, n))
            qs__pending_bind(pending, operand->role, shape, draft->facts[n].value, qs__gradient_of(draft, n).second, 0);
        return QS_OK;
    }
    if (norm < 0) return QS_OK;
    qs_copy added;
    QS_TRY(qs__input_as(draft, n, draft->graph->node[n].input[0] == norm, &added));
    return qs__copy_bind(draft, pending, operand->role, shape, &added, 0);
}

/* Binds one operand of a pass as it is declared, factors of products excepted: of the step's node, or of a sum that is joined to it.
 * `gradient`: the format of input gradients; gradient_buffer receives theirs by input. */
static qs_status operand_bind(qs_schedule_draft *draft, qs_pending *pending, int n, const qs_pass_operand *operand,
                              const qs_format *gradient, int *gradient_buffer) {
    const qs_schedule *frame = draft->frame;
    const qs_node *node = &draft->graph->node[n];
    const bool forward = draft->build.phase == QS_FORWARD;
    const qs_role role = operand->role;
    const qs_format *format = draft->role_format[role];
    qs_place place = {-1, 0};
    qs_shape shape;
    if (operand->source == QS_ABSMAX_OF) {
        const bool wanted = forward ? qs__value_delivers(draft, n) : qs__gradient_delivers(draft, n);
        if (!wanted) return QS_OK;
        QS_TRY(qs__buffer_make(draft, forward ? QS_SLOT_VALUE_ABSMAX : QS_SLOT_DIFF_ABSMAX, QS_CONVERTED, sizeof(float), n,
                               qs_role_name((qs_role)operand->of), "absmax", &place.buffer));
        qs__pending_bind(pending, role, qs_shape_of(1, (int64_t)1), format, place.buffer, 0);
        return QS_OK;
    }
    if (operand->source == QS_FROM_SECOND_GRADIENT || operand->source == QS_FROM_RESIDUAL) return joined_bind(draft, pending, n, operand);
    if (!qs_graph_operand_shape(draft->graph, n, operand, draft->in.batch, &shape)) return QS_OK; /* a bias that the node has not */
    switch (operand->source) {
    case QS_FROM_INPUT: {
        qs_copy copy;
        QS_TRY(qs__input_as(draft, n, operand->of, &copy));
        return qs__copy_bind(draft, pending, role, shape, &copy, 0);
    }
    case QS_FROM_PARAMETER:
    case QS_UPDATED_PARAMETER: {
        const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, role);
        if (!format) format = draft->fp32;
        place = (qs_place){frame->running, (size_t)parameter->offset * sizeof(float)};
        if (operand->source == QS_UPDATED_PARAMETER && draft->build.again) QS_TRY(unused_running(draft, n, parameter, &place));
        if (parameter->gradient != QS_ROLE_COUNT) QS_TRY(qs__parameter_as(draft, parameter, forward, &place));
        break;
    }
    case QS_TO_PARAMETER_GRADIENT: {
        const qs_parameter *parameter = qs_graph_parameter(draft->graph, n, role);
        place = (qs_place){frame->gradients, (size_t)parameter->offset * sizeof(float)};
        if (parameter->frozen && operand->optional) return QS_OK;
        if (parameter->frozen) QS_TRY(unused_gradient(draft, n, parameter, &place));
        break;
    }
    case QS_FROM_FORWARD:
    case QS_TO_BACKWARD: {
        const qs_attributes attributes = qs__attributes_of(&draft->in, n);
        const int slot = role == QS_MASK ? QS_SLOT_MASK : role == QS_MEAN ? QS_SLOT_MEAN : QS_SLOT_SPREAD;
        if (operand->optional && (draft->in.mode == QS_MODE_EVALUATION || !qs_op_keeps(node->op, &attributes, operand))) return QS_OK;
        place.buffer = qs__number(draft, draft->topology.root[n], slot); /* made by the sum where that does a relu */
        if (operand->source == QS_TO_BACKWARD && !draft->build.again)    /* kept, and written again with the same bits */
            QS_TRY(qs__buffer_make(draft, slot, QS_TRANSIENT_ACTIVATIONS, qs_tensor_bytes(&shape, format), n, qs_role_name(role), NULL,
                                   &place.buffer));
        break;
    }
    case QS_TO_OUTPUT:
        format = draft->facts[n].value;
        place.buffer = qs__value_number(draft, n);
        break;
    case QS_FROM_GRADIENT:
        format = draft->facts[n].value;
        place.buffer = qs__gradient_of(draft, n).buffer;
        break;
    case QS_TO_INPUT_GRADIENT:
        format = gradient;
        QS_TRY(qs__buffer_make(draft, QS_SLOT_DIFF_SRC + operand->of, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, format), n,
                               qs_role_name(role), NULL, &place.buffer));
        gradient_buffer[operand->of] = place.buffer;
        break;
    case QS_FROM_TARGET:
        place.buffer = frame->target;
        break;
    case QS_TO_LOSS:
        place.buffer = frame->loss;
        break;
    default:
        return qs_fail(QS_FAILED, "operator %s: operand %s of pass %s/%s is declared for auxiliary operators only", node->name,
                       qs_role_name(role), node->op->name, pending->case_.pass->name);
    }
    qs__pending_bind(pending, role, shape, format, place.buffer, place.offset);
    return QS_OK;
}

/* ---- Products ---- */

/* A factor of a product as the recipe has it; `early`: the weights may be read from where their gradient will be written. */
static qs_status factor_bind(qs_schedule_draft *draft, qs_pending *pending, int factor, bool early, qs_copy *out) {
    const int n = pending->node;
    const qs_product *product = pending->case_.pass->product;
    const qs_role role = product->factor[factor];
    const qs_pass_operand *operand = &pending->case_.pass->operand[qs_pass_position(pending->case_.pass, role)];
    const qs_quantizer *quantizer = qs__factor_quantizer(draft->recipe[n], product->gemm, factor);
    qs_place place = {-1, 0};
    qs_shape shape;
    *out = (qs_copy){.quantizer = *quantizer, .buffer = -1, .step_buffer = -1, .group_buffer = -1};
    qs_graph_operand_shape(draft->graph, n, operand, draft->in.batch, &shape);
    if (operand->source == QS_FROM_PARAMETER)
        QS_TRY(qs__weights_as(draft, n, early, &place, &out->step_buffer));
    else if (operand->source == QS_FROM_GRADIENT)
        QS_TRY(qs__gradient_as(draft, n, quantizer, out));
    else if (draft->build.phase == QS_BACKWARD)
        QS_TRY(qs__saved_as(draft, n, operand->of, quantizer, out));
    else {
        QS_TRY(qs__input_as(draft, n, operand->of, out));
        QS_TRY(qs__saved_make(draft, n, operand->of));
    }
    if (operand->source == QS_FROM_PARAMETER) {
        out->buffer = place.buffer;
        out->quantizer = qs__weights_form(draft, n, quantizer);
    }
    return qs__copy_bind(draft, pending, role, shape, out, place.offset);
}

/* Raw statistics of a tensor: of what its node multiplies as src (0), weights (1), diff_dst (2). Parameters have them by channel, too. */
static qs_status tensor_measure(qs_schedule_draft *draft, int n, int which, bool parameter, qs_shape shape, const qs_format *format,
                                qs_place place) {
    static const char *const names[] = {"src", "weights", "diff_dst"};
    const size_t bytes = qs_statistics_bytes(shape.dim[parameter ? 0 : 1]);
    const qs_attributes attributes = {.per_channel = parameter};
    qs_pending pending;
    int buffer = -1;
    QS_TRY(qs__buffer_make(draft, QS_SLOT_STATISTICS + which, QS_STATISTICS_OUT, bytes, n, "statistics", names[which], &buffer));
    qs__pending_make(&pending, n, draft->statistics.op, draft->statistics.pass, &attributes);
    qs__pending_bind(&pending, QS_SRC, shape, format, place.buffer, place.offset);
    qs__pending_bind(&pending, QS_STATISTICS, qs_shape_of(1, (int64_t)(bytes / sizeof(float))), draft->fp32, buffer, 0);
    return qs__step_emit(draft, &pending);
}

/* Statistics of a node's factors before they are converted: of both forward, and of the gradient of the output. */
static qs_status factors_measure(qs_schedule_draft *draft, int n, const qs_pass *pass) {
    const qs_graph *graph = draft->graph;
    const bool back = pass->product->gemm == QS_GEMM_WEIGHT_GRADIENT;
    if (draft->in.mode != QS_MODE_STATISTICS || draft->build.again || pass->product->gemm == QS_GEMM_INPUT_GRADIENT) return QS_OK;
    for (int f = 0; f < 2; f++) {
        const qs_pass_operand *operand = &pass->operand[qs_pass_position(pass, pass->product->factor[f])];
        if (back != (operand->source == QS_FROM_GRADIENT)) continue;
        const qs_parameter *parameter = qs_graph_parameter(graph, n, operand->role);
        const int which = back ? 2 : f, value = back ? n : parameter ? -1 : graph->node[n].input[operand->of];
        const qs_shape shape = parameter ? parameter->shape : qs_graph_shape(graph, value, draft->in.batch);
        const qs_format *format = parameter ? draft->fp32 : draft->facts[value].value;
        qs_place place = {draft->frame->masters, parameter ? (size_t)parameter->offset * sizeof(float) : 0};
        if (!parameter) place.buffer = back ? qs__gradient_of(draft, n).buffer : qs__value_number(draft, value);
        QS_TRY(tensor_measure(draft, n, which, parameter != NULL, shape, format, place));
    }
    return QS_OK;
}

/* A product, in the accumulator of the recipe. Sums of codes are written in the format that the gradient of an input has. */
static qs_status product_emit(qs_schedule_draft *draft, int n, const qs_pass *pass, bool early, const qs_format **gradient,
                              int *gradient_buffer) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_gemm gemm = pass->product->gemm;
    qs_attributes attributes = node->attributes;
    attributes.accumulator = recipe->accumulator[gemm];
    qs_pending pending;
    qs__pending_make(&pending, n, node->op, pass, &attributes);
    if (attributes.accumulator.adder) pending.stream = QS_STREAM_SUM + (uint64_t)gemm;
    qs_copy factor[2];
    for (int f = 0; f < 2; f++)
        QS_TRY(factor_bind(draft, &pending, f, early, &factor[f]));
    for (int i = 0; i < pass->operands; i++) {
        const qs_pass_operand *operand = &pass->operand[i];
        if (operand->role == pass->product->factor[0] || operand->role == pass->product->factor[1]) continue;
        if (operand->source == QS_STEP_OF || operand->source == QS_GROUPS_OF) continue;
        if (operand->source == QS_TO_INPUT_GRADIENT) {
            const qs_format *codes = qs__factor_quantizer(recipe, gemm, 0)->format;
            *gradient = codes->kind == QS_KIND_INTEGER ? draft->facts[node->input[operand->of]].value : codes;
        }
        QS_TRY(operand_bind(draft, &pending, n, operand, *gradient, gradient_buffer));
    }
    QS_TRY(factors_measure(draft, n, pass));
    /* Sums over the samples know no shift groups of channels. Bias gradients must know that samples were transformed. */
    if (gemm != QS_GEMM_WEIGHT_GRADIENT && factor[0].group_buffer >= 0) pending.case_.attributes.shifts = factor[0].quantizer.shift_groups;
    const int bias = qs_case_position(&pending.case_, QS_DIFF_BIAS);
    if (bias >= 0 && pending.case_.operand[bias].format) pending.case_.attributes.hadamard = factor[1].quantizer.hadamard;
    return qs__step_emit(draft, &pending);
}

/* ---- Products inside of passes ---- */

/* Which codes they multiply, as the node's recipe says; floats where it has floats. */
static qs_status codes_choose(const qs_schedule_draft *draft, int n, qs_attributes *attributes) {
    const qs_node *node = &draft->graph->node[n];
    const qs_recipe *recipe = draft->recipe[n];
    const qs_quantizer *first = &recipe->forward.src, *back = &recipe->input_gradient.diff_dst;
    const bool forward = first->format->kind == QS_KIND_INTEGER, backward = back->format->kind == QS_KIND_INTEGER;
    char one[64], other[64];
    if (!node->op->inner->takes_codes(attributes)) return QS_OK;
    for (qs_gemm gemm = 0; gemm < QS_GEMMS; gemm++)
        for (int f = 0; f < 2; f++) {
            const qs_quantizer *factor = qs__factor_quantizer(recipe, gemm, f);
            const bool of_gradients = gemm == QS_GEMM_INPUT_GRADIENT || (gemm == QS_GEMM_WEIGHT_GRADIENT && f == 1);
            if (!(gemm == QS_GEMM_FORWARD ? forward : backward)) {
                if (factor->format->kind == QS_KIND_FLOAT) continue;
            } else if (forward && factor->format == (of_gradients ? back : first)->format && factor->rounding == first->rounding)
                continue;
            return qs_fail(
                QS_UNSUPPORTED,
                "operator %s: a recipe wants %s and %s in it, but the products inside a %s take codes of one format and rounding "
                "forward, and behind that floats, or codes of one format for all gradients",
                node->name, qs_quantizer_text(first, one), qs_quantizer_text(factor, other), node->op->name);
        }
    if (forward) attributes->to = first->format;
    if (forward) attributes->rounding = first->rounding;
    if (backward && draft->build.phase == QS_BACKWARD) attributes->gradients = back->format;
    return QS_OK;
}

/* Statistics of the factors of products inside of passes: behind the pass that writes them. */
static qs_status inner_measure(qs_schedule_draft *draft, const qs_pending *done) {
    const int n = done->node;
    const qs_case *one = &done->case_;
    const bool forward = draft->build.phase == QS_FORWARD;
    if (draft->in.mode != QS_MODE_STATISTICS || draft->build.again) return QS_OK;
    for (int which = forward ? 0 : 2; which < (forward ? 2 : 3); which++) {
        const int at = qs_case_position(one, draft->graph->node[n].op->inner->factor[which]);
        QS_TRY(tensor_measure(draft, n, which, which == 1, one->operand[at].shape, one->operand[at].format, done->place[at]));
    }
    return QS_OK;
}

/* ---- Forward ---- */

/* The gradient of shared weights is written by the later reader of them, so the table's own pass, which comes last, adds to it. */
static qs_status pass_emit(qs_schedule_draft *draft, int n, const qs_pass *pass, int *gradient_buffer) {
    qs_attributes attributes = qs__attributes_of(&draft->in, n);
    attributes.accumulate = draft->graph->node[n].shared && draft->build.phase == QS_BACKWARD;
    const bool inner = draft->graph->node[n].op->inner != NULL;
    qs_pending pending;
    if (inner) QS_TRY(codes_choose(draft, n, &attributes));
    qs__pending_make(&pending, n, draft->graph->node[n].op, pass, &attributes);
    for (int i = 0; i < pass->operands; i++)
        if (pass->operand[i].source != QS_STEP_OF && pass->operand[i].source != QS_GROUPS_OF)
            QS_TRY(operand_bind(draft, &pending, n, &pass->operand[i], draft->facts[n].value, gradient_buffer));
    QS_TRY(qs__step_emit(draft, &pending));
    return inner ? inner_measure(draft, &pending) : QS_OK;
}

/* A normalisation and the sum behind it in one pass: what it reads, parameters and statistics are the normalisation's; what it adds, the
 * result and what stands beside that are the sum's. The value between them is in no memory. */
static qs_status joined_emit(qs_schedule_draft *draft, int sum, int norm) {
    const qs_pass *pass = qs__forward_pass(&draft->in, norm);
    const qs_attributes behind = qs__attributes_of(&draft->in, sum);
    qs_attributes attributes = draft->graph->node[norm].attributes;
    qs_pending pending;
    attributes.relu = behind.relu;
    attributes.ceiling = behind.ceiling;
    qs__pending_make(&pending, norm, draft->graph->node[norm].op, pass, &attributes);
    for (int i = 0; i < pass->operands; i++) {
        const qs_pass_operand *operand = &pass->operand[i];
        const bool of_sum = operand->source == QS_FROM_RESIDUAL || operand->source == QS_TO_OUTPUT || operand->source == QS_ABSMAX_OF ||
                            operand->role == QS_MASK;
        if (operand->source == QS_STEP_OF) continue;
        draft->build.node = of_sum ? sum : norm; /* buffers are numbered by it */
        QS_TRY(operand_bind(draft, &pending, draft->build.node, operand, NULL, NULL));
    }
    draft->build.node = sum;
    return qs__step_emit(draft, &pending);
}

qs_status qs__forward_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    if (!node->op) return qs__value_round(draft, n);
    if (node->op->evaluation_only && draft->in.mode != QS_MODE_EVALUATION)
        return qs_fail(QS_UNSUPPORTED, "operator %s: a %s is there for evaluation only, it does not train", node->name, node->op->name);
    if (qs__is_alias(&draft->in, n) || qs__joined_sum(&draft->in, n) >= 0) return QS_OK;
    if (node->op->kind != QS_FIXED) {
        const qs_shape shape = qs_graph_shape(draft->graph, n, draft->in.batch);
        int value = -1;
        QS_TRY(qs__buffer_make(draft, QS_SLOT_VALUE, QS_TRANSIENT_ACTIVATIONS, qs_tensor_bytes(&shape, draft->facts[n].value), n, "dst",
                               NULL, &value));
    }
    const int norm = qs__joined_norm(&draft->in, n);
    if (norm >= 0) return joined_emit(draft, n, norm);
    const qs_pass *pass = qs__forward_pass(&draft->in, n);
    const qs_format *gradient = NULL;
    if (pass->product) QS_TRY(qs__transforms_check(draft, n));
    QS_TRY(pass->product ? product_emit(draft, n, pass, true, &gradient, NULL) : pass_emit(draft, n, pass, NULL));
    return qs__value_round(draft, n);
}

/* ---- Backward ---- */

/* Converted weights larger than all forms of the saved input are read from the place of their gradient, hence before it is written: the
 * input's gradient then lives longer, which costs less than a second copy of the weights. */
static bool input_comes_first(const qs_schedule_draft *draft, int n) {
    const qs_recipe *recipe = draft->recipe[n];
    const qs_format *wanted = recipe->input_gradient.weights.format, *saved = recipe->forward.src.format,
                    *read = recipe->weight_gradient.src.format;
    const qs_parameter *weights = qs_graph_parameter(draft->graph, n, QS_WEIGHTS);
    const qs_shape src = qs_graph_shape(draft->graph, draft->graph->node[n].input[0], draft->in.batch);
    const size_t inputs = qs_tensor_bytes(&src, saved) + (read == saved ? 0 : qs_tensor_bytes(&src, read));
    if (!weights) return false;
    const bool converted = wanted != draft->fp32 || recipe->input_gradient.weights.blocks || qs__parameter_quantizer(draft, weights);
    return converted && qs_tensor_bytes(&weights->shape, wanted) > inputs;
}

/* A backward pass, what it did to parameters' gradients, and its contributions to those of the inputs. */
static qs_status backward_emit(qs_schedule_draft *draft, int n, const qs_pass *pass, bool early) {
    const qs_node *node = &draft->graph->node[n];
    const qs_format *format = draft->facts[n].value;
    int gradient_buffer[QS_MAX_INPUTS] = {-1, -1, -1, -1};
    if (!qs__pass_is_wanted(draft, n, pass)) return QS_OK;
    QS_TRY(pass->product ? product_emit(draft, n, pass, early, &format, gradient_buffer) : pass_emit(draft, n, pass, gradient_buffer));
    /* The bias of a product comes before the weights (topology.c: is_written_later). */
    for (int bucket = 0; bucket < 2; bucket++)
        for (int i = 0; i < node->parameters; i++) {
            const int at = node->first_parameter + (pass->product ? node->parameters - 1 - i : i);
            const qs_parameter *parameter = &draft->graph->parameter[at];
            if (parameter->frozen || qs_pass_position(pass, parameter->gradient) < 0) continue;
            const int completed = draft->topology.bucket_of[at];
            if (!bucket) QS_TRY(qs__parameter_gradient_round(draft, parameter));
            if (bucket && completed >= 0) QS_TRY(qs__reduce_emit(draft, QS_STEP_REDUCE_START, completed));
        }
    for (int i = 0; i < node->inputs; i++)
        if (gradient_buffer[i] >= 0 && input_is_wanted(draft, n, i))
            QS_TRY(contribute(draft, n, i, format, (qs_gradient){.buffer = gradient_buffer[i], .second = -1, .owned = true}));
    return QS_OK;
}

qs_status qs__backward_emit(qs_schedule_draft *draft, int n) {
    const qs_node *node = &draft->graph->node[n];
    if (!node->op || !draft->topology.needs_gradient[n]) return QS_OK;
    const qs_pass *weights = qs_op_pass(node->op, qs_gemm_name(QS_GEMM_WEIGHT_GRADIENT));
    QS_TRY(qs__gradient_round(draft, n));
    if (weights) {
        const qs_pass *input = qs_op_pass(node->op, qs_gemm_name(QS_GEMM_INPUT_GRADIENT));
        /* The weight gradient first where memory allows, so that its all-reduce starts early. */
        const bool first = qs__pass_is_wanted(draft, n, input) && input_comes_first(draft, n);
        QS_TRY(backward_emit(draft, n, first ? input : weights, true));
        return backward_emit(draft, n, first ? weights : input, false);
    }
    const qs_pass *pass = qs_op_pass(node->op, "backward");
    if (pass && !qs__hands_gradient_on(&draft->in, n)) return backward_emit(draft, n, pass, false);
    /* Operators without a backward pass (add, flatten) and other names of their input hand their gradient to every input as it is. */
    qs_gradient given = qs__gradient_of(draft, n);
    given.owned = given.owned && node->inputs == 1;
    for (int i = 0; i < node->inputs; i++)
        if (input_is_wanted(draft, n, i)) QS_TRY(contribute(draft, n, i, draft->facts[n].value, given));
    return QS_OK;
}
