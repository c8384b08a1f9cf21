// SPDX-License-Identifier: Apache-2.0
/* divide: elementwise quotient of two values, rounded once. Its derivatives are 1 / b and -a / b². */
#include "internal.h"

static double function(double a, double b) {
    return a / b;
}

static double by_first(double a, double b) {
    (void)a;
    return 1 / b;
}

static double by_second(double a, double b) {
    return -a / (b * b);
}

QS__PAIR(divide, .sign = QS_SIGN_KEPT);
