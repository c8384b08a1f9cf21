// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: lowered programs over one memory, the state of a training run, and its record of metrics. */
#ifndef QSYNC_TRAIN_INTERNAL_H
#define QSYNC_TRAIN_INTERNAL_H

#include "qsync/train.h"

/* ---- executor.c: the parts of qs_executor_run, and one step alone ------------------------------------------------------------- */

/* Where the steps of a phase end: QS_FORWARD's, or QS_BACKWARD's, where updates begin. */
int qs__phase_end(const qs_schedule *schedule, qs_phase phase);
qs_status qs__executor_forward(qs_executor *executor, const qs_run *run);
/* *finite: NULL, or whether this rank's gradients are, looked at bucket by bucket before they are summed. */
qs_status qs__executor_backward(qs_executor *executor, const qs_run *run, bool *finite);
qs_status qs__executor_update(qs_executor *executor, const qs_run *run);
/* Completes the all-reduces that are under way; later waits find them done. */
qs_status qs__executor_settle(qs_executor *executor);
qs_status qs__executor_step(qs_executor *executor, int index, const qs_run *run);
/* All of a buffer: a copy into *out, which the caller frees (NULL where the mode has no such buffer), and its hash. */
qs_status qs__executor_copy(const qs_executor *executor, int buffer, void *out);
uint64_t qs__executor_hash(const qs_executor *executor, int buffer, uint64_t seed);
/* A copy of what an operand of a step has in memory, which the caller frees. */
qs_status qs__executor_operand(const qs_executor *executor, const qs_step *step, int operand, void *out);

/* ---- program.c: a schedule with its executor ------------------------------------------------------------------------------ */

typedef struct qs__program {
    qs_schedule *schedule; /* NULL: not there */
    qs_executor *executor;
} qs__program;

/* What a class's plan says of precision, as lowering takes it. */
typedef struct qs__formats {
    const qs_recipe *const *recipe; /* (nodes) NULL: fp32 everywhere */
    const qs_format *half;
    const qs_tensor_table *tensors; /* NULL: fp32 */
} qs__formats;
/* Whose kernels run: the device's, those that a class's plan names. */
typedef struct qs__kernels {
    qs_device *device;
    const qs_class_plan *plan; /* NULL: the device chooses */
} qs__kernels;
/* QS_MISMATCH when the plan names a kernel that the device does not have for its case. */
qs_status qs__program_lower(const qs_graph *graph, const qs_job *job, const qs__formats *formats, qs_mode mode, int64_t batch,
                            const qs__kernels *kernels, qs__program *out);
qs_status qs__program_bind(qs__program *program, qs_device *device, qs_comm *comm, void *memory);
void qs__program_release(qs__program *program);
/* Weights and running statistics from a file. */
qs_status qs__weights_load(const qs__program *program, const qs_graph *graph, const char *path);
/* QS_FAILED when masters, optimiser states, running statistics, residuals or gradients of two schedules of a model lie elsewhere. */
qs_status qs__persistent_compare(const qs_schedule *a, const qs_schedule *b);

/* ---- check.c: may this plan run here? --------------------------------------------------------------------------------------- */

/* Signatures, job and class of a plan against what is at hand; then `live`, lowered from this device's kernels, against the plan's rows and
 * hash. QS_MISMATCH names the first difference. */
qs_status qs__plan_check(const qs_plan *plan, const qs_job *job, const qs_cluster *cluster, const qs_graph *graph);
/* What a class's plan says of a case; NULL: nothing, or there is no plan. */
const qs_plan_kernel *qs__plan_kernel(const qs_class_plan *plan, const char *case_text);
qs_status qs__plan_check_schedule(const qs_class_plan *plan, const qs_graph *graph, const qs_job *job, const qs__formats *formats,
                                  const qs_schedule *live);

/* ---- timeline.c ---------------------------------------------------------------------------------------------------------------- */

void qs__timeline_start(qs_timeline *timeline);
/* Where a step begins: the end of the one before. */
double qs__timeline_start_of(const qs_timeline *timeline, int step);

/* ---- watch.c: the clock beside full-size steps -------------------------------------------------------------------------------- */

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
} qs__watch;

/* The steps of a run that count as warm-up. */
int64_t qs__warm_up(int64_t steps);
qs_status qs__watch_create(const qs__program *program, int64_t steps, bool trace, qs__watch *out);
void qs__watch_release(qs__watch *watch);
/* After each full-size step. */
void qs__watch_step(qs__watch *watch, int64_t step, double begin, double end);
/* Median of a list, which it sorts; 0 of an empty one. */
double qs__median(double *value, int64_t count);
/* Medians of all columns; 0 when no step was seen. */
qs_status qs__watch_medians(const qs__watch *watch, double *medians, int64_t *steps);

