// SPDX-License-Identifier: Apache-2.0
/* Indicator `random`, a baseline (docs/method.md §3.9): a random value for the lowest precision, halved at each higher one. */
#include "indicator_internal.h"

qs_status qs__indicator_random(const qs_question *question, double *omega) {
    const uint64_t key = qs_random_key(question->seed, 0, 0, 0);
    for (int n = question->graph->samples.inputs; n < question->graph->nodes; n++) {
        if (question->graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        double value = 1.0 - (double)qs_random_uniform(key, (uint64_t)n);
        for (int r = question->recipes - 1; r >= 0; r--, value /= 2)
            omega[n * question->recipes + r] = value;
    }
    return QS_OK;
}
