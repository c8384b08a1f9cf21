// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share. A run consists of stages, each with a struct of its own that is passed to those who need it:
 *   qs__setting   what neither a step nor another plan changes
 *   qs__plans     the present plan: batches, programs, arena; and how another one took its place
 *   qs__counters  how far the run is
 *   qs__losses    sums since the last report and in this epoch
 *   qs__rounding  counts of rounded tensors, and promotions
 *   qs__adapting  the pace of the ranks, where the plan follows it
 *   qs__failure   what this rank found that is not finite
 * Files stand in this order: each calls those above it. */
#ifndef QSYNC_TRAIN_INTERNAL_H
#define QSYNC_TRAIN_INTERNAL_H

#include "pace.h"
#include "qsync/train.h"

/* ---- text.c: JSON under construction; failures stick until the end ------------------------------------------------------------- */

typedef struct qs__text {
    FILE *stream;
    char *text;
    size_t bytes;
} qs__text;
qs_status qs__text_start(qs__text *out);
/* A string with quotes. */
void qs__text_quote(qs__text *text, const char *string);
qs_status qs__text_finish(qs__text *text, char **out);

/* ---- timeline.c ----------------------------------------------------------------------------------------------------------------- */

/* Where a step begins: the end of the one before. */
double qs__timeline_start_of(const qs_timeline *timeline, int step);

/* ---- recorded.c: kernels as recordings of the device ------------------------------------------------------------------------------ */

/* What a step's kernel is told. */
qs_run qs__step_run(const qs_schedule *schedule, int index, const qs_run *run);
typedef struct qs__recorded qs__recorded;
/* kernel: (steps) NULL for communication. *out: NULL where the device records nothing. */
qs_status qs__recorded_create(const qs_schedule *schedule, qs_device *device, qs_kernel *const *kernel, qs__recorded **out);
void qs__recorded_release(qs__recorded *recorded);
/* NULL: nothing is recorded. */
qs_recorded qs__recorded_found(const qs__recorded *recorded);
/* Around a run of the whole schedule that nobody observes or times. */
qs_status qs__recorded_begin(qs__recorded *recorded, qs_queue *kernels);
qs_status qs__recorded_end(qs__recorded *recorded, qs_queue *kernels);
/* Whether this run is one of recordings. */
bool qs__recorded_runs(const qs__recorded *recorded);
/* Puts the kernels of the steps [begin, end) into the queue as one. *done false: not; they are the caller's. */
qs_status qs__recorded_run(qs__recorded *recorded, int begin, int end, const qs_run *run, bool *done);

/* ---- executor.c: the parts of qs_executor_run, one step alone, whole buffers ---------------------------------------------------- */

/* Where the steps of a phase end. */
int qs__phase_end(const qs_schedule *schedule, qs_phase phase);
/* The steps of a phase; a run is all three in turn, and the device is done with it behind the last. *finite: NULL, or whether this rank's
 * gradients are, looked at before they are summed. */
qs_status qs__executor_phase(qs_executor *executor, qs_phase phase, const qs_run *run, bool *finite);
/* Kernels of adjustable operators run at `compute` of the device's speed from now on, all others at `memory`, by rests as those of `speed`:
 * on devices whose memory the host sees, whose kernels have run when they return. */
void qs__executor_slow(qs_executor *executor, double compute, double memory);
/* Completes the all-reduces that are under way; later waits find them done. */
qs_status qs__executor_complete(qs_executor *executor);
qs_status qs__executor_step(qs_executor *executor, int index, const qs_run *run);
/* All of a buffer: a copy into *out, which the caller frees (NULL where the mode has no such buffer), and its hash,
 * chained through what *hash holds. */
qs_status qs__executor_copy(const qs_executor *executor, int buffer, void *out);
/* Bytes that the executor of a schedule takes of this process where the memory of its device is elsewhere. */
size_t qs__staging_bytes(const qs_schedule *schedule);
qs_status qs__executor_hash(const qs_executor *executor, int buffer, uint64_t *hash);
/* A copy of what an operand of a step has in memory, which the caller frees. */
qs_status qs__executor_operand(const qs_executor *executor, const qs_step *step, int operand, void *out);

