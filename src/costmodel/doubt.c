// SPDX-License-Identifier: Apache-2.0
/* How wrong a profile's predictions may be, by the errors that it knows of. */
#include "qsync/costmodel.h"

#include <math.h>

/* The z that a standard normal variable stays below with this probability, 1/2 and more: Phi grows, so halving finds it. */
static double normal_quantile(double probability) {
    double low = 0, high = 9; /* Phi(9) is 1 in double precision */
    for (int i = 0; i < 60; i++) {
        const double middle = (low + high) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < probability ? &low : &high) = middle;
    }
    return low;
}

/* Checks are whole iterations of all ranks, waiting included; their mean counts as much as their spread, for a plan that is chosen comes
 * after them. */
static double checks_deviation(const qs_profile *profile) {
    double squares = 0;
    int known = 0;
    for (int i = 0; i < profile->checks; i++) {
        const qs_profile_check *row = &profile->check[i];
        if (!(row->predicted_us > 0 && row->measured_us > 0)) continue;
        const double error = row->measured_us / row->predicted_us - 1;
        squares += error * error;
        known++;
    }
    return known > 0 ? sqrt(squares / known) : 0;
}

double qs_cost_doubt(const qs_profile *profile, const qs_class_profile *one, double confidence) {
    /* Of a normal variable around 0 the mean of |x| is sqrt(2/pi) of the deviation. */
    const double closure = one->quality.known ? sqrt(acos(-1) / 2) * one->quality.closure_mean : 0;
    return normal_quantile(confidence) * fmax(closure, checks_deviation(profile));
}
