// SPDX-License-Identifier: Apache-2.0
/* abs: the magnitude. Its derivative is the sign, 0 at 0. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return fabs(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return (x > 0) - (x < 0);
}

QS__CURVE(abs, "", .sign = QS_SIGN_NEVER_NEGATIVE);
