// SPDX-License-Identifier: Apache-2.0
/* Formats of tensors (docs/method.md §7): which tensor of the graph has which, and the steps that round, pack and decode. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

size_t qs_counts_offset_value(const qs_graph *graph, int node) {
    (void)graph;
    return (size_t)node * QS_COUNTS_PITCH;
}

size_t qs_counts_offset_parameter(const qs_graph *graph, int parameter) {
    return ((size_t)graph->nodes + (size_t)parameter) * QS_COUNTS_PITCH;
}

size_t qs_counts_offset_gradient(const qs_graph *graph, int node) {
    return ((size_t)graph->nodes + (size_t)graph->parameters + (size_t)node) * QS_COUNTS_PITCH;
}

/* Nothing is rounded in evaluation, which has no counts. */
const qs_tensor_choice *qs__value_tensor(const qs_schedule_draft *draft, int node) {
    return draft->frame->counts >= 0 ? draft->in.tensors->value[node] : NULL;
}

static const qs_tensor_choice *parameter_tensor(const qs_schedule_draft *draft, const qs_parameter *parameter) {
    return draft->frame->counts >= 0 ? draft->in.tensors->parameter[parameter - draft->graph->parameter] : NULL;
}

const qs_quantizer *qs__parameter_quantizer(const qs_schedule_draft *draft, const qs_parameter *parameter) {
    const qs_tensor_choice *tensor = parameter_tensor(draft, parameter);
    return tensor && tensor->value.format ? &tensor->value : NULL;
}

static qs_status storage_check(const qs_schedule_draft *draft, int node) {
    const qs_format *format = draft->facts[node].value;
    if (format == draft->fp32) return QS_OK;
    return qs_fail(QS_UNSUPPORTED,
                   "tensor %s: the plan gives it a format of its own, but recipes have it stored in %s; tensors are rounded behind fp32 "
                   "operators: give it no format, or the operators around it the recipe fp32",
                   draft->graph->node[node].name, format->name);
}

/* ---- Steps -------------------------------------------------------------------------------------------------------------------------- */

typedef struct rounding {
    int node;
    uint64_t stream;
    qs_shape shape;
    qs_place from, to;
    const qs_quantizer *quantizer;
    bool batched;
    int packed;    /* buffer; -1: none */
    size_t counts; /* offset; NO_COUNTS: not counted */
} rounding;
#define NO_COUNTS SIZE_MAX

static qs_status round_emit(qs_schedule_draft *draft, const rounding *one) {
    const qs_format *format = one->quantizer->format;
    const qs_auxiliary *with = one->packed >= 0 ? &draft->pack : &draft->round;
    /* Rows only where draws follow samples: one row is dealt to threads as a whole. */
    const qs_attributes attributes = {.rounding = one->quantizer->rounding,
                                      .overflow = one->quantizer->overflow,
                                      .to = format,
                                      .batched = one->batched && one->quantizer->rounding == QS_STOCHASTIC};
    qs_pending pending;
    qs__conversion_make(&pending, one->node, one->stream, with, &attributes);
    qs__pending_bind(&pending, QS_SRC, one->shape, draft->fp32, one->from.buffer, one->from.offset);
    qs__pending_bind(&pending, QS_DST, one->shape, draft->fp32, one->to.buffer, one->to.offset);
    if (one->packed >= 0) qs__pending_bind(&pending, QS_PACKED, one->shape, format, one->packed, 0);
    if (one->counts != NO_COUNTS)
        qs__pending_bind(&pending, QS_COUNTS, qs_shape_of(1, (int64_t)4), draft->fp32, draft->frame->counts, one->counts);
    return qs__step_emit(draft, &pending);
}

static qs_status storage_cast(qs_schedule_draft *draft, int node, qs_shape shape, const qs_format *from, int src, const qs_format *to,
                              int dst) {
    const qs_attributes attributes = {.rounding = QS_NEAREST_EVEN};
    qs_pending pending;
    qs__conversion_make(&pending, node, 0, &draft->cast, &attributes);
    qs__pending_bind(&pending, QS_SRC, shape, from, src, 0);
    qs__pending_bind(&pending, QS_DST, shape, to, dst, 0);
    return qs__step_emit(draft, &pending);
}

