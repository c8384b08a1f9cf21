// SPDX-License-Identifier: Apache-2.0
/* Where the noise of ranks meets. A rank's noise accumulates with its busy time, independent of the others'. Times are maxima over paths
 * through the ranks, and every path begins with one rank's busy time: so each rank i has a copy of the ends of all-reduces and of every
 * rank k's clock, as far as i alone is concerned, max_i of which is what happens. Copies of one source differ by what it did between two
 * moments: of two, the covariance is the smaller variance. Copies of different sources are independent. What a rank does after a wait adds
 * to its own copy alone. */
#include <math.h>

#include "replayer_internal.h"

static const qs__normal never = {-INFINITY, 0};

/* Variance of an actor's own copy of its clock. */
static double own_variance(const qs__actor *actor) {
    return actor->kept + actor->rate * (actor->busy - actor->met_busy);
}

/* Clock of actor k by source i (i = actors: by a rank like k), against k's busy time. */
static qs__normal *clock_of(const qs__replay *one, int k, int i) {
    return &one->clock[(size_t)k * (size_t)(one->actors + 1) + (size_t)i];
}

static qs__normal *end_of(const qs__replay *one, int i, int bucket) {
    return &one->source_end[(size_t)i * (size_t)one->buckets + (size_t)bucket];
}

static bool happens(const qs__normal *one) {
    return one->mean > -INFINITY;
}

static double at(double mean, double busy) {
    return mean > -INFINITY ? mean + busy : mean;
}

/* The present clock of k by source i. */
static qs__normal clock_now(const qs__replay *one, int k, int i) {
    const qs__actor *actor = &one->actor[k];
    const qs__normal *clock = clock_of(one, k, i);
    return (qs__normal){at(clock->mean, actor->busy), i == k ? own_variance(actor) : clock->variance};
}

/* The later of two moments of one source. */
static qs__normal later_of(qs__normal a, qs__normal b) {
    qs__normal later;
    if (!happens(&a)) return b;
    if (!happens(&b)) return a;
    qs__greater_of(a, b, fmin(a.variance, b.variance), &later);
    return later;
}

void qs__meeting_start(qs__replay *one) {
    for (int k = 0; k < one->actors; k++) {
        for (int i = 0; i <= one->actors; i++)
            *clock_of(one, k, i) = i == k ? (qs__normal){0, 0} : never;
        for (int b = 0; b < one->buckets; b++)
            *end_of(one, k, b) = never;
    }
}

void qs__bucket_ready(qs__replay *one, int k, int bucket) {
    for (int i = 0; i <= one->actors; i++) {
        const int source = i < one->actors ? i : k;
        qs__normal *end = end_of(one, source, bucket);
        *end = later_of(*end, clock_now(one, k, i));
    }
}

double qs__expected_start(qs__replay *one, int bucket, double duration, double *deviation) {
    for (int i = 0; i < one->actors; i++) {
        qs__normal *end = end_of(one, i, bucket);
        if (bucket > 0) *end = later_of(*end, *end_of(one, i, bucket - 1));
        one->normal[i] = *end;
        one->times[i] = one->actor[i].ranks;
        end->mean += duration;
    }
    const qs__normal start = qs__greatest_of(one->actors, one->normal, one->times);
    *deviation = sqrt(start.variance);
    return start.mean;
}

static void clock_wait(qs__replay *one, int k, int i, int bucket) {
    qs__actor *actor = &one->actor[k];
    const qs__normal later = later_of(clock_now(one, k, i), *end_of(one, i < one->actors ? i : k, bucket));
    *clock_of(one, k, i) = (qs__normal){at(later.mean, -actor->busy), later.variance};
    if (i == k) {
        actor->kept = later.variance;
        actor->met_busy = actor->busy;
    }
}

double qs__expected_release(qs__replay *one, int k, int bucket) {
    const qs__actor *actor = &one->actor[k];
    const qs__window *window = &one->window[bucket];
    const double sooner = fmax(one->now, window->end);
    if (!one->noisy || one->now - window->end > 8 * (sqrt(own_variance(actor)) + window->deviation)) return sooner;
    for (int i = 0; i <= one->actors; i++) {
        clock_wait(one, k, i, bucket);
        one->normal[i] = clock_now(one, k, i);
        one->times[i] = i == one->actors ? actor->ranks - 1 : i == k ? 1 : one->actor[i].ranks;
    }
    return fmax(sooner, qs__greatest_of(one->actors + 1, one->normal, one->times).mean);
}

double qs__expected_iteration(qs__replay *one) {
    double last = 0;
    for (int k = 0; k < one->actors; k++)
        last = fmax(last, one->actor[k].begin);
    if (!one->noisy) return last;
    for (int i = 0; i < one->actors; i++) {
        one->normal[i] = never;
        one->times[i] = one->actor[i].ranks;
        for (int k = 0; k < one->actors; k++)
            one->normal[i] = later_of(one->normal[i], clock_now(one, k, i));
        if (one->actor[i].ranks > 1) one->normal[i] = later_of(one->normal[i], clock_now(one, i, one->actors));
    }
    return fmax(last, qs__greatest_of(one->actors, one->normal, one->times).mean);
}