/* ---- plan_file.c: the watched plan file; rank 0 ---------------------------------------------------------------------------------- */

struct qs__trainer;
/* True when another file lies there than the one last looked at. One stat: cheap enough for a step. */
bool qs__plan_file_changed(struct qs__trainer *trainer);
/* Canonical text of the plan in the file; NULL when it is the present plan or may not run here, which is logged. */
char *qs__plan_file_read(const struct qs__trainer *trainer);

/* ---- The run ------------------------------------------------------------------------------------------------------------------ */

/* Sums over samples; of one rank until they are added up. */
typedef struct qs__sums {
    double loss, correct, samples;
} qs__sums;

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
    int places;               /* 0: never asked for */
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
    double added;        /* counted bytes that promotions added to the tensors of this rank */
    int64_t first_arena; /* reserved bytes before the first promotion; 0: none */
} qs__rounding;

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

/* A plan that was taken in a running job. */
typedef struct qs__switch {
    int64_t step; /* that it took effect at, from 0 */
    double us;    /* between two steps, on the slowest rank */
} qs__switch;

/* What a switch of plans changed on a rank. */
typedef struct qs__replan_figures {
    char schedule_before[32], schedule[32]; /* hashes */
    int64_t arena_before, arena;            /* bytes */
} qs__replan_figures;

typedef struct qs__trainer {
    const qs_train_options *options;
    const qs_job *job;
    qs_device *device;
    qs_comm *comm;
    int rank, ranks;
    const qs_class *class_;          /* of this rank */
    const qs_plan *plan;             /* the present one; NULL: fp32 everywhere */
    qs_plan *taken;                  /* the same, when it was taken on the way; NULL: it is the caller's */
    const qs_class_plan *class_plan; /* NULL: fp32 everywhere */
    qs_graph *graph;
    const qs_recipe **recipe;
    qs_tensor_table tensors;
    qs_dataset training, test;
    int64_t *batch; /* (ranks) */
    int64_t global_batch;
    int64_t data_bytes; /* that the process grew by when it read its sample sets */
    qs_sharding sharding, test_sharding;
    qs_augmentation augmentation;
    qs_arena arena;
    qs__program main, partial, evaluation; /* partial: of the last, smaller step; NULL schedule when there is none */
    qs_loss_scale scale;
    int64_t steps_per_epoch, steps; /* steps: of the whole run, max_steps respected */
    int64_t step;                   /* next one, from 0 */
    int64_t first_step;             /* done in the run that this one goes on with */
    qs__sums interval;              /* of this rank, since the last report */
    qs__sums epoch;                 /* of all ranks, reported so far */
    qs__failure failure;            /* what this rank found first */
    qs__sums first;                 /* of this rank, in the first step: what divergence is held against */
    qs__rounding rounding;          /* of tensors, where the plan says so */
    int64_t skipped;                /* steps that loss scaling skipped */
    double *seconds;                /* (steps) of this rank; negative for partial steps */
    int64_t plan_step;              /* first one under the present plan */
    uint64_t plan_file;             /* which one was looked at last; 0: none */
    bool plan_offered;              /* a plan is to be looked at before the next step; the same on all ranks */
    qs__switch *plan_switch;        /* (plan_switches) promotions among them */
    size_t plan_switches, plan_switch_room;
    int64_t promotion_switches; /* how many of them were promotions */
    qs__watch watch;            /* of the main program */
    int64_t resident_bytes;     /* of this process behind the last step */
    FILE *metrics;              /* rank 0 with a run folder */
} qs__trainer;

static inline bool qs__evaluates(const qs__trainer *trainer) {
    return trainer->evaluation.schedule != NULL;
}

/* Class of a rank, and what the present plan says of it; NULL without a plan. */
const qs_class *qs__class_of(const qs__trainer *trainer, int rank);
const qs_class_plan *qs__class_plan_of(const qs__trainer *trainer, int rank);

