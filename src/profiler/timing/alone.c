// SPDX-License-Identifier: Apache-2.0
/* Kernels that run outside a step: where their operands lie and what they hold; and those timed by themselves: kernels that no plan
 * reached, with their operands out of cache, and, to show what that is worth, all of them, out of cache or in a hot loop. Values are
 * ordinary: no denormals or NaN, which some units handle slowly, and nothing that a kernel could take for an index out of range. */
#include "timing/timing.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, PAGE = 4096, CACHE_LINE = 64 };

static bool holds_codes(qs_role role) {
    return role == QS_MASK || role == QS_LABELS || role == QS_IDS || role == QS_SRC_GROUP || role == QS_DIFF_DST_GROUP ||
           role == QS_DST_GROUP;
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

/* The same piece over and over: PIECE values of any format fill whole bytes. */
static void repeat(const char *piece, size_t piece_bytes, char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += piece_bytes)
        memcpy(data + at, piece, bytes - at < piece_bytes ? bytes - at : piece_bytes);
}

void qs__operand_fill(const qs_operand *operand, void *data) {
    float values[PIECE];
    char piece[PIECE * sizeof(float)];
    const size_t bytes = qs_tensor_bytes(&operand->shape, operand->format);
    const qs_random_stream unused = {0};
    if (holds_codes(operand->role)) {
        memset(data, 0, bytes);
        return;
    }
    piece_make(operand, values);
    if (operand->format->kind == QS_KIND_INTEGER)
        qs_quantize_array(operand->format, QS_NEAREST_EVEN, unused, qs_step_of_absmax(operand->format, 1), PIECE, values, (int8_t *)piece);
    else
        qs_convert_from_fp32(operand->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, unused, PIECE, values, piece);
    repeat(piece, qs_format_bytes(operand->format, PIECE), data, bytes);
}

/* First place inside the image along one axis, for a window that begins before it. */
static int first_inside(int64_t window, int stride, int padding) {
    const int64_t begin = window * stride - padding;
    return begin < 0 ? (int)-begin : 0;
}

/* Codes of max_pool are places in the window, kh · width + kw; those in the padding would lie outside the image. */
static void places_fill(const qs_case *one, const qs_shape *shape, int8_t *mask) {
    const qs_attributes *with = &one->attributes;
    for (int64_t n = 0; n < shape->dim[0]; n++) {
        for (int64_t h = 0; h < shape->dim[2]; h++) {
            for (int64_t w = 0; w < shape->dim[3]; w++) {
                const int kh = first_inside(h, with->stride[0], with->padding[0]), kw = first_inside(w, with->stride[1], with->padding[1]);
                memset(mask, kh * with->kernel[1] + kw, (size_t)shape->dim[1]);
                mask += shape->dim[1];
            }
        }
    }
}

void qs__operands_fill(const qs_case *one, void *const *data) {
    const int mask = qs_case_position(one, QS_MASK);
    for (int i = 0; i < one->operands; i++)
        if (data[i]) qs__operand_fill(&one->operand[i], data[i]);
    if (mask >= 0 && data[mask] && one->attributes.kernel[0] > 0) places_fill(one, &one->operand[mask].shape, data[mask]);
}

qs_status qs__inputs_fill(const qs_graph *graph, const qs_schedule *schedule, qs_executor *executor) {
    const qs_operand pixels = {.role = QS_SRC, .shape = qs_graph_shape(graph, 0, schedule->batch), .format = qs_format_of("fp32")};
    const size_t bytes = qs_tensor_bytes(&pixels.shape, pixels.format);
    void *images = NULL;
    QS_TRY(qs_allocate(bytes, 1, &images));
    qs__operand_fill(&pixels, images);
    qs_status status = qs_executor_write(executor, schedule->images, 0, bytes, images);
    free(images);
    for (int64_t i = 0; i < schedule->batch && status == QS_OK; i++) {
        const int32_t label = (int32_t)(i % graph->classes);
        status = qs_executor_write(executor, schedule->labels, (size_t)i * sizeof label, sizeof label, &label);
    }
    return status;
}

static size_t pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

size_t qs__operands_place(const qs_case *one, size_t scratch_bytes, char *memory, void **data, void **scratch) {
    size_t at = 0;
    for (int i = 0; i < one->operands; i++) {
        const qs_operand *operand = &one->operand[i];
        if (data) data[i] = operand->format ? memory + at : NULL;
        if (operand->format) at += pages(qs_tensor_bytes(&operand->shape, operand->format));
    }
    if (data) *scratch = scratch_bytes ? memory + at : NULL;
    return at + pages(scratch_bytes);
}

/* Line by line: large memset calls may pass the caches by. */
void qs__cache_flush(char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CACHE_LINE)
        ((volatile char *)memory)[at]++;
}

void qs__cache_read(const char *memory, size_t bytes) {
    for (size_t at = 0; at < bytes; at += CACHE_LINE)
        (void)((const volatile char *)memory)[at];
}

/* ---- Timing ---- */

enum { RUNS = 5 };
static const size_t flush_bytes = (size_t)48 << 20; /* beyond the last-level cache's share of a core */

static qs_status runs_time(const qs__setting *setting, qs__entry *entry, qs_kernel *kernel, char *flush) {
    const qs_run run = {.samples = setting->job->batch, .global_samples = setting->ranks * setting->job->batch, .loss_scale = 1};
    QS_TRY(qs_kernel_run(kernel, &run));
    for (int i = 0; i < RUNS; i++) {
        if (setting->options->context != QS_CONTEXT_HOT) qs__cache_flush(flush, flush_bytes);
        const double begin = qs_clock();
        QS_TRY(qs_kernel_run(kernel, &run));
        QS_TRY(qs__samples_add(&entry->kernel_us, (qs_clock() - begin) * 1e6));
    }
    return QS_OK;
}

static qs_status entry_time(const qs__setting *setting, qs__entry *entry) {
    const qs_case *one = &entry->case_;
    const size_t bytes = qs__operands_place(one, entry->row.scratch_bytes, NULL, NULL, NULL);
    qs_arena arena = {0};
    void *data[QS_MAX_OPERANDS] = {0}, *scratch = NULL;
    qs_kernel *kernel = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_arena_reserve(bytes + flush_bytes, &arena));
    qs__operands_place(one, entry->row.scratch_bytes, arena.memory, data, &scratch);
    qs__operands_fill(one, data);
    QS_GOTO(qs_device_prepare(setting->device, one, entry->row.kernel, data, scratch, &kernel));
    status = runs_time(setting, entry, kernel, (char *)arena.memory + bytes);
done:
    qs_kernel_release(kernel);
    qs_arena_release(&arena);
    return status;
}

/* What steps showed of kernels is forgotten, where that was asked for. */
static void contexts_forget(const qs__setting *setting, qs__cases *cases) {
    for (int i = 0; i < cases->count && setting->options->context != QS_CONTEXT_STEPS; i++) {
        qs__entry *entry = &cases->entry[i];
        entry->kernel_us.count = 0;
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