/* ---- Outputs ------------------------------------------------------------------------------------------------------------------------ */

/* A backward pass reads the output as it is stored, itself or through operators that hand its buffer on. */
static bool is_read_back(const qs_schedule_draft *draft, int node) {
    const qs_topology *topology = &draft->topology;
    for (int i = topology->first_reader[node]; i < topology->first_reader[node + 1]; i++) {
        const int reader = topology->reader[i] / QS_MAX_INPUTS, input = topology->reader[i] % QS_MAX_INPUTS;
        if (qs__is_alias(&draft->in, reader)) {
            if (is_read_back(draft, reader)) return true;
        } else if (topology->needs_gradient[reader] && draft->facts[reader].want[input].format == draft->fp32 &&
                   !draft->facts[reader].want[input].blocks && qs_op_saves(draft->graph->node[reader].op, input)) {
            return true;
        }
    }
    return false;
}

static const qs_format *packed_format(const qs_schedule_draft *draft, int node) {
    const qs_tensor_choice *tensor = qs__value_tensor(draft, node);
    return tensor && tensor->saved && tensor->saved != draft->fp32 && is_read_back(draft, node) ? tensor->saved : NULL;
}

qs_status qs__value_round(qs_schedule_draft *draft, int node) {
    const qs_tensor_choice *tensor = qs__value_tensor(draft, node);
    const qs_format *saved = packed_format(draft, node);
    const qs_shape shape = qs_graph_shape(draft->graph, node, draft->in.batch);
    const int value = qs__value_number(draft, node);
    int packed = -1;
    if (!tensor || (!tensor->value.format && !tensor->saved)) return QS_OK;
    QS_TRY(storage_check(draft, node));
    if (saved)
        QS_TRY(qs__buffer_make(draft, QS_SLOT_PACKED, QS_TRANSIENT_ACTIVATIONS, qs_tensor_bytes(&shape, saved), node, "packed", saved->name,
                               &packed));
    /* In one step where the formats are one; rows of draws must start on whole bytes. */
    const bool at_once = saved && saved == tensor->value.format && (tensor->value.rounding != QS_STOCHASTIC || saved->bits % 8 == 0);
    const rounding one = {.node = node,
                          .stream = QS_STREAM_ROUND_VALUE,
                          .shape = shape,
                          .from = {value, 0},
                          .to = {value, 0},
                          .quantizer = &tensor->value,
                          .batched = true,
                          .packed = at_once ? packed : -1,
                          .counts = qs_counts_offset_value(draft->graph, node)};
    if (tensor->value.format) QS_TRY(round_emit(draft, &one));
    return saved && !at_once ? storage_cast(draft, node, shape, draft->fp32, value, saved, packed) : QS_OK;
}

qs_status qs__value_unpack(qs_schedule_draft *draft, int reader, int input, int *buffer) {
    const int value = draft->graph->node[reader].input[input], root = draft->topology.root[value];
    const qs_format *saved = packed_format(draft, root);
    const qs_shape shape = qs_graph_shape(draft->graph, value, draft->in.batch);
    if (!saved) return QS_OK;
    QS_TRY(qs__buffer_make(draft, QS_SLOT_UNPACKED, QS_CONVERTED, qs_tensor_bytes(&shape, draft->fp32), reader, "src", "unpacked", buffer));
    const int packed = qs__number_seen(draft, root, QS_SLOT_PACKED, qs__value_again(draft, root));
    return storage_cast(draft, reader, shape, saved, packed, draft->fp32, *buffer);
}

/* ---- Gradients ---------------------------------------------------------------------------------------------------------------------- */

