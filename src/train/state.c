// SPDX-License-Identifier: Apache-2.0
/* The state of a run to a file and back: what lies in the persistent part of the arena, but for gradients, and the trainer's counters. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COMMON = 3 + QS_MOST_STATES };

static qs_state_part part_of(const qs__trainer *trainer, int buffer, const char *name) {
    const qs_schedule *schedule = trainer->main.schedule;
    qs_state_part part = {.elements = (int64_t)(schedule->buffer[buffer].bytes / sizeof(float)),
                          .data = qs_executor_buffer(trainer->main.executor, buffer)};
    snprintf(part.name, sizeof part.name, "%s", name);
    return part;
}

qs_state_part qs__promotions_part(const qs__trainer *trainer) {
    _Static_assert(sizeof(qs__rise) % sizeof(float) == 0, "a part consists of whole fp32 slots");
    const qs__rounding *rounding = &trainer->rounding;
    return (qs_state_part){.name = "promotions",
                           .elements = rounding->values * (int64_t)(sizeof(qs__rise) / sizeof(float)),
                           .data = (float *)(void *)rounding->rise}; /* only ever copied as bytes */
}

/* What is the same on all ranks into part[COMMON]; returns their number. */
static int common_parts(const qs__trainer *trainer, qs_state_part *part) {
    const qs_schedule *schedule = trainer->main.schedule;
    int parts = 0;
    part[parts++] = part_of(trainer, schedule->masters, "weights");
    part[parts++] = qs__promotions_part(trainer);
    if (trainer->graph->statistics_elements > 0) part[parts++] = part_of(trainer, schedule->running, "running_statistics");
    for (int i = 0; i < schedule->states; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%.40s", trainer->job->optimizer.name, schedule->buffer[schedule->state[i]].name);
        part[parts++] = part_of(trainer, schedule->state[i], name);
    }
    return parts;
}

/* All parts, residuals of every rank behind the common ones. residuals: those of all ranks, one after the other, or NULL: only this
 * rank's, in their place. */
static qs_status parts_make(const qs__trainer *trainer, float *residuals, qs_state_part **out, int *count) {
    const int buffer = trainer->main.schedule->residuals;
    qs_state_part *part = NULL;
    QS_TRY(qs_allocate((size_t)(COMMON + trainer->ranks), sizeof *part, &part));
    int parts = common_parts(trainer, part);
    for (int rank = 0; buffer >= 0 && rank < trainer->ranks; rank++) {
        char name[64];
        snprintf(name, sizeof name, "wire_residuals.%d", rank);
        qs_state_part *one = &part[parts++];
        *one = part_of(trainer, buffer, name);
        if (residuals) one->data = residuals + rank * one->elements;
        if (!residuals && rank != trainer->rank) one->data = NULL;
    }
    *out = part;
    *count = parts;
    return QS_OK;
}

static qs_status residuals_gather(const qs__trainer *trainer, char **data) {
    const qs_schedule *schedule = trainer->main.schedule;
    int64_t *sizes = NULL;
    if (schedule->residuals < 0) return QS_OK;
    const qs_status status = qs_comm_gather(trainer->comm, qs_executor_buffer(trainer->main.executor, schedule->residuals),
                                            (int64_t)schedule->buffer[schedule->residuals].bytes, data, &sizes);
    free(sizes);
    return status;
}

static qs_status state_write(const qs__trainer *trainer, char *residuals) {
    const qs_progress progress = {.step = trainer->step,
                                  .steps_per_epoch = trainer->steps_per_epoch,
                                  .skipped = trainer->skipped,
                                  .loss_scale = trainer->scale.value,
                                  .good_steps = trainer->scale.good_steps,
                                  .bad_steps = trainer->scale.skipped};
    qs_state_part *part = NULL;
    char *path = NULL;
    int parts = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_path_join(trainer->options->run_folder, "state.qsync", &path));
    QS_GOTO(parts_make(trainer, (float *)(void *)residuals, &part, &parts)); /* from the heap: aligned for anything */
    QS_GOTO(qs_state_write(path, trainer->graph, &progress, parts, part));
done:
    free(part);
    free(path);
    return status;
}

qs_status qs__state_save(qs__trainer *trainer, int64_t epoch) {
    const int64_t every = trainer->options->checkpoint_every;
    char *residuals = NULL;
    if (every == 0 || !trainer->options->run_folder) return QS_OK;
    if ((epoch + 1) % every != 0 && trainer->step < trainer->steps) return QS_OK;
    QS_TRY(qs__promotions_judge(trainer));
    QS_TRY(residuals_gather(trainer, &residuals));
    const qs_status status = trainer->rank == 0 ? state_write(trainer, residuals) : QS_OK;
    free(residuals);
    return qs_comm_agree(trainer->comm, status);
}

/* The record of the run that goes on must not be written over by this one's. */
static qs_status folder_check(const qs_train_options *options) {
    char *path = NULL;
    struct stat here, there;
    if (!options->run_folder) return QS_OK;
    QS_TRY(qs_path_join(options->run_folder, "state.qsync", &path));
    const bool same =
        stat(path, &here) == 0 && stat(options->resume, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    free(path);
    if (!same) return QS_OK;
    return qs_fail(QS_USAGE, "%s is in the run folder that this run would write over; give it another one", options->resume);
}

static qs_status progress_check(const qs__trainer *trainer, const qs_progress *progress) {
    const char *file = trainer->options->resume;
    if (progress->steps_per_epoch != trainer->steps_per_epoch)
        return qs_fail(QS_MISMATCH, "%s: an epoch had %lld steps, here it has %lld; data, batch and ranks have to be the same", file,
                       (long long)progress->steps_per_epoch, (long long)trainer->steps_per_epoch);
    if (progress->step < trainer->steps) return QS_OK;
    return qs_fail(QS_USAGE, "%s: %lld steps are done, and this run ends with step %lld; give it more epochs", file,
                   (long long)progress->step, (long long)trainer->steps);
}

qs_status qs__state_load(qs__trainer *trainer) {
    qs_progress progress;
    qs_state_part *part = NULL;
    int parts = 0;
    QS_TRY(folder_check(trainer->options));
    QS_TRY(parts_make(trainer, NULL, &part, &parts));
    const qs_status status = qs_state_read(trainer->options->resume, trainer->graph, parts, part, &progress);
    free(part);
    QS_TRY(status);
    QS_TRY(progress_check(trainer, &progress));
    trainer->step = trainer->first_step = trainer->plan_step = progress.step;
    trainer->skipped = progress.skipped;
    if (!trainer->scale.dynamic) return QS_OK;
    trainer->scale.value = progress.loss_scale;
    trainer->scale.good_steps = progress.good_steps;
    trainer->scale.skipped = progress.bad_steps;
    return QS_OK;
}