/* setup.c: everything before the first step; collective. release is fine on a zeroed or half-made trainer. */
qs_status qs__trainer_create(const qs_train_options *options, qs_device *device, qs_comm *comm, qs__trainer *out);
void qs__trainer_release(qs__trainer *trainer);
/* What a plan makes of a trainer, in this order; released alone when another plan takes its place. */
qs_status qs__plan_choose(qs__trainer *trainer); /* checks it; class plan and recipes of this rank */
qs_status qs__plan_deal(qs__trainer *trainer);   /* batches of all ranks */
qs_status qs__plan_lower(qs__trainer *trainer);  /* programs; model and data are there */
qs_status qs__plan_bind(qs__trainer *trainer);   /* programs to the arena, which holds them, and the clock beside them */
void qs__plan_release(qs__trainer *trainer);

/* replan.c: before a step, when a plan was offered; collective. */
qs_status qs__replan(qs__trainer *trainer, int64_t epoch);

/* The plan in `text`, the same on all ranks, takes the place of the present one before the next step, on all ranks or on none: what any
 * refuses is the status (and changes nothing). figures: of this rank. */
qs_status qs__plan_take(qs__trainer *trainer, const char *text, qs__replan_figures *figures);
qs_status qs__replan_gather(qs__trainer *trainer, const qs__replan_figures *mine, qs__replan_figures **all); /* rank 0's; NULL elsewhere */

/* rounding.c: counts of rounded tensors. After every step, collective; nothing where the plan rounds nothing. */
qs_status qs__rounding_create(qs__trainer *trainer);
/* Another plan is the present one. */
void qs__rounding_follow(qs__trainer *trainer);
void qs__rounding_release(qs__rounding *rounding);
qs_status qs__rounding_step(qs__trainer *trainer, const qs__program *program, int64_t count);
const char *qs__rounding_name(const qs_graph *graph, int place);
/* What the plan's first class that rounds the tensor at a place says of it; false where none does. *gradient: it is the gradient of an
 * output. */
bool qs__rounding_tensor(const qs__trainer *trainer, int place, const qs_tensor_choice **tensor, bool *gradient);
double qs__rounding_share(double part, double elements);

/* promote.c: before a step, from the counts of the one behind; collective. */
qs_status qs__promote(qs__trainer *trainer, int64_t epoch);
/* From counts to shares: what the next step's promotions are decided by. Collective; again for the same step it does nothing. */
qs_status qs__promotions_judge(qs__trainer *trainer);
/* What was promoted in the run that this one goes on with is so in a copy of the plan, as the trainer's own. */
qs_status qs__promotions_resume(qs__trainer *trainer);
/* Behind a plan that was not made by promotion: what was known was known of another one. */
void qs__promotions_forget(qs__trainer *trainer);
/* Whether a value stands below its higher format. */
bool qs__tensor_is_low(const qs_tensor_choice *tensor);
/* A copy of the plan with the thresholds that the options ask for, as the trainer's own. */
qs_status qs__thresholds_set(qs__trainer *trainer);

/* culprit.c: runs the steps up to `end` once more and looks at every tensor. Weights and, where forward and backward parts run, the sums of
 * gradients stay as they are; nothing else matters: the run is over. Images and labels have to be in their buffers. */
qs_status qs__culprit_find(const qs__program *program, const qs_graph *graph, const qs_run *run, int end, qs__culprit *out);

/* failure.c: what all ranks end with; collective. */
/* Agrees on what ranks found; records and tells it: never QS_OK. reason: where none found anything in its own values. */
qs_status qs__failure_tell(qs__trainer *trainer, int64_t epoch, qs__reason reason);
/* The same for what all ranks see alike. */
qs_status qs__failure_common(qs__trainer *trainer, int64_t epoch, const qs__failure *failure, const char *text);
/* The name of a reason in metrics. */
const char *qs__reason_name(qs__reason reason);
int64_t qs__skip_limit(const qs__trainer *trainer);

/* gradients.c: behind the all-reduces of every options->gradients_every-th step, before the loss scale changes. */
qs_status qs__gradients_report(qs__trainer *trainer, const qs__program *program, int64_t epoch, double loss_scale);

/* norm_gap.c: before every options->norm_gap_every-th step, outside its clock; collective. */
qs_status qs__norm_gap_check(const qs__trainer *trainer);
qs_status qs__norm_gap_report(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch);

/* state.c: collective where it writes. */
qs_status qs__state_save(qs__trainer *trainer, int64_t epoch); /* behind an epoch, where options->checkpoint_every says so */
qs_status qs__state_load(qs__trainer *trainer);                /* from options->resume; programs are bound */
qs_state_part qs__promotions_part(const qs__trainer *trainer);

