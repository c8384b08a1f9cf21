// SPDX-License-Identifier: Apache-2.0
/* Integer products (shiftquant.md §4): which codes an input takes, and how codes, steps and shift groups are bound to the passes. */
#include "schedule_internal.h"

qs_quantizer qs__input_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer) {
    const qs_format *format = quantizer->format;
    qs_quantizer form = qs__operand_form(draft, node, quantizer);
    if (format->kind != QS_KIND_INTEGER || format->is_unsigned || form.granularity == QS_HADAMARD) return form;
    if (draft->recipe[node]->weight_gradient.diff_dst.format->kind != QS_KIND_INTEGER) return form;
    const qs_format *other = draft->unsigned_of[format->bits];
    if (other && draft->topology.non_negative[draft->graph->node[node].input[0]]) form.format = other;
    return form;
}

void qs__activation_bind(const qs_schedule_draft *draft, qs_pending *pending, qs_role role, qs_shape shape, const qs_copy *copy) {
    const bool src = role == QS_SRC;
    qs__pending_bind(pending, role, shape, copy->quantizer.format, copy->buffer, 0);
    if (copy->step_buffer >= 0)
        qs__pending_bind(pending, src ? QS_SRC_STEP : QS_DIFF_DST_STEP, qs_shape_of(1, (int64_t)1), draft->fp32, copy->step_buffer, 0);
    if (copy->group_buffer >= 0)
        qs__pending_bind(pending, src ? QS_SRC_GROUP : QS_DIFF_DST_GROUP, qs_shape_of(1, shape.dim[1]), draft->int8, copy->group_buffer, 0);
}

void qs__weights_bind(const qs_schedule_draft *draft, qs_pending *pending, const qs_parameter *parameter, const qs_quantizer *quantizer,
                      qs_place place, int step_buffer) {
    const int64_t steps = quantizer->granularity == QS_PER_CHANNEL ? parameter->shape.dim[quantizer->channel_is_input ? 1 : 0] : 1;
    qs__pending_bind(pending, QS_WEIGHTS, parameter->shape, quantizer->format, place.buffer, place.offset);
    if (step_buffer >= 0) qs__pending_bind(pending, QS_WEIGHTS_STEP, qs_shape_of(1, steps), draft->fp32, step_buffer, 0);
}

void qs__inner_bind(qs_pending *pending, const qs_copy *copy) {
    if (copy->group_buffer >= 0) pending->case_.attributes.shifts = copy->quantizer.shift_groups;
}
