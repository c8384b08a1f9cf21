// SPDX-License-Identifier: Apache-2.0
/* Kernels that run outside a step: where their operands lie and what they hold; and those timed by themselves: kernels that no plan
 * reached, with their operands out of cache, and, to show what that is worth, all of them, out of cache or in a hot loop. Values are
 * ordinary: no denormals or NaN, which some units handle slowly, and nothing that a kernel could take for an index out of range. */
#include "timing/timing.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, PAGE = 4096, STRIDE = 7919 }; /* a prime: ids lie all over their table */

static bool holds_codes(qs_role role) {
    return qs_role_is_integers(role) || role == QS_MASK || role == QS_SRC_GROUP || role == QS_DIFF_DST_GROUP || role == QS_DST_GROUP;
}

static bool holds_positive(qs_role role) {
    switch (role) {
    case QS_SRC_STEP:
    case QS_WEIGHTS_STEP:
    case QS_DIFF_DST_STEP:
    case QS_VARIANCE:
    case QS_DEVIATION:
    case QS_RUNNING_VARIANCE:
    case QS_RUNNING_DEVIATION:
    case QS_ABSMAX:
    case QS_FLAG:
        return true;
    default:
        return false;
    }
}

static void piece_make(const qs_operand *operand, float *piece) {
    const uint64_t key = qs_random_key(1, 0, 0, (uint64_t)operand->role);
    for (int i = 0; i < PIECE; i++)
        piece[i] = holds_positive(operand->role) ? 1.0f : 2 * qs_random_uniform(key, (uint64_t)i) - 1;
}

/* In the operand's format: PIECE values of any format fill whole bytes. */
static size_t piece_stored(const qs_operand *operand, char piece[PIECE * sizeof(float)]) {
    float values[PIECE];
    const qs_random_stream unused = {0};
    piece_make(operand, values);
    if (operand->format->kind == QS_KIND_INTEGER)
        qs_quantize_array(operand->format, QS_NEAREST_EVEN, unused, qs_step_of_absmax(operand->format, 1), PIECE, values, (int8_t *)piece);
    else
        qs_convert_from_fp32(operand->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, unused, PIECE, values, piece);
    return qs_format_bytes(operand->format, PIECE);
}

/* The same piece over and over: written once, then copied inside the device, twice as much each time. */
qs_status qs__operand_fill(qs_queue *queue, const qs_operand *operand, qs_location at) {
    char piece[PIECE * sizeof(float)];
    const size_t bytes = qs_tensor_bytes(&operand->shape, operand->format);
    if (holds_codes(operand->role)) return qs_memory_fill(queue, at, operand->role == QS_KEEP, bytes); /* no position is padding */
    size_t done = piece_stored(operand, piece);
    if (done > bytes) done = bytes;
    QS_TRY(qs_memory_write(queue, at, piece, done));
    for (size_t more; done < bytes; done += more) {
        more = done < bytes - done ? done : bytes - done;
        QS_TRY(qs_memory_copy(queue, at, qs_location_of(at.memory, at.offset + done), more));
    }
    return QS_OK;
}

/* First tap inside the image along one axis, for a window that begins before it. */
static int first_inside(int64_t window, const qs_attributes *with, int axis) {
    const int64_t begin = window * with->stride[axis] - with->padding[axis], step = with->dilation[axis];
    return begin < 0 ? (int)((step - 1 - begin) / step) : 0;
}

/* Codes of max_pool are places in the window, kh · width + kw; those in the padding would lie outside the image. */
static void places_fill(const qs_case *one, const qs_shape *shape, int8_t *mask) {
    const qs_attributes *with = &one->attributes;
    for (int64_t n = 0; n < shape->dim[0]; n++) {
        for (int64_t h = 0; h < shape->dim[2]; h++) {
            for (int64_t w = 0; w < shape->dim[3]; w++) {
                const int kh = first_inside(h, with, 0), kw = first_inside(w, with, 1);
                memset(mask, kh * with->kernel[1] + kw, (size_t)shape->dim[1]);
                mask += shape->dim[1];
            }
        }
    }
}

static qs_status operands_fill(qs_queue *queue, const qs_case *one, const qs_location *operand) {
    const int mask = qs_case_position(one, QS_MASK);
    void *places = NULL;
    for (int i = 0; i < one->operands; i++)
        if (operand[i].memory) QS_TRY(qs__operand_fill(queue, &one->operand[i], operand[i]));
    if (mask < 0 || !operand[mask].memory || one->attributes.kernel[0] == 0) return QS_OK;
    const size_t bytes = qs_tensor_bytes(&one->operand[mask].shape, one->operand[mask].format);
    QS_TRY(qs_allocate(bytes, 1, &places));
    places_fill(one, &one->operand[mask].shape, places);
    const qs_status status = qs_memory_write(queue, operand[mask], places, bytes);
    free(places);
    return status;
}

