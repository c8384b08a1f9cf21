// SPDX-License-Identifier: Apache-2.0
/* The live-byte maximum of a draft, kept up to date. A buffer lives from the first to the last step that touches it. Segments it merely
 * crosses carry it as a range addition in a tree of maxima; in those where it begins or ends it counts within the segment, whose own
 * maximum is found from its few steps. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

typedef struct extent {
    int first, last; /* segments; first -1: lives before the steps; last = segments: lives on behind them; -2: nowhere */
    size_t bytes;
} extent;

typedef struct buffer {
    size_t bytes;
    bool constant;      /* always there: counted once and for all */
    bool before, after; /* filled before the steps, read behind them */
    bool dirty;
    uint32_t stamp; /* of the segment whose touches are being listed */
    int listed;     /* and its touch there */
    extent counted; /* as the tree has it */
    qs_touch *touches;
} buffer;

struct qs_live {
    int numbers, segments, leaves;
    size_t base; /* of the constant buffers */
    buffer *buffer;
    int64_t *most, *added; /* the tree: maximum below a place, additions of it included; additions at a place */
    int64_t *inner;        /* (segments) own maximum */
    bool *segment_dirty;
    int dirty_buffers, dirty_segments;
    int *dirty_buffer, *dirty_segment;
    uint32_t stamp;
    size_t touch_capacity, profile_capacity;
    qs_touch *touch;
    int64_t *profile; /* (steps of the largest segment + 1) */
};

static void host_start(qs_live *live, const qs_schedule *frame) {
    for (int b = 0; b < frame->buffers; b++) {
        buffer *one = &live->buffer[b];
        one->bytes = qs__aligned(frame->buffer[b].bytes);
        one->constant = frame->buffer[b].persistent || b == frame->flag || b == frame->counts;
        one->before = b == frame->target;
        for (int i = 0; i < frame->inputs; i++)
            one->before = one->before || b == frame->input[i];
        one->after = b == frame->loss;
        if (one->constant) live->base += one->bytes;
    }
}

static qs_status live_allocate(qs_live *live) {
    const size_t numbers = (size_t)live->numbers, segments = (size_t)live->segments, places = 2 * (size_t)live->leaves;
    QS_TRY(qs_allocate(numbers, sizeof *live->buffer, &live->buffer));
    QS_TRY(qs_allocate(numbers, sizeof *live->dirty_buffer, &live->dirty_buffer));
    QS_TRY(qs_allocate(segments, sizeof *live->dirty_segment, &live->dirty_segment));
    QS_TRY(qs_allocate(segments, sizeof *live->segment_dirty, &live->segment_dirty));
    QS_TRY(qs_allocate(segments, sizeof *live->inner, &live->inner));
    QS_TRY(qs_allocate(places, sizeof *live->most, &live->most));
    return qs_allocate(places, sizeof *live->added, &live->added);
}

static void live_release(qs_live *live) {
    if (!live) return;
    free(live->buffer);
    free(live->dirty_buffer);
    free(live->dirty_segment);
    free(live->segment_dirty);
    free(live->inner);
    free(live->most);
    free(live->added);
    free(live->touch);
    free(live->profile);
    free(live);
}

/* ---- Touches ---- */

static void touch_note(qs_live *live, int number, int segment, int step, int *count) {
    if (number < 0 || live->buffer[number].constant) return;
    buffer *one = &live->buffer[number];
    if (one->stamp != live->stamp) {
        one->stamp = live->stamp;
        one->listed = (*count)++;
        live->touch[one->listed] = (qs_touch){.number = number, .segment = segment, .first = step};
    }
    live->touch[one->listed].last = step;
}

static qs_status touches_list(qs_live *live, int steps, const qs_draft_step *step, int segment, const qs_touch **out, int *count) {
    *count = 0;
    QS_TRY(qs_grow(&live->touch, &live->touch_capacity, (size_t)steps * QS_MAX_OPERANDS, sizeof *live->touch));
    QS_TRY(qs_grow(&live->profile, &live->profile_capacity, (size_t)steps + 1, sizeof *live->profile));
    live->stamp++;
    for (int s = 0; s < steps; s++)
        for (int i = 0; i < QS_MAX_OPERANDS; i++)
            touch_note(live, step[s].place[i].buffer, segment, s, count);
    *out = live->touch;
    return QS_OK;
}

static void segment_dirty(qs_live *live, int segment) {
    if (segment < 0 || segment >= live->segments || live->segment_dirty[segment]) return;
    live->segment_dirty[segment] = true;
    live->dirty_segment[live->dirty_segments++] = segment;
}

static void buffer_dirty(qs_live *live, int number) {
    if (live->buffer[number].dirty) return;
    live->buffer[number].dirty = true;
    live->dirty_buffer[live->dirty_buffers++] = number;
}

static void segment_link(qs_live *live, int index, qs_segment *segment) {
    for (int i = 0; i < segment->mades; i++) {
        buffer *one = &live->buffer[segment->made[i].number];
        one->bytes = qs__aligned(segment->made[i].bytes);
        one->after = segment->made[i].category == QS_STATISTICS_OUT;
    }
    for (int i = 0; i < segment->touches; i++) {
        qs_touch *touch = &segment->touch[i], **head = &live->buffer[touch->number].touches;
        touch->previous = NULL;
        touch->next = *head;
        if (*head) (*head)->previous = touch;
        *head = touch;
        buffer_dirty(live, touch->number);
    }
    segment_dirty(live, index);
}