/* ---- program.c: a schedule with its executor; may this plan run here? ------------------------------------------------------------ */

typedef struct qs__program {
    const qs_graph *graph; /* of its length */
    qs_schedule *schedule; /* NULL: not there */
    qs_executor *executor;
} qs__program;

/* What a class's plan says of precision, as lowering takes it. */
typedef struct qs__formats {
    const qs_recipe *const *recipe; /* (nodes) NULL: fp32 everywhere */
    const qs_format *half;
    const qs_tensor_table *tensors; /* NULL: fp32 */
    bool joins;                     /* as qs_device_joins says */
} qs__formats;
/* Whose kernels run: the device's, those that a class's plan names. */
typedef struct qs__kernels {
    qs_device *device;
    const qs_class_plan *plan; /* NULL: the device chooses */
} qs__kernels;
/* QS_MISMATCH when the plan names a kernel that the device does not have for its case. */
qs_status qs__program_lower(const qs_graph *graph, const qs_job *job, const qs__formats *formats, qs_mode mode, int64_t batch,
                            const qs__kernels *kernels, qs__program *out);
void qs__program_release(qs__program *program);
/* Weights and running statistics from a file. */
qs_status qs__weights_load(const qs__program *program, const qs_graph *graph, const char *path, const qs_weights_choice *choice,
                           uint64_t *hash);
/* Those of rank 0 go to all: where it alone needs the file. Collective. */
qs_status qs__weights_send(const qs__program *program, qs_comm *comm);
/* QS_FAILED when masters, optimiser states, running statistics, residuals or gradients of two schedules of a model lie elsewhere. */
qs_status qs__persistent_compare(const qs_schedule *a, const qs_schedule *b);
/* Signatures, job and class of a plan against what is at hand; then a program, lowered from this device's kernels, against the plan's rows
 * and a hash of it: of the job's `length`-th length. QS_MISMATCH names the first difference. */
qs_status qs__plan_check(const qs_plan *plan, const qs_job *job, const qs_cluster *cluster, const qs_graph *graph);
qs_status qs__plan_check_schedule(const qs_class_plan *plan, int length, const qs_job *job, const qs__formats *formats,
                                  const qs__program *program);
/* What a plan says of one of the job's lengths; NULL: nothing, or there is one length. */
const qs_length_plan *qs__length_plan(const qs_class_plan *plan, int length);

/* Sums over samples, or over the labels that count where positions have them; of one rank until they are added up. */
typedef struct qs__sums {
    double loss, correct; /* correct: NaN where no answer is right or wrong (real targets) */
    double samples;
} qs__sums;
/* Loss and correct answers of the run that has just ended, of these samples. */
qs_status qs__sums_add(qs__sums *sums, const qs__program *program, const qs_dataset *dataset, const int64_t *indices, int64_t count);
/* `sum` over the samples of the sums; 0 of none. */
double qs__mean(double sum, const qs__sums *sums);

/* ---- watch.c: the clock beside full-size steps, and trace.json ------------------------------------------------------------------- */

enum { QS__TRACED = 32, QS__WATCHED = 512 };

/* One step that may become the trace: its runs in a timeline of its own. */
typedef struct qs__traced {
    qs_timeline timeline;
    int64_t step;
    double begin, end; /* of the whole iteration */
} qs__traced;

typedef struct qs__watch {
    const qs_schedule *schedule;
    qs_executor *executor;
    int64_t warm_up;    /* full-size steps that are not looked at */
    int64_t seen;       /* full-size steps behind them */
    int places, traced; /* of `traced_step` in use; without a trace there is one, filled again and again */
    qs__traced *traced_step;
    double (*times)[QS_PHASE_TIMES + 1]; /* (QS__WATCHED) phases and the whole, microseconds; a ring */
    int64_t skipped;
    bool timed;  /* the next full-size step fills a timeline */
    int untimed; /* full-size steps since one did */
} qs__watch;

