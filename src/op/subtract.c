// SPDX-License-Identifier: Apache-2.0
/* subtract: elementwise difference of two values, rounded once. */
#include "internal.h"

static double function(double a, double b) {
    return a - b;
}

static double by_first(double a, double b) {
    (void)a, (void)b;
    return 1;
}

static double by_second(double a, double b) {
    (void)a, (void)b;
    return -1;
}

QS__PAIR(subtract, .sign = QS_SIGN_ANY);
