// SPDX-License-Identifier: Apache-2.0
/* One measurement from start to end: every rank its class, then rank 0 puts the classes together. */
#include "batches.h"
#include "conditions.h"
#include "kinds.h"
#include "plans.h"
#include "resume.h"

#include "qsync/costmodel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void qs_profile_options_default(qs_profile_options *out) {
    *out = (qs_profile_options){.repetitions = 8, .conversion_seconds = 7, .statistics_iterations = 50};
}

/* ---- Start ------------------------------------------------------------------------------------------------------------------------- */

/* Plans, the part of the work below `plans`, take most of the time, and they alone are measured anew for each other batch. */
static const double plans = 0.45, their_time = 0.75;

void qs__progress(const qs__profiler *profiler, double fraction, const char *what) {
    char text[128];
    if (profiler->rank > 0 || !profiler->options->progress) return;
    fraction = fraction < plans ? fraction * their_time / plans : 1 - (1 - fraction) * (1 - their_time) / (1 - plans);
    snprintf(text, sizeof text, "%s%s", what, profiler->part);
    profiler->options->progress(profiler->options->progress_context, text, profiler->part_from + profiler->part_share * fraction);
}

void qs__progress_divide(qs__profiler *profiler, const qs__profiler *whole, int batch) {
    const int batches = whole->options->batches;
    profiler->part_share = 1 / (1 + batches * their_time);
    profiler->part_from = batch < 0 ? 0 : profiler->part_share * (1 + batch * their_time);
    if (batch >= 0)
        snprintf(profiler->part, sizeof profiler->part, " at batch %lld (%d of %d)", (long long)profiler->job->batch, batch + 1, batches);
}

qs_status qs__profile_batch(qs__profiler *profiler, qs_executor *executor, int64_t step, int64_t batch) {
    const qs_dataset *set = &profiler->training;
    const int64_t first = (step * profiler->ranks + profiler->rank) * batch;
    const qs_augmentation augmentation = {
        .enabled = profiler->job->augmentation, .pad = set->height < 32 ? 2 : 4, .seed = profiler->job->seed, .epoch = first / set->count};
    for (int64_t i = 0; i < batch; i++)
        profiler->indices[i] = profiler->order[(first + i) % set->count];
    return qs_executor_load(executor, profiler->graph, set, &augmentation, profiler->indices, batch);
}

static qs_status options_check(const qs__profiler *profiler) {
    const qs_profile_options *options = profiler->options;
    const int wanted = qs_cluster_ranks(options->cluster);
    QS_TRY(qs__batches_check(options));
    if (options->repetitions < 2) return qs_fail(QS_USAGE, "repetitions %d: a median needs at least 2", options->repetitions);
    if (options->statistics_iterations < 0)
        return qs_fail(QS_USAGE, "statistics iterations %d: at least 0", options->statistics_iterations);
    if (wanted == profiler->ranks) return QS_OK;
    return qs_fail(QS_USAGE, "the cluster has %d ranks but %d were started; start %d, or change the counts of its classes", wanted,
                   profiler->ranks, wanted);
}

static qs_status data_load(qs__profiler *profiler) {
    const qs_profile_options *options = profiler->options;
    const qs_shape *input = &profiler->graph->node[0].shape;
    const double before = (double)qs_resident_bytes();
    QS_TRY(qs_dataset_load(profiler->job->dataset, options->data_folder, QS_PART_TRAINING, 0, &profiler->training));
    QS_TRY(qs_dataset_load(profiler->job->dataset, options->data_folder, QS_PART_TEST, 0, &profiler->test));
    QS_TRY(qs_dataset_fit(&profiler->training, (int)input->dim[1], (int)input->dim[2], (int)input->dim[3], profiler->graph->classes));
    QS_TRY(qs_allocate((size_t)profiler->training.count, sizeof *profiler->order, &profiler->order));
    QS_TRY(qs_allocate((size_t)profiler->job->batch, sizeof *profiler->indices, &profiler->indices));
    qs_random_permutation(qs_random_key(profiler->job->seed, 0, 0, 0), profiler->training.count, profiler->order);
    qs_heap_trim();
    profiler->memory.data_bytes = fmax((double)qs_resident_bytes() - before, 0);
    return QS_OK;
}

static bool has_recipe(const qs__profiler *profiler, const char *name) {
    for (int r = 0; r < profiler->recipes; r++)
        if (strcmp(profiler->recipe[r].name, name) == 0) return true;
    return false;
}