/* The steps of a run that count as warm-up. */
int64_t qs__warm_up(int64_t steps);
qs_status qs__watch_create(const qs__program *program, int64_t steps, bool trace, qs__watch *out);
void qs__watch_release(qs__watch *watch);
/* The timeline of the step that just ended, one of full size; NULL: it was not timed. Until the next call of qs__watch_step. */
const qs_timeline *qs__watch_timeline(const qs__watch *watch);
/* After each full-size step. */
void qs__watch_step(qs__watch *watch, int64_t step, double begin, double end);
/* Median of a list, which it sorts; 0 of an empty one. */
double qs__median(double *value, int64_t count);
/* Medians of all columns; 0 when no step was seen. */
qs_status qs__watch_medians(const qs__watch *watch, double *medians, int64_t *steps);
/* Text of trace.json; collective, NULL but on rank 0. */
qs_status qs__trace_text(const qs__watch *watch, qs_comm *comm, const char *class_name, const qs_graph *graph, char **json);

/* ---- The setting of a run ---------------------------------------------------------------------------------------------------------- */

/* The same from the first step to the last, under every plan. */
typedef struct qs__setting {
    const qs_train_options *options;
    const qs_job *job;
    qs_device *device;
    qs_comm *comm;
    int rank, ranks;
    const qs_class *class_; /* of this rank */
    const qs_graph *graph;
    qs_graph *opened;         /* the same, where it is the run's own to release */
    qs_graph_lengths lengths; /* the same at every length of the job */
    qs_dataset training, test;
    int64_t data_bytes; /* that the process grew by when it read its sample sets */
    int64_t global_batch;
    int64_t steps_per_epoch, steps; /* steps: of the whole run, max_steps respected */
    const char *start_weights;      /* the file of the first weights: what the options say, or the model's own; NULL: they are drawn */
    char own_weights[QS_MODEL];     /* room for the latter */
    uint64_t start_hash;            /* of that file */
    int64_t resumed;                /* steps done in the run that this one goes on with */
    FILE *metrics;                  /* metrics.jsonl; NULL: this rank writes no run folder */
} qs__setting;

const qs_class *qs__class_of(const qs_cluster *cluster, int rank);

/* How far a run is. */
typedef struct qs__counters {
    int64_t step;    /* next one, from 0 */
    int64_t skipped; /* steps that loss scaling skipped */
    qs_loss_scale scale;
} qs__counters;

/* ---- plans.c: the present plan, and how another one takes its place --------------------------------------------------------------- */

/* The programs of one length. */
typedef struct qs__length_programs {
    qs__program main, partial; /* partial: of the smaller step; NULL schedule when there is none */
    qs__program evaluation;    /* NULL schedule: there is none */
} qs__length_programs;

/* What a plan makes of a run. */
typedef struct qs__present {
    const qs_plan *plan;             /* NULL: fp32 everywhere */
    qs_plan *own;                    /* the same, where the run made or read it; NULL: it is the caller's */
    const qs_class_plan *class_plan; /* NULL: fp32 everywhere */
    const qs_recipe **recipe;
    qs_tensor_table tensors;
    int64_t *batch;                          /* (ranks) 0: it is idle, adds zeros to sums and updates its weights */
    int lengths;                             /* at least 1 */
    qs__length_programs at[QS_MOST_LENGTHS]; /* (lengths) shorter ones first; they share the arena, and what lasts in it */
    size_t arena_bytes;                      /* of the one that needs most */
    int64_t first_step;                      /* first one under this plan */
} qs__present;
/* The training program of the longest length, through which all that lasts is read and written. */
const qs__program *qs__main(const qs__present *present);

/* A plan that was taken in a running job. */
typedef struct qs__switch {
    int64_t step; /* that it took effect at, from 0 */
    double us;    /* between two steps, on the slowest rank */
} qs__switch;

typedef struct qs__plans {
    qs__present present;
    qs_memory *memory;                   /* of the present programs */
    qs__watch watch[QS_MOST_LENGTHS];    /* of its main programs */
    qs_sharding sharding, test_sharding; /* by its batches */
    qs__switch *taken;                   /* (count) promotions among them */
    size_t count, room;
    uint64_t file; /* the watched plan file that was looked at last; 0: none */
    bool offered;  /* a plan is to be looked at before the next step; the same on all ranks */
} qs__plans;

