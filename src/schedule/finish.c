// SPDX-License-Identifier: Apache-2.0
/* From a draft to a schedule: buffers are numbered in the order in which the segments make them, scratch among them, and steps get texts
 * and places of their own. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

typedef struct numbering {
    const qs_schedule_draft *draft;
    qs_schedule *out;
    int *index; /* by the draft's number: the schedule's */
} numbering;

static qs_status lists_allocate(numbering *one) {
    const qs_schedule_draft *draft = one->draft;
    const qs_schedule *frame = draft->frame;
    size_t steps = 0, buffers = (size_t)frame->buffers;
    for (int s = 0; s < draft->segments; s++) {
        const qs_segment *segment = draft->segment[s];
        steps += (size_t)segment->steps;
        buffers += (size_t)segment->mades;
        for (int i = 0; i < segment->steps; i++)
            buffers += segment->step[i].case_ && segment->step[i].case_->row.scratch_bytes > 0;
    }
    QS_TRY(qs_allocate(steps, sizeof *one->out->step, &one->out->step));
    QS_TRY(qs_allocate(buffers, sizeof *one->out->buffer, &one->out->buffer));
    QS_TRY(qs_allocate((size_t)frame->buckets, sizeof *one->out->bucket, &one->out->bucket));
    QS_TRY(qs_allocate((size_t)frame->nodes, sizeof(qs_format *), &one->out->value_format));
    return qs_allocate((size_t)frame->buffers + (size_t)frame->nodes * QS_SLOTS, sizeof *one->index, &one->index);
}

/* What the frame holds comes first, with the numbers that it has there. */
static void frame_copy(numbering *one) {
    const qs_schedule *frame = one->draft->frame;
    qs_schedule *out = one->out;
    memcpy(out->buffer, frame->buffer, (size_t)frame->buffers * sizeof *frame->buffer);
    if (frame->buckets) memcpy(out->bucket, frame->bucket, (size_t)frame->buckets * sizeof *frame->bucket);
    out->buffers = frame->buffers;
    out->buckets = frame->buckets;
    for (int b = 0; b < frame->buffers; b++)
        one->index[b] = b;
    for (int n = 0; n < frame->nodes; n++)
        out->value_format[n] = one->draft->facts[n].value;
}

static qs_status statistics_start(qs_schedule *out) {
    if (out->mode != QS_MODE_STATISTICS) return QS_OK;
    QS_TRY(qs_allocate((size_t)out->nodes * 3, sizeof *out->statistics_buffer, &out->statistics_buffer));
    for (int i = 0; i < out->nodes * 3; i++)
        out->statistics_buffer[i] = -1;
    return QS_OK;
}

static qs_buffer *buffer_next(qs_schedule *out, qs_category category, size_t bytes) {
    qs_buffer *buffer = &out->buffer[out->buffers++];
    *buffer = (qs_buffer){.bytes = bytes, .category = category, .first = -2, .last = -2};
    return buffer;
}

static void made_number(numbering *one, const qs_made *made) {
    const char *name = one->draft->graph->node[made->node].name;
    const int slot = (made->number - one->draft->frame->buffers) % QS_SLOTS;
    one->index[made->number] = one->out->buffers;
    if (made->category == QS_STATISTICS_OUT) one->out->statistics_buffer[made->node * 3 + slot - QS_SLOT_STATISTICS] = one->out->buffers;
    qs_buffer *buffer = buffer_next(one->out, made->category, made->bytes);
    snprintf(buffer->name, sizeof buffer->name, "%s:%s%s%s", name, made->what, made->kind ? ":" : "", made->kind ? made->kind : "");
}

static int scratch_number(numbering *one, size_t bytes) {
    const int index = one->out->buffers;
    if (bytes == 0) return -1;
    qs_buffer *buffer = buffer_next(one->out, QS_SCRATCH, bytes);
    snprintf(buffer->name, sizeof buffer->name, "scratch:%d", one->out->steps);
    return index;
}

static qs_status step_number(numbering *one, const qs_draft_step *from) {
    qs_schedule *out = one->out;
    const int scratch = from->case_ ? scratch_number(one, from->case_->row.scratch_bytes) : -1;
    qs_step *step = &out->step[out->steps++];
    *step = (qs_step){.kind = from->kind,
                      .phase = from->phase,
                      .node = from->node,
                      .stream = from->stream,
                      .bucket = from->bucket,
                      .scratch = {scratch, 0},
                      .conversion = from->conversion};
    for (int i = 0; i < QS_MAX_OPERANDS; i++) {
        const qs_place *place = &from->place[i];
        step->place[i] = (qs_place){place->buffer < 0 ? -1 : one->index[place->buffer], place->offset};
    }
    if (from->kind == QS_STEP_REDUCE_START) out->bucket[from->bucket].ready_step = out->steps - 1;
    if (from->kind == QS_STEP_REDUCE_WAIT) out->bucket[from->bucket].wait_step = out->steps - 1;
    if (!from->case_) return QS_OK;
    step->case_ = from->case_->case_;
    memcpy(step->kernel, from->case_->row.kernel, sizeof step->kernel);
    return qs_format_text(&step->case_text, "%s", from->case_->text);
}

static qs_status segment_number(numbering *one, const qs_segment *segment) {
    int made = 0;
    for (int s = 0; s < segment->steps; s++) {
        for (; made < segment->step[s].made; made++)
            made_number(one, &segment->made[made]);
        QS_TRY(step_number(one, &segment->step[s]));
    }
    for (; made < segment->mades; made++)
        made_number(one, &segment->made[made]);
    return QS_OK;
}

qs_status qs__draft_number(const qs_schedule_draft *draft, qs_schedule **out) {
    numbering one = {.draft = draft};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one.out, &one.out));
    *one.out = *draft->frame;
    one.out->buffer = NULL;
    one.out->bucket = NULL;
    QS_GOTO(lists_allocate(&one));
    frame_copy(&one);
    QS_GOTO(statistics_start(one.out));
    for (int s = 0; s < draft->segments; s++)
        QS_GOTO(segment_number(&one, draft->segment[s]));
    *out = one.out;
    one.out = NULL;
done:
    qs_schedule_release(one.out);
    free(one.index);
    return status;
}

qs_status qs_schedule_finish(const qs_schedule_draft *draft, qs_schedule **out, double *packing_us) {
    qs_schedule *schedule = NULL;
    QS_TRY(qs__draft_number(draft, &schedule));
    const double start = qs_clock();
    const qs_status status = qs__memory_pack(schedule);
    if (packing_us) *packing_us = (qs_clock() - start) * 1e6;
    if (status == QS_OK)
        *out = schedule;
    else
        qs_schedule_release(schedule);
    return status;
}