/* step.c */
/* The samples of this rank in the step at hand, and the program that runs them; valid until the next call. */
typedef struct qs__sample_step {
    const qs__program *program;
    const int64_t *indices; /* (run.samples) */
    qs_run run;
} qs__sample_step;
qs_status qs__sample_step_find(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch, qs__sample_step *out);
/* Copies them into the program's input buffers. */
qs_status qs__sample_step_load(const qs__trainer *trainer, const qs__sample_step *one);
/* Loss and correct answers of the run that has just ended, of so many samples. */
qs_status qs__sums_add(qs__sums *sums, const qs__program *program, int64_t count);
qs_status qs__trainer_step(qs__trainer *trainer, int64_t epoch, int64_t step_in_epoch);

/* divergence.c: behind a report; collective. mine: sums of this rank since the one before; loss and first: means of all ranks, since then
 * and of the first step. QS_NUMERIC, recorded, when the options call that diverged. */
qs_status qs__divergence_check(qs__trainer *trainer, int64_t epoch, const qs__sums *mine, double loss, double first);

/* agree.c: what the ranks compare. */
qs_status qs__sums_report(qs__trainer *trainer, int64_t epoch);
qs_status qs__statistics_average(const qs__trainer *trainer);
uint64_t qs__weights_hash(const qs__trainer *trainer);
qs_status qs__weights_agree(const qs__trainer *trainer);
/* Job, cluster, plan, data and weights of all ranks are those of rank 0. */
qs_status qs__inputs_agree(const qs__trainer *trainer);

/* evaluate.c. culprit: NULL, or takes the first tensor of this rank that is not finite, where a loss is not. */
qs_status qs__evaluation_run(const qs__program *program, const qs_graph *graph, const qs_dataset *dataset, qs_sharding *sharding,
                             qs_comm *comm, qs__culprit *culprit, qs_evaluation *out);

/* audit.c: collective; fills out on rank 0. */
qs_status qs__audit_make(qs__trainer *trainer, const qs_train_result *result, qs_audit *out);
/* trace_file.c: text of trace.json; collective, NULL but on rank 0. */
qs_status qs__trace_text(qs__trainer *trainer, char **json);

/* text.c: JSON under construction. Failures stick until the end. */
typedef struct qs__text {
    FILE *stream;
    char *text;
    size_t bytes;
} qs__text;
qs_status qs__text_start(qs__text *out);
/* A string with quotes. */
void qs__text_quote(qs__text *text, const char *string);
qs_status qs__text_finish(qs__text *text, char **out);

/* metrics.c: the run folder; rank 0 only, all others and runs without a folder return QS_OK at once. */
qs_status qs__metrics_open(qs__trainer *trainer);
/* Of the weights of a node. */
qs_status qs__metrics_gradient(qs__trainer *trainer, int64_t epoch, int node, double variance);
/* Gaps of the values of quantized normalisations in one forward pass, relative squared distances. */
typedef struct qs__norm_gap_summary {
    double mean, statistics_mean; /* over operators: of all roundings, of those of mean and spread */
    double worst;
    int worst_node;
} qs__norm_gap_summary;
qs_status qs__metrics_norm_gap(qs__trainer *trainer, int64_t epoch, const qs__norm_gap_summary *summary);
/* Behind a switch to the present plan: `figures` of all ranks. */
qs_status qs__metrics_replan(qs__trainer *trainer, int64_t epoch, const qs__replan_figures *figures);
/* Behind a promotion, or one that was refused: `refusal` says why. */
typedef struct qs__promotion {
    const char *tensor;
    char from[64], to[64];
    bool overflowed; /* that is why; else because it underflowed */
    qs__rise rise;
} qs__promotion;
qs_status qs__metrics_promotion(qs__trainer *trainer, int64_t epoch, const qs__promotion *one, const qs__replan_figures *figures,
                                const char *refusal);
/* Tensors whose rounding overflowed or underflowed in this epoch. */
qs_status qs__metrics_rounding(qs__trainer *trainer, int64_t epoch);
qs_status qs__metrics_failure(qs__trainer *trainer, int64_t epoch, const qs__failure *failure);
qs_status qs__metrics_interval(qs__trainer *trainer, int64_t epoch, const qs__sums *sums);
qs_status qs__metrics_epoch(qs__trainer *trainer, int64_t epoch, const qs__sums *training, const qs_evaluation *test);
/* trace: text of trace.json, NULL: none. failed: everything but the weights. */
qs_status qs__metrics_finish(qs__trainer *trainer, const qs_train_result *result, const char *trace, bool failed);

#endif
