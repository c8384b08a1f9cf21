// SPDX-License-Identifier: Apache-2.0
/* A plan on a cluster, at one length of its samples: every class lowered from the profile's kernel rows, priced, replayed with all ranks. A
 * predictor keeps the schedules of its last question, so that a change of one class lowers that class alone. */
#include "replayer_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const double most_jitter = 0.1; /* a profile with more than this is told of: its machine had other work */

typedef struct class_work {
    const qs_class_profile *profile;
    qs_cost_options costs;
    int64_t batch;            /* of a rank; 0: it is idle */
    int64_t lowered;          /* the same when the schedule was lowered */
    const qs_recipe **recipe; /* (nodes) that the schedule was lowered from */
    const qs_tensor_table *tensors;
    const qs_schedule_draft *draft; /* that stands at the recipes of the next question; NULL: none */
    qs_schedule *schedule;          /* NULL: none yet */
    char hash[32];                  /* the schedule's */
    double *us, *alone_us;
    bool recorded; /* these are times in recordings of the device */
    bool knows_alone;
    int *first_of_kernel;                /* (kernels of the profile) the first row with the same kernel: its code is there once */
    bool *seen;                          /* (kernels of the profile) in the schedule */
    bool *counted;                       /* (kernels of the profile) at a kernel's first row: its code is in the sum */
    int64_t program_bytes, shared_bytes; /* of the process: the schedule's own, and pages of code that other programs share */
} class_work;

struct qs__predictor {
    const qs_graph *graph;
    const qs_cluster *cluster;
    const qs_profile *profile;
    const qs_job *job;
    qs_cost_options options;
    class_work *work; /* (classes) */
    /* What is the same for all plans. */
    int ranks, hosts;
    int *host;                  /* (ranks) */
    double *slow;               /* (ranks) */
    qs_all_reduce_cost *reduce; /* (buckets); NULL: not priced yet */
};

/* ---- Classes ----------------------------------------------------------------------------------------------------------------------- */

static void class_forget(class_work *work) {
    qs_schedule_release(work->schedule);
    free(work->us);
    free(work->alone_us);
    work->schedule = NULL;
    work->us = work->alone_us = NULL;
}

/* What the kernels of the schedule hold of a process, by the profile (docs/method.md §4.7): each kernel, and once each case. */
static void process_bytes_find(class_work *work) {
    const qs_class_profile *profile = work->profile;
    work->program_bytes = work->shared_bytes = 0;
    memset(work->seen, 0, (size_t)profile->kernels * sizeof *work->seen);
    memset(work->counted, 0, (size_t)profile->kernels * sizeof *work->counted);
    for (int s = 0; s < work->schedule->steps; s++) {
        if (work->schedule->step[s].kind != QS_STEP_KERNEL) continue;
        const qs_kernel_cost *row = qs_class_profile_kernel(profile, work->schedule->step[s].case_text);
        if (!row) continue;
        work->program_bytes += row->held_bytes;
        work->seen[row - profile->kernel] = true;
    }
    for (int i = 0; i < profile->kernels; i++) {
        if (!work->seen[i]) continue;
        bool *counted = &work->counted[work->first_of_kernel[i]];
        work->program_bytes += profile->kernel[i].shared_bytes;
        if (!*counted) work->shared_bytes += profile->kernel[i].code_bytes;
        *counted = true;
    }
}

static qs_status class_lower(const qs__predictor *one, int c) {
    class_work *work = &one->work[c];
    const qs_lowering lowering = {.graph = one->graph,
                                  .batch = work->batch > 0 ? work->batch : one->job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = one->job,
                                  .recipe = work->recipe,
                                  .half = qs_class_half(&one->cluster->class_[c]),
                                  .tensors = work->tensors,
                                  .joins = work->profile->joins,
                                  .lookup = qs_lookup_profile,
                                  .context = (void *)work->profile};
    QS_TRY(work->draft ? qs_schedule_finish(work->draft, &work->schedule, NULL) : qs_schedule_lower(&lowering, &work->schedule));
    qs_schedule_hash(work->schedule, work->hash);
    process_bytes_find(work);
    QS_TRY(qs_allocate((size_t)work->schedule->steps, sizeof *work->us, &work->us));
    QS_TRY(qs_allocate((size_t)work->schedule->steps, sizeof *work->alone_us, &work->alone_us));
    QS_TRY(qs_cost_schedule(work->profile, work->schedule, &work->costs, work->us));
    work->recorded = qs_cost_schedule_recorded(work->profile, work->schedule, &work->costs, work->us);
    work->knows_alone = qs_cost_schedule_alone(work->profile, work->schedule, work->us, work->alone_us);
    for (int s = 0; work->batch == 0 && s < work->schedule->steps; s++)
        if (work->schedule->step[s].phase != QS_UPDATE) work->us[s] = work->alone_us[s] = 0;
    work->lowered = work->batch;
    return QS_OK;
}