/* What a switch of plans changed on a rank. */
typedef struct qs__replan_figures {
    char schedule_before[32], schedule[32]; /* hashes */
    int64_t arena_before, arena;            /* bytes */
} qs__replan_figures;

/* Checks present->plan; class plan and recipes of this rank. */
qs_status qs__plan_choose(const qs__setting *setting, qs__present *present);
/* Batches of all ranks, and their sum. */
qs_status qs__plan_deal(const qs__setting *setting, qs__present *present, int64_t *global_batch);
/* The batch that this rank's programs are lowered at: the job's where it is idle, and may take samples again. */
int64_t qs__lowered_batch(const qs__setting *setting, const qs__present *present);
/* The evaluation of a length in the arena of training, in smaller pieces where a batch is too large for it. out->schedule NULL: there is no
 * room for one sample. */
qs_status qs__evaluation_lower(const qs__setting *setting, const qs__present *present, int length, const qs__formats *formats,
                               const qs__kernels *kernels, qs__program *out);
/* Programs in the arena, which is reserved; weights are not there yet. */
qs_status qs__plans_start(const qs__setting *setting, qs__plans *plans);
/* The clock beside steps from `step` on. */
qs_status qs__plans_watch(const qs__setting *setting, qs__plans *plans, int64_t step);
void qs__plans_release(qs__plans *plans);
/* What the present plan says of a rank's class; NULL without a plan. */
const qs_class_plan *qs__class_plan_of(const qs__setting *setting, const qs__present *present, int rank);
/* The present plan as a copy of the run's own, which may be changed before it is bound to anything. */
qs_status qs__plan_own(qs__present *present);

/* `plan` (from the heap, the same on all ranks, the callee's from now on) takes the place of the present one before step `step`, on all
 * ranks or on none: what any refuses is the status (and changes nothing). figures: of this rank. Collective. */
qs_status qs__plan_take(const qs__setting *setting, qs__plans *plans, int64_t step, qs_plan *plan, qs__replan_figures *figures);
/* (ranks) on rank 0, which frees them; NULL elsewhere. */
qs_status qs__replan_gather(const qs__setting *setting, const qs__replan_figures *mine, qs__replan_figures **all);

/* Rank 0: whether another file lies at options->watch_plan than the one last looked at. One stat: cheap enough for a step. */
bool qs__plan_file_changed(const qs__setting *setting, qs__plans *plans, int64_t step);
/* Before a step, when a plan was offered; collective. *taken: whether another plan is the present one, from which `figures` come. */
qs_status qs__replan(const qs__setting *setting, qs__plans *plans, int64_t step, bool *taken, qs__replan_figures *figures);

/* The plan that rank 0 has as `text` (on the heap, the callee's; NULL: it has none; of no meaning elsewhere) before a step; collective.
 * *taken: whether it is the present one, from which `figures` come; where a plan was refused, the message says why. */
qs_status qs__plan_offered_take(const qs__setting *setting, qs__plans *plans, int64_t step, char *text, bool *taken,
                                qs__replan_figures *figures);

/* ---- audit.c: collective; fills out on rank 0. resident_bytes: of this process behind the last step ---- */

/* The share of a length among the full-size steps by which figures of several lengths are put together: of those that were measured. */
double qs__length_share(const qs_length_time *length, int lengths, int index);
qs_status qs__audit_make(const qs__setting *setting, const qs__plans *plans, const qs_train_result *result, int64_t resident_bytes,
                         qs_audit *out);

/* ---- rounding.c: counts of rounded tensors ---------------------------------------------------------------------------------------- */

/* What the rounding of one tensor did, summed over ranks. */
typedef struct qs__rounding_sums {
    double overflows, underflows, elements;
} qs__rounding_sums;

/* What promotion knows of a value, the same on all ranks. A state file takes it as it lies here, in words of 64 bits. */
typedef struct qs__rise {
    int64_t standing;                       /* a qs__standing */
    double overflow_ratio, underflow_ratio; /* in the last step, over the ranks where the value was low */
    int64_t rank;                           /* where most of its elements overflowed (or underflowed, if that promotes it) */
    double rank_ratio;                      /* how many: a share of those of that rank */
} qs__rise;

