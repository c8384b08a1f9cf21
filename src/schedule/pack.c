// SPDX-License-Identifier: Apache-2.0
/* From a draft to a schedule. Buffers are numbered in the order in which the segments make them, scratch among them, and steps get texts
 * and places of their own; then buffers get their intervals and their places in the arena, and the peak is found. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

static const char *const phase_names[QS_PHASE_COUNT] = {"forward", "backward", "update"};
const char *qs_phase_name(qs_phase phase) {
    return phase_names[phase];
}

#define CATEGORY_TEXT(id, text) text,
static const char *const category_names[] = {QS_CATEGORY_LIST(CATEGORY_TEXT)};
const char *qs_category_name(qs_category category) {
    return category_names[category];
}

void qs_schedule_release(qs_schedule *schedule) {
    if (!schedule) return;
    for (int s = 0; s < schedule->steps; s++)
        free(schedule->step[s].case_text);
    free(schedule->step);
    free(schedule->buffer);
    free(schedule->bucket);
    free(schedule->statistics_buffer);
    free(schedule->value_format);
    free(schedule);
}

/* ---- Memory ---- */

#define ALIGNMENT 64

size_t qs__aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void touch(qs_schedule *schedule, int buffer, int step) {
    if (buffer < 0) return;
    qs_buffer *one = &schedule->buffer[buffer];
    if (one->first == -2) one->first = step;
    one->last = step;
}

/* Steps in which buffers live; the host writes some before the steps, or reads them after. What forward writes and backward reads is saved;
 * the rest is transient. */
static void intervals_find(qs_schedule *schedule) {
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        for (int i = 0; i < QS_MAX_OPERANDS; i++)
            touch(schedule, step->place[i].buffer, s);
        touch(schedule, step->scratch.buffer, s);
    }
    for (int i = 0; i < schedule->inputs; i++)
        schedule->buffer[schedule->input[i]].first = -1;
    const int before[] = {schedule->target, schedule->flag, schedule->counts};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i] >= 0) schedule->buffer[before[i]].first = -1;
    const int after[] = {schedule->loss, schedule->flag, schedule->counts};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        if (after[i] >= 0) schedule->buffer[after[i]].last = schedule->steps;
    for (int b = 0; b < schedule->buffers; b++) {
        qs_buffer *one = &schedule->buffer[b];
        if (one->category == QS_STATISTICS_OUT) one->last = schedule->steps;
        if (one->persistent) {
            one->first = -1;
            one->last = schedule->steps;
        }
        if (one->category != QS_TRANSIENT_ACTIVATIONS && one->category != QS_CONVERTED) continue;
        if (one->first < 0 || one->last >= schedule->steps) continue;
        if (schedule->step[one->first].phase == QS_FORWARD && schedule->step[one->last].phase != QS_FORWARD)
            one->category = QS_SAVED_ACTIVATIONS;
    }
}

/* What placing looks at of a buffer, close together: buffers number in the thousands and every one is held against all placed before. */
typedef struct span {
    size_t offset, end;
    int first, last, buffer;
} span;

