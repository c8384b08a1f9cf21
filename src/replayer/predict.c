// SPDX-License-Identifier: Apache-2.0
/* A plan on a cluster: every class lowered from the profile's kernel rows, priced, replayed with all ranks. A predictor keeps the schedules
 * of its last question, so that a change of one class lowers that class alone. */
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "replayer_internal.h"

typedef struct class_work {
    const qs_class_profile *profile;
    int64_t batch;            /* of a rank */
    const qs_recipe **recipe; /* (nodes) that the schedule was lowered from */
    const qs_tensor_table *tensors;
    qs_schedule *schedule; /* NULL: none yet */
    double *us, *alone_us;
    bool knows_alone;
    qs__process process;
    int64_t program_bytes, shared_bytes; /* see process.h */
} class_work;

struct qs_predictor {
    const qs_graph *graph;
    const qs_cluster *cluster;
    const qs_profile *profile;
    const qs_job *job;
    qs_cost_options options;
    class_work *work; /* (classes) */
    qs__ranks ranks;
};

static void class_forget(class_work *work) {
    qs_schedule_release(work->schedule);
    free(work->us);
    free(work->alone_us);
    work->schedule = NULL;
    work->us = work->alone_us = NULL;
}

static qs_status class_lower(const qs_predictor *one, int c, class_work *work) {
    const qs_lowering lowering = {.graph = one->graph,
                                  .batch = work->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = one->job,
                                  .recipe = work->recipe,
                                  .half = qs_class_half(&one->cluster->class_[c]),
                                  .tensors = work->tensors,
                                  .lookup = qs_lookup_profile,
                                  .context = (void *)work->profile};
    QS_TRY(qs_schedule_lower(&lowering, &work->schedule));
    qs__process_bytes(&work->process, work->schedule, &work->program_bytes, &work->shared_bytes);
    QS_TRY(qs_allocate((size_t)work->schedule->steps, sizeof *work->us, &work->us));
    QS_TRY(qs_allocate((size_t)work->schedule->steps, sizeof *work->alone_us, &work->alone_us));
    QS_TRY(qs_cost_schedule(work->profile, work->schedule, &one->options, work->us));
    work->knows_alone = qs_cost_schedule_alone(work->profile, work->schedule, work->us, work->alone_us);
    return QS_OK;
}

static qs_status class_update(const qs_predictor *one, int c, const qs_recipe *const *recipe) {
    class_work *work = &one->work[c];
    const size_t bytes = (size_t)one->graph->nodes * sizeof(qs_recipe *);
    if (work->schedule && work->schedule->batch == work->batch && memcmp(work->recipe, recipe, bytes) == 0) return QS_OK;
    class_forget(work);
    memcpy(work->recipe, recipe, bytes);
    const qs_status status = class_lower(one, c, work);
    if (status != QS_OK) class_forget(work);
    return status;
}

static double alone_share(const class_work *work) {
    double together = 0, alone = 0;
    for (int s = 0; s < work->schedule->steps; s++) {
        together += work->us[s];
        alone += work->alone_us[s];
    }
    return work->knows_alone && together > 0 ? alone / together : 1;
}

static void class_report(const qs_class *one, const class_work *work, qs_prediction_class *out) {
    out->batch = work->batch;
    out->alone = alone_share(work);
    out->arena_bytes = work->schedule->arena_bytes;
    out->base_bytes = work->profile->base_bytes + work->shared_bytes;
    out->program_bytes = work->program_bytes;
    out->fits = one->memory_limit <= 0 || work->schedule->arena_bytes <= (size_t)one->memory_limit;
    memcpy(out->category_bytes, work->schedule->category_bytes, sizeof out->category_bytes);
    qs_schedule_hash(work->schedule, out->schedule);
}

static int64_t communication_bytes(const qs_predictor *one, const qs_schedule *schedule) {
    const qs_all_reduce what = {one->job->algorithm, one->ranks.count, one->ranks.host, NULL, one->job->wire};
    int64_t longest = 0;
    for (int b = 0; b < schedule->buckets; b++)
        if (schedule->bucket[b].count > longest) longest = schedule->bucket[b].count;
    return qs_cost_all_reduce_memory(one->profile, &what, longest * (int64_t)sizeof(float));
}

/* All ranks of a class run its schedule at its costs. */
static void ranks_fill(const qs_predictor *one, qs_replay_rank *rank) {
    for (int r = 0; r < one->ranks.count; r++) {
        const int c = qs_cluster_class_of(one->cluster, r);
        const class_work *work = &one->work[c];
        rank[r] = (qs_replay_rank){.class_name = one->cluster->class_[c].name,
                                   .schedule = work->schedule,
                                   .step_us = work->us,
                                   .data_us = work->profile->data_us_per_sample * (double)work->batch,
                                   .overhead_us = work->profile->iteration_overhead_us,
                                   .step_alone_us = work->knows_alone ? work->alone_us : NULL,
                                   .host = one->ranks.host[r],
                                   .slow = one->ranks.slow[r],
                                   .jitter = work->profile->jitter,
                                   .graph = one->graph};
    }
}

static double samples_of_step(const qs_predictor *one) {
    double sum = 0;
    for (int c = 0; c < one->cluster->classes; c++)
        sum += (double)one->cluster->class_[c].count * (double)one->work[c].batch;
    return sum;
}

static qs_status ranks_replay(const qs_predictor *one, char **trace, qs_prediction *out) {
    qs_replay_case in = {.profile = one->profile, .reduce = one->ranks.reduce, .ranks = one->ranks.count, .with_events = trace != NULL};
    qs_replay_rank *rank = NULL;
    qs_replay_result result = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)in.ranks, sizeof *rank, &rank));
    ranks_fill(one, rank);
    in.rank = rank;
    QS_GOTO(qs_replay(&in, &result));
    if (trace) QS_GOTO(qs_replay_trace(&result, rank, trace));
    out->iteration_us = result.iteration_us;
    out->images_per_second = samples_of_step(one) / result.iteration_us * 1e6;
    status = qs__prediction_fill(&one->ranks, &result, out);
