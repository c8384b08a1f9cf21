// SPDX-License-Identifier: Apache-2.0
/* One training step: samples into the input buffers, the schedule, and the bookkeeping behind it. */
#include "train_internal.h"

#include <math.h>
#include <stdlib.h>

enum { REPORT_EVERY = 10 };

/* ---- Samples ---------------------------------------------------------------------------------------------------------------------- */

qs_status qs__sample_step_find(const qs__setting *setting, qs__plans *plans, const qs__counters *counters, int64_t epoch,
                               int64_t step_in_epoch, qs__sample_step *out) {
    const qs__present *present = &plans->present;
    int64_t count, first, begin = 0, counted = 0;
    QS_TRY(qs_sharding_size(&plans->sharding, epoch, step_in_epoch, &out->length, &out->samples));
    for (int rank = 0; rank < setting->ranks; rank++) {
        QS_TRY(qs_sharding_step(&plans->sharding, epoch, step_in_epoch, rank, &out->indices, &count, &first, &out->samples));
        if (rank == 0) begin = first;
        counted += qs_dataset_counted(&setting->training, out->indices, count);
    }
    QS_TRY(qs_sharding_step(&plans->sharding, epoch, step_in_epoch, setting->rank, &out->indices, &count, &first, &out->samples));
    const qs__length_programs *at = &present->at[out->length];
    out->program = count == present->batch[setting->rank] || count == 0 ? &at->main : &at->partial;
    out->epoch = epoch;
    out->run = (qs_run){.seed = setting->job->seed,
                        .step = (uint64_t)counters->step,
                        .first_sample = first - begin,
                        .samples = count,
                        .global_samples = counted > 0 ? counted : 1,
                        .loss_scale = counters->scale.value,
                        .label_smoothing = setting->job->label_smoothing,
                        .learning_rate = qs_learning_rate(setting->job, counters->step, setting->steps_per_epoch),
                        .updates = counters->step - counters->skipped};
    return QS_OK;
}

qs_status qs__sample_step_load(const qs__setting *setting, const qs__sample_step *one) {
    const qs_augmentation augmentation =
        qs_augmentation_standard(&setting->training, setting->job->augmentation, setting->job->seed, one->epoch);
    return qs_executor_load(one->program->executor, one->program->graph, &setting->training, &augmentation, one->indices, one->run.samples);
}

/* ---- The schedule ------------------------------------------------------------------------------------------------------------------ */

/* Looks for the first tensor that is not finite; the batch may have been written over. Without one this rank has found nothing. */
static qs_status failure_note(const qs__setting *setting, const qs__sample_step *one, qs__reason reason, int end, qs__failure *out) {
    qs__failure found = {.step = (int64_t)one->run.step, .reason = reason};
    QS_TRY(qs__sample_step_load(setting, one));
    QS_TRY(qs__culprit_find(one->program, setting->graph, &one->run, end, &found.culprit));
    if (found.culprit.tensor[0]) *out = found;
    return QS_OK;
}

/* sums: this step's alone. A loss that is not finite is traced to its tensor before backward passes write over the values; the step goes
 * on, since the other ranks wait for its sums. Where loss scaling does not look at the sums, gradients are looked at here: they would
 * spoil the weights, and a relu may hide that. */
static qs_status schedule_run(const qs__setting *setting, const qs__sample_step *one, qs__failure *failure, qs__sums *sums) {
    const qs_schedule *schedule = one->program->schedule;
    qs_executor *executor = one->program->executor;
    bool finite = true;
    QS_TRY(qs__executor_phase(executor, QS_FORWARD, &one->run, NULL));
    if (one->run.samples > 0) QS_TRY(qs__sums_add(sums, one->program, &setting->training, one->indices, one->run.samples));
    if (!isfinite(sums->loss) && failure->step < 0)
        QS_TRY(failure_note(setting, one, QS__LOSS, qs__phase_end(schedule, QS_FORWARD), failure));
    QS_TRY(qs__executor_phase(executor, QS_BACKWARD, &one->run, schedule->flag < 0 && failure->step < 0 ? &finite : NULL));
    if (!finite) {
        QS_TRY(qs__executor_complete(executor));
        QS_TRY(failure_note(setting, one, QS__GRADIENT, qs__phase_end(schedule, QS_BACKWARD), failure));
    }
    return qs__executor_phase(executor, QS_UPDATE, &one->run, NULL);
}

/* ---- Behind it ---------------------------------------------------------------------------------------------------------------------- */

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

/* How widely the weight gradients of a step spread, an adjustable operator at a time, behind the all-reduces and before the loss scale
 * changes: what sums in narrow accumulators lose of them shows here. */
static qs_status gradients_report(const qs__setting *setting, const qs__sample_step *one) {
    const int64_t every = setting->options->gradients_every, step = (int64_t)one->run.step;
    const qs_graph *graph = setting->graph;
    float *gradients = NULL;
    qs_status status = QS_OK;
    if (every == 0 || (step + 1) % every != 0) return QS_OK;
    QS_GOTO(qs__executor_copy(one->program->executor, one->program->schedule->gradients, &gradients));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        const qs_parameter *weights = qs_graph_parameter(graph, n, QS_WEIGHTS);
        if (graph->node[n].op->kind != QS_ADJUSTABLE || !weights || weights->frozen) continue;
        const double variance = variance_of(gradients + weights->offset, qs_shape_count(&weights->shape), 1 / one->run.loss_scale);
        QS_GOTO(qs__metrics_gradient(setting, one->epoch, step, n, variance));
    }
done:
    free(gradients);
    return status;
}

