// SPDX-License-Identifier: Apache-2.0
/* replayer: schedules of all ranks with their costs -> iteration time, waiting, timeline (docs/method.md §4.6).
 *
 * Each rank runs its steps in order; a bucket's all-reduce starts when all ranks have reached its start step and the one before has ended;
 * update steps wait for it. Where the library takes part of the compute thread (cpu_share), kernels that overlap an all-reduce take longer
 * by 1/(1 - cpu_share) there; where the ranks do all of it themselves (1), they stand still meanwhile. Kernels were measured with all ranks
 * of a host at work: a rank runs faster while others of its host wait, by the share of them that do. With noise (jitter) times are expected
 * ones: an all-reduce starts at the expected maximum over ranks. Ranks
 * that behave alike are replayed once. Times are microseconds. */
#ifndef QSYNC_REPLAYER_H
#define QSYNC_REPLAYER_H

#include "qsync/costmodel.h"

/* ---- Eqs. (4.6) and (4.7) alone ------------------------------------------------------------------------------------------------------ */
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
    double data_us;        /* before the first step: batch loading and the training loop's own work, qs_cost_loop */
    /* What may be left 0. */
    const double *step_alone_us; /* (schedule->steps) while the other ranks of its host wait; NULL: as step_us */
    int host;                    /* 0 .. ranks - 1; ranks with equal numbers share a host */
    double slow;                 /* steps take so many times as long (a straggler); 0: 1 */
    double jitter;               /* standard deviation of its whole step, as a share of the step */
    const qs_graph *graph;       /* what the schedule was lowered from: names operators in traces; NULL: they stay nameless */
} qs_replay_rank;

typedef struct qs_replay_case {
    const qs_profile *profile;
    const char *algorithm, *network;  /* of all-reduces, as in qs_all_reduce; NULL as there */
    const qs_all_reduce_cost *reduce; /* (buckets); NULL: asked of the cost model */
    int ranks;
    const qs_replay_rank *rank;
    bool with_events;
} qs_replay_case;

typedef struct qs_replay_event {
    int rank, step, bucket; /* step -1: batch loading and loop, or the end; bucket >= 0: an all-reduce, or the wait for it */
    double start, end;
    char track; /* 'd' data, 'c' compute, 'v' cast, 'r' communication, 'i' idle */
} qs_replay_event;

/* Ranks that behave alike. */
typedef struct qs_replay_group {
    int first, ranks; /* lowest rank; how many there are */
    double compute_us, waiting_us;
    double reducing_us; /* of waiting: while an all-reduce was under way */
    qs_phase_times phases;
} qs_replay_group;

typedef struct qs_replay_result {
    double iteration_us;
    int ranks;
    double *compute_us, *waiting_us; /* (ranks): busy, and idle within the iteration */
    int groups;
    qs_replay_group *group;
    int *group_of;   /* (ranks) */
    double *late_us; /* (groups x groups) [a * groups + b]: waiting of a because b was not ready yet, or ended last */
    int events;
    qs_replay_event *event; /* only when asked for; by rank, track and start */
} qs_replay_result;

QS_API qs_status qs_replay(const qs_replay_case *in, qs_replay_result *out);
QS_API void qs_replay_release(qs_replay_result *result);
/* Chrome trace (opens in Perfetto) of a replay: one process a rank, threads data, compute, cast, communication, idle (0 to 4). Events of
 * kernels have args: case, phase (forward, backward, update) and, with a graph, the operator that they serve. Caller frees *json. */
QS_API qs_status qs_replay_trace(const qs_replay_result *result, const qs_replay_rank *rank, char **json);
/* A predicted trace and the measured one of a training run (its trace.json) in one file: "rank 0 (weak) predicted" beside "rank 0 (weak)
 * measured". QS_BAD_FILE names what is wrong with `measured`, which came from the file `source`. Caller frees *json. */
QS_API qs_status qs_trace_beside(const char *predicted, const char *measured, const char *source, char **json);

/* ---- Quick answers ---------------------------------------------------------------------------------------------------------------- */

