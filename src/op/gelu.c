// SPDX-License-Identifier: Apache-2.0
/* gelu: x Φ(x), Φ the distribution function of the standard normal distribution (Hendrycks and Gimpel, 2016), by the error function; with
 * the setting `approximate` 1 the approximation that they give, x (1 + tanh u) / 2 with u = sqrt(2/π) (x + 0.044715 x³), which is x / (1 +
 * e^-2u). The derivatives are Φ(x) + x φ(x), φ the density, and with s = 1 / (1 + e^-2u) s + 2 x s (1 - s) u'. The reference computes in
 * double. A minus infinity gives a NaN. */
#include "internal.h"

#include <math.h>

static const double root_half = 0.70710678118654752440, density_scale = 0.39894228040143267794; /* 1/sqrt(2), 1/sqrt(2 pi) */
static const double tanh_scale = 0.79788456080286535588, cubic = 0.044715;                      /* sqrt(2/pi) */

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    if (with->approximate != 0 && with->approximate != 1)
        return qs_fail(QS_USAGE, "gelu: approximate is %g, must be 0 (by the error function) or 1 (by tanh)", with->approximate);
    *dst = *src;
    return QS_OK;
}

static double below(double x) {
    return erfc(-x * root_half) / 2;
}

static double argument(double x) {
    return tanh_scale * (x + cubic * x * x * x);
}

static double function(const qs_attributes *with, double x) {
    return x * (with->approximate > 0 ? qs__sigmoid(2 * argument(x)) : below(x));
}

static double derivative(const qs_attributes *with, double x) {
    if (with->approximate == 0) return below(x) + x * density_scale * exp(-x * x / 2);
    const double u = argument(x), slope = tanh_scale * (1 + 3 * cubic * x * x);
    return qs__sigmoid(2 * u) + 2 * x * qs__sigmoid(2 * u) * qs__sigmoid(-2 * u) * slope;
}

QS__ACTIVATION_KERNELS(function, derivative)

static const qs_pass passes[] = {QS__ACTIVATION_FORWARD(forward, qs__activation_check),
                                 QS__ACTIVATION_BACKWARD(backward, qs__activation_check)};

static const char *const cases[] = {QS__ACTIVATION_CASES("gelu", ""), QS__ACTIVATION_CASES("gelu", " approximate=1"), NULL};

const qs_op qs__op_gelu = {.name = "gelu",
                           .kind = QS_DEPENDENT,
                           .decoding = QS_ONE_POSITION,
                           .inputs = 1,
                           .infer = infer,
                           .setting = {QS_SETTING(approximate, 0, 0, 1, "1: by tanh, 0: by the error function")},
                           .passes = 2,
                           .pass = passes,
                           .cases = cases};
