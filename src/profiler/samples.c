// SPDX-License-Identifier: Apache-2.0
/* Samples of times and their quartiles. */
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
