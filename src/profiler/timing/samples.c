// SPDX-License-Identifier: Apache-2.0
/* Samples of times and their quartiles. */
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

qs_status qs__samples_add(qs__samples *samples, double value) {
    QS_TRY(qs_grow(&samples->value, &samples->capacity, (size_t)samples->count + 1, sizeof *samples->value));
    samples->value[samples->count++] = value;
    return QS_OK;
}

double qs__mean_of(const qs__samples *samples) {
    double sum = 0;
    for (int i = 0; i < samples->count; i++)
        sum += samples->value[i];
    return samples->count > 0 ? sum / samples->count : 0;
}

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Between the two nearest order statistics. */
static double quantile(int count, const double *sorted, double share) {
    const double at = share * (count - 1);
    const int below = (int)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - below) * (sorted[above] - sorted[below]);
}

qs__quartiles qs__quartiles_of(int count, double *value) {
    if (count < 1) return (qs__quartiles){0};
    qsort(value, (size_t)count, sizeof *value, by_value);
    return (qs__quartiles){quantile(count, value, 0.25), quantile(count, value, 0.5), quantile(count, value, 0.75)};
}

/* Ranks n/2 ± 0.98 sqrt(n). */
double qs__confidence_of(int count, double *value) {
    const double median = qs__quartiles_of(count, value).median;
    const int reach = (int)ceil(0.98 * sqrt(count));
    const int low = (count - 1) / 2 - reach, high = count / 2 + reach;
    if (low < 0 || high >= count) return INFINITY;
    return (value[high] - value[low]) / 2 / median;
}

/* How many of the smallest of `count` samples may be left out so that the rest still begins below the true median with 97.5 %: the largest
 * r whose binomial tail P(at most r of count fall below it) stays within 2.5 %. -1: not even the smallest sample is known to lie below. */
static int left_out(int count) {
    double term = pow(0.5, count), tail = 0;
    int r = -1;
    while (r + 1 < count && tail + term <= 0.025) {
        tail += term;
        r++;
        term = term * (count - r) / (r + 1);
    }
    return r;
}

double qs__half_width_of(int count, double *value) {
    const int out = left_out(count) > 0 ? left_out(count) : 0;
    if (count < 2) return INFINITY;
    qs__quartiles_of(count, value);
    const double width = value[count - 1 - out] - value[out];
    return left_out(count) < 0 ? width : width / 2;
}

double qs__median_at_most(qs__samples *samples) {
    const int out = left_out(samples->count);
    qs__quartiles_of(samples->count, samples->value);
    return out < 0 ? INFINITY : samples->value[samples->count - 1 - out];
}

bool qs__median_is_known(qs__samples *samples, double tolerance) {
    const int out = left_out(samples->count);
    if (out < 0) return false;
    const double median = qs__quartiles_of(samples->count, samples->value).median;
    const double low = samples->value[out], high = samples->value[samples->count - 1 - out];
    return high - median <= tolerance * median && median - low <= tolerance * median;
}

qs__split qs__split_of(int count, int parts, const double *whole, const double *before, const double *part, double *scratch) {
    qs__split out = {.stretch = 1};
    double sum = 0;
    memcpy(scratch, whole, (size_t)count * sizeof *scratch);
    out.whole = qs__quartiles_of(count, scratch).median;
    memcpy(scratch, before, (size_t)count * sizeof *scratch);
    out.before = qs__quartiles_of(count, scratch).median;
    for (int i = 0; i < count; i++) {
        scratch[i] = whole[i] - before[i];
        for (int p = 0; p < parts; p++)
            scratch[i] -= part[(size_t)i * (size_t)parts + (size_t)p];
    }
    out.loop = fmax(qs__quartiles_of(count, scratch).median, 0);
    for (int p = 0; p < parts; p++) {
        for (int i = 0; i < count; i++)
            scratch[i] = part[(size_t)i * (size_t)parts + (size_t)p];
        sum += qs__quartiles_of(count, scratch).median;
    }
    const double left = out.whole - out.before - out.loop;
    if (sum > 0 && left > 0) out.stretch = left / sum;
    return out;
}
