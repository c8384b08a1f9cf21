// SPDX-License-Identifier: Apache-2.0
/* Explicit conversions: casts between floats, absmax + quantize to fixed point, dequantize on the way back. A converted value is made once
 * per format and shared; the paper casts per edge, sharing saves both time and the saved copy. */
#include "schedule_internal.h"

static bool same(const qs_quantizer *a, const qs_quantizer *b) {
    return a->format == b->format && a->granularity == b->granularity && a->channel_is_input == b->channel_is_input &&
           a->rounding == b->rounding;
}

static const qs_copy *copy_find(const qs_copy *copies, int count, const qs_quantizer *quantizer) {
    for (int i = 0; i < count; i++)
        if (same(&copies[i].quantizer, quantizer)) return &copies[i];
    return NULL;
}

typedef struct conversion {
    int node;
    qs_stream stream;
    const char *what; /* for buffer names: "value", "gradient", "weights" */
    qs_shape shape;
    const qs_format *from;
    qs_place place;
    qs_quantizer to;
    bool batched;
    const qs_place *target; /* where the result goes; NULL: a buffer of its own */
} conversion;

static qs_status target_find(qs_lowerer *lowerer, const conversion *one, qs_place *out) {
    *out = (qs_place){-1, 0};
    if (one->target) {
        *out = *one->target;
        return QS_OK;
    }
    return qs__buffer_add(lowerer, QS_CONVERTED, qs_tensor_bytes(&one->shape, one->to.format), &out->buffer, "%s:%s:%s",
                          lowerer->graph->node[one->node].name, one->what, one->to.format->name);
}

