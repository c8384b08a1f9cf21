// SPDX-License-Identifier: Apache-2.0
/* Kernels are timed by an observer of the executor, each in its place in the step. Passes that dequantize run there as well, behind the
 * product whose sums they would read; the sums are written just before, as the product would have left them, by all threads. */
#include "kernel_times.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 };

const qs_format *qs__product_format(const qs_step *step) {
    const bool product = step->kind == QS_STEP_KERNEL && !step->conversion && step->case_.op->kind == QS_ADJUSTABLE;
    return product ? step->case_.operand[0].format : NULL; /* its first factor's, as the second's */
}

/* ---- Times ---------------------------------------------------------------------------------------------------------------------- */

qs_status qs__kernel_times_create(const qs_schedule *schedule, int runs, qs__kernel_times *out) {
    *out = (qs__kernel_times){.schedule = schedule, .runs = runs};
    return qs_allocate((size_t)schedule->steps * (size_t)runs, sizeof *out->us, &out->us);
}

void qs__kernel_times_release(qs__kernel_times *times) {
    free(times->us);
    *times = (qs__kernel_times){0};
}

void qs__kernel_times_add(void *context, const qs_schedule *schedule, int step, double seconds) {
    const qs__kernel_times *times = context;
    (void)schedule;
    times->us[(size_t)step * (size_t)times->runs + (size_t)times->run] = seconds * 1e6;
}

double qs__kernel_times_median(const qs__kernel_times *times, int step) {
    return qs__quartiles_of(times->runs, times->us + (size_t)step * (size_t)times->runs).median;
}

/* ---- Passes that dequantize ----------------------------------------------------------------------------------------------------- */

/* What an integer product writes; NULL: the step is none. */
static const qs_operand *integer_result(const qs_step *step) {
    const qs_format *format = qs__product_format(step);
    if (!format || format->kind != QS_KIND_INTEGER) return NULL;
    for (int i = 0; i < step->case_.operands; i++)
        if (qs_pass_writes(step->case_.pass, i)) return &step->case_.operand[i];
    return NULL;
}

static size_t sums_bytes(const qs_operand *result) {
    return (size_t)qs_shape_count(&result->shape) * sizeof(float);
}

static qs_status pass_make(qs__dequantizing *passes, size_t most, int step, const qs_operand *result, qs_device *device) {
    qs_case one = qs_case_make("cast", "forward", NULL);
    char *memory = passes->arena.memory;
    passes->bytes[step] = sums_bytes(result);
    qs_case_bind(&one, QS_SRC, result->shape, qs_format_of("fp32"));
    qs_case_bind(&one, QS_DST, result->shape, result->format);
    return qs_device_prepare(device, &one, NULL, (void *[]){memory, memory + most}, NULL, &passes->kernel[step]);
}

static qs_status passes_make(const qs_schedule *schedule, qs_device *device, qs__dequantizing *passes) {
    size_t most = 0;
    for (int s = 0; s < schedule->steps; s++) {
        const qs_operand *result = integer_result(&schedule->step[s]);
        if (result && sums_bytes(result) > most) most = sums_bytes(result);
    }
    most = (most + 63) / 64 * 64;
    QS_TRY(qs_arena_reserve(2 * most, &passes->arena));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_operand *result = integer_result(&schedule->step[s]);
        if (result) QS_TRY(pass_make(passes, most, s, result, device));
    }
    return QS_OK;
}

qs_status qs__dequantizing_create(const qs_schedule *schedule, int runs, qs_device *device, qs__dequantizing *out) {
    *out = (qs__dequantizing){.status = QS_OK};
    QS_TRY(qs__kernel_times_create(schedule, runs, &out->times));
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *out->kernel, &out->kernel));
    QS_TRY(qs_allocate((size_t)schedule->steps, sizeof *out->bytes, &out->bytes));
    return passes_make(schedule, device, out);
}

void qs__dequantizing_release(qs__dequantizing *passes) {
    for (int s = 0; passes->kernel && s < passes->times.schedule->steps; s++)
        qs_kernel_release(passes->kernel[s]);
    free(passes->kernel);
    free(passes->bytes);
    qs_arena_release(&passes->arena);
    qs__kernel_times_release(&passes->times);
}

static void sums_write(void *memory, int64_t begin, int64_t end) {
    memset((char *)memory + begin, 1, (size_t)(end - begin)); /* ordinary numbers */
}

void qs__dequantizing_kernel(void *context, const qs_schedule *schedule, int step, double seconds) {
    qs__dequantizing *passes = context;
    const qs_run run = {.seed = 1, .samples = schedule->batch, .global_samples = schedule->batch, .loss_scale = 1};
    (void)seconds;
    if (!passes->kernel[step] || passes->status != QS_OK) return;
    qs_parallel((int64_t)passes->bytes[step], PIECE, sums_write, passes->arena.memory);
    const double begin = qs_clock();
    passes->status = qs_kernel_run(passes->kernel[step], &run);
    qs__kernel_times_add(&passes->times, schedule, step, qs_clock() - begin);
}