static int larger_first(const void *left, const void *right) {
    const span *a = left, *b = right;
    if (a->end != b->end) return a->end > b->end ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

/* ---- Places ----
 *
 * Most buffers live for a few steps only. What stands in the way of such a one is looked up by blocks of steps: what lives all through a
 * block, as a union, and what begins or ends in it, one by one. */

enum { BLOCKS = 32, LEAST_BLOCK = 64 /* steps */, SHORT_BLOCKS = 2 };

typedef struct step_block {
    int throughs, partials;
    size_t through_capacity, partial_capacity;
    span *through; /* disjoint, by offset; only offset and end count */
    span *partial; /* by offset */
} step_block;

typedef struct placing {
    span *all;
    int placed, *order; /* spans that are placed, by offset */
    int blocks, steps;  /* steps of a block */
    step_block *block;
} placing;

/* The host's step before all, and the one behind, belong to the first and the last block. */
static int block_of(const placing *one, int step) {
    const int block = step / one->steps;
    return block < 0 ? 0 : block < one->blocks ? block : one->blocks - 1;
}

static qs_status through_add(step_block *block, const span *new) {
    int first = 0, end;
    QS_TRY(qs_grow(&block->through, &block->through_capacity, (size_t)block->throughs + 1, sizeof *block->through));
    while (first < block->throughs && block->through[first].end < new->offset)
        first++;
    span sum = *new;
    for (end = first; end < block->throughs && block->through[end].offset <= new->end; end++) {
        if (block->through[end].offset < sum.offset) sum.offset = block->through[end].offset;
        if (block->through[end].end > sum.end) sum.end = block->through[end].end;
    }
    memmove(&block->through[first + 1], &block->through[end], (size_t)(block->throughs - end) * sizeof *block->through);
    block->through[first] = sum;
    block->throughs += 1 - (end - first);
    return QS_OK;
}

static qs_status partial_add(step_block *block, const span *new) {
    QS_TRY(qs_grow(&block->partial, &block->partial_capacity, (size_t)block->partials + 1, sizeof *block->partial));
    int at = block->partials++;
    for (; at > 0 && block->partial[at - 1].offset > new->offset; at--)
        block->partial[at] = block->partial[at - 1];
    block->partial[at] = *new;
    return QS_OK;
}

static qs_status placed_add(placing *one, int index) {
    const span *added = &one->all[index];
    int at = one->placed++;
    for (; at > 0 && one->all[one->order[at - 1]].offset > added->offset; at--)
        one->order[at] = one->order[at - 1];
    one->order[at] = index;
    if (added->end == added->offset) return QS_OK;
    const int last = block_of(one, added->last);
    for (int b = block_of(one, added->first); b <= last; b++) {
        const int begin = b * one->steps;
        const bool is_inner = b > 0 && b != one->blocks - 1;
        const bool through = is_inner && added->first <= begin && added->last >= begin + one->steps - 1;
        QS_TRY(through ? through_add(&one->block[b], added) : partial_add(&one->block[b], added));
    }
    return QS_OK;
}

static bool live_together(const span *a, const span *b) {
    return a->first <= b->last && b->first <= a->last;
}

/* The next of what is placed, by offset: true when it ends the search. */
static bool is_behind(span *one, const span *other, size_t bytes) {
    if (other->offset >= one->offset + bytes) return true;
    if (other->end > one->offset) one->offset = other->end;
    return false;
}

/* The lists of a few blocks, merged. */
static void short_place(const placing *one, span *new, size_t bytes) {
    const span *list[2 * SHORT_BLOCKS], *end[2 * SHORT_BLOCKS];
    int lists = 0;
    const int last = block_of(one, new->last);
    for (int b = block_of(one, new->first); b <= last; b++) {
        const step_block *block = &one->block[b];
        list[lists] = block->through;
        end[lists++] = block->through + block->throughs;
        list[lists] = block->partial;
        end[lists++] = block->partial + block->partials;
    }
    for (;;) {
        int next = -1;
        for (int i = 0; i < lists; i++) {
            while (i % 2 == 1 && list[i] < end[i] && !live_together(list[i], new))
                list[i]++;
            if (list[i] < end[i] && (next < 0 || list[i]->offset < list[next]->offset)) next = i;
        }
        if (next < 0 || is_behind(new, list[next]++, bytes)) return;
    }
}

static void long_place(const placing *one, span *new, size_t bytes) {
    for (int p = 0; p < one->placed; p++) {
        const span *other = &one->all[one->order[p]];
        if (live_together(other, new) && is_behind(new, other, bytes)) return;
    }
}

static void placing_release(placing *one) {
    for (int b = 0; one->block && b < one->blocks; b++) {
        free(one->block[b].through);
        free(one->block[b].partial);
    }
    free(one->block);
    free(one->order);
    free(one->all);
}

/* Persistent buffers first, in their order; then the transient ones, largest first, each at the lowest offset where it overlaps no buffer
 * that lives at the same time: deterministic, so that prediction and execution get the same offsets. */
static qs_status buffers_place(qs_schedule *schedule) {
    placing one = {.steps = schedule->steps / BLOCKS > LEAST_BLOCK ? schedule->steps / BLOCKS : LEAST_BLOCK};
    int count = 0;
    qs_status status = QS_OK;
    one.blocks = schedule->steps / one.steps + 1;
    QS_GOTO(qs_allocate((size_t)schedule->buffers, sizeof *one.all, &one.all));
    QS_GOTO(qs_allocate((size_t)schedule->buffers, sizeof *one.order, &one.order));
    QS_GOTO(qs_allocate((size_t)one.blocks, sizeof *one.block, &one.block));
    schedule->persistent_bytes = 0;
    for (int b = 0; b < schedule->buffers; b++) {
        qs_buffer *buffer = &schedule->buffer[b];
        if (buffer->persistent) {
            buffer->offset = schedule->persistent_bytes;
            schedule->persistent_bytes += qs__aligned(buffer->bytes);
        } else if (buffer->first != -2) {
            one.all[count++] = (span){0, buffer->bytes, buffer->first, buffer->last, b};
        }
    }
    qsort(one.all, (size_t)count, sizeof *one.all, larger_first);
    schedule->arena_bytes = schedule->persistent_bytes;
    for (int i = 0; i < count; i++) {
        span *new = &one.all[i];
        const size_t bytes = qs__aligned(new->end);
        new->offset = schedule->persistent_bytes;
        if (block_of(&one, new->last) - block_of(&one, new->first) < SHORT_BLOCKS)
            short_place(&one, new, bytes);
        else
            long_place(&one, new, bytes);
        new->end = new->offset + bytes;
        schedule->buffer[new->buffer].offset = new->offset;
        if (new->end > schedule->arena_bytes) schedule->arena_bytes = new->end;
        QS_GOTO(placed_add(&one, i));
    }
done:
    placing_release(&one);
    return status;
}

static qs_status peak_find(qs_schedule *schedule) {
    int64_t *change = NULL;
    const size_t steps = (size_t)schedule->steps + 2; /* one before and one after the steps */
    QS_TRY(qs_allocate(steps + 1, sizeof *change, &change));
    for (int b = 0; b < schedule->buffers; b++) {
        const qs_buffer *one = &schedule->buffer[b];
        if (one->first == -2) continue;
        change[one->first + 1] += (int64_t)qs__aligned(one->bytes);
        change[one->last + 2] -= (int64_t)qs__aligned(one->bytes);
    }
    int64_t live = 0;
    for (size_t s = 0; s < steps; s++) {
        live += change[s];
        if ((size_t)live <= schedule->live_bytes) continue;
        schedule->live_bytes = (size_t)live;
        schedule->peak_step = (int)s - 1;
    }
    free(change);
    for (int b = 0; b < schedule->buffers; b++) {
        const qs_buffer *one = &schedule->buffer[b];
        if (one->first != -2 && one->first <= schedule->peak_step && schedule->peak_step <= one->last)
            schedule->category_bytes[one->category] += qs__aligned(one->bytes);
    }
    return QS_OK;
}

/* ---- Numbering ---- */

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
    if (frame->mode == QS_MODE_STATISTICS)
        QS_TRY(qs_allocate((size_t)frame->nodes * 3, sizeof *one->out->statistics_buffer, &one->out->statistics_buffer));
    return qs_allocate((size_t)qs__numbers(draft), sizeof *one->index, &one->index);
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
    const bool again = made->number >= qs__number_again(one->draft, 0, 0);
    snprintf(buffer->name, sizeof buffer->name, "%s:%s%s%s%s", name, made->what, made->kind ? ":" : "", made->kind ? made->kind : "",
             again ? ":again" : "");
}

