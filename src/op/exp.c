// SPDX-License-Identifier: Apache-2.0
/* exp: e^x, its own derivative. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return exp(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return exp(x);
}

QS__CURVE(exp, "", .sign = QS_SIGN_NEVER_NEGATIVE);
