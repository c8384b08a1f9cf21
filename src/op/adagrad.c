// SPDX-License-Identifier: Apache-2.0
/* adagrad: Adagrad (Duchi, Hazan and Singer, 2011, figure 1 with diagonal matrices): every element's rate falls with the squares of all its
 * gradients so far. Every operation is fp32 and rounded. */
#include "update.h"

#include <math.h>

enum { UNSCALE, EPSILON, DECAY, RATE };

static void terms(const qs_attributes *settings, const qs_run *run, float *term) {
    term[UNSCALE] = (float)(1 / run->loss_scale);
    term[EPSILON] = (float)settings->epsilon;
    term[DECAY] = (float)settings->weight_decay;
    term[RATE] = (float)run->learning_rate;
}

/* t = g s; t = t + d w; h = h + t t; w = w - lr (t / (sqrt(h) + epsilon)) */
INLINE void update(int64_t count, const float *term, const float *restrict gradient, float *restrict weights, float *const *state) {
    const float unscale = term[UNSCALE], epsilon = term[EPSILON], decay = term[DECAY], rate = term[RATE];
    float *restrict squares = state[0];
    for (int64_t i = 0; i < count; i++) {
        const float step = gradient[i] * unscale + decay * weights[i];
        squares[i] = squares[i] + step * step;
        weights[i] = weights[i] - rate * (step / (sqrtf(squares[i]) + epsilon));
    }
}
QS__UPDATE_KERNELS(update)

static const qs_optimizer optimizer = {.states = 1, .rate = 0.01, .terms = terms, .kernel = QS__UPDATE_TABLE(update)};

static double flops(const qs_case *one) {
    return 10 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_WEIGHTS, .source = QS_UPDATED},
                 {.role = QS_SECOND_MOMENT, .source = QS_UPDATED}, {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}),
     .reference = qs__update_reference,
     .flops = flops,
     .check = qs__update_check}};

static const char *const cases[] = {
    "adagrad/forward src=fp32[4096] weights=fp32[4096] second_moment=fp32[4096] epsilon=1e-10 weight_decay=0.01",
    "adagrad/forward src=fp32[77] weights=fp32[77] second_moment=fp32[77] flag=fp32[1] epsilon=1e-10",
    "adagrad/forward src=fp32[33] weights=fp32[33] second_moment=fp32[33] epsilon=0.001", NULL};

/* An epsilon of 0 divides by it where no gradient has been. */
const qs_op qs__op_adagrad = {.name = "adagrad",
                              .kind = QS_AUXILIARY,
                              .optimizer = &optimizer,
                              .setting = {QS_SETTING(epsilon, 1e-10, 1e-18, 1, "added to the root of the sum of squares of gradients"),
                                          QS_SETTING(weight_decay, 0, 0, INFINITY, "part of the weights that is added to the gradient")},
                              .passes = 1,
                              .pass = passes,
                              .cases = cases};
