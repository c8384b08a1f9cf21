// SPDX-License-Identifier: Apache-2.0
/* Appending buffers and steps to the segment under construction. A case that no kernel takes stops the emission with the operator's name;
 * scratch becomes a buffer when the steps are numbered. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

qs_status qs__buffer_make(qs_schedule_draft *draft, int slot, qs_category category, size_t bytes, int node, const char *what,
                          const char *kind, int *out) {
    qs_build *build = &draft->build;
    QS_TRY(qs_grow(&build->made, &build->made_capacity, (size_t)build->mades + 1, sizeof *build->made));
    *out = qs__number(draft, build->node, slot);
    build->made[build->mades++] = (qs_made){.number = *out, .node = node, .what = what, .kind = kind, .bytes = bytes, .category = category};
    return QS_OK;
}

qs_pending qs__pending_make(int node, const qs_op *op, const qs_pass *pass, const qs_attributes *attributes) {
    qs_pending pending = {.node = node, .bucket = -1, .case_ = qs_case_start(op, pass, attributes)};
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        pending.place[i].buffer = -1;
    return pending;
}

void qs__pending_bind(qs_pending *pending, qs_role role, qs_shape shape, const qs_format *format, int buffer, size_t offset) {
    qs_case_bind(&pending->case_, role, shape, format);
    pending->place[qs_case_position(&pending->case_, role)] = (qs_place){buffer, offset};
}

/* An operand by its copy, with the operands of the pass that are declared to go with it: fixed-point steps and shift groups. */
qs_status qs__copy_bind(const qs_schedule_draft *draft, qs_pending *pending, qs_role role, qs_shape shape, const qs_copy *copy,
                        size_t offset) {
    const qs_pass *pass = pending->case_.pass;
    const qs_quantizer *form = &copy->quantizer;
    bool step = copy->step_buffer < 0, groups = copy->group_buffer < 0; /* bound, or not there */
    qs__pending_bind(pending, role, shape, form->format, copy->buffer, offset);
    for (int i = 0; i < pass->operands; i++) {
        const qs_pass_operand *operand = &pass->operand[i];
        if (operand->of != (int)role) continue;
        if (operand->source == QS_STEP_OF && !step) {
            const int64_t steps = form->granularity == QS_PER_CHANNEL ? shape.dim[form->channel_is_input ? 1 : 0] : 1;
            qs__pending_bind(pending, operand->role, qs_shape_of(1, steps), draft->fp32, copy->step_buffer, 0);
            step = true;
        }
        if (operand->source == QS_GROUPS_OF && !groups) {
            qs__pending_bind(pending, operand->role, qs_shape_of(1, shape.dim[1]), draft->int8, copy->group_buffer, 0);
            groups = true;
        }
    }
    if (step && groups) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "operator %s: %s/%s takes its %s without %s; give it a float format, or one step for the tensor",
                   draft->graph->node[pending->node].name, pending->case_.op->name, pass->name, qs_role_name(role),
                   step ? "shift groups" : "a step");
}

static qs_status step_append(qs_build *build, qs_draft_step **out) {
    QS_TRY(qs_grow(&build->step, &build->step_capacity, (size_t)build->steps + 1, sizeof *build->step));
    qs_draft_step *step = &build->step[build->steps++];
    *step = (qs_draft_step){.phase = build->phase, .node = -1, .bucket = -1, .made = build->mades};
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        step->place[i].buffer = -1;
    *out = step;
    return QS_OK;
}

qs_status qs__step_emit(qs_schedule_draft *draft, const qs_pending *pending) {
    const qs_draft_case *known = NULL;
    qs_draft_step *step = NULL;
    QS_TRY(qs__case_find(draft, pending->node, &pending->case_, &known));
    QS_TRY(step_append(&draft->build, &step));
    step->kind = QS_STEP_KERNEL;
    step->node = pending->node;
    step->stream = pending->stream;
    step->bucket = pending->bucket;
    step->conversion = pending->conversion;
    step->case_ = known;
    memcpy(step->place, pending->place, sizeof step->place);
    return QS_OK;
}

qs_status qs__reduce_emit(qs_schedule_draft *draft, qs_step_kind kind, int bucket) {
    qs_draft_step *step = NULL;
    QS_TRY(step_append(&draft->build, &step));
    step->kind = kind;
    step->bucket = bucket;
    /* The gradients must stay where they are while the library reads and writes them. */
    step->place[0] = (qs_place){draft->frame->gradients, (size_t)draft->frame->bucket[bucket].first * sizeof(float)};
    return QS_OK;
}
