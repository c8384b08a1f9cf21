// SPDX-License-Identifier: Apache-2.0
/* Telling schedules apart: hash, first difference, and the memory limit. */
#include <string.h>

#include "schedule_internal.h"

static const char *step_text(const qs_step *step, char *text, size_t size) {
    static const char *const kinds[] = {"kernel", "all-reduce start", "all-reduce wait"};
    if (step->kind == QS_STEP_KERNEL)
        snprintf(text, size, "%s by %s%s", step->case_text, step->kernel, step->recomputed ? ", computed again" : "");
    else
        snprintf(text, size, "%s of bucket %d", kinds[step->kind], step->bucket);
    return text;
}

static char *text_end(char *end, const char *more) {
    const size_t bytes = strlen(more);
    memcpy(end, more, bytes);
    return end + bytes;
}

/* Of the text above, put together without printf: there are thousands of steps. */
static uint64_t step_hash(const qs_step *step, uint64_t seed) {
    char text[QS_CASE_TEXT + 128], *end = text;
    if (step->kind == QS_STEP_KERNEL) {
        end = text_end(text_end(text_end(text, step->case_text), " by "), step->kernel);
        if (step->recomputed) end = text_end(end, ", computed again");
    } else {
        step_text(step, text, sizeof text);
        end += strlen(text);
    }
    uint64_t hash = qs_hash(text, (size_t)(end - text), seed);
    const int64_t words[] = {step->node, (int64_t)step->stream, step->bucket, step->scratch.buffer};
    hash = qs_hash(words, sizeof words, hash);
    if (step->rate != 1) hash = qs_hash(&step->rate, sizeof step->rate, hash);
    for (int i = 0; i < QS_MAX_OPERANDS; i++) {
        const uint64_t place[] = {(uint64_t)(int64_t)step->place[i].buffer, (uint64_t)step->place[i].offset};
        hash = qs_hash(place, sizeof place, hash);
    }
    return hash;
}

static uint64_t buffer_hash(const qs_buffer *buffer, uint64_t seed) {
    const uint64_t words[] = {(uint64_t)buffer->bytes, (uint64_t)buffer->offset};
    return qs_hash(words, sizeof words, qs_hash(buffer->name, strlen(buffer->name), seed));
}

const char *qs_schedule_hash(const qs_schedule *schedule, char *buffer) {
    uint64_t hash = (uint64_t)schedule->mode;
    for (int s = 0; s < schedule->steps; s++)
        hash = step_hash(&schedule->step[s], hash);
    for (int b = 0; b < schedule->buffers; b++)
        hash = buffer_hash(&schedule->buffer[b], hash);
    snprintf(buffer, 32, "xxh64:%016llx", (unsigned long long)hash);
    return buffer;
}

qs_status qs_schedule_compare(const qs_schedule *expected, const qs_schedule *actual) {
    char left[QS_CASE_TEXT + 128], right[QS_CASE_TEXT + 128];
    const int steps = expected->steps < actual->steps ? expected->steps : actual->steps;
    for (int s = 0; s < steps; s++)
        if (step_hash(&expected->step[s], 0) != step_hash(&actual->step[s], 0))
            return qs_fail(QS_MISMATCH, "step %d of the schedule differs: expected %s, got %s", s,
                           step_text(&expected->step[s], left, sizeof left), step_text(&actual->step[s], right, sizeof right));
    if (expected->steps != actual->steps)
        return qs_fail(QS_MISMATCH, "the schedule has %d steps, expected %d", actual->steps, expected->steps);
    if (expected->buffers != actual->buffers)
        return qs_fail(QS_MISMATCH, "the schedule has %d buffers, expected %d", actual->buffers, expected->buffers);
    for (int b = 0; b < expected->buffers; b++)
        if (buffer_hash(&expected->buffer[b], 0) != buffer_hash(&actual->buffer[b], 0))
            return qs_fail(QS_MISMATCH, "buffer %s differs: expected %zu bytes at %zu, got %s with %zu bytes at %zu",
                           expected->buffer[b].name, expected->buffer[b].bytes, expected->buffer[b].offset, actual->buffer[b].name,
                           actual->buffer[b].bytes, actual->buffer[b].offset);
    return QS_OK;
}

qs_status qs_schedule_fits(const qs_schedule *schedule, int64_t limit, const char *who) {
    if (limit <= 0 || schedule->arena_bytes <= (size_t)limit) return QS_OK;
    return qs_fail(QS_INFEASIBLE,
                   "%s: the plan needs %.1f MiB of memory (%zu bytes) but the limit is %.1f MiB (%lld bytes); lower the batch or plan with "
                   "less precision",
                   who, (double)schedule->arena_bytes / 1048576.0, schedule->arena_bytes, (double)limit / 1048576.0, (long long)limit);
}