/* The iteration time of classes from sums of their steps, for searches that ask thousands of times. It is that of a replay where no rank
 * has noise or neighbours on its host (test replayer.quick); noise is left out, and host slowdown is known of whole classes only
 * (qs_host_slowdown). */
typedef struct qs_quick_item {
    int bucket; /* >= 0: wait for its sums */
    double us;  /* else work */
} qs_quick_item;

/* One rank of a class. Work is microseconds of steps; it takes longer beside all-reduces. */
typedef struct qs_quick_class {
    bool present;    /* it has ranks */
    double start_us; /* batch loading and the training loop, before the first step */
    double *ready;   /* (buckets) work from the first step to the start of each all-reduce */
    double rest_us;  /* work from the first step to the update */
    int items;
    const qs_quick_item *item; /* the update in order */
    bool changed;              /* since the last question; an answer makes it false */
} qs_quick_class;

/* All arrays are the caller's. */
typedef struct qs_quick_pace {
    int classes, buckets;
    qs_quick_class *class_;
    const qs_all_reduce_cost *reduce; /* (buckets) */
    double *start, *end;              /* (buckets) scratch: of the all-reduces */
    struct qs_quick_clock {
        double now, done; /* time; work behind it */
        int window;       /* first all-reduce that does not lie wholly before `now` */
    } * clock;            /* (classes) scratch */
    /* What is kept from one question to the next, which is answered sooner where one class has changed: NULL: nothing. */
    double *reached; /* (classes × buckets) when each class is ready for a bucket */
    double *finish;  /* (classes) */
    bool kept;       /* it is there */
} qs_quick_pace;

/* Iteration time; only >= 0: as if that class were alone with the all-reduces. */
QS_API double qs_quick_iteration(qs_quick_pace *pace, int only);

/* Ranks of one host slow each other down while they compute. One that has ended its steps waits, and the others go on faster: so a class
 * that is not the late one matters for the pace, and the less the earlier it ends. A replay knows this step by step; here whole classes
 * have one speed beside busy ranks and one while the others wait. */
typedef struct qs_host_slowdown {
    int classes, hosts;
    int *count;   /* (hosts × classes) ranks; hosts that have the same are one */
    double *left; /* (classes) scratch */
} qs_host_slowdown;

/* Release with qs_host_slowdown_release, also after a failure. */
QS_API qs_status qs_host_slowdown_make(const qs_cluster *cluster, qs_host_slowdown *out);
QS_API void qs_host_slowdown_release(qs_host_slowdown *one);
/* When a rank of each class has done its work: work_us[classes] is what it takes beside busy ranks, alone[classes] which share of that
 * while the others wait (qs_prediction_class.alone). end_us[classes]: on the host where it is slowest; its work where it has no ranks. */
QS_API void qs_host_slowdown_ends(const qs_host_slowdown *one, const double *work_us, const double *alone, double *end_us);

