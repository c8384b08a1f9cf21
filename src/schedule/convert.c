// SPDX-License-Identifier: Apache-2.0
/* Explicit conversions: casts between floats, absmax + quantize to fixed point (quantize alone where the absmax was delivered),
 * dequantize on the way back. A converted value is made once per form, by the first reader that wants it, and shared; the paper casts per
 * edge, sharing saves both time and the saved copy. */
#include "schedule_internal.h"

typedef struct conversion {
    int node; /* of the random draws and the names */
    int slot; /* of the parts */
    qs_stream stream;
    const char *what; /* for buffer names: "value", "gradient", "weights", "saved" */
    qs_shape shape;
    const qs_format *from;
    qs_place place;
    qs_quantizer to;
    bool batched, channels_are_input; /* the latter of the reader: its input's channels, not its output's */
    const qs_place *target;           /* where the result goes; NULL: a buffer of its own */
    const int *absmax;                /* the buffer of its largest magnitude, or of its columns'; NULL or -1: to be found */
    bool columns;                     /* rows are quantized: the maxima of columns are wanted, too */
} conversion;

/* ---- Largest magnitudes ----
 *
 * A quantizer with one step for the whole tensor needs nothing else of it: where the pass that writes the tensor can deliver its absmax as
 * a by-product (normalisations, relu, add), no step reads the tensor for it. Who wants it follows from the facts of the readers, so the
 * writer's segment and the reader's agree without asking each other. */

/* One step for the whole tensor. */
bool qs__takes_one_step(const qs_quantizer *quantizer) {
    return quantizer->format && quantizer->format->kind == QS_KIND_INTEGER && quantizer->granularity == QS_PER_TENSOR;
}

static bool can_deliver(const qs_pass *pass) {
    const int absmax = qs_pass_position(pass, QS_ABSMAX);
    return absmax >= 0 && pass->operand[absmax].source == QS_ABSMAX_OF;
}

