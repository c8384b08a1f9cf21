// SPDX-License-Identifier: Apache-2.0
/* Greatest of normal variables. Two: C. E. Clark, "The greatest of a finite set of random variables", Operations Research 9 (1961),
 * equations 2 to 4. More, independent ones: the moments of the product of their distribution functions, integrated. */
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
