// SPDX-License-Identifier: Apache-2.0
/* Appending buffers and steps to the segment under construction. Cases are kept by structural hash: the text of a case is made, checked
 * and looked up in the kernel table once, however often it is emitted, and stays until the draft is released, so that a change that comes
 * back finds it. A case that no kernel takes stops the emission with the operator's name; scratch becomes a buffer when the steps are
 * numbered. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

qs_status qs__buffer_make(qs_schedule_draft *draft, int slot, qs_category category, size_t bytes, int node, const char *what,
                          const char *kind, int *out) {
    qs_build *build = &draft->build;
    QS_TRY(qs_grow(&build->made, &build->made_capacity, (size_t)build->mades + 1, sizeof *build->made));
    *out = build->again ? qs__number_again(draft, build->node, slot) : qs__number(draft, build->node, slot);
    build->made[build->mades++] = (qs_made){.number = *out, .node = node, .what = what, .kind = kind, .bytes = bytes, .category = category};
    return QS_OK;
}

qs_gradient qs__gradient_after(const qs_schedule_draft *draft, int edge) {
    if (edge < 0 || draft->build.reading) return qs__no_gradient();
    const int n = edge / QS_MAX_INPUTS, input = edge % QS_MAX_INPUTS;
    if (n == draft->build.node) return draft->build.gradient[input];
    return draft->segment[qs__backward_segment(draft, n)]->gradient[input];
}

qs_gradient qs__gradient_of(const qs_schedule_draft *draft, int node) {
    if (node == draft->build.node && draft->build.rounded.buffer >= 0) return draft->build.rounded;
    return qs__gradient_after(draft, draft->topology.last[node]);
}

/* ---- Cases ---- */

enum { FIRST_SLOTS = 256 };

static qs_case_slot *slot_find(const qs_cases *cases, uint64_t hash, const qs_case *one) {
    size_t at = (size_t)hash & (cases->slots - 1);
    while (cases->slot[at].entry && !(cases->slot[at].hash == hash && qs_case_equal(&cases->slot[at].entry->case_, one)))
        at = (at + 1) & (cases->slots - 1);
    return &cases->slot[at];
}

static void entry_free(qs_draft_case *entry) {
    if (!entry) return;
    free(entry->text);
    free(entry);
}

/* A case that is not known yet: checked, and looked up in the kernel table. */
static qs_status entry_make(const qs_lowering *in, const qs_case *one, int index, qs_draft_case **out) {
    char text[QS_CASE_TEXT];
    qs_draft_case *entry = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_case_check(one));
    qs_case_text(one, text);
    QS_TRY(qs_allocate(1, sizeof *entry, &entry));
    entry->case_ = *one;
    entry->index = index;
    QS_GOTO(in->lookup(in->context, one, text, &entry->row));
    QS_GOTO(qs_format_text(&entry->text, "%s", text));
    *out = entry;
    entry = NULL;
done:
    entry_free(entry);
    return status;
}

static qs_status case_find(qs_schedule_draft *draft, int node, const qs_case *one, const qs_draft_case **out) {
    qs_cases *cases = &draft->cases;
    if ((size_t)cases->count * 2 >= cases->slots) {
        qs_cases larger = {.slots = cases->slots ? 2 * cases->slots : FIRST_SLOTS, .count = cases->count};
        QS_TRY(qs_allocate(larger.slots, sizeof *larger.slot, &larger.slot));
        for (size_t i = 0; i < cases->slots; i++)
            if (cases->slot[i].entry) *slot_find(&larger, cases->slot[i].hash, &cases->slot[i].entry->case_) = cases->slot[i];
        free(cases->slot);
        *cases = larger;
    }
    const uint64_t hash = qs_case_hash(one);
    qs_case_slot *slot = slot_find(cases, hash, one);
    if (!slot->entry) {
        const char *name = node >= 0 ? draft->graph->node[node].name : "update";
        QS_TRY(qs_fail_within(entry_make(&draft->in, one, cases->count, &slot->entry), "operator %s", name));
        slot->hash = hash;
        cases->count++;
    }
    *out = slot->entry;
    return QS_OK;
}

void qs__case_table_release(qs_cases *cases) {
    for (size_t i = 0; i < cases->slots; i++)
        entry_free(cases->slot[i].entry);
    free(cases->slot);
}

/* ---- Steps ---- */

void qs__pending_make(qs_pending *pending, int node, const qs_op *op, const qs_pass *pass, const qs_attributes *attributes) {
    pending->node = node;
    pending->stream = 0;
    pending->bucket = -1;
    pending->rate = 1;
    pending->conversion = false;
    qs_case_start(&pending->case_, op, pass, attributes);
    for (int i = 0; i < QS_MAX_OPERANDS; i++)
        pending->place[i] = (qs_place){.buffer = -1};
}

void qs__conversion_make(qs_pending *pending, int node, uint64_t stream, const qs_auxiliary *with, const qs_attributes *attributes) {
    qs__pending_make(pending, node, with->op, with->pass, attributes);
    pending->stream = stream;
    pending->conversion = true;
}

void qs__pending_bind(qs_pending *pending, qs_role role, qs_shape shape, const qs_format *format, int buffer, size_t offset) {
    qs_case_bind(&pending->case_, role, shape, format);
    pending->place[qs_case_position(&pending->case_, role)] = (qs_place){buffer, offset};
}

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

static qs_status step_append(qs_build *build, const qs_draft_step *step) {
    QS_TRY(qs_grow(&build->step, &build->step_capacity, (size_t)build->steps + 1, sizeof *build->step));
    qs_draft_step *added = &build->step[build->steps++];
    *added = *step;
    added->phase = build->again ? QS_BACKWARD : build->phase;
    added->recomputed = build->again;
    added->made = build->mades;
    return QS_OK;
}

qs_status qs__step_emit(qs_schedule_draft *draft, const qs_pending *pending) {
    qs_draft_step step = {.kind = QS_STEP_KERNEL,
                          .node = pending->node,
                          .stream = pending->stream,
                          .bucket = pending->bucket,
                          .rate = pending->rate,
                          .conversion = pending->conversion};
    QS_TRY(case_find(draft, pending->node, &pending->case_, &step.case_));
    memcpy(step.place, pending->place, sizeof step.place);
    return step_append(&draft->build, &step);
}

qs_status qs__reduce_emit(qs_schedule_draft *draft, qs_step_kind kind, int bucket) {
    qs_draft_step step = {.kind = kind, .node = -1, .bucket = bucket, .rate = 1};
    /* The gradients must stay where they are while the library reads and writes them. */
    step.place[0] = (qs_place){draft->frame->gradients, (size_t)draft->frame->bucket[bucket].first * sizeof(float)};
    for (int i = 1; i < QS_MAX_OPERANDS; i++)
        step.place[i].buffer = -1;
    return step_append(&draft->build, &step);
}
