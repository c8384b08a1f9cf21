// SPDX-License-Identifier: Apache-2.0
/* How widely the weight gradients of a step spread, an adjustable operator at a time: what sums in narrow accumulators
 * lose of them shows here. */
#include "train_internal.h"

#include <stdlib.h>

/* Two passes: a mean far from 0 would cost the difference of squares its digits. */
static double variance_of(const float *value, int64_t count, double unscale) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++)
        sum += value[i];
    const double mean = sum / (double)count;
    for (int64_t i = 0; i < count; i++)
        squares += (value[i] - mean) * (value[i] - mean);
    return squares / (double)count * unscale * unscale;
}

qs_status qs__gradients_report(qs__trainer *trainer, const qs__program *program, int64_t epoch, double loss_scale) {
    const int64_t every = trainer->options->gradients_every;
    float *gradients = NULL;
    qs_status status = QS_OK;
    if (every == 0 || (trainer->step + 1) % every != 0) return QS_OK;
    QS_GOTO(qs__executor_copy(program->executor, program->schedule->gradients, &gradients));
    for (int n = 1; n < trainer->graph->nodes; n++) {
        const qs_parameter *weights = qs_graph_parameter(trainer->graph, n, QS_WEIGHTS);
        if (trainer->graph->node[n].op->kind != QS_ADJUSTABLE || !weights) continue;
        const double variance = variance_of(gradients + weights->offset, qs_shape_count(&weights->shape), 1 / loss_scale);
        QS_GOTO(qs__metrics_gradient(trainer, epoch, n, variance));
    }
done:
    free(gradients);
    return status;
}