/* Lowers a class unless its batch and recipes are those of the last question. */
static qs_status class_update(const qs__predictor *one, int c, const qs_recipe *const *recipe) {
    class_work *work = &one->work[c];
    const size_t bytes = (size_t)one->graph->nodes * sizeof(qs_recipe *);
    if (work->schedule && work->lowered == work->batch && memcmp(work->recipe, recipe, bytes) == 0) return QS_OK;
    class_forget(work);
    memcpy(work->recipe, recipe, bytes);
    const qs_status status = class_lower(one, c);
    if (status != QS_OK) class_forget(work);
    return status;
}

static void class_report(const qs__predictor *one, int c, qs_prediction_class *out) {
    const class_work *work = &one->work[c];
    const qs_schedule *schedule = work->schedule;
    const int64_t memory_limit = one->cluster->class_[c].memory_limit;
    const qs_all_reduce what = {one->job->algorithm, one->ranks, one->host, NULL, one->job->wire};
    double together = 0, alone = 0;
    int64_t longest = 0;
    for (int s = 0; s < schedule->steps; s++) {
        together += work->us[s];
        alone += work->alone_us[s];
        if (schedule->step[s].recomputed) out->recompute_us += work->us[s];
    }
    for (int b = 0; b < schedule->buckets; b++)
        if (schedule->bucket[b].count > longest) longest = schedule->bucket[b].count;
    out->batch = work->batch;
    out->recorded = work->recorded;
    out->alone = work->knows_alone && together > 0 ? alone / together : 1;
    out->arena_bytes = schedule->arena_bytes;
    out->base_bytes = work->profile->base_bytes + work->shared_bytes;
    out->program_bytes = work->program_bytes;
    out->communication_bytes = qs_cost_all_reduce_memory(one->profile, &what, longest * (int64_t)sizeof(float));
    out->fits = memory_limit <= 0 || schedule->arena_bytes <= (size_t)memory_limit;
    memcpy(out->category_bytes, schedule->category_bytes, sizeof out->category_bytes);
    memcpy(out->schedule, work->hash, sizeof out->schedule);
}

/* ---- Ranks -------------------------------------------------------------------------------------------------------------------------- */

/* A what-if slowdown, of one rank or of all ranks of a class. */
static qs_status slowdown_apply(qs__predictor *one, const qs_slowdown *slowdown) {
    int index;
    if (!(slowdown->factor > 0) || !isfinite(slowdown->factor))
        return qs_fail(QS_USAGE, "slowdown by %g: the factor must be positive", slowdown->factor);
    if (slowdown->class_name) QS_TRY(qs_cluster_find(one->cluster, slowdown->class_name, &index));
    if (!slowdown->class_name && (slowdown->rank < 0 || slowdown->rank >= one->ranks))
        return qs_fail(QS_USAGE, "slowdown of rank %d: the cluster has ranks 0 to %d", slowdown->rank, one->ranks - 1);
    for (int r = 0; r < one->ranks; r++)
        if (slowdown->class_name ? qs_cluster_class_of(one->cluster, r) == index : r == slowdown->rank) one->slow[r] *= slowdown->factor;
    return QS_OK;
}

