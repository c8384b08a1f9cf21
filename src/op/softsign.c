// SPDX-License-Identifier: Apache-2.0
/* softsign: x / (1 + |x|) (Bergstra et al. 2009). Its derivative is 1 / (1 + |x|)². */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return x / (1 + fabs(x));
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return 1 / ((1 + fabs(x)) * (1 + fabs(x)));
}

QS__CURVE(softsign, "", .sign = QS_SIGN_KEPT);
