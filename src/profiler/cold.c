// SPDX-License-Identifier: Apache-2.0
/* Why does the same kernel take 0.6 ms here and 0.8 ms there? Because memory is cold there: what its operands were last touched for lies
 * too many bytes back. Times at all places are fitted as mean + b (cold bytes - mean cold bytes), with one cache size for the whole class:
 * the one that leaves the least error. A slope that few places support leans on the slope of its operator and pass. */
#include "profiler_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const int64_t qs__cache_bytes[QS__CACHES] = {1 << 20, 2 << 20, 4 << 20, 6 << 20, 8 << 20, 12 << 20, 16 << 20, 24 << 20};

/* Weight of the operator's common slope: as if the case itself had been met once with half a MiB more. */
static const double prior_weight = (512.0 * 1024) * (512.0 * 1024);

typedef struct line {
    double mean_us, mean_cold, xx, xy; /* centred sums */
} line;

static line line_of(const qs__entry *entry, int cache) {
    const qs__samples *x = &entry->cold[cache], *y = &entry->kernel_us;
    line one = {0};
    for (int i = 0; i < x->count; i++) {
        one.mean_cold += x->value[i] / x->count;
        one.mean_us += y->value[i] / x->count;
    }
    for (int i = 0; i < x->count; i++) {
        one.xx += (x->value[i] - one.mean_cold) * (x->value[i] - one.mean_cold);
        one.xy += (x->value[i] - one.mean_cold) * (y->value[i] - one.mean_us);
    }
    return one;
}

static bool same_pass(const qs__entry *a, const qs__entry *b) {
    return a->case_.op == b->case_.op && a->case_.pass == b->case_.pass;
}

/* Slope of all cases of an operator's pass together. */
static double common_slope(const qs__cases *cases, const qs__entry *like, int cache) {
    double xx = 0, xy = 0;
    for (int i = 0; i < cases->count; i++) {
        if (!same_pass(&cases->entry[i], like)) continue;
        const line one = line_of(&cases->entry[i], cache);
        xx += one.xx;
        xy += one.xy;
    }
    return xx > 0 ? fmax(xy / xx, 0) : 0;
}

static double slope_of(const qs__cases *cases, const qs__entry *entry, int cache) {
    const line one = line_of(entry, cache);
    return fmax((one.xy + prior_weight * common_slope(cases, entry, cache)) / (one.xx + prior_weight), 0);
}

/* Squared error that the slopes leave. */
static double error_of(const qs__cases *cases, int cache) {
    double error = 0;
    for (int i = 0; i < cases->count; i++) {
        const qs__entry *entry = &cases->entry[i];
        const qs__samples *x = &entry->cold[cache], *y = &entry->kernel_us;
        const line one = line_of(entry, cache);
        const double slope = slope_of(cases, entry, cache);
        for (int k = 0; k < x->count; k++) {
            const double left = y->value[k] - one.mean_us - slope * (x->value[k] - one.mean_cold);
            error += left * left;
        }
    }
    return error;
}

int64_t qs__cache_choose(const qs__cases *cases) {
    int best = 0;
    double least = error_of(cases, 0);
    for (int c = 1; c < QS__CACHES; c++) {
        const double error = error_of(cases, c);
        if (error >= least) continue;
        best = c;
        least = error;
    }
    return qs__cache_bytes[best];
}

static int cache_index(int64_t bytes) {
    for (int c = 0; c < QS__CACHES; c++)
        if (qs__cache_bytes[c] == bytes) return c;
    return 0;
}

void qs__cold_fill(const qs__cases *cases, qs_class_profile *out) {
    const int cache = cache_index(out->cache_bytes);
    for (int i = 0; i < out->kernels; i++) {
        const qs__entry *entry = &cases->entry[qs__cases_find(cases, out->kernel[i].case_text)];
        if (entry->cold[cache].count == 0) continue;
        out->kernel[i].cold_bytes = line_of(entry, cache).mean_cold;
        out->kernel[i].us_per_cold_byte = slope_of(cases, entry, cache);
    }
}
