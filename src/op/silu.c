// SPDX-License-Identifier: Apache-2.0
/* silu: x s(x) with s(x) = 1 / (1 + e^-x) (Hendrycks and Gimpel, 2016; as swish: Ramachandran, Zoph and Le, 2017). Its derivative is s(x) +
 * x s(x) s(-x). The reference computes in double. A minus infinity gives a NaN. */
#include "internal.h"

static double function(const qs_attributes *with, double x) {
    (void)with;
    return x * qs__sigmoid(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return qs__sigmoid(x) + x * qs__sigmoid(x) * qs__sigmoid(-x);
}

QS__CURVE(silu, "", .sign = QS_SIGN_ANY);
