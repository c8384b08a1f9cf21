// SPDX-License-Identifier: Apache-2.0
/* tanh: the hyperbolic tangent. Its derivative is 1 - tanh², found as 1 / cosh². The reference computes in double. */
#include "internal.h"

#include <math.h>

static double function(const qs_attributes *with, double x) {
    (void)with;
    return tanh(x);
}

static double derivative(const qs_attributes *with, double x) {
    (void)with;
    const double inverse = 1 / cosh(x);
    return inverse * inverse;
}

QS__ACTIVATION_KERNELS(function, derivative)

static const qs_pass passes[] = {QS__ACTIVATION_FORWARD(forward, qs__activation_check),
                                 QS__ACTIVATION_BACKWARD(backward, qs__activation_check)};

static const char *const cases[] = {QS__ACTIVATION_CASES("tanh", ""), NULL};

const qs_op qs__op_tanh = {.name = "tanh",
                           .kind = QS_DEPENDENT,
                           .decoding = QS_ONE_POSITION,
                           .sign = QS_SIGN_KEPT,
                           .inputs = 1,
                           .passes = 2,
                           .pass = passes,
                           .cases = cases};
