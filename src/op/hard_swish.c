// SPDX-License-Identifier: Apache-2.0
/* hard_swish: x (x + 3) / 6 between -3 and 3; 0 below, x above (Howard et al. 2019). The derivative at -3 is 0, at 3 it is 1. */
#include "internal.h"

static double function(const qs_attributes *with, double x) {
    (void)with;
    return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return x <= -3 ? 0 : x >= 3 ? 1 : (2 * x + 3) / 6;
}

QS__CURVE(hard_swish, "", .sign = QS_SIGN_KEPT);
