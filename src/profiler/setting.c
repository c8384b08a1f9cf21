// SPDX-License-Identifier: Apache-2.0
/* What is measured: the class of this rank with its recipes, the model, the data; and how far the whole work is. */
#include "setting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Plans, the part of the work below `plans_share`, take most of the time, and they alone are measured anew for each other batch. */
static const double plans_share = 0.45, their_time = 0.75;

void qs__progress(const qs__setting *setting, double fraction, const char *what) {
    char text[128];
    if (setting->rank > 0 || !setting->options->progress) return;
    fraction = fraction < plans_share ? fraction * their_time / plans_share : 1 - (1 - fraction) * (1 - their_time) / (1 - plans_share);
    snprintf(text, sizeof text, "%s%s", what, setting->part);
    setting->options->progress(setting->options->progress_context, text, setting->part_from + setting->part_share * fraction);
}

qs_status qs__batch_fill(const qs__setting *setting, qs_executor *executor, int64_t step, int64_t batch) {
    const qs_dataset *set = &setting->training;
    const int64_t first = (step * setting->ranks + setting->rank) * batch;
    const qs_augmentation augmentation =
        qs_augmentation_standard(set, setting->job->augmentation, setting->job->seed, first / setting->ordered);
    for (int64_t i = 0; i < batch; i++)
        setting->indices[i] = setting->order[(first + i) % setting->ordered];
    return qs_executor_load(executor, setting->graph, set, &augmentation, setting->indices, batch);
}

qs_status qs__training_step(const qs__setting *setting, qs_executor *executor, int64_t step) {
    const qs_run one = {.seed = setting->job->seed,
                        .step = (uint64_t)step,
                        .samples = setting->job->batch,
                        .first_sample = setting->rank * setting->job->batch,
                        .global_samples = setting->ranks * setting->job->batch,
                        .loss_scale = qs_loss_scale_start(setting->job).value,
                        .label_smoothing = setting->job->label_smoothing};
    QS_TRY(qs__batch_fill(setting, executor, step, setting->job->batch));
    return qs_executor_run(executor, &one);
}

/* ---- Time -------------------------------------------------------------------------------------------------------------------------- */

/* Where nobody says how long: what is there for every model, and so many steps a plan; a model whose steps are long is done with fewer. */
static const double usual_s = 20, usual_steps = 16, usual_most_s = 120;
/* Of a stated time, for fits of conversions; what messages take with several ranks, and what is left to do at the end. */
static const double conversions_part = 0.15, messages_s = 4, end_s = 2;
/* A step of half a batch takes more than half of one, and their programs have to be made. */
static const double half_batch = 0.75;
/* What a kind of conversion takes beyond its time: its first sizes, and its last sweep. */
static const double conversions_over = 1.4;

double qs__budget_seconds(const qs__setting *setting, int plans, double step_s) {
    const double minutes = setting->options->minutes;
    return minutes < 0 ? fmin(usual_s + usual_steps * plans * step_s, usual_most_s) : 60 * minutes;
}

double qs__conversion_seconds(const qs__setting *setting) {
    const double asked = setting->options->conversion_seconds, minutes = setting->options->minutes;
    return minutes > 0 ? fmin(asked, conversions_part * 60 * minutes) : asked;
}

/* Runs of half a batch for the noise of single operators: those asked for, or what makes up the stated part of the steps that are taken at
 * least. The samples of a program's own model cannot be loaded again for them. */
int qs__noise_runs(const qs_profile_options *options, int plans) {
    static const double part = 0.3;
    if (options->graph || options->statistics_iterations == 0) return 0;
    if (options->noise_runs >= 0) return options->noise_runs;
    const int steps = options->minutes != 0 && options->repetitions > QS__LEAST_STEPS ? QS__LEAST_STEPS : options->repetitions;
    return (int)(part * (2.0 * plans * steps + options->statistics_iterations));
}

/* What comes behind the job's own plans, other batches and lengths apart: while ranks wait, conversions, messages, statistics. */
static double later_seconds(const qs__setting *setting, int plans, double step_s) {
    const qs_profile_options *options = setting->options;
    const double halves = options->statistics_iterations + qs__noise_runs(options, plans), turns = qs_comm_local_size(setting->comm);
    const double messages = setting->ranks > 1 ? messages_s + turns * 4 * (setting->recipes + 3) * step_s : 0;
    const double balanced = setting->ranks > 1 ? QS_PROFILE_BALANCED_PART * qs__budget_seconds(setting, plans, step_s) : 0;
    return balanced + conversions_over * qs__conversion_seconds(setting) + messages + half_batch * halves * step_s + end_s;
}

