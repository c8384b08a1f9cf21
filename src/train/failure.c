// SPDX-License-Identifier: Apache-2.0
/* How a run ends by its numbers: what ranks found is agreed upon, stands in the last line of the metrics, and is told by all alike. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

const char *qs__reason_name(qs__reason reason) {
    static const char *const names[] = {"loss", "gradient", "skipping", "divergence", "test-loss"};
    return names[reason];
}

int64_t qs__skip_limit(const qs__trainer *trainer) {
    return trainer->options->skip_limit > 0 ? trainer->options->skip_limit : QS_SKIP_LIMIT;
}

/* The earliest step in which a rank found something, the lowest such rank, and what it found: the same on all. False: none did. */
static qs_status failure_agree(const qs__trainer *trainer, qs__failure *out, bool *found) {
    const double mine = -(double)trainer->failure.step;
    double earliest = trainer->failure.step >= 0 ? mine : -INFINITY;
    QS_TRY(qs_comm_max(trainer->comm, &earliest, 1));
    *found = isfinite(earliest);
    if (!*found) return QS_OK;
    double lowest = trainer->failure.step >= 0 && earliest == mine ? -trainer->rank : -INFINITY;
    QS_TRY(qs_comm_max(trainer->comm, &lowest, 1));
    *out = trainer->failure;
    out->rank = (int)-lowest;
    return qs_comm_broadcast(trainer->comm, out, sizeof *out, (int)-lowest);
}

/* What is wrong, and the way out of it. */
static void failure_texts(const qs__trainer *trainer, const qs__failure *failure, char what[160], const char **way) {
    const long long step = (long long)failure->step + 1;
    *way = "lower the learning rate or train with more precision";
    if (failure->reason == QS__GRADIENT) {
        snprintf(what, 160, "a gradient is not finite in step %lld", step);
        *way = "lower the learning rate, let the loss be scaled (--loss-scaling dynamic) or train with more precision";
    } else if (failure->reason == QS__SKIPPING) {
        snprintf(what, 160, "gradients were not finite in %lld steps in a row, up to step %lld; loss scaling skipped them all",
                 (long long)qs__skip_limit(trainer), step);
    } else if (failure->reason == QS__TEST_LOSS) {
        snprintf(what, 160, "the test loss is not finite after step %lld", step);
    } else {
        snprintf(what, 160, "the training loss is not finite in step %lld", step);
    }
}

qs_status qs__failure_common(qs__trainer *trainer, int64_t epoch, const qs__failure *failure, const char *text) {
    QS_TRY(qs_comm_agree(trainer->comm, qs__metrics_failure(trainer, epoch, failure)));
    return qs_fail(QS_NUMERIC, "%s", text);
}

/* The sums of gradients, which are the same on all ranks. */
static qs_status sums_search(const qs__trainer *trainer, qs__culprit *out) {
    const qs_graph *graph = trainer->graph;
    float *sums = NULL;
    const qs_status status = qs__executor_copy(trainer->main.executor, trainer->main.schedule->gradients, &sums);
    for (int i = 0; status == QS_OK && i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        if (parameter->gradient == QS_ROLE_COUNT) continue;
        if (isfinite(qs_absmax_array(qs_shape_count(&parameter->shape), sums + parameter->offset))) continue;
        snprintf(out->operator_name, sizeof out->operator_name, "%s", graph->node[parameter->node].name);
        snprintf(out->tensor, sizeof out->tensor, "gradient of %s", parameter->name);
        break;
    }
    free(sums);
    return status;
}

/* What no rank found in its own values. */
static qs_status sums_tell(qs__trainer *trainer, int64_t epoch, qs__reason reason) {
    qs__failure failure = {.step = trainer->step, .rank = -1, .reason = reason};
    char text[320] = "the sum of the ranks' losses is not finite; lower the learning rate";
    if (reason == QS__SKIPPING) {
        QS_TRY(sums_search(trainer, &failure.culprit));
        snprintf(text, sizeof text,
                 "each rank's gradients are finite, their sum is not: operator %s, tensor %s is the first; lower the "
                 "learning rate",
                 failure.culprit.operator_name, failure.culprit.tensor);
    }
    return qs__failure_common(trainer, epoch, &failure, text);
}

qs_status qs__failure_tell(qs__trainer *trainer, int64_t epoch, qs__reason reason) {
    qs__failure failure;
    bool found;
    char who[32] = "", what[160], text[640];
    const char *way;
    QS_TRY(failure_agree(trainer, &failure, &found));
    if (!found) return sums_tell(trainer, epoch, reason);
    failure_texts(trainer, &failure, what, &way);
    if (trainer->ranks > 1) snprintf(who, sizeof who, "rank %d: ", failure.rank);
    snprintf(text, sizeof text, "%s%s: operator %s, tensor %s is the first that is not; %s", who, what, failure.culprit.operator_name,
             failure.culprit.tensor, way);
    return qs__failure_common(trainer, epoch, &failure, text);
}