static qs_status cast_emit(qs_lowerer *lowerer, const conversion *one, qs_copy *out) {
    qs_place target;
    QS_TRY(target_find(lowerer, one, &target));
    const qs_attributes attributes = {.rounding = one->to.rounding, .batched = one->batched};
    qs_draft draft = qs__draft_make(one->node, "cast", "forward", &attributes);
    draft.stream = one->stream;
    draft.conversion = true;
    qs__draft_bind(&draft, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
    qs__draft_bind(&draft, QS_DST, one->shape, one->to.format, target.buffer, target.offset);
    *out = (qs_copy){one->to, target.buffer, -1};
    return qs__step_emit(lowerer, &draft);
}

static qs_status absmax_emit(qs_lowerer *lowerer, const conversion *one, qs_shape steps, int *absmax) {
    const qs_attributes attributes = {.per_channel = one->to.granularity == QS_PER_CHANNEL};
    QS_TRY(qs__buffer_add(lowerer, QS_CONVERTED, qs_tensor_bytes(&steps, lowerer->fp32), absmax, "%s:%s:absmax",
                          lowerer->graph->node[one->node].name, one->what));
    qs_draft draft = qs__draft_make(one->node, "absmax", "forward", &attributes);
    draft.conversion = true;
    qs__draft_bind(&draft, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
    qs__draft_bind(&draft, QS_ABSMAX, steps, lowerer->fp32, *absmax, 0);
    return qs__step_emit(lowerer, &draft);
}

static qs_status quantize_emit(qs_lowerer *lowerer, const conversion *one, qs_copy *out) {
    const bool per_channel = one->to.granularity == QS_PER_CHANNEL;
    const qs_shape steps = qs_shape_of(1, per_channel ? one->shape.dim[0] : (int64_t)1);
    int absmax = -1, step_buffer = -1;
    qs_place codes;
    QS_TRY(absmax_emit(lowerer, one, steps, &absmax));
    QS_TRY(target_find(lowerer, one, &codes));
    QS_TRY(qs__buffer_add(lowerer, QS_CONVERTED, qs_tensor_bytes(&steps, lowerer->fp32), &step_buffer, "%s:%s:step",
                          lowerer->graph->node[one->node].name, one->what));
    const qs_attributes attributes = {.rounding = one->to.rounding, .batched = one->batched, .per_channel = per_channel};
    qs_draft draft = qs__draft_make(one->node, "quantize", "forward", &attributes);
    draft.stream = one->stream;
    draft.conversion = true;
    qs__draft_bind(&draft, QS_SRC, one->shape, one->from, one->place.buffer, one->place.offset);
    qs__draft_bind(&draft, QS_ABSMAX, steps, lowerer->fp32, absmax, 0);
    qs__draft_bind(&draft, QS_DST, one->shape, one->to.format, codes.buffer, codes.offset);
    qs__draft_bind(&draft, QS_DST_STEP, steps, lowerer->fp32, step_buffer, 0);
    *out = (qs_copy){one->to, codes.buffer, step_buffer};
    return qs__step_emit(lowerer, &draft);
}

static qs_status convert(qs_lowerer *lowerer, const conversion *one, qs_copy *out) {
    return one->to.format->kind == QS_KIND_INTEGER ? quantize_emit(lowerer, one, out) : cast_emit(lowerer, one, out);
}

static qs_status shared_copy(qs_lowerer *lowerer, const conversion *one, qs_copy *copies, int *count, qs_copy *out) {
    const char *name = lowerer->graph->node[one->node].name;
    if (one->to.format == one->from) {
        *out = (qs_copy){{.format = one->from}, one->place.buffer, -1};
        return QS_OK;
    }
    const qs_copy *made = copy_find(copies, *count, &one->to);
    if (made) {
        *out = *made;
        return QS_OK;
    }
    if (one->to.granularity == QS_PER_CHANNEL)
        return qs_fail(QS_UNSUPPORTED,
                       "operator %s: a recipe wants its %s with a step per channel; activations and gradients have one step", name,
                       one->what);
    if (*count == QS_MAX_COPIES)
        return qs_fail(QS_UNSUPPORTED, "operator %s: its readers want its %s in more than %d different forms; use fewer recipes", name,
                       one->what, QS_MAX_COPIES);
    QS_TRY(convert(lowerer, one, out));
    copies[(*count)++] = *out;
    return QS_OK;
}

qs_status qs__value_as(qs_lowerer *lowerer, int node, const qs_quantizer *quantizer, qs_copy *out) {
    qs_node_state *state = &lowerer->node[node];
    const conversion one = {.node = node,
                            .stream = QS_STREAM_VALUE,
                            .what = "value",
                            .shape = qs_graph_shape(lowerer->graph, node, lowerer->in->batch),
                            .from = lowerer->out->value_format[node],
                            .place = {state->value, 0},
                            .to = *quantizer,
                            .batched = true};
    return shared_copy(lowerer, &one, state->copy, &state->copies, out);
}

qs_status qs__gradient_as(qs_lowerer *lowerer, int node, const qs_quantizer *quantizer, qs_copy *out) {
    qs_node_state *state = &lowerer->node[node];
    const conversion one = {.node = node,
                            .stream = QS_STREAM_GRADIENT,
                            .what = "gradient",
                            .shape = qs_graph_shape(lowerer->graph, node, lowerer->in->batch),
                            .from = lowerer->out->value_format[node],
                            .place = {state->gradient, 0},
                            .to = *quantizer,
                            .batched = true};
    return shared_copy(lowerer, &one, state->gradient_copy, &state->gradient_copies, out);
}

static qs_status dequantize_emit(qs_lowerer *lowerer, int reader, qs_shape shape, const qs_copy *codes, const qs_format *to, qs_copy *out) {
    int buffer = -1;
    QS_TRY(qs__buffer_add(lowerer, QS_CONVERTED, qs_tensor_bytes(&shape, to), &buffer, "%s:saved:%s", lowerer->graph->node[reader].name,
                          to->name));
    qs_draft draft = qs__draft_make(reader, "dequantize", "forward", NULL);
    draft.conversion = true;
    qs__draft_bind(&draft, QS_SRC, shape, codes->quantizer.format, codes->buffer, 0);
    qs__draft_bind(&draft, QS_SRC_STEP, qs_shape_of(1, (int64_t)1), lowerer->fp32, codes->step_buffer, 0);
    qs__draft_bind(&draft, QS_DST, shape, to, buffer, 0);
    *out = (qs_copy){{.format = to}, buffer, -1};
    return qs__step_emit(lowerer, &draft);
}

qs_status qs__saved_as(qs_lowerer *lowerer, int reader, int node, const qs_quantizer *forward, const qs_quantizer *wanted, qs_copy *out) {
    qs_copy saved = {.buffer = -1};
    QS_TRY(qs__value_as(lowerer, node, forward, &saved)); /* made in the forward pass: emits nothing here */
    const qs_format *format = saved.quantizer.format;
    if (format == wanted->format) {
        *out = saved;
        return QS_OK;
    }
    const qs_shape shape = qs_graph_shape(lowerer->graph, node, lowerer->in->batch);
    if (format->kind == QS_KIND_INTEGER) return dequantize_emit(lowerer, reader, shape, &saved, wanted->format, out);
    const conversion one = {.node = reader,
                            .stream = QS_STREAM_SAVED,
                            .what = "saved",
                            .shape = shape,
                            .from = format,
                            .place = {saved.buffer, 0},
                            .to = *wanted,
                            .batched = true};
    return convert(lowerer, &one, out);
}

static qs_status weights_check(const qs_lowerer *lowerer, int node, const qs_quantizer *quantizer) {
    if (!quantizer->channel_is_input) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "operator %s: weights with a step per input channel are not built yet; use channel(out)",
                   lowerer->graph->node[node].name);
}

/* Converted weights may lie where the gradient of the same weights will be written: that memory is free from the update to that moment, so
 * the copy costs none, and one that backward needs in the same form still stands there. Random draws are never used twice. Evaluation has
 * no gradients. */
qs_status qs__weights_as(qs_lowerer *lowerer, int node, qs_stream stream, const qs_quantizer *quantizer, bool in_gradient,
                         qs_place *weights, int *step_buffer) {
    const qs_parameter *parameter = qs__parameter_find(lowerer, node, QS_WEIGHTS);
    const qs_place master = {lowerer->out->masters, (size_t)parameter->offset * sizeof(float)},
                   slot = {lowerer->out->gradients, master.offset};
    qs_copy *held = &lowerer->node[node].weights, made = {.buffer = -1};
    in_gradient = in_gradient && slot.buffer >= 0;
    *weights = master;
    *step_buffer = -1;
    if (quantizer->format == lowerer->fp32) return QS_OK;
    QS_TRY(weights_check(lowerer, node, quantizer));
    if (in_gradient && same(&held->quantizer, quantizer) && quantizer->rounding != QS_STOCHASTIC) {
        made = *held;
    } else {
        const conversion one = {.node = node,
                                .stream = stream,
                                .what = "weights",
                                .shape = parameter->shape,
                                .from = lowerer->fp32,
                                .place = master,
                                .to = *quantizer,
                                .target = in_gradient ? &slot : NULL};
        QS_TRY(convert(lowerer, &one, &made));
        if (in_gradient) *held = made;
    }
    *weights = in_gradient ? slot : (qs_place){made.buffer, 0};
    *step_buffer = made.step_buffer;
    return QS_OK;
}
