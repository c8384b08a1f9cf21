// SPDX-License-Identifier: Apache-2.0
/* Memory, queues and events of devices: checks, and those of devices that work in the host's memory, where everything is done when a call
 * returns and an event holds the clock. */
#include "backend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64, COPIED = 4096, FILLED = 1 << 16 };

struct qs_event {
    qs_device *device;
    double seconds; /* host: when it was recorded */
    void *state;    /* what the stage's functions receive */
};

static const qs__stage *stage_of(const qs_device *device) {
    return device->backend->stage;
}

/* ---- Memory ---- */

qs_status qs_memory_reserve(qs_device *device, size_t bytes, qs_memory **out) {
    const qs__stage *stage = stage_of(device);
    qs_memory *memory = NULL;
    qs_status status;
    QS_TRY(qs_allocate(1, sizeof *memory, &memory));
    memory->device = device;
    memory->bytes = bytes;
    QS_GOTO(stage ? stage->reserve(device->state, bytes, &memory->state) : qs_arena_reserve(bytes, &memory->arena));
    *out = memory;
    memory = NULL;
done:
    free(memory);
    return status;
}

qs_status qs_memory_resize(qs_memory *memory, size_t bytes) {
    const qs__stage *stage = stage_of(memory->device);
    QS_TRY(stage ? stage->resize(memory->state, bytes) : qs_arena_resize(&memory->arena, bytes));
    memory->bytes = bytes;
    return QS_OK;
}

size_t qs_memory_bytes(const qs_memory *memory) {
    return memory->bytes;
}

void qs_memory_release(qs_memory *memory) {
    if (!memory) return;
    const qs__stage *stage = stage_of(memory->device);
    if (stage)
        stage->release(memory->state);
    else
        qs_arena_release(&memory->arena);
    free(memory);
}

void *qs_memory_host(const qs_memory *memory) {
    return memory->arena.memory;
}

void *qs__location_host(qs_location place) {
    return place.memory ? (char *)place.memory->arena.memory + place.offset : NULL;
}

void qs__locations_host(const qs_case *one, const qs_location *place, void **data) {
    for (int i = 0; i < one->operands; i++)
        data[i] = one->operand[i].format ? qs__location_host(place[i]) : NULL;
}

/* ---- Queues ---- */

qs_queue *qs_device_queue(qs_device *device, qs_queue_kind kind) {
    return &device->queue[kind];
}

qs_status qs_queue_wait(qs_queue *queue) {
    const qs__stage *stage = stage_of(queue->device);
    return stage ? stage->wait(queue->device->state, queue->kind) : QS_OK;
}

void qs_queue_drain(qs_queue *queue) {
    const qs__stage *stage = stage_of(queue->device);
    if (stage) stage->drain(queue->device->state, queue->kind);
}

static qs_status range_check(const qs_queue *queue, qs_location place, size_t bytes) {
    if (!place.memory || place.memory->device != queue->device)
        return qs_fail(QS_USAGE, "%zu bytes of %s: a queue reaches the memory of its own device", bytes,
                       place.memory ? "another device's memory" : "no memory");
    if (place.offset <= place.memory->bytes && bytes <= place.memory->bytes - place.offset) return QS_OK;
    return qs_fail(QS_USAGE, "a memory of %zu bytes has no %zu bytes from byte %zu on", place.memory->bytes, bytes, place.offset);
}

qs_status qs_memory_write(qs_queue *queue, qs_location to, const void *from, size_t bytes) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, to, bytes));
    if (stage) return stage->write(queue->device->state, queue->kind, to.memory->state, to.offset, from, bytes);
    if (bytes > 0) memcpy(qs__location_host(to), from, bytes);
    return QS_OK;
}

qs_status qs_memory_read(qs_queue *queue, qs_location from, void *to, size_t bytes) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, from, bytes));
    if (stage) return stage->read(queue->device->state, queue->kind, from.memory->state, from.offset, to, bytes);
    if (bytes > 0) memcpy(to, qs__location_host(from), bytes);
    return QS_OK;
}

