// SPDX-License-Identifier: Apache-2.0
/* adam: Adam (Kingma and Ba, 2015, algorithm 1) with decoupled weight decay (AdamW: Loshchilov and Hutter, 2019, algorithm 2). Every
 * operation on an element is fp32 and rounded; the corrections for the start, which need powers of the betas, are formed in double. */
#include "update.h"

#include <float.h>
#include <math.h>

enum { UNSCALE, BETA1, REST1, BETA2, REST2, ROOT, EPSILON, STEP, SHRINK };

/* By squaring: the same bits from every mathematical library. */
static double power(double base, int64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) result *= base;
    return result;
}

static void terms(const qs_attributes *settings, const qs_run *run, float *term) {
    const double beta1 = settings->beta1, beta2 = settings->beta2;
    const int64_t t = run->updates + 1;
    term[UNSCALE] = (float)(1 / run->loss_scale);
    term[BETA1] = (float)beta1;
    term[REST1] = (float)(1 - beta1);
    term[BETA2] = (float)beta2;
    term[REST2] = (float)(1 - beta2);
    term[ROOT] = (float)(1 / sqrt(1 - power(beta2, t)));
    term[EPSILON] = (float)settings->epsilon;
    term[STEP] = (float)(run->learning_rate / (1 - power(beta1, t)));
    term[SHRINK] = (float)(run->learning_rate * settings->weight_decay);
}

/* Moments of gradients that have become 0 shrink until they are subnormal, and rounding keeps them there; many processors take a hundred
 * cycles for each such operation. The root of the smallest normal number, 1e-19, is below any epsilon. */
INLINE float normal(float x) {
    return fabsf(x) < FLT_MIN ? 0 : x;
}

INLINE void update(int64_t count, const float *term, const float *restrict gradient, float *restrict weights, float *const *state) {
    const float unscale = term[UNSCALE], beta1 = term[BETA1], rest1 = term[REST1], beta2 = term[BETA2], rest2 = term[REST2];
    const float root = term[ROOT], epsilon = term[EPSILON], step = term[STEP], shrink = term[SHRINK];
    float *restrict first = state[0], *restrict second = state[1];
    for (int64_t i = 0; i < count; i++) {
        const float g = gradient[i] * unscale;
        first[i] = normal(beta1 * first[i] + rest1 * g);
        second[i] = normal(beta2 * second[i] + rest2 * g * g);
        weights[i] = weights[i] - (step * (first[i] / (sqrtf(second[i]) * root + epsilon)) + shrink * weights[i]);
    }
}
QS__UPDATE_KERNELS(update)

static const qs_optimizer optimizer = {.states = 2, .rate = 1e-3, .terms = terms, .kernel = QS__UPDATE_TABLE(update)};

static double flops(const qs_case *one) {
    return 15 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_WEIGHTS, .source = QS_UPDATED},
                                              {.role = QS_MOMENTUM, .source = QS_UPDATED}, {.role = QS_SECOND_MOMENT, .source = QS_UPDATED},
                                              {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}),
                                  .reference = qs__update_reference,
                                  .flops = flops,
                                  .check = qs__update_check}};

#define SETTINGS "beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01"
static const char *const cases[] = {
    "adam/forward src=fp32[4096] weights=fp32[4096] momentum=fp32[4096] second_moment=fp32[4096] " SETTINGS,
    "adam/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] flag=fp32[1] " SETTINGS,
    "adam/forward src=fp32[33] weights=fp32[33] momentum=fp32[33] second_moment=fp32[33] beta2=0.5 epsilon=0.001", NULL};

/* A beta of 1 would never leave the start; an epsilon of 0 divides by it where no gradient has been. */
const qs_op qs__op_adam = {
    .name = "adam",
    .kind = QS_AUXILIARY,
    .optimizer = &optimizer,
    .setting = {QS_SETTING(beta1, 0.9, 0, 0.9999999, "part of the mean of gradients that a step keeps"),
                QS_SETTING(beta2, 0.999, 0, 0.9999999, "part of the mean of their squares that a step keeps"),
                QS_SETTING(epsilon, 1e-8, 1e-18, 1, "added to the root of that mean"),
                QS_SETTING(weight_decay, 0.01, 0, INFINITY, "part of the weights, times the rate, that is taken off them")},
    .passes = 1,
    .pass = passes,
    .cases = cases};
