// SPDX-License-Identifier: Apache-2.0
/* A loss that is finite and has grown too far: where to look first. No tensor is wrong by itself then, so this names the rank whose loss is
 * the largest, and the tensor that overflowed most, or else the gradient that is the largest beside its weights; biases and the like may
 * begin at 0, beside which all is large. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

static double squares(const float *values, int64_t count) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum;
}

/* Counts and sums of gradients are the same on all ranks: so is what is found in them. */
static bool find_overflow(const qs__trainer *trainer, qs__culprit *out) {
    const qs__rounding *rounding = &trainer->rounding;
    const qs_graph *graph = trainer->graph;
    double worst = 0;
    int at = -1;
    for (int i = 0; i < rounding->places; i++) {
        const double share = qs__rounding_share(rounding->step[i].overflows, rounding->step[i].elements);
        if (share > worst) worst = share, at = i;
    }
    if (at < 0) return false;
    const int behind = at - rounding->values; /* gradients of outputs */
    const int node = behind >= 0 ? behind : at < graph->nodes ? at : graph->parameter[at - graph->nodes].node;
    snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[node].name);
    snprintf(out->tensor, sizeof out->tensor, "%s%s", behind >= 0 ? "gradient of " : "", qs__rounding_name(graph, at));
    return true;
}

static qs_status find_gradient(const qs__trainer *trainer, qs__culprit *out) {
    const qs_schedule *schedule = trainer->main.schedule;
    const qs_graph *graph = trainer->graph;
    float *weights = NULL, *gradients = NULL;
    double worst = -1;
    qs_status status = QS_OK;
    QS_GOTO(qs__executor_copy(trainer->main.executor, schedule->masters, &weights));
    QS_GOTO(qs__executor_copy(trainer->main.executor, schedule->gradients, &gradients));
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (parameter->role != QS_WEIGHTS || parameter->gradient == QS_ROLE_COUNT) continue;
        const int64_t count = qs_shape_count(&parameter->shape);
        const double ratio = squares(gradients + parameter->offset, count) / (squares(weights + parameter->offset, count) + 1e-30);
        if (!(ratio > worst)) continue;
        worst = ratio;
        snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[parameter->node].name);
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", parameter->name);
    }
done:
    free(weights);
    free(gradients);
    return status;
}

/* The lowest rank of those whose mean loss is the largest. */
static qs_status find_rank(const qs__trainer *trainer, const qs__sums *mine, int *out) {
    const double loss = mine->samples > 0 ? mine->loss / mine->samples : -INFINITY;
    double largest = loss, lowest;
    QS_TRY(qs_comm_max(trainer->comm, &largest, 1));
    lowest = loss == largest ? -trainer->rank : -INFINITY;
    QS_TRY(qs_comm_max(trainer->comm, &lowest, 1));
    *out = (int)-lowest;
    return QS_OK;
}

qs_status qs__divergence_check(qs__trainer *trainer, int64_t epoch, const qs__sums *mine, double loss, double first) {
    const double bound = trainer->options->diverged_at;
    char text[640], who[48] = "";
    if (bound <= 0 || !(loss > bound * first)) return QS_OK;
    qs__failure failure = {.step = trainer->step, .reason = QS__DIVERGENCE};
    QS_TRY(find_rank(trainer, mine, &failure.rank));
    const bool overflowed = find_overflow(trainer, &failure.culprit);
    if (!overflowed) QS_TRY(find_gradient(trainer, &failure.culprit));
    if (trainer->ranks > 1) snprintf(who, sizeof who, ", and most on rank %d", failure.rank);
    snprintf(text, sizeof text,
             "training diverged: its loss is %.4g in the steps up to %lld, more than %g times the %.4g of the first step%s; look first at "
             "operator %s, tensor %s, %s; lower the learning rate or train with more precision",
             loss, (long long)trainer->step + 1, bound, first, who, failure.culprit.operator_name, failure.culprit.tensor,
             overflowed ? "which overflows most" : "the largest beside its weights");
    return qs__failure_common(trainer, epoch, &failure, text);
}
