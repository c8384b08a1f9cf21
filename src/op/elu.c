// SPDX-License-Identifier: Apache-2.0
/* elu: x where it is positive, else alpha (e^x - 1) (Clevert et al. 2016). */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    return x > 0 ? x : with->constant[0] * expm1(x);
}

static double derivative(const qs_attributes *with, double x) {
    return x > 0 ? 1 : with->constant[0] * exp(x);
}

QS__CURVE(elu, " alpha=1", .sign = QS_SIGN_KEPT,
          .setting = {QS_SETTING_AS("alpha", constant[0], 1, -1e30, 1e30, "minus the limit far below 0; 0: 1")});
