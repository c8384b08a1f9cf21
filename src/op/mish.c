// SPDX-License-Identifier: Apache-2.0
/* mish: x tanh(log(1 + e^x)) (Misra 2020). With the sigmoid s and t the tanh the derivative is t + x s (1 - t²). */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return x * tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    const double t = tanh(fmax(x, 0) + log1p(exp(-fabs(x))));
    return t + x * (1 - t * t) / (1 + exp(-x));
}

QS__CURVE(mish, "", .sign = QS_SIGN_KEPT);