/* The all-reduce of every bucket, which is the same for all plans. */
static qs_status reduces_price(qs__predictor *one) {
    const qs_schedule *schedule = one->work[0].schedule;
    const qs_all_reduce what = {one->job->algorithm, one->ranks, one->host, qs_cluster_network(one->cluster), one->job->wire};
    qs_all_reduce_cost *reduce = NULL;
    qs_status status = QS_OK;
    if (one->reduce) return QS_OK;
    QS_TRY(qs_allocate((size_t)schedule->buckets, sizeof *reduce, &reduce));
    for (int b = 0; b < schedule->buckets; b++)
        QS_GOTO(qs_cost_all_reduce_on(one->profile, &what, schedule->bucket[b].count * (int64_t)sizeof(float), &reduce[b]));
    one->reduce = reduce;
    reduce = NULL;
done:
    free(reduce);
    return status;
}

/* Times of classes, those of their first rank, and of groups. */
static qs_status times_fill(const qs__predictor *one, qs_replay_result *result, qs_prediction *out) {
    int first = 0;
    double samples = 0;
    for (int c = 0; c < out->classes; first += one->cluster->class_[c++].count) {
        samples += (double)one->cluster->class_[c].count * (double)one->work[c].batch;
        if (one->cluster->class_[c].count == 0) continue;
        out->class_[c].compute_us = result->compute_us[first];
        out->class_[c].waiting_us = result->waiting_us[first];
        out->class_[c].phases = result->group[result->group_of[first]].phases;
    }
    out->iteration_us = result->iteration_us;
    out->samples_per_second = samples / result->iteration_us * 1e6;
    snprintf(out->unit, sizeof out->unit, "%s", one->profile->samples.unit);
    QS_TRY(qs_allocate((size_t)result->groups, sizeof *out->group, &out->group));
    out->groups = result->groups;
    for (int g = 0; g < result->groups; g++) {
        const qs_replay_group *from = &result->group[g];
        out->group[g] = (qs_prediction_group){.class_index = qs_cluster_class_of(one->cluster, from->first),
                                              .first = from->first,
                                              .ranks = from->ranks,
                                              .slow = one->slow[from->first],
                                              .compute_us = from->compute_us,
                                              .waiting_us = from->waiting_us,
                                              .reducing_us = from->reducing_us,
                                              .phases = from->phases};
    }
    out->late_us = result->late_us;
    result->late_us = NULL;
    return QS_OK;
}

/* All ranks of a class run its schedule at its costs. */
static qs_status ranks_replay(const qs__predictor *one, char **trace, qs_prediction *out) {
    qs_replay_case in = {.profile = one->profile, .reduce = one->reduce, .ranks = one->ranks, .with_events = trace != NULL};
    qs_replay_rank *rank = NULL;
    qs_replay_result result = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)in.ranks, sizeof *rank, &rank));
    for (int r = 0; r < one->ranks; r++) {
        const int c = qs_cluster_class_of(one->cluster, r);
        const class_work *work = &one->work[c];
        const qs_start start = work->recorded ? QS_START_RECORDED : QS_START_ONE_BY_ONE;
        rank[r] = (qs_replay_rank){.class_name = one->cluster->class_[c].name,
                                   .schedule = work->schedule,
                                   .step_us = work->us,
                                   .data_us = qs_cost_loop(work->profile, &one->graph->samples, work->batch, start),
                                   .step_alone_us = work->knows_alone ? work->alone_us : NULL,
                                   .host = one->host[r],
                                   .slow = one->slow[r],
                                   .jitter = work->profile->jitter,
                                   .graph = one->graph};
    }
    in.rank = rank;
    QS_GOTO(qs_replay(&in, &result));
    if (trace) QS_GOTO(qs_replay_trace(&result, rank, trace));
    status = times_fill(one, &result, out);
done:
    qs_replay_release(&result);
    free(rank);
    return status;
}

/* ---- Figures that stand on less than a measurement -------------------------------------------------------------------------------- */

static void note(qs_prediction *out, const char *format, ...) QS_PRINTF(2, 3);
static void note(qs_prediction *out, const char *format, ...) {
    if (out->notes >= QS_PREDICTION_NOTES) return;
    va_list list;
    va_start(list, format);
    vsnprintf(out->note[out->notes++], sizeof out->note[0], format, list);
    va_end(list);
}

static const char *plural(int count, const char *one, const char *more) {
    return count == 1 ? one : more;
}

