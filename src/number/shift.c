// SPDX-License-Identifier: Apache-2.0
/* ShiftQuant between its two passes: groups of channels and their steps; and the optimal groups that it is held against. */
#include "number_room.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { LEAST_STEP_EXPONENT = -100 };

/* Steps from the lowest code to the highest, or from 0 where there is no zero point. */
static float code_span(const qs_format *format, bool zero_point) {
    return (float)(format->max - (zero_point ? qs_format_lowest(format) : 0.0));
}

/* r 2^g <= r_max: the scaling is exact, or infinite where r is too large anyway. */
static uint8_t group_of(float range, float largest, int groups) {
    int group = 0;
    while (group < groups - 1 && ldexpf(range, group + 1) <= largest)
        group++;
    return (uint8_t)group;
}

float qs_shift_groups(const qs_format *format, bool zero_point, int groups, int64_t channels, const float *range, uint8_t *group) {
    assert(format->kind == QS_KIND_INTEGER && groups >= 1 && groups <= QS_MOST_SHIFT_GROUPS);
    float largest = 0.0f;
    for (int64_t c = 0; c < channels; c++) {
        if (!(range[c] <= largest)) largest = range[c]; /* a NaN too, which ends the search */
        if (!isfinite(largest)) break;
    }
    if (!isfinite(largest) || largest <= 0.0f) {
        memset(group, 0, (size_t)channels);
        return 1.0f;
    }
    for (int64_t c = 0; c < channels; c++)
        group[c] = group_of(range[c], largest, groups);
    return fmaxf(largest / code_span(format, zero_point), ldexpf(1.0f, LEAST_STEP_EXPONENT + groups - 1));
}

float qs__group_step(const qs_shift_codes *codes, int64_t channel) {
    return ldexpf(codes->step, -codes->group[channel]);
}

/* ---- Optimal groups ----
 *
 * By dynamic programming over channels in the order of their ranges: a group is a run of neighbours, its threshold the first. */

typedef struct ranked {
    float range;
    int64_t channel;
} ranked;

/* cost[g][n]: least objective of the first n channels in g + 1 groups; from[g][n]: where the last of these begins. Sums over the first n
 * channels give any run's cost at once. */
typedef struct table {
    qs_group_objective objective;
    int groups;
    int64_t channels;
    ranked *order;
    double *inverse_sum, *cost;
    int64_t *from;
} table;

static int range_compare(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->range != b->range) return a->range < b->range ? 1 : -1;
    return (a->channel > b->channel) - (a->channel < b->channel);
}

static double run_cost(const table *t, int64_t begin, int64_t end) {
    double threshold = (double)t->order[begin].range;
    if (t->objective == QS_SQUARED_RANGES) return threshold * threshold * (double)(end - begin);
    return threshold * (t->inverse_sum[end] - t->inverse_sum[begin]);
}

static void fill_row(table *t, int group) {
    int64_t width = t->channels + 1;
    double *cost = t->cost + group * width;
    int64_t *from = t->from + group * width;
    cost[0] = 0.0;
    for (int64_t n = 1; n <= t->channels; n++) {
        cost[n] = group ? cost[n - width] : run_cost(t, 0, n); /* the last group may stay empty */
        from[n] = group ? n : 0;
        for (int64_t begin = 1; group && begin < n; begin++) {
            double sum = cost[begin - width] + run_cost(t, begin, n);
            if (sum >= cost[n]) continue;
            cost[n] = sum;
            from[n] = begin;
        }
    }
}

/* Groups are found from the last on, and numbered without those that stayed empty. */
static void read_groups(const table *t, uint8_t *group, float *threshold) {
    int64_t end = t->channels, begin[QS_MOST_SHIFT_GROUPS];
    int used = 0;
    for (int g = t->groups - 1; g >= 0; g--) {
        begin[g] = end > 0 ? t->from[g * (t->channels + 1) + end] : 0;
        end = begin[g];
    }
    for (int g = 0; g < t->groups; g++) {
        int64_t stop = g + 1 < t->groups ? begin[g + 1] : t->channels;
        threshold[g] = 0.0f;
        if (begin[g] == stop) continue;
        threshold[used] = t->order[begin[g]].range;
        for (int64_t i = begin[g]; i < stop; i++)
            group[t->order[i].channel] = (uint8_t)used;
        used++;
    }
}

static void rank_channels(table *t, const float *range) {
    for (int64_t c = 0; c < t->channels; c++)
        t->order[c] = (ranked){range[c], c};
    qsort(t->order, (size_t)t->channels, sizeof *t->order, range_compare);
    t->inverse_sum[0] = 0.0;
    for (int64_t i = 0; i < t->channels; i++) {
        double r = (double)t->order[i].range;
        t->inverse_sum[i + 1] = t->inverse_sum[i] + (r > 0.0 ? 1.0 / r : 0.0);
    }
}

qs_status qs_optimal_groups(qs_group_objective objective, int groups, int64_t channels, const float *range, uint8_t *group,
                            float *threshold) {
    assert(groups >= 1 && groups <= QS_MOST_SHIFT_GROUPS && channels >= 0);
    table t = {.objective = objective, .groups = groups, .channels = channels};
    size_t width = (size_t)channels + 1;
    qs_status status;
    for (int64_t c = 0; c < channels; c++)
        if (!isfinite(range[c])) return qs_fail(QS_USAGE, "channel %lld has no finite range: it fits no group", (long long)c);
    QS_GOTO(qs_allocate(width, sizeof *t.order, &t.order));
    QS_GOTO(qs_allocate(width, sizeof *t.inverse_sum, &t.inverse_sum));
    QS_GOTO(qs_allocate(width * (size_t)groups, sizeof *t.cost, &t.cost));
    QS_GOTO(qs_allocate(width * (size_t)groups, sizeof *t.from, &t.from));
    rank_channels(&t, range);
    for (int g = 0; g < groups; g++)
        fill_row(&t, g);
    read_groups(&t, group, threshold);
done:
    free(t.order);
    free(t.inverse_sum);
    free(t.cost);
    free(t.from);
    return status;
}
