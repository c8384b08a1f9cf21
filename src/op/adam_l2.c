// SPDX-License-Identifier: Apache-2.0
/* adam_l2: Adam (Kingma and Ba, 2015, algorithm 1) of the loss with an L2 penalty: weight decay is part of the gradient, and passes through
 * the moments. What other programs call Adam without W. */
#include "adam.h"

static void terms(const qs_attributes *settings, const qs_run *run, float *term) {
    adam_terms(settings, run, term);
    term[DECAY] = (float)settings->weight_decay;
}

INLINE void update(int64_t count, const float *term, const float *restrict gradient, float *restrict weights, float *const *state) {
    const adam with = adam_of(term);
    float *restrict first = state[0], *restrict second = state[1];
    for (int64_t i = 0; i < count; i++)
        weights[i] = weights[i] - adam_step(with, gradient[i] * with.unscale + with.decay * weights[i], &first[i], &second[i]);
}
QS__UPDATE_KERNELS(update)

static const qs_optimizer optimizer = {.states = 2, .rate = 1e-3, .terms = terms, .kernel = QS__UPDATE_TABLE(update)};

static double flops(const qs_case *one) {
    return 15 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {ADAM_PASS(flops)};

#define SETTINGS "beta1=0.9 beta2=0.999 epsilon=1e-08 weight_decay=0.01"
static const char *const cases[] = {
    "adam_l2/forward src=fp32[4096] weights=fp32[4096] momentum=fp32[4096] second_moment=fp32[4096] " SETTINGS,
    "adam_l2/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] second_moment=fp32[77] flag=fp32[1] " SETTINGS,
    "adam_l2/forward src=fp32[33] weights=fp32[33] momentum=fp32[33] second_moment=fp32[33] beta2=0.5 epsilon=0.001", NULL};

const qs_op qs__op_adam_l2 = {
    .name = "adam_l2",
    .kind = QS_AUXILIARY,
    .optimizer = &optimizer,
    .setting = {ADAM_SETTINGS, QS_SETTING(weight_decay, 0, 0, INFINITY, "part of the weights that is added to the gradient")},
    .passes = 1,
    .pass = passes,
    .cases = cases};
