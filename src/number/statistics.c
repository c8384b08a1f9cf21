// SPDX-License-Identifier: Apache-2.0
/* Array functions that reduce. An array is cut into at most SLOTS runs of whole pieces, by its length alone; a run fills its slot piece
 * by piece, the slots are combined in order: neither threads nor instruction set can change a bit. */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

enum { SLOTS = 256, SERIAL_LIMIT = 65536 };

typedef struct reduction reduction;
/* Reduces elements begin ... end - 1 (whole pieces but the last) into slot number `slot`. */
typedef void (*reduce_run)(reduction *task, int64_t begin, int64_t end, int64_t slot);

struct reduction {
    const qs__kernels *kernels;
    reduce_run reduce;
    const void *src;
    int64_t run; /* elements of a slot */
    int64_t slots;
    const qs__float_plan *plan;
    float step, limit;
    union {
        double sum[SLOTS];
        struct {
            int32_t low[SLOTS], high[SLOTS];
        } key;
    } slot;
};

static void reduce_body(void *context, int64_t begin, int64_t end) {
    reduction *task = context;
    for (; begin < end; begin += task->run) {
        int64_t stop = begin + task->run < end ? begin + task->run : end;
        task->reduce(task, begin, stop, begin / task->run);
    }
}

static void run_reduction(reduction *task, int64_t count) {
    assert(count >= 0);
    int64_t pieces = (count + QS_NUMBER_PIECE - 1) / QS_NUMBER_PIECE;
    task->kernels = qs__kernels_get();
    task->run = (pieces + SLOTS - 1) / SLOTS * QS_NUMBER_PIECE;
    task->slots = count ? (count + task->run - 1) / task->run : 0;
    if (count < SERIAL_LIMIT) {
        if (count > 0) reduce_body(task, 0, count);
    } else {
        qs_parallel(count, task->run, reduce_body, task);
    }
}

/* ---- Extremes ---- */

static void reduce_absmax(reduction *task, int64_t begin, int64_t end, int64_t slot) {
    task->slot.key.high[slot] = task->kernels->absmax(end - begin, (const float *)task->src + begin);
}

static void reduce_absmax_bf16(reduction *task, int64_t begin, int64_t end, int64_t slot) {
    task->slot.key.high[slot] = task->kernels->absmax_bf16(end - begin, (const uint16_t *)task->src + begin);
}

static void reduce_minmax(reduction *task, int64_t begin, int64_t end, int64_t slot) {
    task->kernels->minmax(end - begin, (const float *)task->src + begin, &task->slot.key.low[slot], &task->slot.key.high[slot]);
}

static int32_t highest(const reduction *task) {
    int32_t high = task->slot.key.high[0];
    for (int64_t i = 1; i < task->slots; i++) {
        if (task->slot.key.high[i] > high) high = task->slot.key.high[i];
    }
    return high;
}

static int32_t lowest(const reduction *task) {
    int32_t low = task->slot.key.low[0];
    for (int64_t i = 1; i < task->slots; i++) {
        if (task->slot.key.low[i] < low) low = task->slot.key.low[i];
    }
    return low;
}

static float absolute_maximum(reduce_run reduce, int64_t count, const void *src) {
    reduction task;
    task.reduce = reduce;
    task.src = src;
    run_reduction(&task, count);
    return count ? qs__float_of((uint32_t)highest(&task)) : 0.0f;
}

float qs_absmax_array(int64_t count, const float *src) {
    return absolute_maximum(reduce_absmax, count, src);
}

float qs_absmax_bf16_array(int64_t count, const uint16_t *src) {
    return absolute_maximum(reduce_absmax_bf16, count, src);
}

void qs_minmax_array(int64_t count, const float *src, float *minimum, float *maximum) {
    reduction task;
    task.reduce = reduce_minmax;
    task.src = src;
    run_reduction(&task, count);
    *minimum = count ? qs__float_of((uint32_t)qs__key_value(lowest(&task))) : 0.0f;
    *maximum = count ? qs__float_of((uint32_t)qs__key_value(highest(&task))) : 0.0f;
}

int qs_effective_exponent(float absmax) {
    if (absmax == 0.0f) return 0;
    return isfinite(absmax) ? ilogbf(absmax) : 128;
}

/* ---- Sums ---- */

static double reduce_piece(const reduction *task, int64_t count, const float *src) {
    if (task->plan) return task->kernels->variance_float(task->plan, count, src);
    if (task->limit > 0.0f) return task->kernels->variance_fixed(task->step, task->limit, count, src);
    return task->kernels->norm2(count, src);
}

static void reduce_sum(reduction *task, int64_t begin, int64_t end, int64_t slot) {
    double sum = 0.0;
    for (; begin < end; begin += QS_NUMBER_PIECE) {
        int64_t count = end - begin < QS_NUMBER_PIECE ? end - begin : QS_NUMBER_PIECE;
        sum += reduce_piece(task, count, (const float *)task->src + begin);
    }
    task->slot.sum[slot] = sum;
}

