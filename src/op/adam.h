// SPDX-License-Identifier: Apache-2.0
/* What adam and adam_l2 share: moments of gradients, and the step that they give. Every operation on an element is fp32 and rounded; the
 * corrections for the start, which need powers of the betas, are formed in double. */
#ifndef QSYNC_OP_ADAM_H
#define QSYNC_OP_ADAM_H

#include "update.h"

#include <float.h>
#include <math.h>

enum { UNSCALE, BETA1, REST1, BETA2, REST2, ROOT, EPSILON, STEP, DECAY };

/* By squaring: the same bits from every mathematical library. */
static inline double power(double base, int64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 == 1) result *= base;
    return result;
}

/* All but DECAY. */
static inline void adam_terms(const qs_attributes *settings, const qs_run *run, float *term) {
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
}

/* Moments of gradients that have become 0 shrink until they are subnormal, and rounding keeps them there; many processors take a hundred
 * cycles for each such operation. The root of the smallest normal number, 1e-19, is below any epsilon. */
INLINE float normal(float x) {
    return fabsf(x) < FLT_MIN ? 0 : x;
}

/* The terms outside of memory, which loops then need not read anew for every element. */
typedef struct adam {
    float unscale, beta1, rest1, beta2, rest2, root, epsilon, step, decay;
} adam;
INLINE adam adam_of(const float *term) {
    return (adam){term[UNSCALE], term[BETA1], term[REST1], term[BETA2], term[REST2], term[ROOT], term[EPSILON], term[STEP], term[DECAY]};
}

/* Takes a gradient g into the moments of an element; returns what is taken off its weight. */
INLINE float adam_step(adam with, float g, float *first, float *second) {
    *first = normal(with.beta1 * *first + with.rest1 * g);
    *second = normal(with.beta2 * *second + with.rest2 * g * g);
    return with.step * (*first / (sqrtf(*second) * with.root + with.epsilon));
}

/* The one pass; `adam_passes` of both. */
#define ADAM_PASS(cost)                                                                                            \
    {                                                                                                              \
        .name = "forward",                                                                                         \
        QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_WEIGHTS, .source = QS_UPDATED},              \
                    {.role = QS_MOMENTUM, .source = QS_UPDATED}, {.role = QS_SECOND_MOMENT, .source = QS_UPDATED}, \
                    {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}),                                      \
        .reference = qs__update_reference, .flops = (cost), .check = qs__update_check                              \
    }

/* A beta of 1 would never leave the start; an epsilon of 0 divides by it where no gradient has been. */
#define ADAM_SETTINGS                                                                                  \
    QS_SETTING(beta1, 0.9, 0, 0.9999999, "part of the mean of gradients that a step keeps"),           \
        QS_SETTING(beta2, 0.999, 0, 0.9999999, "part of the mean of their squares that a step keeps"), \
        QS_SETTING(epsilon, 1e-8, 1e-18, 1, "added to the root of that mean")

#endif
