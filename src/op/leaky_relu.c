// SPDX-License-Identifier: Apache-2.0
/* leaky_relu: x where it is positive, else alpha x (Maas et al. 2013); at 0 the derivative is alpha. */
#include "internal.h"

static double function(const qs_attributes *with, double x) {
    return x > 0 ? x : with->constant[0] * x;
}

static double derivative(const qs_attributes *with, double x) {
    return x > 0 ? 1 : with->constant[0];
}

QS__CURVE(leaky_relu, " alpha=0.01", .sign = QS_SIGN_KEPT,
          .setting = {QS_SETTING_AS("alpha", constant[0], 0.01, -1e30, 1e30, "the slope below 0; 0: 0.01")});
