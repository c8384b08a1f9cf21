// SPDX-License-Identifier: Apache-2.0
/* erf: the error function, 2/sqrt(pi) times the integral of e^-t² from 0 to x. Its derivative is that integrand. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return erf(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return 1.12837916709551257390 * exp(-x * x); /* 2/sqrt(pi) */
}

QS__CURVE(erf, "", .sign = QS_SIGN_KEPT);