/* Rounding twice to one format changes nothing. A gradient that others still read is rounded into a buffer of its own. */
qs_status qs__gradient_round(qs_schedule_draft *draft, int node) {
    const qs_tensor_choice *tensor = qs__value_tensor(draft, node);
    const qs_gradient given = qs__gradient_of(draft, node);
    const qs_shape shape = qs_graph_shape(draft->graph, node, draft->in.batch);
    if (!tensor || !tensor->gradient.format || given.buffer < 0 || given.rounded == tensor->gradient.format) return QS_OK;
    QS_TRY(storage_check(draft, node));
    int to = given.buffer;
    if (!given.owned)
        QS_TRY(qs__buffer_make(draft, QS_SLOT_ROUNDED_GRADIENT, QS_ACTIVATION_GRADIENTS, qs_tensor_bytes(&shape, draft->fp32), node, "diff",
                               "rounded", &to));
    const rounding one = {.node = node,
                          .stream = QS_STREAM_ROUND_GRADIENT,
                          .shape = shape,
                          .from = {given.buffer, 0},
                          .to = {to, 0},
                          .quantizer = &tensor->gradient,
                          .batched = true,
                          .packed = -1,
                          .counts = qs_counts_offset_gradient(draft->graph, node)};
    QS_TRY(round_emit(draft, &one));
    draft->build.rounded = (qs_gradient){to, -1, true, tensor->gradient.format};
    return QS_OK;
}

/* ---- Parameters --------------------------------------------------------------------------------------------------------------------- */

static rounding parameter_rounding(const qs_parameter *parameter, qs_place from, qs_place to, const qs_quantizer *quantizer) {
    return (rounding){.node = parameter->node,
                      .stream = (uint64_t)QS_STREAM_ROUND_PARAMETER + (uint64_t)parameter->role,
                      .shape = parameter->shape,
                      .from = from,
                      .to = to,
                      .quantizer = quantizer,
                      .packed = -1,
                      .counts = NO_COUNTS};
}

qs_status qs__parameter_gradient_round(qs_schedule_draft *draft, const qs_parameter *parameter) {
    const qs_tensor_choice *tensor = parameter_tensor(draft, parameter);
    if (!tensor || !tensor->gradient.format) return QS_OK;
    const qs_place place = {draft->frame->gradients, (size_t)parameter->offset * sizeof(float)};
    rounding one = parameter_rounding(parameter, place, place, &tensor->gradient);
    one.stream += QS_ROLE_COUNT; /* draws of its own */
    return round_emit(draft, &one);
}

/* Both passes read equal bits: the second rounding draws what the first drew. Only the first one counts. What is frozen has no gradient in
 * whose place it could lie: it is rounded once a step. */
qs_status qs__parameter_as(qs_schedule_draft *draft, const qs_parameter *parameter, bool in_gradient, qs_place *out) {
    const qs_quantizer *quantizer = qs__parameter_quantizer(draft, parameter);
    const qs_place master = {draft->frame->masters, (size_t)parameter->offset * sizeof(float)};
    const bool forward = draft->build.phase == QS_FORWARD, again = draft->build.again;
    *out = master;
    if (!quantizer) return QS_OK;
    *out = (qs_place){draft->frame->gradients, master.offset};
    if (parameter->frozen) {
        const int slot = QS_SLOT_ROUNDED_FROZEN + qs__parameter_slot(draft->graph, parameter), node = draft->build.node;
        *out = (qs_place){qs__number(draft, node, slot), 0};
        if (!forward || again) return QS_OK;
        QS_TRY(qs__buffer_make(draft, slot, QS_CONVERTED, qs_tensor_bytes(&parameter->shape, draft->fp32), node,
                               qs_role_name(parameter->role), "rounded", &out->buffer));
    } else if (in_gradient && (again ? qs__parameter_stands(draft, parameter) : !forward)) {
        return QS_OK;
    } else if (!forward || again) {
        *out = (qs_place){-1, 0};
        QS_TRY(qs__buffer_make(draft, QS_SLOT_ROUNDED_PARAMETER, QS_CONVERTED, qs_tensor_bytes(&parameter->shape, draft->fp32),
                               parameter->node, qs_role_name(parameter->role), "rounded", &out->buffer));
    }
    rounding one = parameter_rounding(parameter, master, *out, quantizer);
    if (forward) one.counts = qs_counts_offset_parameter(draft->graph, (int)(parameter - draft->graph->parameter));
    return round_emit(draft, &one);
}
