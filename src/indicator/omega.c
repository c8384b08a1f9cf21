// SPDX-License-Identifier: Apache-2.0
/* Ω of one operator (qsync.md §3): variance of the quantization of every operand, carried to the gradients by the squared norms of the
 * others. */
#include <math.h>

#include "indicator_internal.h"

/* Stochastic rounding has variance q² D/6 on average, nearest q² D/12 (of its deterministic error, taken as uniform). */
static double rounding_factor(qs_rounding rounding) {
    return rounding == QS_STOCHASTIC ? 1.0 / 6 : 1.0 / 12;
}

/* Σ of step² over the elements of a tensor under a format: q² D, or 2^(2e) ε² D for floats. */
static double step2(const qs_format *format, double count, double absmax, double grouped) {
    if (format->kind == QS_KIND_INTEGER) {
        const double q = absmax / format->max;
        return grouped > 0 ? grouped : q * q * count;
    }
    const double q = ldexp(format->epsilon, qs_effective_exponent((float)absmax));
    return q * q * count;
}

static qs_status range_check(const qs_format *format, double absmax, const char *what) {
    if (format->kind == QS_KIND_FLOAT && absmax > format->max)
        return qs_fail(QS_INFEASIBLE, "%s reaches %g, beyond the largest value %g of %s", what, absmax, format->max, format->name);
    return QS_OK;
}

static void depth_factors(const qs_sensitivity *one, qs_depth convention, double *forward, double *backward) {
    const double gamma2 = one->gamma * one->gamma, rest = one->model_depth - one->depth;
    *forward = gamma2 * (convention == QS_DEPTH_PAPER ? one->depth : convention == QS_DEPTH_INFLUENCE ? rest : one->model_depth);
    *backward = convention == QS_DEPTH_PAPER ? rest : one->depth;
}

qs_status qs_omega(const qs_sensitivity *one, const qs_recipe *recipe, qs_convention convention, double *out) {
    const qs_quantizer *v = &recipe->forward.src, *x = &recipe->forward.weights, *gv = &recipe->weight_gradient.diff_dst;
    double forward, backward;
    QS_TRY(range_check(v->format, one->absmax_v, "input activation"));
    QS_TRY(range_check(x->format, one->absmax_x, "weights"));
    QS_TRY(range_check(gv->format, one->absmax_gv, "output gradient"));
    const double variance_v = rounding_factor(v->rounding) * step2(v->format, one->count_v, one->absmax_v, one->step2_v);
    const double variance_x = rounding_factor(x->rounding) * step2(x->format, one->count_x, one->absmax_x, one->step2_x);
    const double variance_gv = rounding_factor(gv->rounding) * step2(gv->format, one->count_gv, one->absmax_gv, 0);
    const double sigma_forward = one->norm2_x * variance_v + one->norm2_v * variance_x;
    const double sigma_backward = one->norm2_gv * variance_v + one->norm2_v * variance_gv;
    depth_factors(one, convention.depth, &forward, &backward);
    *out = forward * sigma_forward + backward * sigma_backward;
    return QS_OK;
}
