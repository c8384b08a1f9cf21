// SPDX-License-Identifier: Apache-2.0
/* sigmoid: 1 / (1 + e^-x). Its derivative is found as s(x) s(-x), which no difference spoils. The reference computes in double. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return qs__sigmoid(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return qs__sigmoid(x) / (1 + exp(x));
}

QS__CURVE(sigmoid, "", .sign = QS_SIGN_NEVER_NEGATIVE);
