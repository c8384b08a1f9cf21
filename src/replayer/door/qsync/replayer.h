// SPDX-License-Identifier: Apache-2.0
/* replayer: schedules of all ranks with their costs -> iteration time, waiting, timeline (qsync.md §4.6, eq. 6).
 *
 * Each rank runs its steps in order; a bucket's all-reduce starts when all ranks have reached its start step and the one before has ended,
 * and lasts as long as the slowest rank's; update steps wait for it. Where the library takes part of the compute thread (cpu_share),
 * kernels that overlap an all-reduce take longer by 1/(1 - cpu_share) there. Times are microseconds. */
#ifndef QSYNC_REPLAYER_H
#define QSYNC_REPLAYER_H

#include "qsync/costmodel.h"

/* ---- Eq. (6) alone --------------------------------------------------------------------------------------------------------- */
typedef struct qs_replay_device {
    const double *ready, *duration, *optimizer; /* (buckets) */
    double compute_end;
} qs_replay_device;
/* start[buckets], end[buckets] of the all-reduces and the iteration time. */
QS_API void qs_replay_buckets(int devices, const qs_replay_device *device, int buckets, double *start, double *end, double *iteration);

/* ---- Whole schedules ---------------------------------------------------------------------------------------------------------- */
typedef struct qs_replay_rank {
    const char *class_name;
    const qs_schedule *schedule;
    const double *step_us; /* (schedule->steps) from qs_cost_schedule */
    double data_us;        /* batch loading before the first step */
    double overhead_us;    /* of the training loop, once an iteration */
} qs_replay_rank;

typedef struct qs_replay_event {
    int rank, step, bucket; /* step -1: data or overhead; bucket >= 0: an all-reduce */
    double start, end;
    char track; /* 'c' compute, 'v' conversion, 'r' all-reduce, 'i' idle, 'd' data */
} qs_replay_event;

typedef struct qs_replay_result {
    double iteration_us;
    int ranks;
    double *compute_us, *waiting_us; /* (ranks): busy, and idle within the iteration */
    int events;
    qs_replay_event *event; /* only when asked for; by rank, track and start */
} qs_replay_result;

QS_API qs_status qs_replay(const qs_profile *profile, int ranks, const qs_replay_rank *rank, bool with_events, qs_replay_result *out);
QS_API void qs_replay_release(qs_replay_result *result);
/* Chrome trace (opens in Perfetto) of a replay: one process a rank, threads compute, conversion, communication, idle. Caller frees *json.
 */
QS_API qs_status qs_replay_trace(const qs_replay_result *result, const qs_replay_rank *rank, char **json);

/* ---- A plan on a cluster ---------------------------------------------------------------------------------------------------- */
/* Lowers every class of a cluster under per-class recipes from the profile's kernel rows, prices and replays it. */
typedef struct qs_prediction_class {
    double compute_us, waiting_us;
    qs_phase_times phases;
    size_t arena_bytes;
    int64_t base_bytes, communication_bytes;
    size_t category_bytes[QS_CATEGORY_COUNT];
    bool fits; /* within the class's memory limit */
    char schedule[32];
} qs_prediction_class;
typedef struct qs_prediction {
    double iteration_us, images_per_second; /* global batch / iteration */
    bool fits;
    int classes;
    qs_prediction_class *class_; /* (classes); caller releases with qs_prediction_release */
} qs_prediction;
/* recipe[class][node]: NULL entries mean fp32. */
QS_API qs_status qs_predict(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                            const qs_recipe *const *const *recipe, const qs_cost_options *options, qs_prediction *out);
/* The same, and the timeline as a Chrome trace into *trace (caller frees). */
QS_API qs_status qs_predict_trace(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                                  const qs_recipe *const *const *recipe, const qs_cost_options *options, char **trace, qs_prediction *out);
QS_API void qs_prediction_release(qs_prediction *prediction);
/* The same for many questions about one cluster: a class whose recipes are the very pointers of the last question is not lowered again, so
 * what they point to must not change meanwhile. All arguments but `recipe` outlive the predictor. */
typedef struct qs_predictor qs_predictor;
QS_API qs_status qs_predictor_create(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                                     const qs_cost_options *options, qs_predictor **out);
/* trace NULL: not wanted. */
QS_API qs_status qs_predictor_ask(qs_predictor *predictor, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out);
QS_API void qs_predictor_release(qs_predictor *predictor);

#endif