static void notes_fill(const qs__predictor *one, qs_prediction *out) {
    const int measured = one->profile->statistics.ranks, buckets = one->work[0].schedule->buckets;
    int b = 0;
    while (b < buckets && !one->reduce[b].extrapolated)
        b++;
    if (b < buckets)
        note(out, "all-reduce of %d %s on %d %s extrapolated from %d on %d, by the algorithm's formula", one->ranks,
             plural(one->ranks, "rank", "ranks"), one->hosts, plural(one->hosts, "host", "hosts"), one->reduce[b].from_ranks,
             one->reduce[b].from_hosts);
    if (measured > 0 && measured != one->ranks)
        note(out, "kernel and conversion times were measured with %d %s at work, not with %d", measured, plural(measured, "rank", "ranks"),
             one->ranks);
    for (int c = 0; c < one->cluster->classes; c++) {
        const qs_class_profile *profile = one->work[c].profile;
        const char *name = one->cluster->class_[c].name;
        if (one->work[c].recorded)
            note(out, "kernels of class %s take the times of recordings: shares, by whole steps, of those measured one by one", name);
        if (profile->estimated) note(out, "kernel times of class %s are estimated, not measured", name);
        if (profile->jitter > most_jitter) note(out, "steps of class %s were profiled under noise of %.0f %%", name, 100 * profile->jitter);
    }
}

/* ---- The predictor ------------------------------------------------------------------------------------------------------------------ */

/* Times hold for the backend, the threads, the speed and the part of a GPU that they were measured with. */
static qs_status class_check(const qs_class *one, const qs_class_profile *profile) {
    if (!profile) return qs_fail(QS_MISMATCH, "the profile has no class %s: profile this cluster again", one->name);
    if (strcmp(profile->backend, one->backend) != 0)
        return qs_fail(QS_MISMATCH, "class %s was profiled on backend \"%s\", the cluster has it on \"%s\": profile this cluster again",
                       one->name, profile->backend, one->backend);
    if (profile->multiprocessors != one->cuda_multiprocessors)
        return qs_fail(
            QS_MISMATCH,
            "class %s was profiled on %d, the cluster has it on %d of its GPU's multiprocessors (0: all): profile this cluster again",
            one->name, profile->multiprocessors, one->cuda_multiprocessors);
    char was[QS_SPEEDS_TEXT], is[QS_SPEEDS_TEXT];
    qs_speeds_text(profile->speed, &profile->products, was);
    qs_speeds_text(one->speed, &one->products, is);
    if (strcmp(was, is) == 0 && profile->threads == one->threads) return QS_OK;
    return qs_fail(QS_MISMATCH, "class %s was profiled with %d threads at speed %s, the cluster has %d at %s: profile this cluster again",
                   one->name, profile->threads, was, one->threads, is);
}

static qs_status class_make(qs__predictor *one, int c) {
    class_work *work = &one->work[c];
    const qs_class_profile *profile = work->profile = qs_profile_class(one->profile, one->cluster->class_[c].name);
    work->batch = one->job->batch;
    work->costs = qs_cost_options_of(&one->options, &one->cluster->class_[c]);
    QS_TRY(class_check(&one->cluster->class_[c], profile));
    QS_TRY(qs_allocate((size_t)profile->kernels, sizeof *work->first_of_kernel, &work->first_of_kernel));
    QS_TRY(qs_allocate((size_t)profile->kernels, sizeof *work->seen, &work->seen));
    QS_TRY(qs_allocate((size_t)profile->kernels, sizeof *work->counted, &work->counted));
    for (int i = 0; i < profile->kernels; i++)
        while (strcmp(profile->kernel[work->first_of_kernel[i]].kernel, profile->kernel[i].kernel) != 0)
            work->first_of_kernel[i]++;
    return qs_allocate((size_t)one->graph->nodes, sizeof *work->recipe, &work->recipe);
}

