// SPDX-License-Identifier: Apache-2.0
/* The state of a run to a file and back: what lies in the persistent part of the arena, but for gradients, and the trainer's counters. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of one rank's state as a file takes it: copies of buffers, and memory of the trainer. */
typedef struct parts {
    qs_state_part *part;
    int *buffer; /* (count) that a part is a copy of; -1: it is none */
    int count;
} parts;

static void parts_release(parts *all) {
    for (int i = 0; i < all->count; i++)
        if (all->buffer[i] >= 0) free(all->part[i].data);
    free(all->part);
    free(all->buffer);
}

static qs_status buffer_add(const qs__trainer *trainer, parts *all, int buffer, const char *name) {
    const int at = all->count;
    all->part[at].elements = (int64_t)(trainer->main.schedule->buffer[buffer].bytes / sizeof(float));
    snprintf(all->part[at].name, sizeof all->part[at].name, "%s", name);
    QS_TRY(qs__executor_copy(trainer->main.executor, buffer, &all->part[at].data));
    all->buffer[at] = buffer;
    all->count++;
    return QS_OK;
}

qs_state_part qs__promotions_part(const qs__trainer *trainer) {
    _Static_assert(sizeof(qs__rise) % sizeof(float) == 0, "a part consists of whole fp32 slots");
    const qs__rounding *rounding = &trainer->rounding;
    return (qs_state_part){.name = "promotions",
                           .elements = rounding->values * (int64_t)(sizeof(qs__rise) / sizeof(float)),
                           .data = (float *)(void *)rounding->rise}; /* only ever copied as bytes */
}

/* What is the same on all ranks, then the residuals of every rank. residuals: those of all, one after the other, or NULL: only this rank's,
 * in their place. */
static qs_status parts_make(const qs__trainer *trainer, float *residuals, parts *all) {
    const qs_schedule *schedule = trainer->main.schedule;
    const size_t most = (size_t)(3 + schedule->states + trainer->ranks);
    char name[64];
    QS_TRY(qs_allocate(most, sizeof *all->part, &all->part));
    QS_TRY(qs_allocate(most, sizeof *all->buffer, &all->buffer));
    QS_TRY(buffer_add(trainer, all, schedule->masters, "weights"));
    all->buffer[all->count] = -1;
    all->part[all->count++] = qs__promotions_part(trainer);
    if (trainer->graph->statistics_elements > 0) QS_TRY(buffer_add(trainer, all, schedule->running, "running_statistics"));
    for (int i = 0; i < schedule->states; i++) {
        snprintf(name, sizeof name, "%s.%.40s", trainer->job->optimizer.name, schedule->buffer[schedule->state[i]].name);
        QS_TRY(buffer_add(trainer, all, schedule->state[i], name));
    }
    for (int rank = 0; schedule->residuals >= 0 && rank < trainer->ranks; rank++) {
        snprintf(name, sizeof name, "wire_residuals.%d", rank);
        if (!residuals && rank == trainer->rank) {
            QS_TRY(buffer_add(trainer, all, schedule->residuals, name));
            continue;
        }
        qs_state_part *one = &all->part[all->count];
        one->elements = (int64_t)(schedule->buffer[schedule->residuals].bytes / sizeof(float));
        one->data = residuals ? residuals + rank * one->elements : NULL;
        memcpy(one->name, name, sizeof name);
        all->buffer[all->count++] = -1;
    }
    return QS_OK;
}

static qs_status residuals_gather(const qs__trainer *trainer, char **data) {
    const qs_schedule *schedule = trainer->main.schedule;
    int64_t *sizes = NULL;
    void *mine = NULL;
    if (schedule->residuals < 0) return QS_OK;
    QS_TRY(qs_comm_agree(trainer->comm, qs__executor_copy(trainer->main.executor, schedule->residuals, &mine)));
    const qs_status status = qs_comm_gather(trainer->comm, mine, (int64_t)schedule->buffer[schedule->residuals].bytes, data, &sizes);
    free(mine);
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
    parts all = {0};
    char *path = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_path_join(trainer->options->run_folder, "state.qsync", &path));
    QS_GOTO(parts_make(trainer, (float *)(void *)residuals, &all)); /* from the heap: aligned for anything */
    QS_GOTO(qs_state_write(path, trainer->graph, &progress, all.count, all.part));
done:
    parts_release(&all);
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
    parts all = {0};
    qs_status status = QS_OK;
    QS_GOTO(folder_check(trainer->options));
    QS_GOTO(parts_make(trainer, NULL, &all));
    QS_GOTO(qs_state_read(trainer->options->resume, trainer->graph, all.count, all.part, &progress));
    for (int i = 0; i < all.count; i++) {
        const size_t bytes = (size_t)all.part[i].elements * sizeof(float);
        if (all.buffer[i] >= 0) QS_GOTO(qs_executor_write(trainer->main.executor, all.buffer[i], 0, bytes, all.part[i].data));
    }
done:
    parts_release(&all);
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
