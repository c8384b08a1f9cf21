// SPDX-License-Identifier: Apache-2.0
/* Operands for kernels that run outside a step: where they lie and what they hold. Values are ordinary: no denormals or NaN, which some
 * units handle slowly, and nothing that a kernel could take for an index out of range. */
#include "profiler_internal.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 4096, PAGE = 4096, CACHE_LINE = 64 };

static bool holds_codes(qs_role role) {
    return role == QS_MASK || role == QS_LABELS || role == QS_SRC_GROUP || role == QS_DIFF_DST_GROUP || role == QS_DST_GROUP;
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
