// SPDX-License-Identifier: Apache-2.0
/* profiler: measures what the predictor needs, by driving the same executor that trains.
 *
 * Kernels are timed inside whole training steps (cold caches, neighbours running): uniform plans of every recipe and mixed ones until every
 * case that a plan may need has been seen; what no plan reached is timed alone with its operands out of cache. Conversions are timed over
 * sizes from 2^10 to 2^24 and fitted, with sources as the step before leaves them. All ranks measure at once, as in training; rank 0
 * merges, and the first rank of a class speaks for it.
 *
 * Reading the result. Every case has a row, conversions too (their kernels and scratch are needed for lowering; what they took in steps
 * stands beside the fit that prices them, so the two can be compared). Rows hold the executor's time, dispatch included: step_overhead_us
 * is 0 here. iteration_overhead_us is what a whole step takes beyond its data and the medians of its kernels. base_bytes is the resident
 * size of a process that trains, without its arena. Time is a median of steps; where steps drift by more than 10 % within a plan, the plan
 * is run again, three times at most, and the quartiles of the rows tell how quiet it was.
 *
 * Memory. The arena of the most demanding plan is reserved, even beyond the class's memory limit: that limit is for plans, and profiling
 * asks what they would cost. QS_OUT_OF_MEMORY when the machine itself lacks it. Fits take about 300 MiB for a short while. */
#ifndef QSYNC_PROFILER_H
#define QSYNC_PROFILER_H

#include "qsync/costmodel.h"
#include "qsync/train.h"

typedef struct qs_profile_options {
    const qs_job *job;
    const qs_cluster *cluster;
    const char *data_folder;
    int repetitions;           /* steps timed per plan in each of three passes, after warm-up: 10; at least 2 */
    int statistics_iterations; /* 50 (qsync.md §3), at half batch: a real fp32 training over all ranks; 0: none */
    /* Progress on rank 0: what is being measured and how far (0..1); NULL: none. */
    void (*progress)(void *context, const char *what, double fraction);
    void *progress_context;
} qs_profile_options;

QS_API void qs_profile_options_default(qs_profile_options *out);
/* Collective: the device is this rank's, its class the cluster's for this rank. Rank 0 receives the merged profile, other ranks an empty
 * one. QS_USAGE when cluster and ranks do not match, QS_UNSUPPORTED (with class, recipe and operator) when the device lacks a format of its
 * class, QS_NUMERIC when the training behind the statistics diverges. A failure of one rank stops all with its message. */
QS_API qs_status qs_profile_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *out);

/* One figure of `qsync bench`: images per second of whole training steps on synthetic data. */
typedef struct qs_bench_figure {
    double images_per_second, step_us; /* of the median step, filling the batch not counted */
    double flops_per_step;             /* of the model's kernels, casts excluded */
} qs_bench_figure;
/* A built-in model at its own standard input, every operator in one built-in recipe, alone on the device; two steps of warm-up. */
QS_API qs_status qs_bench_step(const char *model, const char *recipe, int64_t batch, int steps, qs_device *device, qs_bench_figure *out);

#endif