typedef enum qs__standing { QS__AS_PLANNED, QS__PROMOTED, QS__REFUSED } qs__standing;

/* Counts of all rounded tensors; places as in the buffer of counts: outputs, parameters, gradients of outputs. No plan changes this. */
typedef struct qs__rounding {
    int places;
    int values;               /* the first of them, which promotion is about: outputs and parameters */
    qs__rounding_sums *step;  /* (places) of the last step */
    qs__rounding_sums *lower; /* (values) of ranks where the value is low, only; it lies behind `step` */
    qs__rounding_sums *own;   /* (values) this rank's part of `lower` */
    qs__rounding_sums *epoch; /* (places) so far */
    double *worst;            /* (places) largest share of overflows in a step of this epoch */
    bool *low;                /* (values) it is low on this rank, under the present plan */
    qs__rise *rise;           /* (values) */
    char *counts;             /* (places × QS_COUNTS_PITCH) the buffer of counts as the last step left it */
    bool counted;             /* the last step was counted and not looked at yet */
    int promotions, refusals;
    int64_t switches;    /* of plans, by promotions */
    double added;        /* counted bytes that promotions added to the tensors of this rank */
    int64_t first_arena; /* reserved bytes before the first promotion; 0: none */
} qs__rounding;

qs_status qs__rounding_create(const qs_graph *graph, qs__rounding *out);
void qs__rounding_release(qs__rounding *rounding);
/* Another plan is the present one. */
void qs__rounding_follow(qs__rounding *rounding, const qs_graph *graph, const qs_class_plan *class_plan);
/* After every step, collective; nothing where the plan rounds nothing. */
qs_status qs__rounding_step(qs__rounding *rounding, const qs_plan *plan, qs_comm *comm, const qs__program *program, int64_t count);
/* The next epoch is counted anew. */
void qs__rounding_epoch_end(qs__rounding *rounding);
const char *qs__rounding_name(const qs_graph *graph, int place);
double qs__rounding_share(double part, double elements);
/* The format to which a value is promoted, and whether it stands below it. */
qs_quantizer qs__higher_of(const qs_tensor_choice *tensor);
bool qs__tensor_is_low(const qs_tensor_choice *tensor);
/* `rise` as a part of a state file. */
qs_state_part qs__rounding_part(const qs__rounding *rounding);

/* ---- folder.c: the run folder; rank 0 only, all others and runs without a folder return QS_OK at once ----------------------------- */

/* The first tensor of a step that is not finite; "": all are. */
typedef struct qs__culprit {
    char operator_name[64], tensor[112];
} qs__culprit;

typedef enum qs__reason { QS__LOSS, QS__GRADIENT, QS__SKIPPING, QS__DIVERGENCE, QS__TEST_LOSS } qs__reason;

/* Why a run ends by its numbers. */
typedef struct qs__failure {
    int64_t step; /* from 0; -1: it does not */
    int rank;     /* -1: all alike */
    qs__reason reason;
    qs__culprit culprit;
} qs__failure;

/* Gaps of the values of quantized normalisations in one forward pass, relative squared distances. */
typedef struct qs__norm_gap_summary {
    double mean, statistics_mean; /* over operators: of all roundings, of those of mean and spread */
    double worst;
    int worst_node;
} qs__norm_gap_summary;

typedef struct qs__promotion {
    const char *tensor;
    char from[64], to[64];
    bool overflowed; /* that is why; else because it underflowed */
    qs__rise rise;
} qs__promotion;

/* Opens setting->metrics on rank 0. */
qs_status qs__folder_open(qs__setting *setting, const qs__plans *plans);
/* plan.json and config.json anew, behind a switch. */
qs_status qs__folder_plan(const qs__setting *setting, const qs__plans *plans);
/* Lines of metrics.jsonl; epochs and steps from 0. */
qs_status qs__metrics_interval(const qs__setting *setting, int64_t epoch, const qs__counters *counters, const qs__sums *sums);
/* test: NULL without evaluation. */
qs_status qs__metrics_epoch(const qs__setting *setting, int64_t epoch, const qs__counters *counters, const qs__sums *training,
                            const qs_evaluation *test, uint64_t weights);