static double total(int64_t count, const float *src, const qs__float_plan *plan, float step, float limit) {
    reduction task;
    task.reduce = reduce_sum;
    task.src = src;
    task.plan = plan;
    task.step = step;
    task.limit = limit;
    run_reduction(&task, count);
    double sum = 0.0;
    for (int64_t i = 0; i < task.slots; i++) {
        sum += task.slot.sum[i];
    }
    return sum;
}

double qs_norm2_array(int64_t count, const float *src) {
    return total(count, src, NULL, 1.0f, 0.0f);
}

/* ---- All in one pass ---- */

enum { FIELDS = 256, TABLES = 4 }; /* of fp32's exponent; equal neighbours would wait for each other in one table */

typedef struct summary {
    reduction base; /* first */
    qs__float_plan bf16, fp16;
    double norm2[SLOTS], variance_bf16[SLOTS], variance_fp16[SLOTS];
    _Atomic int64_t exponents[FIELDS];
} summary;

static uint32_t exponent_of(float x) {
    return qs__bits_of(x) << 1 >> 24;
}

static void count_exponents(int64_t count, const float *src, uint32_t (*table)[FIELDS]) {
    uint32_t zeros = 0;
    int64_t i = 0;
    for (; i + TABLES <= count; i += TABLES) {
        table[0][exponent_of(src[i])]++;
        table[1][exponent_of(src[i + 1])]++;
        table[2][exponent_of(src[i + 2])]++;
        table[3][exponent_of(src[i + 3])]++;
    }
    for (; i < count; i++)
        table[0][exponent_of(src[i])]++;
    for (i = 0; i < count; i++)
        zeros += qs__bits_of(src[i]) << 1 == 0;
    table[0][0] -= zeros; /* modulo 2^32, like the sum over tables */
}

static void summarize_piece(summary *task, int64_t count, const float *src, int64_t slot, uint32_t (*table)[FIELDS]) {
    const qs__kernels *kernels = task->base.kernels;
    int32_t low, high;
    kernels->minmax(count, src, &low, &high);
    if (low < task->base.slot.key.low[slot]) task->base.slot.key.low[slot] = low;
    if (high > task->base.slot.key.high[slot]) task->base.slot.key.high[slot] = high;
    task->norm2[slot] += kernels->norm2(count, src);
    task->variance_bf16[slot] += kernels->variance_float(&task->bf16, count, src);
    task->variance_fp16[slot] += kernels->variance_float(&task->fp16, count, src);
    count_exponents(count, src, table);
}

/* Piece by piece, so that all figures but the first come from the cache. */
static void reduce_summary(reduction *base, int64_t begin, int64_t end, int64_t slot) {
    summary *task = (summary *)base;
    task->norm2[slot] = task->variance_bf16[slot] = task->variance_fp16[slot] = 0.0;
    base->slot.key.low[slot] = INT32_MAX;
    base->slot.key.high[slot] = INT32_MIN;
    while (begin < end) {
        uint32_t table[TABLES][FIELDS] = {{0}};
        int64_t stop = end - begin < INT32_MAX ? end : begin + INT32_MAX / QS_NUMBER_PIECE * QS_NUMBER_PIECE;
        for (; begin < stop; begin += QS_NUMBER_PIECE) {
            int64_t count = stop - begin < QS_NUMBER_PIECE ? stop - begin : QS_NUMBER_PIECE;
            summarize_piece(task, count, (const float *)base->src + begin, slot, table);
        }
        for (int f = 0; f < FIELDS; f++) {
            uint32_t sum = table[0][f] + table[1][f] + table[2][f] + table[3][f];
            if (sum) atomic_fetch_add_explicit(&task->exponents[f], sum, memory_order_relaxed);
        }
    }
}

void qs_summary_array(int64_t count, const float *src, qs_summary *out) {
    summary task = {.base = {.reduce = reduce_summary, .src = src}};
    *out = (qs_summary){0};
    if (count == 0) return;
    task.bf16 = qs__float_plan_of(qs_format_of("bf16"));
    task.fp16 = qs__float_plan_of(qs_format_of("fp16"));
    run_reduction(&task.base, count);
    for (int64_t i = 0; i < task.base.slots; i++) {
        out->norm2 += task.norm2[i];
        out->variance_bf16 += task.variance_bf16[i];
        out->variance_fp16 += task.variance_fp16[i];
    }
    out->minimum = qs__float_of((uint32_t)qs__key_value(lowest(&task.base)));
    out->maximum = qs__float_of((uint32_t)qs__key_value(highest(&task.base)));
    for (int f = 0; f < QS_EXPONENTS; f++)
        out->exponents[f] = task.exponents[f];
}

double qs_stochastic_variance_array(const qs_format *format, float step, int64_t count, const float *src) {
    if (format->kind == QS_KIND_INTEGER) {
        assert(isfinite(step) && step > 0.0f);
        return total(count, src, NULL, step, (float)format->max);
    }
    qs__float_plan plan = qs__float_plan_of(format);
    return total(count, src, &plan, 1.0f, 0.0f);
}
