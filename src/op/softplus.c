// SPDX-License-Identifier: Apache-2.0
/* softplus: log(1 + e^x), found as the positive part of x plus log(1 + e^-|x|). Its derivative is the sigmoid. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return qs__sigmoid(x);
}

QS__CURVE(softplus, "", .sign = QS_SIGN_NEVER_NEGATIVE);
