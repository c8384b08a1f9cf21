// SPDX-License-Identifier: Apache-2.0
/* A case at work on a device. */
#include "timed.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 12 };

static bool is_value(qs_role role) {
    return role == QS_SRC || role == QS_SRC2 || role == QS_SRC3 || role == QS_DST || role == QS_DIFF_DST || role == QS_DIFF_SRC;
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static size_t operand_bytes(const qs_operand *operand) {
    return operand->format ? aligned(qs_tensor_bytes(&operand->shape, operand->format)) : 0;
}

/* What integers an operand holds: rows of a table at random, all positions kept, the first class, the first place. */
static int32_t integer_of(const qs_case *one, qs_role role, uint32_t random) {
    const bool table = role == QS_IDS && one->attributes.vocabulary > 0;
    return table ? (int32_t)(random % (uint32_t)one->attributes.vocabulary) : role == QS_KEEP;
}

/* The first piece is written, the device copies it over the rest. */
static qs_status operand_fill(qs_device *device, const qs_case *one, const qs_operand *operand, qs_location at) {
    static float values[PIECE];
    static int32_t integers[PIECE];
    static char piece[PIECE * sizeof(float)];
    const size_t bytes = qs_tensor_bytes(&operand->shape, operand->format), whole = qs_format_bytes(operand->format, PIECE);
    const uint64_t key = qs_random_key(1, 2, 3, (uint64_t)operand->role);
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    for (int i = 0; i < PIECE; i++) {
        values[i] = is_value(operand->role) ? qs_random_normal(key, (uint64_t)i) : 0.5f + qs_random_uniform(key, (uint64_t)i);
        integers[i] = integer_of(one, operand->role, qs_random_bits(key, (uint64_t)i));
    }
    if (qs_role_is_integers(operand->role))
        memcpy(piece, integers, sizeof integers);
    else if (operand->format->kind == QS_KIND_INTEGER)
        qs_quantize_array(operand->format, QS_NEAREST_EVEN, (qs_random_stream){0}, 0.03f, PIECE, values, (int8_t *)piece);
    else
        qs_convert_from_fp32(operand->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, PIECE, values, piece);
    size_t done = bytes < whole ? bytes : whole;
    QS_TRY(qs_memory_write(queue, at, piece, done));
    while (done < bytes) {
        const size_t more = bytes - done < done ? bytes - done : done;
        QS_TRY(qs_memory_copy(queue, at, qs_location_of(at.memory, at.offset + done), more));
        done += more;
    }
    return QS_OK;
}

qs_status timed_make(qs_device *device, const qs_case *one, const char *kernel, timed *out) {
    *out = (timed){.one = *one, .us = INFINITY};
    QS_TRY(qs_case_check(one));
    QS_TRY(kernel ? qs_device_fact_of(device, one, kernel, &out->fact) : qs_device_fact(device, one, &out->fact));
    size_t at = aligned(out->fact.scratch_bytes), bytes = at + 64;
    for (int i = 0; i < one->operands; i++)
        bytes += operand_bytes(&one->operand[i]);
    QS_TRY(qs_memory_reserve(device, bytes, &out->memory));
    for (int i = 0; i < one->operands; i++) {
        if (!one->operand[i].format) continue;
        out->data[i] = qs_location_of(out->memory, at);
        QS_TRY(operand_fill(device, one, &one->operand[i], out->data[i]));
        at += operand_bytes(&one->operand[i]);
    }
    return qs_device_prepare(device, one, kernel, out->data, qs_location_of(out->memory, 0), &out->kernel);
}

void timed_release(timed *one) {
    if (one->kernel) qs_kernel_release(one->kernel);
    qs_memory_release(one->memory);
    one->kernel = NULL;
    one->memory = NULL;
}

qs_status timed_run(timed *one) {
    const int64_t samples = one->one.operand[0].shape.dim[0];
    const qs_run run = {.seed = 1, .samples = samples, .global_samples = samples, .loss_scale = 1, .updates = 1};
    double seconds;
    QS_TRY(qs_kernel_time(one->kernel, &run, &seconds));
    one->us = fmin(one->us, seconds * 1e6);
    return QS_OK;
}

qs_status timed_copy(qs_device *device, qs_location from, qs_location to, size_t bytes, int rounds, double *us) {
    qs_queue *queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    qs_event *begin = NULL, *end = NULL;
    qs_status status = QS_OK;
    *us = INFINITY;
    QS_GOTO(qs_event_create(device, &begin));
    QS_GOTO(qs_event_create(device, &end));
    for (int r = 0; r <= rounds; r++) {
        QS_GOTO(qs_event_record(begin, queue));
        QS_GOTO(qs_memory_copy(queue, from, to, bytes));
        QS_GOTO(qs_event_record(end, queue));
        QS_GOTO(qs_event_wait(end));
        if (r > 0) *us = fmin(*us, qs_event_elapsed(begin, end) * 1e6);
    }
done:
    qs_event_release(begin);
    qs_event_release(end);
    return status;
}
