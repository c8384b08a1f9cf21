// SPDX-License-Identifier: Apache-2.0
/* What a run is made of, for tests that train or measure: a small job, warnings heard, programs of several ranks. */
#ifndef QSYNC_TESTS_KIT_RUN_H
#define QSYNC_TESTS_KIT_RUN_H

#include "device.h"
#include "qsync/comm.h"
#include "qsync/record.h"

/* ---- A job ---- */

/* A short job on generated images: one epoch, no augmentation, small buckets. `batch` is local. */
static inline void job_fill(qs_job *job, const char *model, int64_t batch) {
    qs_job_default(job);
    snprintf(job->model, sizeof job->model, "%s", model);
    snprintf(job->dataset, sizeof job->dataset, "shapes");
    job->batch = batch;
    job->epochs = 1;
    job->rate.base = 0.05;
    job->augmentation = false;
    job->bucket_bytes = 16384;
}

/* ---- Warnings ---- */

/* Hears warnings while it is the sink of the log: qs_log_set(warnings_hear, &warnings). Those about the machine's pace do not count: a busy
 * machine gives them to any run. */
typedef struct warnings {
    int count;
    char last[1024];
} warnings;

static inline void warnings_hear(void *context, qs_log_level level, const char *line) {
    warnings *heard = context;
    if (level != QS_LOG_WARNING || strstr(line, "an iteration takes")) return;
    heard->count++;
    snprintf(heard->last, sizeof heard->last, "%s", line);
}

/* ---- Programs of several ranks ---- */

/* TEST_MAIN for tests that open and close communicators under a launcher. MPI starts and ends once in a process: a communicator of all
 * ranks holds it meanwhile. */
#define TEST_MAIN_RANKS(...) TEST_MAIN_WITH(ranks_begin, ranks_end, __VA_ARGS__)

static qs_comm *ranks_held;

static inline int ranks_begin(void **state) {
    (void)state;
    return qs_comm_open(NULL, &ranks_held) == QS_OK ? 0 : -1;
}

static inline int ranks_end(void **state) {
    (void)state;
    qs_comm_close(ranks_held);
    return 0;
}

#endif
