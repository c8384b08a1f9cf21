// SPDX-License-Identifier: Apache-2.0
/* What ranks compare and add up: losses, running statistics, and the bits of the master weights. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One small all-reduce for loss, accuracy and the finite check of all steps since the last report: a NaN survives every sum. That a rank's
 * gradients were not finite, and that rank 0 found a new plan, travel with it. */
qs_status qs__sums_report(qs__trainer *trainer, int64_t epoch) {
    const qs__sums *mine = &trainer->interval, *first = &trainer->first;
    double all[] = {mine->loss,  mine->correct, mine->samples, qs__plan_file_changed(trainer) ? 1 : 0, trainer->failure.step >= 0 ? 1 : 0,
                    first->loss, first->samples};
    QS_TRY(qs_comm_sum(trainer->comm, all, 7));
    const qs__sums sums = {all[0], all[1], all[2]};
    qs_status status = qs__metrics_interval(trainer, epoch, &sums);
    if (!isfinite(all[0]) || all[4] > 0) {
        QS_TRY(qs_comm_agree(trainer->comm, status));
        return qs__failure_tell(trainer, epoch, QS__LOSS);
    }
    QS_TRY(status);
    trainer->epoch.loss += sums.loss;
    trainer->epoch.correct += sums.correct;
    trainer->epoch.samples += sums.samples;
    trainer->plan_offered = all[3] > 0;
    status = qs__divergence_check(trainer, epoch, mine, sums.loss / sums.samples, all[5] / all[6]);
    trainer->interval = (qs__sums){0};
    return status;
}

/* Each rank's statistics follow its own batches; what is evaluated and saved is their mean over samples. */
qs_status qs__statistics_average(const qs__trainer *trainer) {
    const int64_t elements = trainer->graph->statistics_elements;
    const float share = (float)trainer->batch[trainer->rank] / (float)trainer->global_batch;
    const int buffer = trainer->main.schedule->running;
    float *running = NULL;
    if (elements == 0 || trainer->ranks == 1) return QS_OK;
    QS_TRY(qs_comm_agree(trainer->comm, qs__executor_copy(trainer->main.executor, buffer, &running)));
    for (int64_t i = 0; i < elements; i++)
        running[i] *= share;
    qs_status status = qs_comm_all_reduce(trainer->comm, running, elements);
    if (status == QS_OK) status = qs_executor_write(trainer->main.executor, buffer, 0, (size_t)elements * sizeof *running, running);
    free(running);
    return status;
}

/* What the optimiser keeps, and how far the run is: a rank that goes on from another file has another hash. */
static uint64_t state_hash(const qs__trainer *trainer) {
    const qs_schedule *schedule = trainer->main.schedule;
    const int64_t counts[] = {trainer->step, trainer->skipped, trainer->scale.good_steps, trainer->scale.skipped};
    uint64_t hash = qs_hash(counts, sizeof counts, 0);
    hash = qs_hash(trainer->rounding.rise, (size_t)trainer->rounding.values * sizeof *trainer->rounding.rise, hash);
    for (int i = 0; i < schedule->states; i++)
        hash = qs__executor_hash(trainer->main.executor, schedule->state[i], hash);
    return hash;
}

uint64_t qs__weights_hash(const qs__trainer *trainer) {
    return qs__executor_hash(trainer->main.executor, trainer->main.schedule->masters, 0);
}

/* Rank 0's hash goes to all; whoever holds another one says so. */
qs_status qs__weights_agree(const qs__trainer *trainer) {
    uint64_t mine = qs__weights_hash(trainer), first = mine;
    QS_TRY(qs_comm_broadcast(trainer->comm, &first, sizeof first, 0));
    qs_status status = QS_OK;
    if (mine != first) {
        status = qs_fail(QS_FAILED, "after step %lld the master weights (hash %016llx) are not those of rank 0 (%016llx)",
                         (long long)trainer->step - 1, (unsigned long long)mine, (unsigned long long)first);
    }
    return qs_comm_agree(trainer->comm, status);
}

static uint64_t labels_hash(const qs_dataset *dataset, uint64_t seed) {
    return dataset->count > 0 ? qs_hash(dataset->labels, (size_t)dataset->count, seed) : seed;
}

/* Ranks that were started with different files would wait for one another for ever, or train something that nobody asked for. */
qs_status qs__inputs_agree(const qs__trainer *trainer) {
    const qs_plan *plan = trainer->plan;
    char job[32], cluster[32], *text = NULL;
    qs_status status = plan ? qs_plan_text(plan, &text) : QS_OK;
    QS_GOTO(qs_comm_agree(trainer->comm, status));
    qs_job_signature(trainer->job, job);
    qs_cluster_signature(trainer->options->cluster, cluster);
    QS_GOTO(qs_comm_compare(trainer->comm, "job", qs_hash(job, strlen(job), 0)));
    QS_GOTO(qs_comm_compare(trainer->comm, "cluster", qs_hash(cluster, strlen(cluster), 0)));
    QS_GOTO(qs_comm_compare(trainer->comm, "plan", text ? qs_hash(text, strlen(text), 0) : 0));
    QS_GOTO(qs_comm_compare(trainer->comm, "number of steps", (uint64_t)trainer->steps));
    QS_GOTO(qs_comm_compare(trainer->comm, "data", labels_hash(&trainer->test, labels_hash(&trainer->training, 0))));
    QS_GOTO(qs_comm_compare(trainer->comm, "set of first weights", qs__weights_hash(trainer)));
    QS_GOTO(qs_comm_compare(trainer->comm, "saved state", state_hash(trainer)));
done:
    free(text);
    return status;
}
