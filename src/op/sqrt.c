// SPDX-License-Identifier: Apache-2.0
/* sqrt: the square root, a NaN of what is negative. Its derivative is 1 / (2 sqrt(x)), infinite at 0. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return sqrt(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return 0.5 / sqrt(x);
}

QS__CURVE(sqrt, "", .sign = QS_SIGN_NEVER_NEGATIVE);
