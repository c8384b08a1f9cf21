// SPDX-License-Identifier: Apache-2.0
/* What ranks share and compare: the model, the bits of the master weights, running statistics, and whether all were started alike. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

/* Ranks that cannot say so before others wait for them in a library's call. */
qs_status qs_devices_join(qs_device *device, qs_comm *comm) {
    unsigned char key[QS_DEVICE_KEY] = {0};
    const int rank = qs_comm_rank(comm), ranks = qs_comm_size(comm);
    if (!qs_comm_by_devices(qs_comm_algorithm(comm)) || ranks == 1) return QS_OK;
    QS_TRY(qs_comm_agree(comm, qs_device_key(device, rank == 0 ? key : NULL)));
    QS_TRY(qs_comm_broadcast(comm, key, sizeof key, 0));
    return qs_comm_agree(comm, qs_device_join(device, key, rank, ranks));
}

qs_status qs__statistics_average(const qs__setting *setting, const qs__present *present) {
    const int64_t elements = setting->graph->statistics_elements;
    const float share = (float)present->batch[setting->rank] / (float)setting->global_batch;
    qs_executor *executor = qs__main(present)->executor;
    const int buffer = qs__main(present)->schedule->running;
    float *running = NULL;
    if (elements == 0 || setting->ranks == 1) return QS_OK;
    QS_TRY(qs_comm_agree(setting->comm, qs__executor_copy(executor, buffer, &running)));
    for (int64_t i = 0; i < elements; i++)
        running[i] *= share;
    qs_status status = qs_comm_all_reduce(setting->comm, running, elements);
    if (status == QS_OK) status = qs_executor_write(executor, buffer, 0, (size_t)elements * sizeof *running, running);
    free(running);
    return status;
}

qs_status qs__weights_hash(const qs__present *present, uint64_t *hash) {
    *hash = 0;
    return qs__executor_hash(qs__main(present)->executor, qs__main(present)->schedule->masters, hash);
}

/* Rank 0's hash goes to all; whoever holds another one says so. */
qs_status qs__weights_agree(const qs__present *present, qs_comm *comm, int64_t step) {
    uint64_t mine = 0;
    qs_status status = qs_comm_agree(comm, qs__weights_hash(present, &mine));
    uint64_t first = mine;
    QS_TRY(status);
    QS_TRY(qs_comm_broadcast(comm, &first, sizeof first, 0));
    if (mine != first) {
        status = qs_fail(QS_FAILED, "after step %lld the master weights (hash %016llx) are not those of rank 0 (%016llx)",
                         (long long)step - 1, (unsigned long long)mine, (unsigned long long)first);
    }
    return qs_comm_agree(comm, status);
}

/* ---- The model ---- */

static qs_status model_open(const qs_job *job, const qs_dataset *own, qs_comm *comm, qs_graph **graph, char **text) {
    qs_data_description set;
    if (qs_comm_rank(comm) != 0) return QS_OK;
    if (!own) QS_TRY(qs_dataset_describe(job->dataset, NULL, &set));
    QS_TRY(qs_model_open_frozen(job->model, job->freeze, own ? &own->description.samples : &set.samples, graph));
    return qs_comm_size(comm) > 1 ? qs_graph_text(*graph, text) : QS_OK;
}

qs_status qs_model_share(const qs_job *job, const qs_dataset *own, qs_comm *comm, qs_graph **out) {
    qs_graph *graph = NULL;
    char *text = NULL;
    qs_status status = qs_comm_agree(comm, model_open(job, own, comm, &graph, &text));
    if (status == QS_OK && qs_comm_size(comm) > 1) {
        status = qs_comm_broadcast_text(comm, &text, 0);
        if (status == QS_OK && !graph) status = qs_graph_parse(text, "the model of rank 0", &graph);
        status = qs_comm_agree(comm, status);
    }
    free(text);
    if (status == QS_OK) status = qs_graph_freeze(graph, job->freeze); /* the text says nothing of it */
    if (status == QS_OK)
        *out = graph;
    else
        qs_graph_release(graph);
    return status;
}

/* ---- Whether all were started alike ---- */

/* What the optimiser keeps, and how far the run is: a rank that goes on from another file has another hash. */
static qs_status state_hash(const qs__present *present, const qs__counters *counters, const qs__rounding *rounding, uint64_t *hash) {
    const qs_schedule *schedule = qs__main(present)->schedule;
    const int64_t counts[] = {counters->step, counters->skipped, counters->scale.good_steps, counters->scale.skipped};
    *hash = qs_hash(counts, sizeof counts, 0);
    *hash = qs_hash(rounding->rise, (size_t)rounding->values * sizeof *rounding->rise, *hash);
    for (int i = 0; i < schedule->states; i++)
        QS_TRY(qs__executor_hash(qs__main(present)->executor, schedule->state[i], hash));
    return QS_OK;
}

/* Ranks that were started with different files would wait for one another for ever, or train something that nobody asked for. */
qs_status qs__inputs_agree(const qs__setting *setting, const qs__present *present, const qs__counters *counters,
                           const qs__rounding *rounding) {
    qs_comm *comm = setting->comm;
    char job[32], cluster[32], *text = NULL;
    uint64_t weights = 0, state = 0;
    qs_status status = present->plan ? qs_plan_text(present->plan, &text) : QS_OK;
    if (status == QS_OK) status = qs__weights_hash(present, &weights);
    if (status == QS_OK) status = state_hash(present, counters, rounding, &state);
    QS_GOTO(qs_comm_agree(comm, status));
    qs_job_signature(setting->job, job);
    qs_cluster_signature(setting->options->cluster, cluster);
    QS_GOTO(qs_comm_compare(comm, "job", qs_hash(job, strlen(job), 0)));
    QS_GOTO(qs_comm_compare(comm, "cluster", qs_hash(cluster, strlen(cluster), 0)));
    QS_GOTO(qs_comm_compare(comm, "plan", text ? qs_hash(text, strlen(text), 0) : 0));
    QS_GOTO(qs_comm_compare(comm, "number of steps", (uint64_t)setting->steps));
    QS_GOTO(qs_comm_compare(comm, "data", qs_dataset_hash(&setting->test, qs_dataset_hash(&setting->training, 0))));
    QS_GOTO(qs_comm_compare(comm, "set of first weights", weights));
    QS_GOTO(qs_comm_compare(comm, "saved state", state));
done:
    free(text);
    return status;
}
