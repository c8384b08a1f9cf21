// SPDX-License-Identifier: Apache-2.0
/* Liveness, arena packing and the peak. Packing: largest buffer first, each at the lowest offset where it meets no buffer that lives at the
 * same time; deterministic, so that prediction and execution get the same offsets. */
#include <stdlib.h>

#include "schedule_internal.h"

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

/* The host writes these before the step, or reads them after it. */
static void host_intervals(qs_schedule *schedule) {
    const int before[] = {schedule->images, schedule->labels, schedule->flag, schedule->counts};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (before[i] >= 0) schedule->buffer[before[i]].first = -1;
    const int after[] = {schedule->loss, schedule->flag, schedule->counts};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        if (after[i] >= 0) schedule->buffer[after[i]].last = schedule->steps;
    for (int b = 0; b < schedule->buffers; b++) {
        qs_buffer *one = &schedule->buffer[b];
        if (one->category == QS_STATISTICS_OUT) one->last = schedule->steps;
        if (!one->persistent) continue;
        one->first = -1;
        one->last = schedule->steps;
    }
}

static void intervals_find(qs_schedule *schedule) {
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        for (int i = 0; i < QS_MAX_OPERANDS; i++)
            touch(schedule, step->place[i].buffer, s);
        touch(schedule, step->scratch.buffer, s);
    }
    host_intervals(schedule);
}

/* What forward writes and backward reads is saved; the rest is transient. */
static void saved_find(qs_schedule *schedule) {
    for (int b = 0; b < schedule->buffers; b++) {
        qs_buffer *one = &schedule->buffer[b];
        if (one->category != QS_TRANSIENT_ACTIVATIONS && one->category != QS_CONVERTED) continue;
        if (one->first < 0 || one->last >= schedule->steps) continue;
        if (schedule->step[one->first].phase == QS_FORWARD && schedule->step[one->last].phase != QS_FORWARD)
            one->category = QS_SAVED_ACTIVATIONS;
    }
}

static void persistent_place(qs_schedule *schedule) {
    size_t offset = 0;
    for (int b = 0; b < schedule->buffers; b++) {
        if (!schedule->buffer[b].persistent) continue;
        schedule->buffer[b].offset = offset;
        offset += qs__aligned(schedule->buffer[b].bytes);
    }
    schedule->persistent_bytes = offset;
}

/* What placing looks at of a buffer, close together: buffers number in the thousands and every one is held against all placed before. */
typedef struct span {
    size_t offset, end;
    int first, last, buffer;
} span;

static bool overlaps(const span *a, const span *b) {
    return a->first <= b->last && b->first <= a->last;
}

static int larger_first(const void *left, const void *right) {
    const span *a = left, *b = right;
    if (a->end != b->end) return a->end > b->end ? -1 : 1;
    if (a->first != b->first) return a->first < b->first ? -1 : 1;
    return a->buffer < b->buffer ? -1 : 1;
}

/* The transient buffers, largest first; until they are placed `end` holds their bytes. */
static int spans_list(const qs_schedule *schedule, span *out) {
    int count = 0;
    for (int b = 0; b < schedule->buffers; b++) {
        const qs_buffer *one = &schedule->buffer[b];
        if (!one->persistent && one->first != -2) out[count++] = (span){0, one->bytes, one->first, one->last, b};
    }
    qsort(out, (size_t)count, sizeof *out, larger_first);
    return count;
}

/* `placed` lists spans by offset; the lowest gap above `offset` that holds `bytes` among those living at the same time. */
static size_t offset_find(const span *all, const int *placed, int count, const span *one, size_t offset, size_t bytes) {
    for (int i = 0; i < count; i++) {
        const span *other = &all[placed[i]];
        if (!overlaps(one, other)) continue;
        if (other->offset >= offset + bytes) break;
        if (other->end > offset) offset = other->end;
    }
    return offset;
}

static void insert_by_offset(const span *all, int *placed, int count, int index) {
    int i = count;
    while (i > 0 && all[placed[i - 1]].offset > all[index].offset) {
        placed[i] = placed[i - 1];
        i--;
    }
    placed[i] = index;
}

static qs_status transient_place(qs_schedule *schedule) {
    span *all = NULL;
    int *placed = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)schedule->buffers, sizeof *all, &all));
    QS_GOTO(qs_allocate((size_t)schedule->buffers, sizeof *placed, &placed));
    const int count = spans_list(schedule, all);
    schedule->arena_bytes = schedule->persistent_bytes;
    for (int i = 0; i < count; i++) {
        span *one = &all[i];
        const size_t bytes = qs__aligned(one->end);
        one->offset = offset_find(all, placed, i, one, schedule->persistent_bytes, bytes);
        one->end = one->offset + bytes;
        insert_by_offset(all, placed, i, i);
        schedule->buffer[one->buffer].offset = one->offset;
        if (one->end > schedule->arena_bytes) schedule->arena_bytes = one->end;
    }
done:
    free(all);
    free(placed);
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

qs_status qs__memory_pack(qs_schedule *schedule) {
    intervals_find(schedule);
    saved_find(schedule);
    persistent_place(schedule);
    QS_TRY(transient_place(schedule));
    return peak_find(schedule);
}