/* What the run ends with, where it was evaluated in the plan's arithmetic. */
qs_status qs__metrics_planned(const qs__setting *setting, const qs__counters *counters, const qs_evaluation *planned);
/* Of the weights of a node. */
qs_status qs__metrics_gradient(const qs__setting *setting, int64_t epoch, int64_t step, int node, double variance);
qs_status qs__metrics_norm_gap(const qs__setting *setting, int64_t epoch, int64_t step, const qs__norm_gap_summary *summary);
/* Behind a switch to `plan`: `figures` of all ranks. */
qs_status qs__metrics_replan(const qs__setting *setting, int64_t epoch, int64_t step, const qs_plan *plan,
                             const qs__replan_figures *figures);
qs_status qs__metrics_decision(const qs__setting *setting, int64_t epoch, int64_t step, const qs__decision *one);
/* Behind a promotion, or one that was refused: `refusal` says why. */
qs_status qs__metrics_promotion(const qs__setting *setting, int64_t epoch, int64_t step, const qs__promotion *one,
                                const qs__replan_figures *figures, const char *refusal);
/* Tensors whose rounding overflowed or underflowed in this epoch. */
qs_status qs__metrics_rounding(const qs__setting *setting, int64_t epoch, const qs_plan *plan, const qs__rounding *rounding);
qs_status qs__metrics_failure(const qs__setting *setting, int64_t epoch, const qs__failure *failure);
/* What tells that a run has ended. weights: NULL: none, the run failed; trace: text of trace.json, NULL: none. */
qs_status qs__folder_finish(const qs__setting *setting, const qs__plans *plans, const qs_train_result *result, const char *trace,
                            const qs__program *weights);

/* ---- failure.c: how a run ends by its numbers; all but the first are collective ----------------------------------------------------- */

/* Runs the steps up to `end` once more and looks at every tensor. Weights and, where forward and backward parts run, the sums of gradients
 * stay as they are; nothing else matters: the run is over. Images and labels have to be in their buffers. */
qs_status qs__culprit_find(const qs__program *program, const qs_graph *graph, const qs_run *run, int end, qs__culprit *out);
/* Agrees on what ranks found; records and tells it: never QS_OK. own: what this rank found; step, reason: where none found anything in its
 * own values. */
qs_status qs__failure_tell(const qs__setting *setting, const qs__program *main, const qs__failure *own, int64_t epoch, int64_t step,
                           qs__reason reason);
int64_t qs__skip_limit(const qs_train_options *options);
/* Behind a report. mine: sums of this rank since the one before; loss and first: means of all ranks, since then and of the first step.
 * QS_NUMERIC, recorded, when the options call that diverged. */
typedef struct qs__divergence {
    int64_t epoch, step;
    const qs__sums *mine;
    double loss, first;
} qs__divergence;
qs_status qs__divergence_check(const qs__setting *setting, const qs__program *main, const qs__rounding *rounding, const qs__divergence *at);

/* ---- agree.c: what the ranks compare ------------------------------------------------------------------------------------------------ */

/* Of the master weights. */
qs_status qs__weights_hash(const qs__present *present, uint64_t *hash);
/* QS_FAILED when a rank's weights after `step` steps are not those of rank 0. */
qs_status qs__weights_agree(const qs__present *present, qs_comm *comm, int64_t step);
/* Each rank's running statistics follow its own batches; what is evaluated and saved is their mean over samples. */
qs_status qs__statistics_average(const qs__setting *setting, const qs__present *present);
/* Job, cluster, plan, data, weights and state of all ranks are those of rank 0. */
qs_status qs__inputs_agree(const qs__setting *setting, const qs__present *present, const qs__counters *counters,
                           const qs__rounding *rounding);

/* ---- promote.c: tensors whose rounding overflows get higher formats ----------------------------------------------------------------- */

