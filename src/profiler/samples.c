// SPDX-License-Identifier: Apache-2.0
/* Samples of times, their quartiles, and the straight line behind all-reduces. */
#include "profiler_internal.h"

#include <math.h>
#include <stdlib.h>

qs_status qs__samples_add(qs__samples *samples, double value) {
    QS_TRY(qs_grow(&samples->value, &samples->capacity, (size_t)samples->count + 1, sizeof *samples->value));
    samples->value[samples->count++] = value;
    return QS_OK;
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

static double r2_of(int points, const double *x, const double *y, double alpha, double beta) {
    double mean = 0, total = 0, left = 0;
    for (int i = 0; i < points; i++)
        mean += y[i] / points;
    for (int i = 0; i < points; i++) {
        total += (y[i] - mean) * (y[i] - mean);
        left += (alpha + beta * x[i] - y[i]) * (alpha + beta * x[i] - y[i]);
    }
    return total > 0 ? 1 - left / total : 1;
}

void qs__line_fit(int points, const double *x, const double *y, double *alpha, double *beta, double *r2) {
    double w0 = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (int i = 0; i < points; i++) {
        const double weight = 1 / (y[i] * y[i]);
        w0 += weight;
        wx += weight * x[i];
        wy += weight * y[i];
        wxx += weight * x[i] * x[i];
        wxy += weight * x[i] * y[i];
    }
    const double determinant = w0 * wxx - wx * wx;
    *beta = determinant > 0 ? fmax((w0 * wxy - wx * wy) / determinant, 0) : 0;
    *alpha = (wy - *beta * wx) / w0;
    if (*alpha < 0) {
        *alpha = 0;
        *beta = wxy / wxx;
    }
    *r2 = r2_of(points, x, y, *alpha, *beta);
}
