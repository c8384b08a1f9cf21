// SPDX-License-Identifier: Apache-2.0
/* multiply: elementwise product of two values, each product rounded once. Its derivatives are the other factor. */
#include "internal.h"

static double function(double a, double b) {
    return a * b;
}

static double by_first(double a, double b) {
    (void)a;
    return b;
}

static double by_second(double a, double b) {
    (void)b;
    return a;
}

QS__PAIR(multiply, .sign = QS_SIGN_KEPT);