static qs_status step_number(numbering *one, const qs_draft_step *from) {
    qs_schedule *out = one->out;
    int scratch = -1;
    if (from->case_ && from->case_->row.scratch_bytes > 0) {
        scratch = out->buffers;
        qs_buffer *buffer = buffer_next(out, QS_SCRATCH, from->case_->row.scratch_bytes);
        snprintf(buffer->name, sizeof buffer->name, "scratch:%d", out->steps);
    }
    qs_step *step = &out->step[out->steps++];
    *step = (qs_step){.kind = from->kind,
                      .phase = from->phase,
                      .node = from->node,
                      .stream = from->stream,
                      .rate = from->rate,
                      .bucket = from->bucket,
                      .scratch = {scratch, 0},
                      .conversion = from->conversion,
                      .recomputed = from->recomputed};
    for (int i = 0; i < QS_MAX_OPERANDS; i++) {
        const qs_place *place = &from->place[i];
        step->place[i] = (qs_place){place->buffer < 0 ? -1 : one->index[place->buffer], place->offset};
    }
    if (from->kind == QS_STEP_REDUCE_START) out->bucket[from->bucket].ready_step = out->steps - 1;
    if (from->kind == QS_STEP_REDUCE_WAIT) out->bucket[from->bucket].wait_step = out->steps - 1;
    if (!from->case_) return QS_OK;
    step->case_ = from->case_->case_;
    memcpy(step->kernel, from->case_->row.kernel, sizeof step->kernel);
    const size_t bytes = strlen(from->case_->text) + 1;
    QS_TRY(qs_allocate(bytes, 1, &step->case_text));
    memcpy(step->case_text, from->case_->text, bytes);
    return QS_OK;
}