qs_status qs__predictor_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                               const qs_cost_options *options, qs__predictor **out) {
    qs__predictor *one = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    *one = (qs__predictor){.graph = graph, .cluster = cluster, .profile = profile, .job = job, .ranks = qs_cluster_ranks(cluster)};
    if (options) one->options = *options;
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *one->work, &one->work));
    for (int c = 0; c < cluster->classes; c++)
        QS_GOTO(class_make(one, c));
    if (one->ranks < 1) QS_GOTO(qs_fail(QS_USAGE, "the cluster has no rank"));
    QS_GOTO(qs_allocate((size_t)one->ranks, sizeof *one->host, &one->host));
    QS_GOTO(qs_allocate((size_t)one->ranks, sizeof *one->slow, &one->slow));
    qs_cluster_hosts(cluster, one->host, &one->hosts);
    for (int r = 0; r < one->ranks; r++)
        one->slow[r] = 1;
    for (int i = 0; i < one->options.slowdowns; i++)
        QS_GOTO(slowdown_apply(one, &one->options.slowdown[i]));
    *out = one;
    one = NULL;
done:
    qs__predictor_release(one);
    return status;
}

/* Any batch but the job's has to be one that the profile says it knows: else the message would be about the first case that lacks a row. */
static qs_status batch_check(const qs__predictor *one, int c, int64_t batch) {
    const qs_profile *profile = one->profile;
    if (batch == 0 || batch == one->job->batch || qs_profile_batch_find(profile, batch)) return QS_OK;
    const int last = profile->batches - 1;
    if (last < 0)
        return qs_fail(QS_MISMATCH, "class %s has batch %lld, the profile knows only %lld: profile with --batches",
                       one->cluster->class_[c].name, (long long)batch, (long long)profile->batch);
    return qs_fail(QS_MISMATCH, "class %s has batch %lld, which is none of the %d from %lld to %lld that the profile knows",
                   one->cluster->class_[c].name, (long long)batch, profile->batches, (long long)profile->batch_row[0].samples,
                   (long long)profile->batch_row[last].samples);
}

qs_status qs__predictor_batches(qs__predictor *one, const int64_t *batch) {
    for (int c = 0; c < one->cluster->classes; c++)
        if (batch) QS_TRY(batch_check(one, c, batch[c]));
    for (int c = 0; c < one->cluster->classes; c++)
        one->work[c].batch = batch ? batch[c] : one->job->batch;
    return QS_OK;
}

void qs__predictor_tensors(qs__predictor *one, const qs_tensor_table *const *tensors) {
    for (int c = 0; c < one->cluster->classes; c++) {
        class_forget(&one->work[c]);
        one->work[c].tensors = tensors ? tensors[c] : NULL;
    }
}

void qs__predictor_draft(qs__predictor *one, int class_index, const qs_schedule_draft *draft) {
    one->work[class_index].draft = draft;
}

qs_status qs__predictor_ask(qs__predictor *one, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out) {
    const int classes = one->cluster->classes;
    qs_prediction prediction = {.fits = true, .classes = classes};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)classes, sizeof *prediction.class_, &prediction.class_));
    for (int c = 0; c < classes; c++) {
        QS_GOTO(qs_fail_within(class_update(one, c, recipe[c]), "class %s", one->cluster->class_[c].name));
        class_report(one, c, &prediction.class_[c]);
        prediction.fits = prediction.fits && prediction.class_[c].fits;
    }
    QS_GOTO(reduces_price(one));
    QS_GOTO(ranks_replay(one, trace, &prediction));
    notes_fill(one, &prediction);
    *out = prediction;
    prediction = (qs_prediction){0};
done:
    qs_prediction_release(&prediction);
    return status;
}

void qs__predictor_release(qs__predictor *one) {
    if (!one) return;
    for (int c = 0; one->work && c < one->cluster->classes; c++) {
        class_forget(&one->work[c]);
        free(one->work[c].first_of_kernel);
        free(one->work[c].seen);
        free(one->work[c].counted);
        free(one->work[c].recipe);
    }
    free(one->work);
    free(one->host);
    free(one->slow);
    free(one->reduce);
    free(one);
}

void qs_prediction_release(qs_prediction *prediction) {
    for (int k = 0; k < prediction->lengths; k++)
        free(prediction->length[k].class_);
    free(prediction->length);
    free(prediction->class_);
    free(prediction->group);
    free(prediction->late_us);
    *prediction = (qs_prediction){0};
}
