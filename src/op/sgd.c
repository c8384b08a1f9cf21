// SPDX-License-Identifier: Apache-2.0
/* sgd: stochastic gradient descent with momentum and weight decay. Every operation is fp32 and rounded, so that master weights are
 * bit-identical on unlike devices. */
#include "momentum.h"

/* t = g s; t = t + d w; v = m v + t; w = w - lr v */
INLINE void update(int64_t count, const float *term, const float *restrict gradient, float *restrict weights, float *const *state) {
    const float unscale = term[UNSCALE], momentum = term[MOMENTUM], decay = term[DECAY], rate = term[RATE];
    float *restrict velocity = state[0];
    for (int64_t i = 0; i < count; i++) {
        const float step = gradient[i] * unscale + decay * weights[i];
        velocity[i] = momentum * velocity[i] + step;
        weights[i] = weights[i] - rate * velocity[i];
    }
}
QS__UPDATE_KERNELS(update)

static const qs_optimizer optimizer = {.states = 1, .rate = 0.1, .terms = terms, .kernel = QS__UPDATE_TABLE(update)};

static double flops(const qs_case *one) {
    return 7 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {MOMENTUM_PASS(flops)};

static const char *const cases[] = {
    "sgd/forward src=fp32[4096] weights=fp32[4096] momentum=fp32[4096] momentum=0.9 weight_decay=0.0005",
    "sgd/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] momentum=0.9 weight_decay=0.0005",
    "sgd/forward src=fp32[33] weights=fp32[33] momentum=fp32[33]", NULL};

const qs_op qs__op_sgd = {.name = "sgd",
                          .kind = QS_AUXILIARY,
                          .optimizer = &optimizer,
                          .setting = {MOMENTUM_SETTINGS},
                          .passes = 1,
                          .pass = passes,
                          .cases = cases};
