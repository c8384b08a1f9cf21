// SPDX-License-Identifier: Apache-2.0
/* The range of least squared error (docs/method.md eq. (9.13)): how far below the largest magnitude codes should end. Errors are whole
 * numbers of 2^-31 of the squared range and their sums are exact, so that neither threads nor the order of anything can change a choice. */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

enum { GRAIN = 1 << 14, SERIAL_LIMIT = 1 << 16, PIECE = 512 };

/* Four to an octave. */
float qs_clip_ratio(int choice) {
    static const float within[] = {1.0f, 0.8408964f, 0.70710677f, 0.59460354f};
    assert(choice >= 0 && choice < QS_CLIPS);
    return ldexpf(within[choice % 4], -(choice / 4));
}

int qs_clip_choose(const uint64_t error[QS_CLIPS]) {
    int best = 0;
    for (int k = 1; k < QS_CLIPS; k++)
        if (error[k] < error[best]) best = k;
    return best;
}

typedef struct search {
    qs_clip_values of;
    const qs__kernels *kernels;
    float inverse;                      /* 1/range */
    float up[QS_CLIPS], down[QS_CLIPS]; /* codes of a share of the range, and back */
    atomic_ullong error[QS_CLIPS];
} search;

/* Shares of their ranges, 0 to 1, of elements from `begin` on, and what their squared errors count in: 2^31 in the largest range. */
static void shares_load(const search *task, int64_t begin, int64_t count, float *share, float *unit) {
    const qs_clip_values *of = &task->of;
    const float lowest = of->format->is_unsigned ? 0.0f : -1.0f;
    int64_t channel = of->group ? begin % of->channels : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = (begin + i) * of->stride;
        const int group = of->group ? of->group[channel] : 0;
        const float x = of->bfloat ? qs__float_of((uint32_t)((const uint16_t *)of->src)[at] << 16) : ((const float *)of->src)[at];
        const float y = x * (task->inverse * (float)(1 << group));
        share[i] = fabsf(y > lowest ? y < 1.0f ? y : 1.0f : lowest);
        unit[i] = 0x1p31f / (float)(1 << 2 * group);
        if (++channel == of->channels) channel = 0;
    }
}

static void errors_add(void *context, int64_t begin, int64_t end) {
    search *task = context;
    const float most = (float)task->of.format->max;
    uint64_t sum[QS_CLIPS] = {0};
    float share[PIECE];
    float unit[PIECE];
    for (int64_t at = begin; at < end; at += PIECE) {
        const int64_t count = end - at < PIECE ? end - at : PIECE;
        shares_load(task, at, count, share, unit);
        for (int k = 0; k < QS_CLIPS; k++)
            sum[k] += (uint64_t)task->kernels->clip_errors(count, share, unit, task->up[k], task->down[k], most);
    }
    for (int k = 0; k < QS_CLIPS; k++)
        atomic_fetch_add_explicit(&task->error[k], sum[k], memory_order_relaxed);
}

float qs_clip_find(const qs_clip_values *values, float range) {
    search task = {.of = *values, .kernels = qs__kernels_get(), .inverse = 1.0f / range};
    uint64_t error[QS_CLIPS];
    assert(values->format->kind == QS_KIND_INTEGER && !values->format->is_logarithmic);
    if (!isfinite(range) || range < QS_LEAST_CLIPPED) return 1.0f;
    for (int k = 0; k < QS_CLIPS; k++) {
        task.up[k] = (float)values->format->max / qs_clip_ratio(k);
        task.down[k] = qs_clip_ratio(k) / (float)values->format->max;
        atomic_init(&task.error[k], 0);
    }
    if (values->count < SERIAL_LIMIT)
        errors_add(&task, 0, values->count);
    else
        qs_parallel(values->count, GRAIN, errors_add, &task);
    for (int k = 0; k < QS_CLIPS; k++)
        error[k] = atomic_load_explicit(&task.error[k], memory_order_relaxed);
    return qs_clip_ratio(qs_clip_choose(error));
}