static qs_status draft_number(const qs_schedule_draft *draft, qs_schedule **out) {
    const qs_schedule *frame = draft->frame;
    numbering one = {.draft = draft};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one.out, &one.out));
    *one.out = *frame;
    one.out->buffer = NULL;
    one.out->bucket = NULL;
    QS_GOTO(lists_allocate(&one));
    /* What the frame holds comes first, with the numbers that it has there. */
    memcpy(one.out->buffer, frame->buffer, (size_t)frame->buffers * sizeof *frame->buffer);
    if (frame->buckets) memcpy(one.out->bucket, frame->bucket, (size_t)frame->buckets * sizeof *frame->bucket);
    for (int b = 0; b < frame->buffers; b++)
        one.index[b] = b;
    for (int n = 0; n < frame->nodes; n++)
        one.out->value_format[n] = draft->facts[n].value;
    for (int i = 0; one.out->statistics_buffer && i < frame->nodes * 3; i++)
        one.out->statistics_buffer[i] = -1;
    for (int i = 0; i < draft->segments; i++) {
        const qs_segment *segment = draft->segment[i];
        int made = 0;
        for (int s = 0; s < segment->steps; s++) {
            for (; made < segment->step[s].made; made++)
                made_number(&one, &segment->made[made]);
            QS_GOTO(step_number(&one, &segment->step[s]));
        }
        for (; made < segment->mades; made++)
            made_number(&one, &segment->made[made]);
    }
    *out = one.out;
    one.out = NULL;
done:
    qs_schedule_release(one.out);
    free(one.index);
    return status;
}

qs_status qs_schedule_finish(const qs_schedule_draft *draft, qs_schedule **out, double *packing_us) {
    qs_schedule *schedule = NULL;
    QS_TRY(draft_number(draft, &schedule));
    const double start = qs_clock();
    intervals_find(schedule);
    qs_status status = buffers_place(schedule);
    if (status == QS_OK) status = peak_find(schedule);
    if (packing_us) *packing_us = (qs_clock() - start) * 1e6;
    if (status == QS_OK)
        *out = schedule;
    else
        qs_schedule_release(schedule);
    return status;
}