double qs__plans_until(const qs__setting *setting, int plans, double step_s) {
    const double later = setting->part[0] ? 0 : later_seconds(setting, plans, step_s), now = qs_clock();
    const double left = setting->begin + qs__budget_seconds(setting, plans, step_s) - later - now;
    return now + left / (setting->options->minutes > 0 ? setting->parts_left : 1);
}

/* ---- Opening ----------------------------------------------------------------------------------------------------------------------- */

static qs_status batches_check(const qs_profile_options *options) {
    if (options->batches < 0 || options->batches > QS_PROFILE_BATCHES)
        return qs_fail(QS_USAGE, "%d other batches: at most %d can be measured", options->batches, QS_PROFILE_BATCHES);
    for (int i = 0; i < options->batches; i++) {
        if (options->batch[i] < 1) return qs_fail(QS_USAGE, "batch %lld: must be at least 1", (long long)options->batch[i]);
        for (int k = 0; k < i; k++)
            if (options->batch[k] == options->batch[i]) return qs_fail(QS_USAGE, "batch %lld stands twice", (long long)options->batch[i]);
        if (options->batch[i] == options->job->batch)
            return qs_fail(QS_USAGE, "batch %lld is the job's own: it is measured anyway", (long long)options->batch[i]);
    }
    return QS_OK;
}

static qs_status options_check(const qs__setting *setting) {
    const qs_profile_options *options = setting->options;
    const int wanted = qs_cluster_ranks(options->cluster);
    QS_TRY(batches_check(options));
    if (options->job->lengths.count > 1 && options->batches + options->checks > 0)
        return qs_fail(QS_UNSUPPORTED, "%d lengths with other batches or checks of plans: both are measured at one length",
                       options->job->lengths.count);
    if (!(options->minutes >= 0 || options->minutes == -1) || options->minutes > 1e6)
        return qs_fail(QS_USAGE, "%g minutes: at least 0, which is no limit, or -1: by the model", options->minutes);
    if (!(options->taken_days >= 0 && options->taken_days <= QS_TIMINGS_MOST_DAYS))
        return qs_fail(QS_USAGE, "cases of the last %g days: from 0, which is none, to %d, for which they are kept", options->taken_days,
                       QS_TIMINGS_MOST_DAYS);
    if (options->repetitions < 2) return qs_fail(QS_USAGE, "repetitions %d: a median needs at least 2", options->repetitions);
    if (options->statistics_iterations < 0)
        return qs_fail(QS_USAGE, "statistics iterations %d: at least 0", options->statistics_iterations);
    if (wanted == setting->ranks) return QS_OK;
    return qs_fail(QS_USAGE, "the cluster has %d ranks but %d were started; start %d, or change the counts of its classes", wanted,
                   setting->ranks, wanted);
}

static qs_status data_load(qs__setting *setting) {
    const qs_profile_options *options = setting->options;
    const double before = (double)qs_resident_bytes();
    if ((options->training == NULL) != (options->test == NULL))
        return qs_fail(QS_USAGE, "samples of the program's own: a training set and a test set, or none");
    if (options->training) {
        QS_TRY(qs_samples_lend(options->training, setting->graph, 0, &setting->training));
        QS_TRY(qs_samples_lend(options->test, setting->graph, 0, &setting->test));
    } else {
        QS_TRY(qs_job_samples(setting->job, setting->graph, options->data_folder, QS_PART_TRAINING, 0, &setting->training));
        QS_TRY(qs_job_samples(setting->job, setting->graph, options->data_folder, QS_PART_TEST, 0, &setting->test));
    }
    QS_TRY(qs_allocate((size_t)setting->training.count, sizeof *setting->order, &setting->order));
    QS_TRY(qs_allocate((size_t)setting->job->batch, sizeof *setting->indices, &setting->indices));
    setting->ordered = setting->training.count;
    qs_random_permutation(qs_random_key(setting->job->seed, 0, 0, 0), setting->ordered, setting->order);
    qs_heap_trim();
    setting->data_bytes = fmax((double)qs_resident_bytes() - before, 0);
    return QS_OK;
}

