// SPDX-License-Identifier: Apache-2.0
/* One training step: samples into the input buffers, the schedule, and the bookkeeping behind it. */
#include "train_internal.h"

#include <math.h>

enum { REPORT_EVERY = 10 };

qs_status qs__sums_add(qs__sums *sums, const qs__program *program, int64_t count) {
    float loss[2];
    QS_TRY(qs_executor_read(program->executor, program->schedule->loss, 0, sizeof loss, loss));
    sums->loss += loss[0];
    sums->correct += loss[1];
    sums->samples += (double)count;
    return QS_OK;
}

static qs_status loss_note(qs__trainer *trainer, const qs__program *program, int64_t count) {
    QS_TRY(qs__sums_add(&trainer->interval, program, count));
    if (trainer->first.samples == 0) trainer->first = trainer->interval;
    return QS_OK;
}

static const qs__program *program_for(const qs__trainer *trainer, int64_t count) {
    return count == trainer->batch[trainer->rank] || count == 0 ? &trainer->main : &trainer->partial;
}

qs_status qs__sample_step_find(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch, qs__sample_step *out) {
    int64_t count, first, global;
    QS_TRY(qs_sharding_step(&trainer->sharding, epoch, step_in_epoch, trainer->rank, &out->indices, &count, &first, &global));
    out->program = program_for(trainer, count);
    out->run = (qs_run){.seed = trainer->job->seed,
                        .step = (uint64_t)trainer->step,
                        .first_sample = first - step_in_epoch * trainer->global_batch,
                        .samples = count,
                        .global_samples = global,
                        .loss_scale = trainer->scale.value,
                        .learning_rate = qs_learning_rate(trainer->job, trainer->step, trainer->steps_per_epoch),
                        .updates = trainer->step - trainer->skipped};
    trainer->augmentation.epoch = epoch;
    return QS_OK;
}

qs_status qs__sample_step_load(const qs__trainer *trainer, const qs__sample_step *one) {
    return qs_executor_load(one->program->executor, trainer->graph, &trainer->training, &trainer->augmentation, one->indices,
                            one->run.samples);
}

/* Looks for the first tensor that is not finite; the batch may have been written over. Without one this rank has found nothing. */
static qs_status failure_note(qs__trainer *trainer, const qs__sample_step *one, qs__reason reason, int end) {
    qs__failure found = {.step = trainer->step, .reason = reason};
    QS_TRY(qs__sample_step_load(trainer, one));
    QS_TRY(qs__culprit_find(one->program, trainer->graph, &one->run, end, &found.culprit));
    if (found.culprit.tensor[0]) trainer->failure = found;
    return QS_OK;
}

/* A loss that is not finite is traced to its tensor before backward passes write over the values; the step goes on, since the other ranks
 * wait for its sums. */
static qs_status forward_run(qs__trainer *trainer, const qs__sample_step *one) {
    const qs_schedule *schedule = one->program->schedule;
    QS_TRY(qs__executor_forward(one->program->executor, &one->run));
    float loss;
    QS_TRY(qs_executor_read(one->program->executor, schedule->loss, 0, sizeof loss, &loss));
    if (one->run.samples == 0 || isfinite(loss) || trainer->failure.step >= 0) return QS_OK;
    return failure_note(trainer, one, QS__LOSS, qs__phase_end(schedule, QS_FORWARD));
}

/* Where loss scaling does not look at the sums, gradients are looked at here: they would spoil the weights, and a relu may hide that. */
static qs_status backward_run(qs__trainer *trainer, const qs__sample_step *one) {
    const qs_schedule *schedule = one->program->schedule;
    qs_executor *executor = one->program->executor;
    const bool looked_at = schedule->flag < 0 && trainer->failure.step < 0;
    bool finite = true;
    QS_TRY(qs__executor_backward(executor, &one->run, looked_at ? &finite : NULL));
    if (finite) return QS_OK;
    QS_TRY(qs__executor_settle(executor));
    return failure_note(trainer, one, QS__GRADIENT, qs__phase_end(schedule, QS_BACKWARD));
}

