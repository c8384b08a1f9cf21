// SPDX-License-Identifier: Apache-2.0
/* tanh: the hyperbolic tangent. Its derivative is 1 - tanh², found as 1 / cosh². The reference computes in double. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return tanh(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    const double inverse = 1 / cosh(x);
    return inverse * inverse;
}

QS__CURVE(tanh, "", .sign = QS_SIGN_KEPT);