static void segment_unlink(qs_live *live, int index, qs_segment *segment) {
    for (int i = 0; i < segment->touches; i++) {
        qs_touch *touch = &segment->touch[i];
        if (touch->next) touch->next->previous = touch->previous;
        if (touch->previous)
            touch->previous->next = touch->next;
        else
            live->buffer[touch->number].touches = touch->next;
        buffer_dirty(live, touch->number);
    }
    segment_dirty(live, index);
}

static void segment_swapped(qs_live *live, int index, qs_segment *old, qs_segment *now) {
    if (old) segment_unlink(live, index, old);
    segment_link(live, index, now);
}

/* ---- The tree of maxima ---- */

static void tree_raise(qs_live *live, int place) {
    while (place > 1) {
        place /= 2;
        const int64_t left = live->most[2 * place], right = live->most[2 * place + 1];
        live->most[place] = (left > right ? left : right) + live->added[place];
    }
}

static void place_add(qs_live *live, int place, int64_t bytes) {
    live->most[place] += bytes;
    if (place < live->leaves) live->added[place] += bytes;
}

/* To segments first .. end - 1. */
static void range_add(qs_live *live, int first, int end, int64_t bytes) {
    if (first >= end || bytes == 0) return;
    int left = first + live->leaves, right = end + live->leaves;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2) place_add(live, left++, bytes);
        if (right % 2) place_add(live, --right, bytes);
    }
    tree_raise(live, first + live->leaves);
    tree_raise(live, end - 1 + live->leaves);
}

static void inner_set(qs_live *live, int segment, int64_t bytes) {
    live->most[segment + live->leaves] += bytes - live->inner[segment];
    live->inner[segment] = bytes;
    tree_raise(live, segment + live->leaves);
}

/* ---- Settling ---- */

static extent extent_of(const qs_live *live, const buffer *one) {
    extent now = {-2, -2, one->bytes};
    if (!one->touches) return (extent){-2, -2, 0};
    now.first = now.last = one->touches->segment;
    for (const qs_touch *touch = one->touches->next; touch; touch = touch->next) {
        if (touch->segment < now.first) now.first = touch->segment;
        if (touch->segment > now.last) now.last = touch->segment;
    }
    if (one->before) now.first = -1;
    if (one->after) now.last = live->segments;
    return now;
}

static void buffer_settle(qs_live *live, buffer *one) {
    const extent now = extent_of(live, one), old = one->counted;
    one->dirty = false;
    if (now.first == old.first && now.last == old.last && now.bytes == old.bytes) return;
    range_add(live, old.first + 1, old.last, -(int64_t)old.bytes);
    range_add(live, now.first + 1, now.last, (int64_t)now.bytes);
    segment_dirty(live, old.first);
    segment_dirty(live, old.last);
    segment_dirty(live, now.first);
    segment_dirty(live, now.last);
    one->counted = now;
}

/* The largest sum of scratch and of buffers that begin or end here, over the segment's steps. */
static int64_t inner_most(const qs_live *live, int index, const qs_segment *segment) {
    int64_t sum = 0, most = 0;
    memset(live->profile, 0, ((size_t)segment->steps + 1) * sizeof *live->profile);
    for (int i = 0; i < segment->touches; i++) {
        const qs_touch *touch = &segment->touch[i];
        const extent *one = &live->buffer[touch->number].counted;
        const bool begins = one->first == index, ends = one->last == index;
        if (!begins && !ends) continue;
        live->profile[begins ? touch->first : 0] += (int64_t)one->bytes;
        live->profile[ends ? touch->last + 1 : segment->steps] -= (int64_t)one->bytes;
    }
    for (int s = 0; s < segment->steps; s++) {
        const qs_draft_case *one = segment->step[s].case_;
        const int64_t scratch = one ? (int64_t)qs__aligned(one->row.scratch_bytes) : 0;
        sum += live->profile[s];
        if (sum + scratch > most) most = sum + scratch;
    }
    return most;
}

void qs__live_settle(qs_schedule_draft *draft) {
    qs_live *live = draft->live;
    for (int i = 0; i < live->dirty_buffers; i++)
        buffer_settle(live, &live->buffer[live->dirty_buffer[i]]);
    for (int i = 0; i < live->dirty_segments; i++) {
        const int index = live->dirty_segment[i];
        live->segment_dirty[index] = false;
        inner_set(live, index, inner_most(live, index, draft->segment[index]));
    }
    live->dirty_buffers = live->dirty_segments = 0;
}

/* ---- Listening to a draft ---- */

static const qs_segment_listener listener = {touches_list, segment_swapped, live_release};

qs_status qs__live_start(qs_schedule_draft *draft) {
    qs_live *live = NULL;
    QS_TRY(qs_allocate(1, sizeof *live, &live));
    live->numbers = qs__numbers(draft);
    live->segments = draft->segments;
    for (live->leaves = 1; live->leaves < live->segments;)
        live->leaves *= 2;
    const qs_status status = live_allocate(live);
    if (status != QS_OK) {
        live_release(live);
        return status;
    }
    for (int b = 0; b < live->numbers; b++)
        live->buffer[b].counted = (extent){-2, -2, 0};
    host_start(live, draft->frame);
    draft->live = live;
    draft->listener = &listener;
    return QS_OK;
}

size_t qs_schedule_draft_live_bytes(const qs_schedule_draft *draft) {
    return draft->live->base + (size_t)draft->live->most[1];
}

size_t qs_schedule_draft_inner_bytes(const qs_schedule_draft *draft, int segment) {
    return (size_t)draft->live->inner[segment];
}
