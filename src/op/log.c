// SPDX-License-Identifier: Apache-2.0
/* log: the natural logarithm, -infinity of 0 and a NaN of what is negative. Its derivative is 1 / x. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return log(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return 1 / x;
}

QS__CURVE(log, "", .sign = QS_SIGN_ANY);
