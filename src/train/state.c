// SPDX-License-Identifier: Apache-2.0
/* The state of a run to a file and back: what lies in the persistent part of the arena, but for gradients, and how far the run is. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Of one rank's state as a file takes it: copies of buffers, and of what promotion knows; and of several lengths which, so that samples go
 * on in the same order. */
typedef struct parts {
    qs_state_part *part;
    int *buffer; /* (count) that a part is a copy of; -1: it is none */
    int count;
    float length[QS_MOST_LENGTHS]; /* 0 behind the last */
} parts;

static void parts_release(parts *all) {
    for (int i = 0; i < all->count; i++)
        if (all->buffer[i] >= 0) free(all->part[i].data);
    free(all->part);
    free(all->buffer);
}

static qs_status buffer_add(const qs__program *main, parts *all, int buffer, const char *name) {
    const int at = all->count;
    all->part[at].elements = (int64_t)(main->schedule->buffer[buffer].bytes / sizeof(float));
    snprintf(all->part[at].name, sizeof all->part[at].name, "%s", name);
    QS_TRY(qs__executor_copy(main->executor, buffer, &all->part[at].data));
    all->buffer[at] = buffer;
    all->count++;
    return QS_OK;
}

/* What is the same on all ranks, then the residuals of every rank. residuals: those of all, one after the other, or NULL: only this rank's,
 * in their place. */
static qs_status parts_make(const qs__setting *setting, const qs__program *main, const qs__rounding *rounding, float *residuals,
                            parts *all) {
    const qs_schedule *schedule = main->schedule;
    const size_t most = (size_t)(4 + schedule->states + setting->ranks);
    const qs_lengths *lengths = &setting->job->lengths;
    char name[64];
    QS_TRY(qs_allocate(most, sizeof *all->part, &all->part));
    QS_TRY(qs_allocate(most, sizeof *all->buffer, &all->buffer));
    QS_TRY(buffer_add(main, all, schedule->masters, "weights"));
    all->buffer[all->count] = -1;
    all->part[all->count++] = qs__rounding_part(rounding);
    for (int k = 0; k < lengths->count; k++)
        all->length[k] = (float)lengths->at[k];
    if (lengths->count > 0) {
        all->buffer[all->count] = -1;
        all->part[all->count++] = (qs_state_part){.name = "lengths", .elements = QS_MOST_LENGTHS, .data = all->length};
    }
    if (setting->graph->statistics_elements > 0) QS_TRY(buffer_add(main, all, schedule->running, "running_statistics"));
    for (int i = 0; i < schedule->states; i++) {
        snprintf(name, sizeof name, "%s.%.40s", setting->job->optimizer.name, schedule->buffer[schedule->state[i]].name);
        QS_TRY(buffer_add(main, all, schedule->state[i], name));
    }
    for (int rank = 0; schedule->residuals >= 0 && rank < setting->ranks; rank++) {
        snprintf(name, sizeof name, "wire_residuals.%d", rank);
        if (!residuals && rank == setting->rank) {
            QS_TRY(buffer_add(main, all, schedule->residuals, name));
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

/* Those of all ranks, one after the other, on rank 0; NULL where the wire leaves none. */
static qs_status residuals_gather(qs_comm *comm, const qs__program *main, char **data) {
    const int buffer = main->schedule->residuals;
    int64_t *sizes = NULL;
    void *mine = NULL;
    if (buffer < 0) return QS_OK;
    QS_TRY(qs_comm_agree(comm, qs__executor_copy(main->executor, buffer, &mine)));
    const qs_status status = qs_comm_gather(comm, mine, (int64_t)main->schedule->buffer[buffer].bytes, data, &sizes);
    free(mine);
    free(sizes);
    return status;
}

qs_status qs__state_save(const qs__setting *setting, const qs__present *present, const qs__counters *counters,
                         const qs__rounding *rounding) {
    const qs_progress progress = {.step = counters->step,
                                  .steps_per_epoch = setting->steps_per_epoch,
                                  .skipped = counters->skipped,
                                  .loss_scale = counters->scale.value,
                                  .good_steps = counters->scale.good_steps,
                                  .bad_steps = counters->scale.skipped};
    parts all = {0};
    char *path = NULL, *residuals = NULL;
    qs_status status = residuals_gather(setting->comm, qs__main(present), &residuals);
    if (status != QS_OK || setting->rank != 0) goto done;
    QS_GOTO(qs_path_join(setting->options->run_folder, "state.qsync", &path));
    QS_GOTO(parts_make(setting, qs__main(present), rounding, (float *)(void *)residuals, &all)); /* from the heap: aligned for anything */
    status = qs_state_write(path, setting->graph, &progress, all.count, all.part);
done:
    parts_release(&all);
    free(path);
    free(residuals);
    return qs_comm_agree(setting->comm, status);
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

static qs_status lengths_check(const qs__setting *setting, const parts *read) {
    const qs_lengths *own = &setting->job->lengths;
    qs_lengths saved = {0};
    char is[QS_LENGTHS_TEXT], was[QS_LENGTHS_TEXT];
    while (saved.count < QS_MOST_LENGTHS && read->length[saved.count] > 0) {
        saved.at[saved.count] = (int64_t)read->length[saved.count];
        saved.count++;
    }
    if (qs_lengths_equal(own, &saved)) return QS_OK;
    return qs_fail(QS_MISMATCH, "%s: the run had lengths %s, this one has %s; they have to be the same", setting->options->resume,
                   qs_lengths_text(&saved, was), qs_lengths_text(own, is));
}

static qs_status progress_check(const qs__setting *setting, const qs_progress *progress) {
    const char *file = setting->options->resume;
    if (progress->steps_per_epoch != setting->steps_per_epoch)
        return qs_fail(QS_MISMATCH, "%s: an epoch had %lld steps, here it has %lld; data, batch and ranks have to be the same", file,
                       (long long)progress->steps_per_epoch, (long long)setting->steps_per_epoch);
    if (progress->step < setting->steps) return QS_OK;
    return qs_fail(QS_USAGE, "%s: %lld steps are done, and this run ends with step %lld; give it more epochs", file,
                   (long long)progress->step, (long long)setting->steps);
}

qs_status qs__state_load(const qs__setting *setting, const qs__present *present, qs__counters *counters, const qs__rounding *rounding) {
    const char *path = setting->options->resume;
    qs_progress progress;
    parts all = {0};
    qs_status status = QS_OK;
    QS_GOTO(folder_check(setting->options));
    QS_GOTO(parts_make(setting, qs__main(present), rounding, NULL, &all));
    QS_GOTO(qs_state_read(path, setting->graph, all.count, all.part, &progress));
    QS_GOTO(lengths_check(setting, &all));
    for (int i = 0; i < all.count; i++) {
        const size_t bytes = (size_t)all.part[i].elements * sizeof(float);
        if (all.buffer[i] >= 0) QS_GOTO(qs_executor_write(qs__main(present)->executor, all.buffer[i], 0, bytes, all.part[i].data));
    }
    QS_GOTO(progress_check(setting, &progress));
    counters->step = progress.step;
    counters->skipped = progress.skipped;
    if (counters->scale.dynamic) {
        counters->scale.value = progress.loss_scale;
        counters->scale.good_steps = progress.good_steps;
        counters->scale.skipped = progress.bad_steps;
    }
done:
    parts_release(&all);
    return status;
}