/* The class's own, which planners choose from, and those that were asked for. */
static qs_status recipes_list(qs__profiler *profiler) {
    const qs_profile_options *options = profiler->options;
    QS_TRY(qs_class_recipes(profiler->class_, QS__MOST_RECIPES, profiler->recipe, &profiler->recipes));
    for (int i = 0; i < options->recipes; i++) {
        if (has_recipe(profiler, options->recipe[i].name)) continue;
        if (profiler->recipes == QS__MOST_RECIPES)
            return qs_fail(QS_UNSUPPORTED, "class %s: at most %d recipes with those that were asked for: name fewer",
                           profiler->class_->name, QS__MOST_RECIPES);
        profiler->recipe[profiler->recipes++] = options->recipe[i];
    }
    return QS_OK;
}

static qs_status profiler_start(qs__profiler *profiler) {
    QS_TRY(options_check(profiler));
    profiler->class_ = &profiler->options->cluster->class_[qs_cluster_class_of(profiler->options->cluster, profiler->rank)];
    QS_TRY(qs_job_model(profiler->job, &profiler->graph));
    QS_TRY(recipes_list(profiler));
    QS_TRY(qs_comm_open("self", &profiler->self));
    QS_TRY(data_load(profiler));
    qs__progress(profiler, 0, "cases");
    QS_TRY(qs__memory_measure(profiler));
    return qs__mixes_enumerate(profiler);
}

static void profiler_end(qs__profiler *profiler) {
    qs__mixes_release(&profiler->mixes);
    qs__cases_release(&profiler->cases);
    qs__memory_release(&profiler->memory);
    qs_dataset_release(&profiler->training);
    qs_dataset_release(&profiler->test);
    qs_graph_release(profiler->graph);
    qs_comm_close(profiler->self);
    free(profiler->order);
    free(profiler->indices);
    free(profiler->measured);
    free(profiler->whole_us.value);
    free(profiler->overhead_us.value);
    free(profiler->data_us.value);
    free(profiler->jitter.value);
    free(profiler->checked.value);
}

/* ---- The class of this rank ---------------------------------------------------------------------------------------------------------- */

