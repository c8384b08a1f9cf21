// SPDX-License-Identifier: Apache-2.0
/* hard_sigmoid: alpha x + beta, where that is below 0 it is 0, above 1 it is 1. The derivative at the two corners is 0. Standards are those
 * of mobile networks: x / 6 + 1/2. */
#include "internal.h"

static double function(const qs_attributes *with, double x) {
    const double line = with->constant[0] * x + with->constant[1];
    return line < 0 ? 0 : line > 1 ? 1 : line;
}

static double derivative(const qs_attributes *with, double x) {
    const double line = with->constant[0] * x + with->constant[1];
    return line > 0 && line < 1 ? with->constant[0] : 0;
}

QS__CURVE(hard_sigmoid, " alpha=0.2 beta=0.5", .sign = QS_SIGN_NEVER_NEGATIVE,
          .setting = {QS_SETTING_AS("alpha", constant[0], 1.0 / 6, -1e30, 1e30, "what x is multiplied by; 0: 1/6"),
                      QS_SETTING_AS("beta", constant[1], 0.5, -1e30, 1e30, "what is added then; 0: 1/2")});
