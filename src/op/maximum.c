// SPDX-License-Identifier: Apache-2.0
/* maximum: the larger of two values, elementwise; a NaN in either is one. The gradient is that of the larger one, of two equal ones half of
 * it each. */
#include "internal.h"

#include <math.h>

static double function(double a, double b) {
    return a > b || isnan(a) ? a : b;
}

static double by_first(double a, double b) {
    return a > b ? 1 : a == b ? 0.5 : 0;
}

static double by_second(double a, double b) {
    return a < b ? 1 : a == b ? 0.5 : 0;
}

QS__PAIR(maximum, .sign = QS_SIGN_KEPT);