static void device_describe(const qs__profiler *profiler, qs_class_profile *out) {
    qs_device_info info;
    const time_t now = time(NULL);
    struct tm utc;
    qs_device_describe(profiler->device, &info);
    snprintf(out->class_name, sizeof out->class_name, "%s", profiler->class_->name);
    snprintf(out->cpu, sizeof out->cpu, "%s", info.cpu);
    snprintf(out->isa, sizeof out->isa, "%s", info.isa);
    snprintf(out->library, sizeof out->library, "%s", info.library);
    snprintf(out->build, sizeof out->build, "%.48s", __VERSION__);
    out->threads = info.threads;
    out->speed = info.speed;
    if (gmtime_r(&now, &utc)) strftime(out->date, sizeof out->date, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* Conversions carry what was seen in steps, or what their fit says; the cost model takes the fit in both cases. */
static qs_status conversion_us(const qs_class_profile *profile, const qs__entry *entry, double *us) {
    const qs_step step = {.kind = QS_STEP_KERNEL, .conversion = true, .case_ = entry->case_, .case_text = entry->text};
    return qs_cost_step(profile, &step, us);
}

static qs_status row_fill(const qs__profiler *profiler, const qs_class_profile *profile, qs__entry *entry, qs_kernel_cost *out) {
    const qs__held *held = qs__held_of(&profiler->memory, entry->text);
    *out = (qs_kernel_cost){.scratch_bytes = (int64_t)entry->row.scratch_bytes,
                            .allocates = entry->row.allocates,
                            .tuned = entry->row.tuned,
                            .held_bytes = (int64_t)held->held_bytes,
                            .shared_bytes = (int64_t)held->shared_bytes,
                            .code_bytes = (int64_t)qs__code_of(&profiler->memory, entry->row.kernel)};
    QS_TRY(qs__row_times(entry, out));
    if (out->samples == 0) {
        QS_TRY(conversion_us(profile, entry, &out->us));
        out->us_low = out->us_high = out->us;
    }
    memcpy(out->kernel, entry->row.kernel, sizeof out->kernel);
    return qs_format_text(&out->case_text, "%s", entry->text);
}

qs_status qs__kernels_fill(qs__profiler *profiler, qs_class_profile *out) {
    QS_TRY(qs__simulated_cases(profiler));
    QS_TRY(qs_allocate((size_t)profiler->cases.count, sizeof *out->kernel, &out->kernel));
    for (int i = 0; i < profiler->cases.count; i++) {
        qs__entry *entry = &profiler->cases.entry[i];
        if (!entry->as_kernel && !entry->as_conversion) continue;
        QS_TRY(row_fill(profiler, out, entry, &out->kernel[out->kernels]));
        out->kernels++;
    }
    qs_class_profile_sort(out);
    return QS_OK;
}

/* Seen and fitted time of the cases that a row prices. */
static qs_status fit_compare(qs__profiler *profiler, const qs_class_profile *profile, const qs_conversion_cost *row, double *seen,
                             double *fitted) {
    *seen = *fitted = 0;
    for (int i = 0; i < profiler->cases.count; i++) {
        qs__entry *entry = &profiler->cases.entry[i];
        if (entry->conversion_us.count == 0 || qs_cost_conversion(profile, &entry->case_) != row) continue;
        const double us = qs__quartiles_of(entry->conversion_us.count, entry->conversion_us.value).median;
        double fit;
        QS_TRY(conversion_us(profile, entry, &fit));
        *seen += us;
        *fitted += fit;
        qs_log(QS_LOG_DEBUG, "profile: %s took %.1f us in steps, its fit says %.1f us", entry->text, us, fit);
    }
    return QS_OK;
}

/* How far the fits are from what steps showed; lowering places them, so they are part of every prediction. */
static qs_status fits_compare(qs__profiler *profiler, qs_class_profile *profile) {
    double all_seen = 0, all_fitted = 0;
    for (int k = 0; k < profile->conversions; k++) {
        double seen, fitted;
        QS_TRY(fit_compare(profiler, profile, &profile->conversion[k], &seen, &fitted));
        profile->conversion[k].in_steps = seen > 0 ? fitted / seen : 0;
        all_seen += seen;
        all_fitted += fitted;
    }
    if (all_seen > 0) qs_log(QS_LOG_INFO, "profile: fits give conversions %.1f %% of their time in steps", 100 * all_fitted / all_seen);
    return QS_OK;
}

static qs_status class_fill(qs__profiler *profiler, qs_class_profile *out) {
    out->base_bytes = (int64_t)profiler->memory.base_bytes;
    out->iteration_overhead_us = fmax(qs__quartiles_of(profiler->overhead_us.count, profiler->overhead_us.value).median, 0);
    out->data_us_per_sample = qs__quartiles_of(profiler->data_us.count, profiler->data_us.value).median / (double)profiler->job->batch;
    qs__company_add(profiler, out);
    QS_TRY(fits_compare(profiler, out));
    QS_TRY(qs__kernels_fill(profiler, out));
    return qs__quality_fill(profiler, out);
}

/* ---- All classes ----------------------------------------------------------------------------------------------------------------------
 */

static void model_describe(const qs__profiler *profiler, qs_profile *out) {
    const qs_shape *input = &profiler->graph->node[0].shape;
    qs_graph_signature(profiler->graph, out->graph);
    snprintf(out->model, sizeof out->model, "%s", profiler->graph->name);
    out->batch = profiler->job->batch;
    out->channels = (int)input->dim[1];
    out->height = (int)input->dim[2];
    out->width = (int)input->dim[3];
    out->model_classes = profiler->graph->classes;
}

/* The first rank of a class speaks for it. */
static bool speaks(const qs__profiler *profiler, int rank) {
    const qs_cluster *cluster = profiler->options->cluster;
    return rank == 0 || qs_cluster_class_of(cluster, rank) != qs_cluster_class_of(cluster, rank - 1);
}

static qs_status class_take(const char *text, int64_t bytes, qs_class_profile *out) {
    qs_profile profile;
    char *json = NULL;
    QS_TRY(qs_allocate((size_t)bytes + 1, 1, &json));
    memcpy(json, text, (size_t)bytes);
    const qs_status status = qs_profile_parse(json, "measured class", &profile);
    free(json);
    QS_TRY(status);
    *out = profile.class_[0];
    memset(&profile.class_[0], 0, sizeof profile.class_[0]);
    qs_profile_release(&profile);
    return QS_OK;
}

static qs_status classes_take(const qs__profiler *profiler, const char *data, const int64_t *sizes, qs_profile *out) {
    QS_TRY(qs_allocate((size_t)profiler->options->cluster->classes, sizeof *out->class_, &out->class_));
    for (int rank = 0; rank < profiler->ranks; data += sizes[rank++]) {
        if (!speaks(profiler, rank)) continue;
        QS_TRY(class_take(data, sizes[rank], &out->class_[out->classes]));
        out->classes++;
    }
    return QS_OK;
}

/* `mine` holds this rank's class alone; *out receives all of them on rank 0. */
static qs_status classes_merge(const qs__profiler *profiler, const qs_profile *mine, qs_profile *out) {
    char *text = NULL, *data = NULL;
    int64_t *sizes = NULL;
    qs_status status = speaks(profiler, profiler->rank) ? qs_profile_text(mine, &text) : QS_OK;
    QS_GOTO(qs_comm_agree(profiler->comm, status));
    QS_GOTO(qs_comm_gather(profiler->comm, text, text ? (int64_t)strlen(text) : 0, &data, &sizes));
    if (profiler->rank == 0) status = classes_take(profiler, data, sizes, out);
    status = qs_comm_agree(profiler->comm, status);
done:
    free(text);
    free(data);
    free(sizes);
    return status;
}

/* Each stage that no earlier run has finished. */
static qs_status stages_run(qs__profiler *profiler, qs_profile *mine, qs_profile *all) {
    qs__stage done;
    QS_TRY(qs__resume_load(profiler, mine, all, &done));
    if (done < QS__STAGE_PLANS) {
        QS_TRY(qs__plans_measure(profiler));
        QS_TRY(qs__alone_measure(profiler));
        qs__resume_save(profiler, QS__STAGE_PLANS);
    }
    if (done < QS__STAGE_CONVERSIONS) {
        QS_TRY(qs__conversions_measure(profiler, mine->class_));
        qs__resume_save(profiler, QS__STAGE_CONVERSIONS);
    }
    if (done < QS__STAGE_COLLECTIVES) {
        QS_TRY(qs__collectives_measure(profiler, all));
        qs__resume_save(profiler, QS__STAGE_COLLECTIVES);
    }
    if (done < QS__STAGE_STATISTICS) {
        QS_TRY(qs__statistics_measure(profiler, &all->statistics));
        qs__resume_save(profiler, QS__STAGE_STATISTICS);
    }
    return QS_OK;
}

static qs_status measure(qs__profiler *profiler, qs_profile *mine, qs_profile *all) {
    qs__conditions_start start;
    qs__batches others = {0};
    qs_status status = QS_OK;
    qs__conditions_begin(&start);
    QS_TRY(qs_comm_agree(profiler->comm, profiler_start(profiler)));
    model_describe(profiler, mine);
    model_describe(profiler, all);
    QS_TRY(qs_comm_agree(profiler->comm, qs_allocate(1, sizeof *mine->class_, &mine->class_)));
    mine->classes = 1;
    device_describe(profiler, mine->class_);
    profiler->mine = mine;
    profiler->all = all;
    QS_TRY(stages_run(profiler, mine, all));
    QS_GOTO(qs__batches_measure(profiler, &others));
    QS_GOTO(qs_comm_agree(profiler->comm, class_fill(profiler, mine->class_)));
    QS_GOTO(qs_comm_agree(profiler->comm, qs__batches_fill(profiler, &others, mine->class_, all)));
    qs__conditions_end(&start, profiler->options->pinned, qs_comm_library(profiler->comm), &mine->class_->conditions);
    QS_GOTO(classes_merge(profiler, mine, all));
    if (profiler->rank == 0) status = qs__checks_fill(profiler, all);
    QS_GOTO(qs_comm_agree(profiler->comm, status));
    profiler->part_share = 1;
    qs__progress(profiler, 1, "done");
done:
    qs__batches_release(&others);
    return status;
}

qs_status qs_profile_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *out) {
    qs__profiler profiler = {.options = options,
                             .job = options->job,
                             .device = device,
                             .comm = comm,
                             .rank = qs_comm_rank(comm),
                             .ranks = qs_comm_size(comm),
                             .cases = {.device = device}};
    qs_profile mine = {0}, all = {0};
    qs__progress_divide(&profiler, &profiler, -1);
    const qs_status status = measure(&profiler, &mine, &all);
    profiler_end(&profiler);
    qs_profile_release(&mine);
    if (status == QS_OK && profiler.rank == 0) {
        *out = all;
        all = (qs_profile){0};
    } else if (status == QS_OK) {
        *out = (qs_profile){0};
    }
    qs_profile_release(&all);
    return status;
}
