// SPDX-License-Identifier: Apache-2.0
/* One training step: samples into the input buffers, the schedule, and the bookkeeping behind it. */
#include "train_internal.h"

#include <math.h>

enum { REPORT_EVERY = 10 };

static void loss_note(qs__trainer *trainer, const qs__program *program, int64_t count) {
    const float *loss = qs_executor_buffer(program->executor, program->schedule->loss);
    trainer->interval.loss += loss[0];
    trainer->interval.correct += loss[1];
    trainer->interval.samples += (double)count;
}

/* The flag is 0 when a sum of gradients was not finite: on all ranks, for the sums are the same bits. */
static void scale_update(qs__trainer *trainer, const qs__program *program) {
    if (program->schedule->flag < 0) return;
    const float *flag = qs_executor_buffer(program->executor, program->schedule->flag);
    if (*flag == 0) trainer->skipped++;
    qs_loss_scale_update(&trainer->scale, *flag != 0);
}

static const qs__program *program_for(const qs__trainer *trainer, int64_t count) {
    return count == trainer->batch[trainer->rank] || count == 0 ? &trainer->main : &trainer->partial;
}

/* A loss that is not finite is traced to its tensor before backward passes write over the values; the step goes on, since the other ranks
 * wait for its sums. */
static qs_status forward_run(qs__trainer *trainer, const qs__program *program, const qs_run *run) {
    QS_TRY(qs__executor_forward(program->executor, run));
    const float *loss = qs_executor_buffer(program->executor, program->schedule->loss);
    if (run->samples == 0 || isfinite(loss[0]) || trainer->bad_step >= 0) return QS_OK;
    trainer->bad_step = trainer->step;
    return qs__culprit_find(program, trainer->graph, run, &trainer->culprit);
}

static qs_status samples_run(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch, int64_t *global) {
    const int64_t *indices;
    int64_t count, first;
    QS_TRY(qs_sharding_step(&trainer->sharding, epoch, step_in_epoch, trainer->rank, &indices, &count, &first, global));
    const qs__program *program = program_for(trainer, count);
    const qs_run run = {.seed = trainer->job->seed,
                        .step = (uint64_t)trainer->step,
                        .first_sample = first - step_in_epoch * trainer->global_batch,
                        .samples = count,
                        .global_samples = *global,
                        .loss_scale = trainer->scale.value,
                        .learning_rate = qs_learning_rate(trainer->job, trainer->step, trainer->steps_per_epoch)};
    trainer->augmentation.epoch = epoch;
    qs__batch_load(program, trainer->graph, &trainer->training, &trainer->augmentation, indices, count);
    QS_TRY(forward_run(trainer, program, &run));
    QS_TRY(qs__executor_finish(program->executor, &run));
    QS_TRY(qs__gradients_report(trainer, program, epoch, run.loss_scale));
    if (count > 0) loss_note(trainer, program, count);
    scale_update(trainer, program);
    return qs__rounding_step(trainer, program, count);
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