/* What lies in a node's buffer is what its forward pass wrote there. */
bool qs__value_can_deliver(const qs_schedule_draft *draft, int node) {
    return draft->graph->node[node].op && can_deliver(qs__forward_pass(&draft->in, node)) && !qs__value_tensor(draft, node);
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

bool qs__gradient_may_deliver(const qs_schedule_draft *draft, int node) {
    const int edge = draft->topology.last[node], reader = edge / QS_MAX_INPUTS;
    if (edge < 0 || draft->topology.before[edge] >= 0 || qs__hands_gradient_on(&draft->in, reader) || qs__value_tensor(draft, node))
        return false;
    return edge % QS_MAX_INPUTS == 0 && can_deliver(qs_op_pass(draft->graph->node[reader].op, "backward"));
}

/* The backward pass of the node's only reader writes the gradient of its output, in the format that it has. */
static bool gradient_can(const qs_schedule_draft *draft, int node) {
    if (!qs__gradient_may_deliver(draft, node)) return false;
    return draft->facts[draft->topology.last[node] / QS_MAX_INPUTS].value == draft->facts[node].value;
}

bool qs__gradient_is_wanted(const qs_schedule_draft *draft, int node) {
    const qs_node *one = &draft->graph->node[node];
    if (!one->op || one->op->kind != QS_ADJUSTABLE) return false;
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

/* ---- Conversions ---- */

/* One step for all, one for each index of an axis, or shift groups of the channels, which lie along axis 1. Transformed values have one
 * step; their channels lie along axis 1 too, but for the outputs of weights, which are never batched. */
static qs_attributes steps_of(const conversion *one) {
    const bool shifts = one->to.granularity == QS_SHIFT_GROUPS, channels = one->to.granularity == QS_PER_CHANNEL;
    if (one->to.granularity == QS_HADAMARD)
        return (qs_attributes){.hadamard = one->to.hadamard, .axis = !one->to.over_samples && (one->to.channel_is_input || one->batched)};
    return (qs_attributes){.per_channel = channels || shifts, .axis = shifts || (channels && one->to.channel_is_input) ? 1 : 0};
}

static qs_status part_make(qs_schedule_draft *draft, const conversion *one, int part, size_t bytes, const char *name, int *out) {
    return qs__buffer_make(draft, one->slot + part, QS_CONVERTED, bytes, one->node, one->what, name, out);
}

static qs_status quantize_emit(qs_schedule_draft *draft, const conversion *one, qs_copy *out) {
    qs_attributes attributes = steps_of(one);
    const bool shifts = one->to.granularity == QS_SHIFT_GROUPS, by_row = attributes.per_channel && attributes.axis == 0;
    const qs_shape maxima = qs_shape_of(1, attributes.per_channel ? one->shape.dim[attributes.axis] : (int64_t)1),
                   steps = shifts ? qs_shape_of(1, (int64_t)1) : maxima;
    const qs_shape columns = qs_shape_of(1, by_row && one->columns ? one->shape.dim[1] : (int64_t)1);
    int absmax = one->absmax ? *one->absmax : -1, step_buffer = -1, group = -1;
    qs_place codes = one->target ? *one->target : (qs_place){-1, 0};
    if (absmax < 0 && !by_row) {
        QS_TRY(part_make(draft, one, QS_PART_ABSMAX, qs_tensor_bytes(&maxima, draft->fp32), "absmax", &absmax));
        qs_pending pending;
        qs__conversion_make(&pending, one->node, 0, &draft->absmax, &attributes);
        qs__pending_bind(&pending, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
        qs__pending_bind(&pending, QS_ABSMAX, maxima, draft->fp32, absmax, 0);
        QS_TRY(qs__step_emit(draft, &pending));
    }
    if (by_row && one->columns) QS_TRY(part_make(draft, one, QS_PART_ABSMAX, qs_tensor_bytes(&columns, draft->fp32), "absmax", &absmax));
    if (!one->target)
        QS_TRY(part_make(draft, one, QS_PART_VALUES, qs_tensor_bytes(&one->shape, one->to.format), one->to.format->name, &codes.buffer));
    QS_TRY(part_make(draft, one, QS_PART_STEP, qs_tensor_bytes(&steps, draft->fp32), "step", &step_buffer));
    if (shifts) QS_TRY(part_make(draft, one, QS_PART_GROUP, (size_t)qs_shape_count(&maxima), "group", &group));
    attributes.rounding = one->to.rounding;
    attributes.batched = one->batched;
    attributes.shifts = one->to.shift_groups;
    attributes.least_squares = one->to.least_squares;
    qs_pending pending;
    qs__conversion_make(&pending, one->node, one->stream + (one->to.second_draw ? QS_STREAM_SECOND : 0), &draft->quantize, &attributes);
    qs__pending_bind(&pending, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
    if (!by_row) qs__pending_bind(&pending, QS_ABSMAX, maxima, draft->fp32, absmax, 0);
    if (by_row && one->columns) qs__pending_bind(&pending, QS_COLUMN_ABSMAX, columns, draft->fp32, absmax, 0);
    qs__pending_bind(&pending, QS_DST, one->shape, one->to.format, codes.buffer, codes.offset);
    qs__pending_bind(&pending, QS_DST_STEP, steps, draft->fp32, step_buffer, 0);
    if (shifts) qs__pending_bind(&pending, QS_DST_GROUP, maxima, draft->int8, group, 0);
    *out = (qs_copy){one->to, codes.buffer, step_buffer, group};
    return qs__step_emit(draft, &pending);
}

static qs_status convert(qs_schedule_draft *draft, const conversion *one, qs_copy *out) {
    if (one->to.format->kind == QS_KIND_INTEGER) return quantize_emit(draft, one, out);
    qs_place target = one->target ? *one->target : (qs_place){-1, 0};
    if (!one->target)
        QS_TRY(part_make(draft, one, QS_PART_VALUES, qs_tensor_bytes(&one->shape, one->to.format), one->to.format->name, &target.buffer));
    const bool channels = !one->to.over_samples && (one->to.channel_is_input || one->batched);
    const qs_attributes attributes = {.rounding = one->to.rounding,
                                      .overflow = one->to.overflow,
                                      .batched = one->batched,
                                      .blocks = one->to.blocks,
                                      .axis = one->to.blocks && channels};
    qs_pending pending;
    qs__conversion_make(&pending, one->node, one->stream, one->to.blocks ? &draft->block_round : &draft->cast, &attributes);
    qs__pending_bind(&pending, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
    qs__pending_bind(&pending, QS_DST, one->shape, one->to.format, target.buffer, target.offset);
    *out = (qs_copy){one->to, target.buffer, -1, -1};
    return qs__step_emit(draft, &pending);
}

/* What stands in this format already is not what is wanted: blocks are rounded all the same. */
static bool is_as_stored(const qs_quantizer *want, const qs_format *stored) {
    return want->format == stored && !want->blocks;
}

/* Values and gradients: `forms` others of the same one stand already. */
static qs_status copy_make(qs_schedule_draft *draft, const conversion *one, int forms, qs_copy *out) {
    const char *name = draft->graph->node[one->node].name;
    if (one->to.granularity == QS_PER_CHANNEL)
        return qs_fail(QS_UNSUPPORTED,
                       "operator %s: a recipe wants its %s with a step per channel; activations and gradients have one step", name,
                       one->what);
    if (one->to.granularity == QS_SHIFT_GROUPS && one->to.channel_is_input != one->channels_are_input)
        return qs_fail(QS_UNSUPPORTED,
                       "operator %s: a recipe wants its %s in groups of the wrong channels: src takes shift%d(in), diff_dst takes "
                       "shift%d(out)",
                       name, one->what, one->to.shift_groups, one->to.shift_groups);
    if (forms == QS_MAX_COPIES)
        return qs_fail(QS_UNSUPPORTED, "operator %s: its readers want its %s in more than %d different forms; use fewer recipes", name,
                       one->what, QS_MAX_COPIES);
    return convert(draft, one, out);
}

/* The first reader of a value that wants it in this form; *forms: how many other converted forms readers before it want. */
static int copy_owner(const qs_schedule_draft *draft, int value, const qs_quantizer *want, int *forms) {
    const qs_topology *topology = &draft->topology;
    const qs_quantizer *seen[QS_MAX_COPIES];
    *forms = 0;
    for (int i = topology->first_reader[value]; i < topology->first_reader[value + 1]; i++) {
        const int edge = topology->reader[i];
        const qs_quantizer *other = &draft->facts[edge / QS_MAX_INPUTS].want[edge % QS_MAX_INPUTS];
        if (qs__quantizer_same(other, want)) return edge;
        if (!other->format || is_as_stored(other, draft->facts[value].value)) continue;
        int known = 0;
        while (known < *forms && !qs__quantizer_same(seen[known], other))
            known++;
        if (known == *forms && *forms < QS_MAX_COPIES) seen[(*forms)++] = other;
    }
    return -1;
}

/* A value as it is stored. */
static qs_status value_as(qs_schedule_draft *draft, int reader, int input, qs_copy *out) {
    const int value = draft->graph->node[reader].input[input];
    *out = (qs_copy){{.format = draft->facts[value].value}, qs__value_number(draft, value), -1, -1};
    return draft->build.phase == QS_BACKWARD ? qs__value_unpack(draft, reader, input, &out->buffer) : QS_OK;
}

/* The copy whose parts were made with these numbers. */
static qs_copy copy_at(const qs_quantizer *form, int parts) {
    return (qs_copy){*form, parts + QS_PART_VALUES, form->format->kind == QS_KIND_INTEGER ? parts + QS_PART_STEP : -1,
                     form->granularity == QS_SHIFT_GROUPS ? parts + QS_PART_GROUP : -1};
}

qs_status qs__input_as(qs_schedule_draft *draft, int reader, int input, qs_copy *out) {
    const int value = draft->graph->node[reader].input[input];
    const qs_quantizer *want = &draft->facts[reader].want[input];
    if (is_as_stored(want, draft->facts[value].value)) return value_as(draft, reader, input, out);
    int forms;
    const int owner = copy_owner(draft, value, want, &forms), root = draft->topology.root[value];
    const bool again = qs__copies_again(draft, value), stands = draft->build.phase != QS_FORWARD || (draft->build.again && !again);
    if (owner != qs__edge(reader, input) || stands) {
        const int slot = QS_SLOT_INPUT + QS_PARTS * (owner % QS_MAX_INPUTS);
        *out = copy_at(want, qs__number_seen(draft, owner / QS_MAX_INPUTS, slot, again));
        return QS_OK;
    }
    const bool delivered = qs__takes_one_step(want) && qs__value_can_deliver(draft, root);
    const int absmax = delivered ? qs__number_seen(draft, root, QS_SLOT_VALUE_ABSMAX, qs__value_again(draft, root)) : -1;
    const conversion one = {.node = value,
                            .slot = QS_SLOT_INPUT + QS_PARTS * input,
                            .stream = QS_STREAM_VALUE,
                            .what = "value",
                            .shape = qs_graph_shape(draft->graph, value, draft->in.batch),
                            .from = draft->facts[value].value,
                            .place = {qs__value_number(draft, value), 0},
                            .to = *want,
                            .batched = true,
                            .channels_are_input = true,
                            .absmax = &absmax};
    return copy_make(draft, &one, forms, out);
}

qs_status qs__gradient_as(qs_schedule_draft *draft, int node, const qs_quantizer *quantizer, qs_copy *out) {
    qs_build *build = &draft->build;
    const qs_quantizer form = qs__operand_form(draft, node, quantizer);
    const bool delivered = qs__takes_one_step(&form) && gradient_can(draft, node);
    const int absmax = delivered ? qs__number(draft, draft->topology.last[node] / QS_MAX_INPUTS, QS_SLOT_DIFF_ABSMAX) : -1;
    const conversion one = {.node = node,
                            .slot = QS_SLOT_GRADIENT + QS_PARTS * build->gradient_copies,
                            .stream = QS_STREAM_GRADIENT,
                            .what = "gradient",
                            .shape = qs_graph_shape(draft->graph, node, draft->in.batch),
                            .from = draft->facts[node].value,
                            .place = {qs__gradient_of(draft, node).buffer, 0},
                            .to = form,
                            .batched = true,
                            .absmax = &absmax};
    if (is_as_stored(&form, one.from)) {
        *out = (qs_copy){{.format = one.from}, one.place.buffer, -1, -1};
        return QS_OK;
    }
    for (int i = 0; i < build->gradient_copies; i++)
        if (qs__quantizer_same(&build->gradient_copy[i].quantizer, &one.to)) {
            *out = build->gradient_copy[i];
            return QS_OK;
        }
    QS_TRY(copy_make(draft, &one, build->gradient_copies, out));
    build->gradient_copy[build->gradient_copies++] = *out;
    return QS_OK;
}

/* What is transformed, or rounded in blocks, in one way is of no use in another: under such recipes what the weight gradient reads is made
 * beside forward's codes, from the value itself, unless it is the same. */
static bool is_apart(const qs_schedule_draft *draft, int reader, int input, const qs_quantizer *wanted) {
    const qs_recipe *recipe = draft->recipe[reader];
    const bool transforms = recipe->forward.src.hadamard > 0 || recipe->weight_gradient.src.hadamard > 0 || recipe->forward.src.blocks ||
                            recipe->weight_gradient.src.blocks;
    return transforms && !qs__quantizer_same(&draft->facts[reader].want[input], wanted);
}

static qs_status saved_convert(qs_schedule_draft *draft, int reader, int input, const qs_format *from, int buffer,
                               const qs_quantizer *wanted, qs_copy *out) {
    const conversion one = {.node = reader,
                            .slot = QS_SLOT_SAVED + QS_PARTS * input,
                            .stream = QS_STREAM_SAVED,
                            .what = "saved",
                            .shape = qs_graph_shape(draft->graph, draft->graph->node[reader].input[input], draft->in.batch),
                            .from = from,
                            .place = {buffer, 0},
                            .to = *wanted,
                            .batched = true,
                            .channels_are_input = true};
    return copy_make(draft, &one, 0, out);
}

qs_status qs__saved_make(qs_schedule_draft *draft, int reader, int input) {
    const qs_quantizer wanted = qs__input_form(draft, reader, input, &draft->recipe[reader]->weight_gradient.src);
    const int value = draft->graph->node[reader].input[input];
    const qs_pass *reads = qs_op_pass(draft->graph->node[reader].op, qs_gemm_name(QS_GEMM_WEIGHT_GRADIENT));
    qs_copy made;
    if (draft->in.mode == QS_MODE_EVALUATION || !is_apart(draft, reader, input, &wanted)) return QS_OK;
    if (!qs__pass_is_wanted(draft, reader, reads)) return QS_OK; /* of what is frozen */
    if (is_as_stored(&wanted, draft->facts[value].value)) return QS_OK;
    return saved_convert(draft, reader, input, draft->facts[value].value, qs__value_number(draft, value), &wanted, &made);
}

qs_status qs__saved_as(qs_schedule_draft *draft, int reader, int input, const qs_quantizer *quantizer, qs_copy *out) {
    const qs_quantizer wanted = qs__input_form(draft, reader, input, quantizer);
    const int value = draft->graph->node[reader].input[input];
    if (is_apart(draft, reader, input, &wanted)) {
        if (is_as_stored(&wanted, draft->facts[value].value)) return value_as(draft, reader, input, out);
        const bool again = draft->recompute.last && draft->recompute.last[reader] >= 0;
        *out = copy_at(&wanted, qs__number_seen(draft, reader, QS_SLOT_SAVED + QS_PARTS * input, again));
        return QS_OK;
    }
    qs_copy saved = {.buffer = -1};
    /* Made in the forward pass: emits nothing here but the decoding of what was packed. */
    QS_TRY(qs__input_as(draft, reader, input, &saved));
    const qs_format *format = saved.quantizer.format;
    const bool codes = format->kind == QS_KIND_INTEGER;
    /* Codes are used as forward saved them: never made anew from other codes. */
    if (codes && wanted.format->kind == QS_KIND_INTEGER && !qs__quantizer_same(&saved.quantizer, &wanted)) {
        char first[64], second[64];
        return qs_fail(QS_UNSUPPORTED, "operator %s: forward saves its input as %s, the weight gradient wants %s: use one of them in both",
                       draft->graph->node[reader].name, qs_quantizer_text(&saved.quantizer, first), qs_quantizer_text(&wanted, second));
    }
    if (format == wanted.format) {
        *out = saved;
        return QS_OK;
    }
    if (!codes) return saved_convert(draft, reader, input, format, saved.buffer, &wanted, out);
    const qs_shape shape = qs_graph_shape(draft->graph, value, draft->in.batch);
    *out = (qs_copy){{.format = wanted.format}, -1, -1, -1};
    QS_TRY(qs__buffer_make(draft, QS_SLOT_SAVED + QS_PARTS * input + QS_PART_VALUES, QS_CONVERTED, qs_tensor_bytes(&shape, wanted.format),
                           reader, "saved", wanted.format->name, &out->buffer));
    qs_pending pending;
    qs__conversion_make(&pending, reader, 0, &draft->dequantize, NULL);
    QS_TRY(qs__copy_bind(draft, &pending, QS_SRC, shape, &saved, 0));
    qs__pending_bind(&pending, QS_DST, shape, wanted.format, out->buffer, 0);
    return qs__step_emit(draft, &pending);
}

/* Steps of weights lie along the channels that the sum does not run over: outputs forward, inputs in the input gradient. */
static qs_status weights_check(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    const char *name = draft->graph->node[node].name;
    const bool forward = draft->build.phase == QS_FORWARD, input = quantizer->channel_is_input;
    if (quantizer->granularity == QS_SHIFT_GROUPS)
        return qs_fail(QS_UNSUPPORTED, "operator %s: shift groups are of activations and gradients; weights take channel(%s)", name,
                       forward ? "out" : "in");
    if (quantizer->granularity != QS_PER_CHANNEL || input != forward) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "operator %s: weights with a step per %s channel, over which the %s sums; use channel(%s)", name,
                   input ? "input" : "output", forward ? "forward product" : "input gradient", forward ? "out" : "in");
}

/* Forward's product has a step for each row of the weights, and the input gradient one for each column. */
static bool delivers_columns(const qs_schedule_draft *draft, int node, const qs_quantizer *before, const qs_quantizer *back) {
    const bool rows = before->format->kind == QS_KIND_INTEGER && before->granularity == QS_PER_CHANNEL && !before->channel_is_input;
    const bool columns = back->format->kind == QS_KIND_INTEGER && back->granularity == QS_PER_CHANNEL && back->channel_is_input;
    return rows && columns && draft->in.mode != QS_MODE_EVALUATION && draft->topology.needs_gradient[draft->graph->node[node].input[0]];
}

/* Converted weights may lie where the gradient of the same weights will be written: that memory is free from the update to that moment, so
 * the copy costs none, and one that backward needs in the same form still stands there. Random draws are never used twice. Evaluation has
 * no gradients. */
qs_status qs__weights_as(qs_schedule_draft *draft, int node, bool first, qs_place *weights, int *step_buffer) {
    const bool forward = draft->build.phase == QS_FORWARD;
    const qs_recipe *recipe = draft->recipe[node];
    const qs_quantizer before = qs__weights_form(draft, node, &recipe->forward.weights), *quantizer = &before;
    const qs_quantizer back = qs__weights_form(draft, node, &recipe->input_gradient.weights);
    if (!forward) quantizer = &back;
    const qs_parameter *parameter = qs_graph_parameter(draft->graph, node, QS_WEIGHTS);
    const qs_place master = {draft->frame->masters, (size_t)parameter->offset * sizeof(float)},
                   slot = {draft->frame->gradients, master.offset};
    const bool stands = qs__parameter_stands(draft, parameter);
    const bool in_gradient = (forward || first) && slot.buffer >= 0 && !parameter->frozen && (stands || !draft->build.again);
    const bool integer = quantizer->format->kind == QS_KIND_INTEGER;
    *weights = master;
    *step_buffer = -1;
    if (is_as_stored(quantizer, draft->fp32)) return qs__parameter_as(draft, parameter, in_gradient, weights);
    QS_TRY(weights_check(draft, node, forward ? &recipe->forward.weights : &recipe->input_gradient.weights));
    if (qs__parameter_quantizer(draft, parameter))
        return qs_fail(
            QS_UNSUPPORTED,
            "tensor %s: the plan gives it a format of its own, but recipe %s has the weights in %s already; use the recipe fp32 or "
            "leave the tensor out",
            parameter->name, recipe->name, quantizer->format->name);
    const bool reused = !forward && qs__quantizer_same(&before, quantizer) && quantizer->rounding != QS_STOCHASTIC;
    if (in_gradient && (reused || draft->build.again)) {
        *weights = slot;
        *step_buffer = integer ? qs__number(draft, node, QS_SLOT_WEIGHTS + QS_PART_STEP) : -1;
        return QS_OK;
    }
    const bool columns = delivers_columns(draft, node, &before, &back);
    const int absmax = columns && !forward ? qs__number(draft, node, QS_SLOT_WEIGHTS + QS_PART_ABSMAX) : -1;
    const conversion one = {.node = node,
                            .slot = forward ? QS_SLOT_WEIGHTS : QS_SLOT_INPUT_WEIGHTS,
                            .stream = forward ? QS_STREAM_WEIGHTS : QS_STREAM_INPUT_WEIGHTS,
                            .what = "weights",
                            .shape = parameter->shape,
                            .from = draft->fp32,
                            .place = master,
                            .to = *quantizer,
                            .target = in_gradient ? &slot : NULL,
                            .absmax = &absmax,
                            .columns = columns && forward};
    qs_copy made;
    QS_TRY(convert(draft, &one, &made));
    *weights = in_gradient ? slot : (qs_place){made.buffer, 0};
    *step_buffer = made.step_buffer;
    return QS_OK;
}
