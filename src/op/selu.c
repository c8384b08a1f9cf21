// SPDX-License-Identifier: Apache-2.0
/* selu: gamma x where x is positive, else gamma alpha (e^x - 1) (Klambauer et al. 2017). Standards are the two numbers that keep mean 0 and
 * variance 1. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    return with->constant[1] * (x > 0 ? x : with->constant[0] * expm1(x));
}

static double derivative(const qs_attributes *with, double x) {
    return with->constant[1] * (x > 0 ? 1 : with->constant[0] * exp(x));
}

QS__CURVE(selu, " alpha=1.6732632423543772 gamma=1.0507009873554805", .sign = QS_SIGN_KEPT,
          .setting = {QS_SETTING_AS("alpha", constant[0], 1.6732632423543772, 1e-30, 1e30,
                                    "minus the limit far below 0, before gamma; 0: the standard"),
                      QS_SETTING_AS("gamma", constant[1], 1.0507009873554805, 1e-30, 1e30, "the slope above 0; 0: the standard")});