/* Before a step, from the counts of the one behind; collective. */
qs_status qs__promote(const qs__setting *setting, qs__plans *plans, qs__rounding *rounding, int64_t epoch, int64_t step);
/* From counts to shares: what the next step's promotions are decided by. Collective; again for the same step it does nothing. */
qs_status qs__promotions_judge(const qs__setting *setting, const qs_plan *plan, qs__rounding *rounding);
/* What was promoted in the run that this one goes on with is so in a copy of the plan, as the run's own. */
qs_status qs__promotions_resume(const qs__setting *setting, qs__present *present, qs__rounding *rounding);
/* Behind a plan that was not made by promotion: what was known was known of another one. */
void qs__promotions_forget(qs__rounding *rounding);
/* The thresholds that the options ask for, in a copy of the plan as the run's own. */
qs_status qs__thresholds_set(const qs__setting *setting, qs__present *present);

/* ---- state.c: the state of a run to a file and back ---- */

/* To the run folder; collective. */
qs_status qs__state_save(const qs__setting *setting, const qs__present *present, const qs__counters *counters,
                         const qs__rounding *rounding);
/* From options->resume; programs are bound. */
qs_status qs__state_load(const qs__setting *setting, const qs__present *present, qs__counters *counters, const qs__rounding *rounding);

/* ---- measures.c: what is measured of predictions ---- */

typedef enum qs__measured { QS__NOTHING_MORE, QS__PERPLEXITY, QS__TAGS, QS__SPANS } qs__measured;

/* What predictions said so far, on this rank. */
typedef struct qs__measuring {
    qs__measured kind;
    const qs_dataset *dataset;
    double right, guessed, true_ones; /* tags: named things, of these predicted rightly, predicted, there */
    int32_t *tag;                     /* (2 × positions) of a sample: true and predicted ones that count */
    double *span;                     /* (samples × 3) score, first and last position; 0 for those of other ranks */
} qs__measuring;
qs_status qs__measuring_start(const qs_dataset *dataset, qs__measuring *out);
void qs__measuring_release(qs__measuring *measuring);
/* What the program's last run predicted of these samples. */
qs_status qs__measuring_add(qs__measuring *measuring, const qs__program *program, const int64_t *indices, int64_t count);
/* Collective. Adds to *out, whose loss is known, what was measured on all ranks. */
qs_status qs__measuring_finish(qs__measuring *measuring, qs_comm *comm, qs_evaluation *out);

/* ---- evaluate.c ---- */

/* at: the programs of every length of the sharding. culprit: NULL, or takes the first tensor of this rank that is not finite, where a loss
 * is not. Collective. */
qs_status qs__evaluation_run(const qs__length_programs *at, const qs_dataset *dataset, qs_sharding *sharding, qs_comm *comm,
                             qs__culprit *culprit, qs_evaluation *out);

/* ---- nearest.c ---- */

/* The recipes with values rounded to the nearest: stochastic rounding is for gradients, and an evaluation that draws is none. The array
 * holds the pointers, then what they point to; the caller frees it. NULL where `recipe` is. */
qs_status qs__recipes_to_nearest(const qs_graph *graph, const qs_recipe *const *recipe, const qs_recipe ***out);

/* ---- planned.c ---- */

/* The test part, each rank's share in the forward formats of its class, to nearest. NaN where all compute forward in fp32, nothing is
 * evaluated, or a rank has no room for it. Collective. */
qs_status qs__planned_evaluation(const qs__setting *setting, qs__plans *plans, qs_evaluation *out);

/* ---- adapt.c: a run that keeps pace ---- */

enum { QS__PACED = 256 };

/* Microseconds of a step of training. */
typedef struct qs__pace_sums {
    double compute_us, memory_us, all_reduce_us;
} qs__pace_sums;

/* Kernels of an idle rank, one a step. */
typedef struct qs__probe {
    double *expected_us;          /* (steps of the main program) NULL: the rank has samples, or its pace is a trace's */
    int step;                     /* the last one that was run */
    qs__pace_sums took, expected; /* in this window; all-reduces 0 */
} qs__probe;

