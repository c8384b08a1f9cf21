// SPDX-License-Identifier: Apache-2.0
/* power: x to a constant power, as pow of C has it: of what is negative a NaN, unless the exponent is a whole number. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    return pow(x, with->constant[0]);
}

static double derivative(const qs_attributes *with, double x) {
    return with->constant[0] * pow(x, with->constant[0] - 1);
}

QS__CURVE(power, " exponent=3", .sign = QS_SIGN_KEPT, .setting = {QS_SETTING_AS("exponent", constant[0], 2, -1e30, 1e30, "of x; 0: 2")});