done:
    qs_replay_release(&result);
    free(rank);
    return status;
}

/* Times hold for the threads and the speed they were measured with. */
static qs_status class_check(const qs_class *one, const qs_class_profile *profile) {
    if (!profile) return qs_fail(QS_MISMATCH, "the profile has no class %s: profile this cluster again", one->name);
    if (profile->speed == one->speed && profile->threads == one->threads) return QS_OK;
    return qs_fail(QS_MISMATCH, "class %s was profiled with %d threads at speed %g, the cluster has %d at %g: profile this cluster again",
                   one->name, profile->threads, profile->speed, one->threads, one->speed);
}

qs_status qs_predictor_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                              const qs_cost_options *options, qs_predictor **out) {
    qs_predictor *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    *one = (qs_predictor){.graph = graph, .cluster = cluster, .profile = profile, .job = job};
    if (options) one->options = *options;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *one->work, &one->work));
    for (int c = 0; c < cluster->classes; c++) {
        one->work[c].profile = qs_profile_class(profile, cluster->class_[c].name);
        one->work[c].batch = job->batch;
        QS_GOTO(class_check(&cluster->class_[c], one->work[c].profile));
        QS_GOTO(qs__process_create(one->work[c].profile, &one->work[c].process));
        QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *one->work[c].recipe, &one->work[c].recipe));
    }
    QS_GOTO(qs__ranks_make(cluster, &one->options, &one->ranks));
    *out = one;
    one = NULL;
done:
    qs_predictor_release(one);
    return status;
}

/* Any batch but the job's has to be one that the profile says it knows: else the message would be about the first case that lacks a row. */
static qs_status batch_check(const qs_predictor *one, int c, int64_t batch) {
    const qs_profile *profile = one->profile;
    if (batch == one->job->batch || qs_profile_batch_find(profile, batch)) return QS_OK;
    const int last = profile->batches - 1;
    if (last < 0)
        return qs_fail(QS_MISMATCH, "class %s has batch %lld, the profile knows only %lld: profile with --batches",
                       one->cluster->class_[c].name, (long long)batch, (long long)profile->batch);
    return qs_fail(QS_MISMATCH, "class %s has batch %lld, which is none of the %d from %lld to %lld that the profile knows",
                   one->cluster->class_[c].name, (long long)batch, profile->batches, (long long)profile->batch_row[0].samples,
                   (long long)profile->batch_row[last].samples);
}

qs_status qs_predictor_batches(qs_predictor *one, const int64_t *batch) {
    for (int c = 0; c < one->cluster->classes; c++)
        if (batch) QS_TRY(batch_check(one, c, batch[c]));
    for (int c = 0; c < one->cluster->classes; c++)
        one->work[c].batch = batch ? batch[c] : one->job->batch;
    return QS_OK;
}

void qs_predictor_tensors(qs_predictor *one, const qs_tensor_table *const *tensors) {
    for (int c = 0; c < one->cluster->classes; c++) {
        class_forget(&one->work[c]);
        one->work[c].tensors = tensors ? tensors[c] : NULL;
    }
}

qs_status qs_predictor_ask(qs_predictor *one, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out) {
    const int classes = one->cluster->classes;
    qs_prediction prediction = {.fits = true, .classes = classes};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)classes, sizeof *prediction.class_, &prediction.class_));
    for (int c = 0; c < classes; c++) {
        QS_GOTO(qs_fail_within(class_update(one, c, recipe[c]), "class %s", one->cluster->class_[c].name));
        class_report(&one->cluster->class_[c], &one->work[c], &prediction.class_[c]);
        prediction.class_[c].communication_bytes = communication_bytes(one, one->work[c].schedule);
        prediction.fits = prediction.fits && prediction.class_[c].fits;
    }
    QS_GOTO(qs__ranks_price(one->profile, one->job, one->work[0].schedule, &one->ranks));
    QS_GOTO(ranks_replay(one, trace, &prediction));
    qs__notes_fill(one->profile, one->work[0].schedule->buckets, &one->ranks, &prediction);
    *out = prediction;
    prediction = (qs_prediction){0};
done:
    qs_prediction_release(&prediction);
    return status;
}

void qs_predictor_release(qs_predictor *one) {
    if (!one) return;
    for (int c = 0; one->work && c < one->cluster->classes; c++) {
        class_forget(&one->work[c]);
        qs__process_release(&one->work[c].process);
        free(one->work[c].recipe);
    }
    free(one->work);
    qs__ranks_release(&one->ranks);
    free(one);
}

qs_status qs_predict_trace(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                           const qs_recipe *const *const *recipe, const qs_cost_options *options, char **trace, qs_prediction *out) {
    qs_predictor *predictor = NULL;
    QS_TRY(qs_predictor_create(graph, cluster, profile, job, options, &predictor));
    const qs_status status = qs_predictor_ask(predictor, recipe, trace, out);
    qs_predictor_release(predictor);
    return status;
}

qs_status qs_predict(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                     const qs_recipe *const *const *recipe, const qs_cost_options *options, qs_prediction *out) {
    return qs_predict_trace(graph, cluster, profile, job, recipe, options, NULL, out);
}

void qs_prediction_release(qs_prediction *prediction) {
    free(prediction->class_);
    free(prediction->group);
    free(prediction->late_us);
    *prediction = (qs_prediction){0};
}
