// SPDX-License-Identifier: Apache-2.0
/* Noise: expected times where ranks wait for each other, from the greatest of normal variables. Two: C. E. Clark, "The greatest of a finite
 * set of random variables", Operations Research 9 (1961), equations 2 to 4. More, independent ones: the moments of the product of their
 * distribution functions, integrated. */
#include <math.h>

#include "replayer_internal.h"

enum { POINTS = 64 };
static const double reach = 6.5; /* standard deviations; what lies beyond is below 1e-10 */

static double density(double x) {
    return exp(-x * x / 2) * 0.3989422804014327;
}

static double below(double x) {
    return erfc(-x * M_SQRT1_2) / 2;
}

double qs__greater_of(qs__normal a, qs__normal b, double covariance, qs__normal *out) {
    const double spread = sqrt(fmax(a.variance + b.variance - 2 * covariance, 0));
    if (spread <= 1e-12 * (1 + fabs(a.mean) + fabs(b.mean))) {
        const bool first = a.mean > b.mean;
        *out = first ? a : b;
        return first;
    }
    const double distance = (a.mean - b.mean) / spread, p = below(distance), q = below(-distance), peak = spread * density(distance);
    const double mean = a.mean * p + b.mean * q + peak;
    /* Second moments are taken about the mean: the differences of squares of far larger numbers would not keep the variance. */
    const double left = a.mean - mean, right = b.mean - mean;
    const double second = (left * left + a.variance) * p + (right * right + b.variance) * q + (left + right) * peak;
    *out = (qs__normal){mean, fmax(second, 0)};
    return p;
}

static double all_below(int count, const qs__normal *one, const int *times, double least, double x) {
    double product = 1;
    for (int i = 0; i < count; i++) {
        const double deviation = sqrt(one[i].variance);
        if (times[i] == 0 || one[i].mean + reach * deviation < least) continue;
        if (deviation > 0)
            product *= pow(below((x - one[i].mean) / deviation), times[i]);
        else if (x < one[i].mean)
            return 0;
    }
    return product;
}

/* E = low + ∫ (1 - F), E[(x - low)²] = ∫ 2 (x - low)(1 - F) from low upwards. The trapezoid rule is exact enough: beyond both ends the
 * integrand is flat. */
static qs__normal integrated(int count, const qs__normal *one, const int *times, double low, double high) {
    const double width = (high - low) / POINTS;
    double first = width / 2, second = 0;
    for (int i = 1; i < POINTS; i++) {
        const double above = 1 - all_below(count, one, times, low, low + i * width);
        first += above * width;
        second += 2 * i * width * above * width;
    }
    return (qs__normal){low + first, fmax(second - first * first, 0)};
}

qs__normal qs__greatest_of(int count, const qs__normal *one, const int *times) {
    double low = -INFINITY, high = -INFINITY;
    int near = 0, last = -1;
    for (int i = 0; i < count; i++)
        if (times[i] > 0) low = fmax(low, one[i].mean - reach * sqrt(one[i].variance));
    for (int i = 0; i < count; i++) {
        const double top = one[i].mean + reach * sqrt(one[i].variance);
        if (times[i] == 0 || top < low) continue;
        near += times[i];
        last = i;
        high = fmax(high, top);
    }
    if (near <= 1 || high <= low) return last >= 0 ? one[last] : (qs__normal){-INFINITY, 0};
    return integrated(count, one, times, low, high);
}

/* ---- Noise of ranks ------------------------------------------------------------------------------------------------------------- */

/* A rank's noise accumulates with its busy time, independent of the others'. Times are maxima over paths through the ranks, and every path
 * begins with one rank's busy time: so each rank i has a copy of the ends of all-reduces and of every rank k's clock, as far as i alone is
 * concerned, max_i of which is what happens. Copies of one source differ by what it did between two moments: of two, the covariance is the
 * smaller variance. Copies of different sources are independent. What a rank does after a wait adds to its own copy alone. */
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

/* The present clock of k by source i. */
static qs__normal clock_now(const qs__replay *one, int k, int i) {
    const qs__actor *actor = &one->actor[k];
    const qs__normal *clock = clock_of(one, k, i);
    return (qs__normal){clock->mean + actor->busy, i == k ? own_variance(actor) : clock->variance};
}

/* The later of two moments of one source. */
static qs__normal later_of(qs__normal a, qs__normal b) {
    qs__normal later;
    if (a.mean == -INFINITY) return b;
    if (b.mean == -INFINITY) return a;
    qs__greater_of(a, b, fmin(a.variance, b.variance), &later);
    return later;
}

void qs__noise_start(qs__replay *one) {
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

double qs__expected_release(qs__replay *one, int k, int bucket) {
    qs__actor *actor = &one->actor[k];
    const qs__window *window = &one->window[bucket];
    const double sooner = fmax(one->now, window->end);
    if (!one->noisy || one->now - window->end > 8 * (sqrt(own_variance(actor)) + window->deviation)) return sooner;
    for (int i = 0; i <= one->actors; i++) {
        const qs__normal later = later_of(clock_now(one, k, i), *end_of(one, i < one->actors ? i : k, bucket));
        *clock_of(one, k, i) = (qs__normal){later.mean - actor->busy, later.variance};
        if (i == k) {
            actor->kept = later.variance;
            actor->met_busy = actor->busy;
        }
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
