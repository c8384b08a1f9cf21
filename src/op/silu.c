// SPDX-License-Identifier: Apache-2.0
/* silu: x s(x) with s(x) = 1 / (1 + e^-x) (Hendrycks and Gimpel, 2016; as swish: Ramachandran, Zoph and Le, 2017). Its derivative is s(x) +
 * x s(x) s(-x). The reference computes in double. A minus infinity gives a NaN. */
#include "internal.h"

#include <math.h>

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double function(const qs_attributes *with, double x) {
    (void)with;
    return x * sigmoid(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    return sigmoid(x) + x * sigmoid(x) * sigmoid(-x);
}

QS__ACTIVATION_KERNELS(function, derivative)

static const qs_pass passes[] = {QS__ACTIVATION_FORWARD(forward, qs__activation_check),
                                 QS__ACTIVATION_BACKWARD(backward, qs__activation_check)};

static const char *const cases[] = {QS__ACTIVATION_CASES("silu", ""), NULL};

const qs_op qs__op_silu = {
    .name = "silu", .kind = QS_DEPENDENT, .decoding = QS_ONE_POSITION, .inputs = 1, .passes = 2, .pass = passes, .cases = cases};
