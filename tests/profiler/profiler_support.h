// SPDX-License-Identifier: Apache-2.0
/* Shared by the tests of profiler: a small job on a small cluster, profiled with few repetitions. */
#ifndef QSYNC_PROFILER_SUPPORT_H
#define QSYNC_PROFILER_SUPPORT_H

#include "kit/job_model.h"
#include "kit/run.h"
#include "qsync/profiler.h"

typedef struct bench {
    qs_cluster cluster;
    qs_comm *comm;
    qs_device *device;
    qs_job job;
    qs_profile_options options;
    qs_graph *graph;
    qs_profile profile;
} bench;

/* A cpu device without bf16 or int8 products cannot be profiled in all three formats. */
static inline bool device_multiplies(const qs_device *device, const char *format) {
    qs_device_info info;
    qs_device_describe(device, &info);
    for (int i = 0; i < 8 && info.formats[i]; i++)
        if (strcmp(info.formats[i], format) == 0) return true;
    return false;
}

/* cluster NULL: one rank on the backend. */
static inline void bench_open(bench *b, const char *cluster, const char *backend, const char *model, int64_t batch) {
    memset(b, 0, sizeof *b);
    assert_ok(qs_comm_open(cluster ? NULL : "self", &b->comm));
    assert_ok(cluster ? qs_cluster_parse(cluster, "test", &b->cluster) : qs_cluster_single(backend, 1, &b->cluster));
    qs_class *one = &b->cluster.class_[qs_cluster_class_of(&b->cluster, qs_comm_rank(b->comm))];
    const qs_device_options options = device_options(one->backend, "all", 1, one->speed);
    assert_ok(qs_device_open(&options, &b->device));
    if (strcmp(one->backend, options.backend) != 0) snprintf(one->backend, sizeof one->backend, "%s", options.backend);
    job_fill(&b->job, model, batch);
    b->job.augmentation = true;
    qs_profile_options_default(&b->options);
    b->options.job = &b->job;
    b->options.cluster = &b->cluster;
    b->options.repetitions = 2;
    b->options.statistics_iterations = 2;
    b->options.conversion_seconds = 0.3;
    assert_ok(job_model(&b->job, &b->graph));
}

static inline void bench_close(bench *b) {
    qs_profile_release(&b->profile);
    qs_graph_release(b->graph);
    qs_device_close(b->device);
    qs_cluster_release(&b->cluster);
    qs_comm_close(b->comm);
}

#endif