/* The flag is 0 when a sum of gradients was not finite: on all ranks, for the sums are the same bits. */
static qs_status scale_update(qs__trainer *trainer, const qs__sample_step *one, int64_t epoch) {
    const qs_schedule *schedule = one->program->schedule;
    if (schedule->flag < 0) return QS_OK;
    float flag;
    QS_TRY(qs_executor_read(one->program->executor, schedule->flag, 0, sizeof flag, &flag));
    if (flag == 0) trainer->skipped++;
    qs_loss_scale_update(&trainer->scale, flag != 0);
    if (trainer->scale.skipped < qs__skip_limit(trainer)) return QS_OK;
    qs_status status = QS_OK;
    if (one->run.samples > 0 && trainer->failure.step < 0)
        status = failure_note(trainer, one, QS__SKIPPING, qs__phase_end(schedule, QS_BACKWARD));
    QS_TRY(qs_comm_agree(trainer->comm, status));
    return qs__failure_tell(trainer, epoch, QS__SKIPPING);
}

static qs_status samples_run(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch, int64_t *global) {
    qs__sample_step one;
    QS_TRY(qs__sample_step_find(trainer, epoch, step_in_epoch, &one));
    *global = one.run.global_samples;
    QS_TRY(qs__sample_step_load(trainer, &one));
    QS_TRY(forward_run(trainer, &one));
    QS_TRY(backward_run(trainer, &one));
    QS_TRY(qs__executor_update(one.program->executor, &one.run));
    QS_TRY(qs__gradients_report(trainer, one.program, epoch, one.run.loss_scale));
    if (one.run.samples > 0) QS_TRY(loss_note(trainer, one.program, one.run.samples));
    QS_TRY(scale_update(trainer, &one, epoch));
    return qs__rounding_step(trainer, one.program, one.run.samples);
}

static bool is_last_of_epoch(const qs__trainer *trainer, int64_t step_in_epoch) {
    return step_in_epoch + 1 == trainer->steps_per_epoch || trainer->step + 1 == trainer->steps;
}

static void progress_show(const qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch, double loss, double images_per_second) {
    const qs_train_options *options = trainer->options;
    if (!options->progress || trainer->rank != 0) return;
    options->progress(options->progress_context, (int)epoch, trainer->job->epochs, step_in_epoch, trainer->steps_per_epoch, loss,
                      images_per_second);
}

/* Mean loss per sample: of this rank since the last report, or of all ranks in this epoch right behind a report. */
static double loss_shown(const qs__trainer *trainer) {
    const qs__sums *sums = trainer->interval.samples > 0 ? &trainer->interval : &trainer->epoch;
    return sums->samples > 0 ? sums->loss / sums->samples : 0;
}

qs_status qs__trainer_step(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch) {
    QS_TRY(qs__norm_gap_report(trainer, epoch, step_in_epoch));
    const double begin = qs_clock();
    int64_t global = 0;
    QS_TRY(samples_run(trainer, epoch, step_in_epoch, &global));
    if ((step_in_epoch + 1) % REPORT_EVERY == 0 || is_last_of_epoch(trainer, step_in_epoch)) QS_TRY(qs__sums_report(trainer, epoch));
    const double end = qs_clock(), seconds = end - begin;
    const bool full = global == trainer->global_batch;
    trainer->seconds[trainer->step] = full ? seconds : -seconds;
    if (full) qs__watch_step(&trainer->watch, trainer->step, begin, end);
    if (trainer->options->step_done) trainer->options->step_done(trainer->options->step_context, trainer->step, seconds);
    progress_show(trainer, epoch, step_in_epoch, loss_shown(trainer), (double)global / seconds);
    trainer->step++;
    const int every = trainer->options->hash_every;
    return every > 0 && trainer->step % every == 0 ? qs__weights_agree(trainer) : QS_OK;
}
