// SPDX-License-Identifier: Apache-2.0
/* A plan on a cluster: every class lowered from the profile's kernel rows, priced, replayed with all ranks. */
#include <stdlib.h>
#include <string.h>

#include "qsync/replayer.h"

typedef struct class_work {
    const qs_class_profile *profile;
    qs_schedule *schedule;
    double *us;
} class_work;

static qs_status class_lower(const qs_graph *graph, const qs_class *one, const qs_job *job, const qs_recipe *const *recipe,
                             const qs_cost_options *options, class_work *work) {
    const qs_lowering lowering = {.graph = graph, .batch = job->batch, .mode = QS_MODE_TRAIN, .job = job, .recipe = recipe,
                                  .half = qs_class_half(one), .lookup = qs_lookup_profile, .context = (void *)work->profile};
    QS_TRY(qs_schedule_lower(&lowering, &work->schedule));
    QS_TRY(qs_allocate((size_t)work->schedule->steps, sizeof *work->us, &work->us));
    return qs_cost_schedule(work->profile, work->schedule, options, work->us);
}

static void class_report(const qs_class *one, const class_work *work, qs_prediction_class *out) {
    out->arena_bytes = work->schedule->arena_bytes;
    out->base_bytes = work->profile->base_bytes;
    out->fits = one->memory_limit <= 0 || work->schedule->arena_bytes <= (size_t)one->memory_limit;
    memcpy(out->category_bytes, work->schedule->category_bytes, sizeof out->category_bytes);
    qs_schedule_hash(work->schedule, out->schedule);
}

static int64_t communication_bytes(const qs_profile *profile, const qs_schedule *schedule, int ranks) {
    double bytes = 0;
    for (int i = 0; i < profile->collectives && ranks > 1; i++) {
        if (profile->collective[i].ranks < 2) continue;
        for (int b = 0; b < schedule->buckets; b++)
            if ((double)schedule->bucket[b].count * 4 * profile->collective[i].temporary_per_byte > bytes)
                bytes = (double)schedule->bucket[b].count * 4 * profile->collective[i].temporary_per_byte;
        break;
    }
    return (int64_t)bytes;
}

static qs_status ranks_replay(const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, const class_work *work,
                              char **trace, qs_prediction *out) {
    const int ranks = qs_cluster_ranks(cluster);
    qs_replay_rank *rank = NULL;
    qs_replay_result result = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)ranks, sizeof *rank, &rank));
    for (int r = 0; r < ranks; r++) {
        const int c = qs_cluster_class_of(cluster, r);
        rank[r] = (qs_replay_rank){cluster->class_[c].name, work[c].schedule, work[c].us,
                                   work[c].profile->data_us_per_sample * (double)job->batch, work[c].profile->iteration_overhead_us};
    }
    QS_GOTO(qs_replay(profile, ranks, rank, trace != NULL, &result));
    if (trace) QS_GOTO(qs_replay_trace(&result, rank, trace));
    out->iteration_us = result.iteration_us;
    out->images_per_second = (double)ranks * (double)job->batch / result.iteration_us * 1e6;
    for (int r = 0; r < ranks; r++) {
        qs_prediction_class *one = &out->class_[qs_cluster_class_of(cluster, r)];
        one->compute_us = result.compute_us[r];
        one->waiting_us = result.waiting_us[r];
    }
done:
    qs_replay_release(&result);
    free(rank);
    return status;
}

static qs_status class_predict(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, int c,
                               const qs_recipe *const *recipe, const qs_cost_options *options, class_work *work, qs_prediction *out) {
    const qs_class *one = &cluster->class_[c];
    work->profile = qs_profile_class(profile, one->name);
    if (!work->profile) return qs_fail(QS_MISMATCH, "the profile has no class %s: profile this cluster again", one->name);
    QS_TRY(class_lower(graph, one, job, recipe, options, work));
    class_report(one, work, &out->class_[c]);
    out->class_[c].communication_bytes = communication_bytes(profile, work->schedule, qs_cluster_ranks(cluster));
    out->fits = out->fits && out->class_[c].fits;
    return QS_OK;
}

qs_status qs_predict_trace(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                           const qs_recipe *const *const *recipe, const qs_cost_options *options, char **trace, qs_prediction *out) {
    qs_prediction prediction = {.fits = true, .classes = cluster->classes};
    class_work *work = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *work, &work));
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *prediction.class_, &prediction.class_));
    for (int c = 0; c < cluster->classes; c++) QS_GOTO(class_predict(graph, cluster, profile, job, c, recipe[c], options, &work[c], &prediction));
    QS_GOTO(ranks_replay(cluster, profile, job, work, trace, &prediction));
    *out = prediction;
    prediction = (qs_prediction){0};
done:
    for (int c = 0; work && c < cluster->classes; c++) {
        qs_schedule_release(work[c].schedule);
        free(work[c].us);
    }
    free(work);
    qs_prediction_release(&prediction);
    return status;
}

qs_status qs_predict(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                     const qs_recipe *const *const *recipe, const qs_cost_options *options, qs_prediction *out) {
    return qs_predict_trace(graph, cluster, profile, job, recipe, options, NULL, out);
}

void qs_prediction_release(qs_prediction *prediction) {
    free(prediction->class_);
    *prediction = (qs_prediction){0};
}