/* ---- A plan on a cluster ---------------------------------------------------------------------------------------------------- */
/* Lowers every class of a cluster under per-class recipes from the profile's kernel rows, prices and replays it. */
typedef struct qs_prediction_class {
    int64_t batch; /* of a rank */
    bool recorded; /* its steps are started as recordings of the device, which its profile knows times of, and take these */
    double compute_us, waiting_us;
    double alone; /* what its steps take while the other ranks of their host wait, as a share of what they take beside them; 1: not known */
    qs_phase_times phases;
    double recompute_us; /* work of steps that are computed again, a part of compute_us */
    size_t arena_bytes;
    int64_t base_bytes, program_bytes, communication_bytes; /* as in qs_class_plan */
    size_t category_bytes[QS_CATEGORY_COUNT];
    bool fits; /* within the class's memory limit */
    char schedule[32];
} qs_prediction_class;
/* Ranks of a class that behave alike, as in qs_replay_group. */
typedef struct qs_prediction_group {
    int class_index, first, ranks;
    double slow;
    double compute_us, waiting_us, reducing_us;
    qs_phase_times phases;
} qs_prediction_group;
/* A step of one of several lengths. */
typedef struct qs_prediction_length {
    int64_t length;
    double share; /* of the samples */
    double iteration_us;
    qs_prediction_class *class_; /* (classes) */
} qs_prediction_length;
enum { QS_PREDICTION_NOTES = 6 };
typedef struct qs_prediction {
    double iteration_us, samples_per_second; /* global batch / iteration */
    char unit[16];                           /* what people call the samples: the profile's */
    bool fits;
    int classes;
    qs_prediction_class *class_; /* (classes) times of its first rank; caller releases with qs_prediction_release */
    int groups;
    qs_prediction_group *group;
    double *late_us;              /* (groups x groups) as in qs_replay_result */
    int lengths;                  /* 0: the job has one */
    qs_prediction_length *length; /* (lengths) ascending */
    int notes;                    /* which figures stand on less than a measurement */
    char note[QS_PREDICTION_NOTES][160];
} qs_prediction;
/* Of a job with several lengths (job->lengths, which must be the profile's, or its longest alone: QS_MISMATCH) times are means over them,
 * each weighted by the share of the profile's samples that have it (docs/method.md eq. (4.13)): iteration_us is then the expected time of a
 * full-size step. Memory is that of the length that needs most, kernels are those of all; hash, categories and the trace are of the
 * longest. */
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
/* Local batch of every class (classes) for the questions that follow; 0: it is idle, its schedule is the job's, and of its steps only the
 * update is run; NULL: the job's, as at the start. QS_MISMATCH when the profile knows nothing of a batch; all stay as they were. Nothing is
 * said here about their sum. */
QS_API qs_status qs_predictor_batches(qs_predictor *predictor, const int64_t *batch);
/* What is said of every class's tensors (classes), formats and recomputation, for the questions that follow; entries NULL: fp32, and all is
 * kept; tensors NULL: everywhere, as at the start. All classes are lowered again; tables outlive their use. */
QS_API void qs_predictor_tensors(qs_predictor *predictor, const qs_tensor_table *const *tensors);
/* A draft that stands at the recipes which the next questions have for a class, at the longest length: its schedule is finished from that
 * instead of lowered anew. NULL: it is lowered, as at the start. */
QS_API void qs_predictor_draft(qs_predictor *predictor, int class_index, const qs_schedule_draft *draft);
/* trace NULL: not wanted. */
QS_API qs_status qs_predictor_ask(qs_predictor *predictor, const qs_recipe *const *const *recipe, char **trace, qs_prediction *out);
QS_API void qs_predictor_release(qs_predictor *predictor);

/* ---- Balanced ranks (docs/method.md §4.12) ---------------------------------------------------------------------------------- */

/* A plan with what its iterations took, and half the 95 % interval of that as a share. */
typedef struct qs_balanced {
    const qs_recipe *const *const *recipe; /* as in qs_predict */
    double measured_us, confidence;
} qs_balanced;
/* Of every class that may be lowered (all inference classes; all of them where there is one class only) as few operators as it takes,
 * one after the other in the graph's order or against it, to end with the class that ends last anyway; in the recipe in which the class
 * is the fastest. recipe[class][nodes] is filled, by pointers into low[classes × QS_MAX_FORMATS]. *share: the least busy class's work
 * over the busiest one's. */
QS_API qs_status qs_balance_choose(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job,
                                   bool from_end, qs_recipe *low, const qs_recipe **const *recipe, double *share);
/* By how much longer steps take beside ranks that compute all the while than in the profile's plans: the factor of qs_profile_beside
 * with which the predictions of these plans are right in the geometric mean. 1 where they are as far as measured times are known (to their
 * confidence, and to the drift of the machine's pace that the profile states), or would have to be changed by more than neighbours can
 * explain (beyond 0.8 to 1.6). *error: by how much they were off without it, as a share. */
QS_API qs_status qs_balance_fit(const qs_graph *graph, const qs_cluster *cluster, const qs_profile *profile, const qs_job *job, int plans,
                                const qs_balanced *plan, double *factor, double *error);

#endif