/* In pieces: large copies pass the caches by, which kernels do not. */
qs_status qs_memory_copy(qs_queue *queue, qs_location from, qs_location to, size_t bytes) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, from, bytes));
    QS_TRY(range_check(queue, to, bytes));
    if (stage) return stage->copy(queue->device->state, queue->kind, &from, &to, bytes);
    char *written = qs__location_host(to);
    const char *read = qs__location_host(from);
    for (size_t at = 0; at < bytes; at += COPIED)
        memcpy(written + at, read + at, bytes - at < COPIED ? bytes - at : COPIED);
    return QS_OK;
}

qs_status qs_memory_sum(qs_queue *queue, qs_location at, int64_t count) {
    qs_device *device = queue->device;
    QS_TRY(range_check(queue, at, (size_t)count * sizeof(float)));
    if (device->joined == 0) return qs_fail(QS_USAGE, "a sum of devices: the device %s joined no group", device->backend->name);
    return count > 0 ? device->backend->group->sum(device->state, queue->kind, &at, count) : QS_OK;
}

typedef struct filling {
    char *at;
    int value;
} filling;

static void fill_range(void *context, int64_t begin, int64_t end) {
    const filling *one = context;
    memset(one->at + begin, one->value, (size_t)(end - begin));
}

/* By all threads, as kernels write. */
qs_status qs_memory_fill(qs_queue *queue, qs_location at, int value, size_t bytes) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, at, bytes));
    if (stage) return stage->fill(queue->device->state, queue->kind, at.memory->state, at.offset, value, bytes);
    filling one = {qs__location_host(at), value};
    if (bytes > 0) qs_parallel((int64_t)bytes, FILLED, fill_range, &one);
    return QS_OK;
}

/* Line by line: large memset calls may pass the caches by. */
qs_status qs_memory_touch(qs_queue *queue, qs_location at, size_t bytes, bool change) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, at, bytes));
    if (stage) return stage->touch(queue->device->state, queue->kind, at.memory->state, at.offset, bytes, change);
    volatile char *memory = qs__location_host(at);
    if (change)
        for (size_t i = 0; i < bytes; i += CACHE_LINE)
            memory[i]++;
    else
        for (size_t i = 0; i < bytes; i += CACHE_LINE)
            (void)memory[i];
    return QS_OK;
}

qs_status qs_memory_finite(qs_queue *queue, qs_location at, int64_t count, bool *finite) {
    const qs__stage *stage = stage_of(queue->device);
    QS_TRY(range_check(queue, at, (size_t)count * sizeof(float)));
    *finite = true;
    if (count == 0) return QS_OK;
    if (stage) return stage->finite(queue->device->state, queue->kind, at.memory->state, at.offset, count, finite);
    *finite = isfinite(qs_absmax_array(count, qs__location_host(at)));
    return QS_OK;
}

/* ---- Events ---- */

qs_status qs_event_create(qs_device *device, qs_event **out) {
    const qs__stage *stage = stage_of(device);
    qs_event *event = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *event, &event));
    event->device = device;
    if (stage) QS_GOTO(stage->event_create(device->state, &event->state));
    *out = event;
    event = NULL;
done:
    free(event);
    return status;
}

void qs_event_release(qs_event *event) {
    if (!event) return;
    const qs__stage *stage = stage_of(event->device);
    if (stage) stage->event_release(event->state);
    free(event);
}

qs_status qs_event_record(qs_event *event, qs_queue *queue) {
    const qs__stage *stage = stage_of(event->device);
    if (stage) return stage->record(event->state, queue->kind);
    event->seconds = qs_clock();
    return QS_OK;
}

qs_status qs_queue_follow(qs_queue *queue, const qs_event *event) {
    const qs__stage *stage = stage_of(event->device);
    return stage ? stage->follow(event->state, queue->kind) : QS_OK;
}

qs_status qs_event_wait(qs_event *event) {
    const qs__stage *stage = stage_of(event->device);
    return stage ? stage->event_wait(event->state) : QS_OK;
}

qs_status qs_event_done(qs_event *event, bool *done) {
    const qs__stage *stage = stage_of(event->device);
    *done = true;
    return stage ? stage->event_done(event->state, done) : QS_OK;
}

double qs_event_elapsed(const qs_event *from, const qs_event *to) {
    const qs__stage *stage = stage_of(from->device);
    return stage ? stage->elapsed(from->state, to->state) : to->seconds - from->seconds;
}
