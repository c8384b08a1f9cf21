// SPDX-License-Identifier: Apache-2.0
/* profiler: measures what the predictor needs, by driving the same executor that trains.
 *
 * Kernels are timed inside whole training steps (cold caches, neighbours running): uniform plans of every recipe and mixed ones until every case
 * that a plan may need has been seen; what no plan reached is timed alone with its operands out of cache. Conversions are timed over sizes from
 * 2^10 to 2^24 and fitted. All ranks measure at once, as in training; rank 0 merges. */
#ifndef QSYNC_PROFILER_H
#define QSYNC_PROFILER_H

#include "qsync/costmodel.h"
#include "qsync/train.h"

typedef struct qs_profile_options {
    const qs_job *job;
    const qs_cluster *cluster;
    const char *data_folder;
    int repetitions;           /* steps timed per plan, after warm-up: 12 */
    int statistics_iterations; /* 50 (qsync.md §3), at half batch */
    /* Progress on rank 0: what is being measured and how far (0..1); NULL: none. */
    void (*progress)(void *context, const char *what, double fraction);
    void *progress_context;
} qs_profile_options;

QS_API void qs_profile_options_default(qs_profile_options *out);
/* Collective. Rank 0 receives the merged profile, other ranks an empty one. */
QS_API qs_status qs_profile_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *out);

/* One figure of `qsync bench`: images per second of whole training steps on synthetic data. */
typedef struct qs_bench_figure {
    double images_per_second, step_us;
    double flops_per_step; /* of the model's kernels, casts excluded */
} qs_bench_figure;
QS_API qs_status qs_bench_step(const char *model, const char *recipe, int64_t batch, int steps, qs_device *device, qs_bench_figure *out);

#endif
