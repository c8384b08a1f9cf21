// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of train: a small job, a device and a communicator, and a place for files. */
#ifndef QSYNC_TRAIN_SUPPORT_H
#define QSYNC_TRAIN_SUPPORT_H

#include "kit/folder.h"
#include "kit/run.h"

#include "qsync/train.h"

typedef struct bench {
    const char *backend;
    qs_device *device;
    qs_comm *comm;
    qs_job job;
    qs_cluster cluster;
    qs_train_options options;
    char folder[FOLDER_PATH];
} bench;

/* A backend on one rank ("self"), or under the launcher when comm_name is NULL. */
static inline void bench_open(bench *out, const char *backend, const char *comm_name, const char *model, int64_t batch) {
    memset(out, 0, sizeof *out);
    out->backend = backend;
    job_fill(&out->job, model, batch);
    assert_ok(qs_comm_open(comm_name, &out->comm));
    assert_ok(qs_cluster_single(backend, 1, &out->cluster));
    out->cluster.class_[0].count = qs_comm_size(out->comm);
    const qs_device_options options = device_options(backend, NULL, 1, 1);
    assert_ok(qs_device_open(&options, &out->device));
    folder_make(out->folder);
    out->options = (qs_train_options){.job = &out->job, .cluster = &out->cluster, .training_limit = 256, .test_limit = 64};
}

static inline void bench_close(bench *here) {
    folder_remove(here->folder);
    qs_device_close(here->device);
    qs_cluster_release(&here->cluster);
    qs_comm_close(here->comm);
}

static inline void result_release(qs_train_result *result) {
    qs_train_result_release(result);
}

/* A file of the bench's folder as text on the heap. */
static inline void file_text(const char *folder, const char *name, char **out) {
    char path[128];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(qs_file_read(path, 1 << 24, out, &bytes));
}

/* A copy of part of a buffer; the caller frees. */
static inline void *bytes_read(const qs_executor *executor, int buffer, size_t offset, size_t bytes) {
    void *copy = malloc(bytes + 1);
    assert_non_null(copy);
    assert_ok(qs_executor_read(executor, buffer, offset, bytes, copy));
    return copy;
}

static inline void *buffer_read(const qs_executor *executor, const qs_schedule *schedule, int buffer) {
    return bytes_read(executor, buffer, 0, schedule->buffer[buffer].bytes);
}

/* What an operand of a step has in memory. */
static inline void *operand_read(const qs_executor *executor, const qs_step *step, qs_role role) {
    const int position = qs_case_position(&step->case_, role);
    const qs_operand *one = &step->case_.operand[position];
    const size_t bytes = qs_format_bytes(one->format, qs_shape_count(&one->shape));
    return bytes_read(executor, step->place[position].buffer, step->place[position].offset, bytes);
}

static inline float loss_read(const qs_executor *executor, const qs_schedule *schedule) {
    float loss;
    assert_ok(qs_executor_read(executor, schedule->loss, 0, sizeof loss, &loss));
    return loss;
}

/* Images of normal values, and labels in turn. */
static inline void inputs_draw(qs_executor *executor, const qs_schedule *schedule) {
    float *images = buffer_read(executor, schedule, schedule->input[0]);
    int32_t *labels = buffer_read(executor, schedule, schedule->target);
    for (size_t i = 0; i < schedule->buffer[schedule->input[0]].bytes / sizeof *images; i++)
        images[i] = qs_random_normal(11, i);
    for (int64_t i = 0; i < schedule->batch; i++)
        labels[i] = (int32_t)(i % 10);
    assert_ok(qs_executor_write(executor, schedule->input[0], 0, schedule->buffer[schedule->input[0]].bytes, images));
    assert_ok(qs_executor_write(executor, schedule->target, 0, schedule->buffer[schedule->target].bytes, labels));
    free(images);
    free(labels);
}

#endif