/* Inputs of ordinary values, ids and classes in turn, as far apart as they can be, all positions kept; spans of the first position. */
qs_status qs__inputs_fill(const qs_graph *graph, const qs_schedule *schedule, qs_executor *executor) {
    const qs_target *target = &graph->samples.target;
    char piece[PIECE * sizeof(float)];
    for (int i = 0; i <= schedule->inputs; i++) {
        const bool last = i == schedule->inputs, classes = last && target->kind <= QS_TARGET_CLASS_PER_POSITION;
        const int buffer = last ? schedule->target : schedule->input[i];
        const bool real = last ? target->kind == QS_TARGET_REAL : graph->samples.input[i].type != QS_INPUT_I32;
        const qs_operand values = {.role = QS_SRC, .shape = qs_shape_of(1, (int64_t)PIECE), .format = qs_format_of("fp32")};
        const size_t bytes = schedule->buffer[buffer].bytes, count = bytes / sizeof(int32_t), piece_bytes = piece_stored(&values, piece);
        int32_t *all = NULL;
        QS_TRY(qs_allocate(count, sizeof *all, &all));
        for (size_t at = 0; real && at < bytes; at += piece_bytes)
            memcpy((char *)all + at, piece, bytes - at < piece_bytes ? bytes - at : piece_bytes);
        for (size_t k = 0; classes && k < count; k++)
            all[k] = (int32_t)((int64_t)k % target->classes);
        const bool kept = !last && qs_graph_integers(graph, i) == QS_KEEP;
        for (size_t k = 0; !last && !real && k < count; k++)
            all[k] = kept ? 1 : (int32_t)((int64_t)k * STRIDE % graph->samples.input[i].bound);
        const qs_status status = qs_executor_write(executor, buffer, 0, bytes, all);
        free(all);
        QS_TRY(status);
    }
    return QS_OK;
}

static size_t pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Bytes of all operands and scratch, each on its own pages; where they lie from the start of `memory`, which may be NULL. */
static size_t operands_place(const qs_case *one, size_t scratch_bytes, qs_memory *memory, qs_location *operand, qs_location *scratch) {
    size_t at = 0;
    for (int i = 0; i < one->operands; i++) {
        if (!one->operand[i].format) continue;
        operand[i] = qs_location_of(memory, at);
        at += pages(qs_tensor_bytes(&one->operand[i].shape, one->operand[i].format));
    }
    *scratch = qs_location_of(memory, at);
    return at + pages(scratch_bytes);
}

/* ---- Timing ---- */

enum { RUNS = 5 };
static const size_t flush_bytes = (size_t)48 << 20; /* beyond the last-level cache's share of a core */

static qs_status runs_time(const qs__setting *setting, qs__entry *entry, qs_kernel *kernel, qs_location flush) {
    qs_queue *queue = qs_device_queue(setting->device, QS_QUEUE_KERNELS);
    const qs_run run = {.samples = setting->job->batch, .global_samples = setting->ranks * setting->job->batch, .loss_scale = 1};
    QS_TRY(qs_kernel_run(kernel, &run));
    for (int i = 0; i < RUNS; i++) {
        double seconds;
        if (setting->options->context != QS_CONTEXT_HOT) QS_TRY(qs_memory_touch(queue, flush, flush_bytes, true));
        QS_TRY(qs_kernel_time(kernel, &run, &seconds));
        QS_TRY(qs__samples_add(&entry->kernel_us, seconds * 1e6));
    }
    return QS_OK;
}

static qs_status entry_time(const qs__setting *setting, qs__entry *entry) {
    const qs_case *one = &entry->case_;
    qs_location operand[QS_MAX_OPERANDS] = {0}, scratch;
    const size_t bytes = operands_place(one, entry->row.scratch_bytes, NULL, operand, &scratch);
    qs_memory *memory = NULL;
    qs_kernel *kernel = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_memory_reserve(setting->device, bytes + flush_bytes, &memory));
    operands_place(one, entry->row.scratch_bytes, memory, operand, &scratch);
    QS_GOTO(operands_fill(qs_device_queue(setting->device, QS_QUEUE_KERNELS), one, operand));
    QS_GOTO(qs_device_prepare(setting->device, one, entry->row.kernel, operand, scratch, &kernel));
    status = runs_time(setting, entry, kernel, qs_location_of(memory, bytes));
done:
    qs_kernel_release(kernel);
    qs_memory_release(memory);
    return status;
}

/* What steps showed of kernels is forgotten, where that was asked for. */
static void contexts_forget(const qs__setting *setting, qs__cases *cases) {
    for (int i = 0; i < cases->count && setting->options->context != QS_CONTEXT_STEPS; i++) {
        qs__entry *entry = &cases->entry[i];
        entry->kernel_us.count = entry->half_us.count = 0;
        for (int c = 0; c < QS__CACHES; c++)
            entry->cold[c].count = 0;
    }
}

qs_status qs__alone_measure(const qs__setting *setting, qs__cases *cases) {
    qs_status status = QS_OK;
    int left = 0;
    contexts_forget(setting, cases);
    for (int i = 0; i < cases->count; i++)
        left += cases->entry[i].as_kernel && cases->entry[i].kernel_us.count == 0;
    if (left > 0) qs__progress(setting, 0.45, "kernels by themselves");
    for (int i = 0; i < cases->count && status == QS_OK; i++) {
        qs__entry *entry = &cases->entry[i];
        if (entry->as_kernel && entry->kernel_us.count == 0) status = entry_time(setting, entry);
    }
    return qs_comm_agree(setting->comm, status);
}
