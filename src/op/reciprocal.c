// SPDX-License-Identifier: Apache-2.0
/* reciprocal: 1 / x. Its derivative is -1 / x². */
#include "internal.h"

static double function(const qs_attributes *with, double x) {
    (void)with;
    return 1 / x;
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return -1 / (x * x);
}

QS__CURVE(reciprocal, "", .sign = QS_SIGN_KEPT);