/* The class's own recipes, which planners choose from, and those that were asked for. */
static qs_status recipes_list(qs__setting *setting) {
    const qs_profile_options *options = setting->options;
    QS_TRY(qs_class_recipes(setting->class_, QS__MOST_RECIPES, setting->recipe, &setting->recipes));
    for (int i = 0; i < options->recipes; i++) {
        int known = 0;
        while (known < setting->recipes && strcmp(setting->recipe[known].name, options->recipe[i].name) != 0)
            known++;
        if (known < setting->recipes) continue;
        if (setting->recipes == QS__MOST_RECIPES)
            return qs_fail(QS_UNSUPPORTED, "class %s: at most %d recipes with those that were asked for: name fewer", setting->class_->name,
                           QS__MOST_RECIPES);
        setting->recipe[setting->recipes++] = options->recipe[i];
    }
    return QS_OK;
}

qs_status qs__setting_open(qs__setting *setting) {
    const qs_profile_options *options = setting->options;
    setting->job = options->job;
    setting->rank = qs_comm_rank(setting->comm);
    setting->ranks = qs_comm_size(setting->comm);
    const int shorter = options->job->lengths.count > 1 ? options->job->lengths.count - 1 : 0;
    setting->part_share = 1 / (1 + (options->batches + shorter) * their_time);
    setting->parts_left = 1 + options->batches + shorter;
    QS_TRY(options_check(setting));
    setting->class_ = &options->cluster->class_[qs_cluster_class_of(options->cluster, setting->rank)];
    setting->graph = options->graph ? options->graph : setting->opened;
    QS_TRY(qs_graph_lengths_make(setting->graph, &setting->job->lengths, &setting->lengths));
    QS_TRY(recipes_list(setting));
    QS_TRY(qs_comm_open("self", &setting->self));
    return data_load(setting);
}

void qs__setting_release(qs__setting *setting) {
    if (!setting->options->training) {
        qs_dataset_release(&setting->training);
        qs_dataset_release(&setting->test);
    }
    qs_graph_lengths_release(&setting->lengths);
    qs_graph_release(setting->opened);
    qs_comm_close(setting->self);
    free(setting->order);
    free(setting->indices);
}

/* A stated time is for all parts together; else each has its own. */
static void part_begin(qs__setting *part, int parts_left) {
    part->parts_left = parts_left;
    if (part->options->minutes < 0) part->begin = qs_clock();
}

qs_status qs__setting_at_batch(const qs__setting *from, const qs_profile_options *options, const qs_job *job, int index, qs__setting *out) {
    const int batches = from->options->batches;
    *out = *from;
    out->options = options;
    out->job = job;
    out->indices = NULL;
    part_begin(out, batches - index);
    out->part_share = 1 / (1 + batches * their_time);
    out->part_from = out->part_share * (1 + index * their_time);
    snprintf(out->part, sizeof out->part, " at batch %lld (%d of %d)", (long long)job->batch, index + 1, batches);
    return qs_allocate((size_t)job->batch, sizeof *out->indices, &out->indices);
}

qs_status qs__setting_at_length(const qs__setting *from, int index, qs__setting *out) {
    const qs_lengths *lengths = &from->job->lengths;
    const int64_t most = lengths->at[index], least = index > 0 ? lengths->at[index - 1] + 1 : 0;
    const int32_t *length = from->training.length;
    *out = *from;
    out->graph = from->lengths.graph[index];
    part_begin(out, lengths->count - 1 - index);
    out->indices = out->order = NULL;
    out->ordered = 0;
    out->part_from = out->part_share * (1 + index * their_time);
    snprintf(out->part, sizeof out->part, " at length %lld (%d of %d)", (long long)most, index + 1, lengths->count - 1);
    if (!length) return qs_fail(QS_USAGE, "length %lld: the samples all have one length", (long long)most);
    QS_TRY(qs_allocate((size_t)from->training.count, sizeof *out->order, &out->order));
    QS_TRY(qs_allocate((size_t)from->job->batch, sizeof *out->indices, &out->indices));
    for (int shorter = 0; shorter < 2 && out->ordered == 0; shorter++)
        for (int64_t i = 0; i < from->ordered; i++)
            if (length[from->order[i]] <= most && (shorter || length[from->order[i]] >= least)) out->order[out->ordered++] = from->order[i];
    if (out->ordered > 0) return QS_OK;
    return qs_fail(QS_USAGE, "length %lld: no training sample is so short; leave it out", (long long)most);
}
