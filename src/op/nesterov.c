// SPDX-License-Identifier: Apache-2.0
/* nesterov: stochastic gradient descent with Nesterov's momentum, in the form of Sutskever et al. (2013) that needs no weights but those at
 * hand: the step looks ahead by the momentum that the next one will keep. Every operation is fp32 and rounded. */
#include "update.h"

#include <math.h>

enum { UNSCALE, MOMENTUM, DECAY, RATE };

static void terms(const qs_attributes *settings, const qs_run *run, float *term) {
    term[UNSCALE] = (float)(1 / run->loss_scale);
    term[MOMENTUM] = (float)settings->momentum;
    term[DECAY] = (float)settings->weight_decay;
    term[RATE] = (float)run->learning_rate;
}

/* t = g s; t = t + d w; v = m v + t; w = w - lr (t + m v) */
INLINE void update(int64_t count, const float *term, const float *restrict gradient, float *restrict weights, float *const *state) {
    const float unscale = term[UNSCALE], momentum = term[MOMENTUM], decay = term[DECAY], rate = term[RATE];
    float *restrict velocity = state[0];
    for (int64_t i = 0; i < count; i++) {
        const float step = gradient[i] * unscale + decay * weights[i];
        velocity[i] = momentum * velocity[i] + step;
        weights[i] = weights[i] - rate * (step + momentum * velocity[i]);
    }
}
QS__UPDATE_KERNELS(update)

static const qs_optimizer optimizer = {.states = 1, .rate = 0.1, .terms = terms, .kernel = QS__UPDATE_TABLE(update)};

static double flops(const qs_case *one) {
    return 9 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_WEIGHTS, .source = QS_UPDATED},
                 {.role = QS_MOMENTUM, .source = QS_UPDATED}, {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}),
     .reference = qs__update_reference,
     .flops = flops,
     .check = qs__update_check}};

static const char *const cases[] = {
    "nesterov/forward src=fp32[4096] weights=fp32[4096] momentum=fp32[4096] momentum=0.9 weight_decay=0.0005",
    "nesterov/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] momentum=0.9 weight_decay=0.0005",
    "nesterov/forward src=fp32[33] weights=fp32[33] momentum=fp32[33]", NULL};

const qs_op qs__op_nesterov = {
    .name = "nesterov",
    .kind = QS_AUXILIARY,
    .optimizer = &optimizer,
    .setting = {QS_SETTING(momentum, 0.9, 0, 1, "part of the last update that the next one keeps"),
                QS_SETTING(weight_decay, 5e-4, 0, INFINITY, "part of the weights that is added to the gradient")},
    .passes = 1,
    .pass = passes,
    .cases = cases};