/* The flag is 0 when a sum of gradients was not finite: on all ranks, for the sums are the same bits. */
static qs_status scale_update(qs__trainer *trainer, const qs__sample_step *one) {
    const qs_schedule *schedule = one->program->schedule;
    qs__counters *counters = &trainer->counters;
    float flag;
    if (schedule->flag < 0) return QS_OK;
    QS_TRY(qs_executor_read(one->program->executor, schedule->flag, 0, sizeof flag, &flag));
    if (flag == 0) counters->skipped++;
    qs_loss_scale_update(&counters->scale, flag != 0);
    if (counters->scale.skipped < qs__skip_limit(trainer->setting.options)) return QS_OK;
    qs_status status = QS_OK;
    if (one->run.samples > 0 && trainer->failure.step < 0)
        status = failure_note(&trainer->setting, one, QS__SKIPPING, qs__phase_end(schedule, QS_BACKWARD), &trainer->failure);
    QS_TRY(qs_comm_agree(trainer->setting.comm, status));
    return qs__failure_tell(&trainer->setting, qs__main(&trainer->plans.present), &trainer->failure, one->epoch, counters->step,
                            QS__SKIPPING);
}

/* One small all-reduce for loss, accuracy and the finite check of all steps since the last report: a NaN survives every sum. That a rank's
 * gradients were not finite, and that rank 0 found a new plan, travel with it. */
static qs_status sums_report(qs__trainer *trainer, int64_t epoch) {
    const qs__setting *setting = &trainer->setting;
    const qs__program *main = qs__main(&trainer->plans.present);
    qs__losses *losses = &trainer->losses;
    const int64_t step = trainer->counters.step;
    double all[] = {losses->interval.loss,
                    losses->interval.correct,
                    losses->interval.samples,
                    qs__plan_file_changed(setting, &trainer->plans, step) ? 1 : 0,
                    trainer->failure.step >= 0 ? 1 : 0,
                    losses->first.loss,
                    losses->first.samples};
    QS_TRY(qs_comm_sum(setting->comm, all, 7));
    const qs__sums sums = {all[0], all[1], all[2]};
    qs_status status = qs__metrics_interval(setting, epoch, &trainer->counters, &sums);
    if (!isfinite(all[0]) || all[4] > 0) {
        QS_TRY(qs_comm_agree(setting->comm, status));
        return qs__failure_tell(setting, main, &trainer->failure, epoch, step, QS__LOSS);
    }
    QS_TRY(status);
    losses->epoch.loss += sums.loss;
    losses->epoch.correct += sums.correct;
    losses->epoch.samples += sums.samples;
    trainer->plans.offered = all[3] > 0;
    const qs__divergence at = {
        .epoch = epoch, .step = step, .mine = &losses->interval, .loss = qs__mean(sums.loss, &sums), .first = all[5] / all[6]};
    status = qs__divergence_check(setting, main, &trainer->rounding, &at);
    losses->interval = (qs__sums){0};
    return status;
}

qs_status qs__trainer_step(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch) {
    const qs__setting *setting = &trainer->setting;
    const qs_train_options *options = setting->options;
    qs__losses *losses = &trainer->losses;
    int64_t *step = &trainer->counters.step;
    qs__sample_step one;
    const double begin = qs_clock();
    QS_TRY(qs__sample_step_find(setting, &trainer->plans, &trainer->counters, epoch, step_in_epoch, &one));
    QS_TRY(qs__sample_step_load(setting, &one));
    qs__pace_apply(setting, *step, one.program->executor);
    QS_TRY(qs__adapt_probe(&trainer->adapting, qs__main(&trainer->plans.present), &one.run));
    qs__sums sums = {0};
    QS_TRY(schedule_run(setting, &one, &trainer->failure, &sums));
    QS_TRY(gradients_report(setting, &one));
    if (one.run.samples > 0) {
        losses->interval.loss += sums.loss;
        losses->interval.correct += sums.correct;
        losses->interval.samples += sums.samples;
        if (losses->first.samples == 0) losses->first = losses->interval;
    }
    QS_TRY(scale_update(trainer, &one));
    QS_TRY(qs__rounding_step(&trainer->rounding, trainer->plans.present.plan, setting->comm, one.program, one.run.samples));
    const bool last_of_epoch = step_in_epoch + 1 == setting->steps_per_epoch || *step + 1 == setting->steps;
    if ((step_in_epoch + 1) % REPORT_EVERY == 0 || last_of_epoch) QS_TRY(sums_report(trainer, epoch));
    const double end = qs_clock(), seconds = end - begin;
    const bool full = one.samples == setting->global_batch;
    trainer->seconds[*step] = full ? seconds : -seconds;
    trainer->length[*step] = (unsigned char)one.length;
    if (full) {
        qs__watch *watch = &trainer->plans.watch[one.length];
        const qs_timeline *timeline = options->adaptation ? qs__watch_timeline(watch) : NULL;
        if (timeline && !options->pace_trace) qs__adapt_note(&trainer->adapting, one.length, watch->schedule, timeline);
        qs__watch_step(watch, *step, begin, end);
    }
    if (options->step_done) options->step_done(options->step_context, *step, seconds);
    if (options->progress && setting->rank == 0) {
        /* Mean loss per sample: of this rank since the last report, or of all ranks in this epoch right behind a report. */
        const qs__sums *shown = losses->interval.samples > 0 ? &losses->interval : &losses->epoch;
        options->progress(options->progress_context, (int)epoch, setting->job->epochs, step_in_epoch, setting->steps_per_epoch,
                          shown->samples > 0 ? shown->loss / shown->samples : 0, (double)one.samples / seconds,
                          setting->training.description.samples.unit);
    }
    ++*step;
    const int every = options->hash_every;
    return every > 0 && *step % every == 0 ? qs__weights_agree(&trainer->plans.present, setting->comm, *step) : QS_OK;
}
