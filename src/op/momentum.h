// SPDX-License-Identifier: Apache-2.0
/* What sgd and nesterov share: a velocity that weights follow. Every operation is fp32 and rounded, so that
 * master weights are bit-identical on unlike devices. */
#ifndef QSYNC_OP_MOMENTUM_H
#define QSYNC_OP_MOMENTUM_H

#include "update.h"

#include <math.h>

enum { UNSCALE, MOMENTUM, DECAY, RATE };

/* What all elements of a step share. */
static inline void terms(const qs_attributes *settings, const qs_run *run, float *term) {
    term[UNSCALE] = (float)(1 / run->loss_scale);
    term[MOMENTUM] = (float)settings->momentum;
    term[DECAY] = (float)settings->weight_decay;
    term[RATE] = (float)run->learning_rate;
}

/* The one pass; `cost` counts its operations. */
#define MOMENTUM_PASS(cost)                                                                                                \
    {                                                                                                                      \
        .name = "forward",                                                                                                 \
        QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_WEIGHTS, .source = QS_UPDATED},                      \
                    {.role = QS_MOMENTUM, .source = QS_UPDATED}, {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}), \
        .reference = qs__update_reference, .flops = (cost), .check = qs__update_check                                      \
    }

#define MOMENTUM_SETTINGS                                                               \
    QS_SETTING(momentum, 0.9, 0, 1, "part of the last update that the next one keeps"), \
        QS_SETTING(weight_decay, 5e-4, 0, INFINITY, "part of the weights that is added to the gradient")

#endif