typedef struct qs__adapting {
    qs__pace_changes changes;
    qs__pace_sums expected[QS_MOST_LENGTHS]; /* by the profile, under the present plan; all-reduces 0 */
    int64_t noted;                           /* steps in this window */
    double slowness[3][QS__PACED];           /* of the last ones: measured / expected of kernels, microseconds of all-reduces; a ring */
    double all_reduce_us, all_reduce_pace;   /* what they took when the present plan began (0: not known yet), and which pace that was */
    double *waited; /* (classes) share of the last window for which threads were ready but had no core, on the rank where most */
    qs_waits waits; /* of this rank, where the window began */
    double clock;   /* there */
    double cost_us; /* of the last switch */
    double seconds; /* that all of this took */
    qs__probe probe;
} qs__adapting;

/* Before the first step; every rank by itself. */
qs_status qs__adapt_create(const qs__setting *setting, const qs__plans *plans, qs__adapting *out);
void qs__adapt_release(qs__adapting *adapting);
/* Another plan is the present one; every rank by itself. */
qs_status qs__adapt_follow(const qs__setting *setting, const qs__present *present, qs__adapting *adapting);
/* A program's executor at the trace's pace of a step; nothing without one. */
void qs__pace_apply(const qs__setting *setting, int64_t step, qs_executor *executor);
/* A full-size step that was timed. */
void qs__adapt_note(qs__adapting *adapting, int length, const qs_schedule *schedule, const qs_timeline *timeline);
/* Before a step: an idle rank runs one of its kernels, while the others have a whole step to do. */
qs_status qs__adapt_probe(qs__adapting *adapting, const qs__program *main, const qs_run *run);
/* Whether the ranks look at their pace before a step. */
bool qs__adapt_is_due(const qs__setting *setting, int64_t step);
/* The look, and what follows from it; collective. *taken: another plan is the present one, with `figures`. */
qs_status qs__adapt(const qs__setting *setting, qs__plans *plans, qs__adapting *adapting, int64_t epoch, int64_t step, bool *taken,
                    qs__replan_figures *figures);

/* ---- step.c: one training step ---- */

typedef struct qs__losses {
    qs__sums interval; /* of this rank, since the last report */
    qs__sums epoch;    /* of all ranks, reported so far */
    qs__sums first;    /* of this rank, in the first step: what divergence is held against */
} qs__losses;

typedef struct qs__trainer {
    qs__setting setting;
    qs__plans plans;
    qs__counters counters;
    qs__losses losses;
    qs__rounding rounding;
    qs__adapting adapting;
    qs__failure failure;   /* what this rank found first */
    double *seconds;       /* (steps) of this rank; negative for partial steps */
    unsigned char *length; /* (steps) which of the job's */
} qs__trainer;

/* The samples of this rank in a step, and the program that runs them; valid until the next call. */
typedef struct qs__sample_step {
    const qs__program *program;
    const int64_t *indices; /* (run.samples) */
    int64_t epoch;
    int length;      /* which of the job's */
    int64_t samples; /* of all ranks; run.global_samples is what the loss is the mean of */
    qs_run run;
} qs__sample_step;
qs_status qs__sample_step_find(const qs__setting *setting, qs__plans *plans, const qs__counters *counters, int64_t epoch,
                               int64_t step_in_epoch, qs__sample_step *out);
/* Copies them into the program's input buffers. */
qs_status qs__sample_step_load(const qs__setting *setting, const qs__sample_step *one);
qs_status qs__trainer_step(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch);

/* ---- norm_gap.c: how far 8 bits move the values of normalisations: before a step, outside its clock; collective ---- */

/* QS_USAGE where there is none in 8 bits. */
qs_status qs__norm_gap_check(const qs_graph *graph);
qs_status qs__norm_gap_report(const qs__setting *setting, qs__plans *plans, const qs__counters *counters, int64_t epoch,
                              int64_t step_in_epoch);

/* ---- trainer.c: a trainer from the options to its end ---- */

/* Everything before the first step; collective. release is fine on a zeroed or half-made trainer. */
qs_status qs__trainer_create(const qs_train_options *options, qs_device *device, qs_comm *comm, qs__trainer *out);
void qs__trainer_release(qs__trainer *trainer);

#endif
