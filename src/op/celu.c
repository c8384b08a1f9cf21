// SPDX-License-Identifier: Apache-2.0
/* celu: x where it is positive, else alpha (e^(x / alpha) - 1), whose derivative has no step (Barron 2017). */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    return x > 0 ? x : with->constant[0] * expm1(x / with->constant[0]);
}

static double derivative(const qs_attributes *with, double x) {
    return x > 0 ? 1 : exp(x / with->constant[0]);
}

QS__CURVE(celu, " alpha=2", .sign = QS_SIGN_KEPT,
          .setting = {QS_SETTING_AS("alpha", constant[0], 1, 1e-30, 1e30, "minus the limit far below 0; 0: 1")});
