// SPDX-License-Identifier: Apache-2.0
/* train: runs schedules: one model, all ranks, synchronous steps, exactly the plan.
 *
 * Layers, each usable alone: *executor* (a schedule bound to a device, an arena and a communicator; runs one step), *trainer* (epochs over
 * a data set with learning rates, loss scaling, evaluation, metrics). No kernels and no arithmetic of its own happen here.
 *
 * Promises (tested): same build, CPU type, threads, ranks and plan give bit-identical metrics; master weights are bit-identical on all
 * ranks after every step; the arena reserved is exactly the schedule's arena_bytes. */
#ifndef QSYNC_TRAIN_H
#define QSYNC_TRAIN_H

#include "qsync/checkpoint.h"
#include "qsync/comm.h"
#include "qsync/data.h"
#include "qsync/device.h"
#include "qsync/graph.h"
#include "qsync/pace.h"
#include "qsync/record.h"
#include "qsync/schedule.h"

/* ---- Kernel facts from a live device ------------------------------------------------------------------------------------- */

/* A qs_kernel_lookup whose context is a qs_device. */
QS_API qs_status qs_lookup_device(void *device, const qs_case *one, const char *case_text, qs_kernel_row *out);

/* ---- Executor ---------------------------------------------------------------------------------------------------------------- */

/* Called after each step of a schedule (kernels and communication) with its duration in seconds by the device's clock, rest included. The
 * device is waited for before: for those who look at what a step left. Times alone are better asked of a timeline. */
typedef void (*qs_step_observer)(void *context, const qs_schedule *schedule, int step, double seconds);

typedef struct qs_executor qs_executor;
/* Binds all kernels of a schedule to memory of the device (QS_USAGE where it has fewer than schedule->arena_bytes bytes). schedule, device,
 * comm and memory must outlive it; the memory may grow, and shrink to what the schedule needs. Several executors may share one memory when
 * their persistent parts are alike (training and evaluation of one model). Where the host does not see the memory, staging for samples and
 * gradients is reserved here. */
QS_API qs_status qs_executor_create(const qs_schedule *schedule, qs_device *device, qs_comm *comm, qs_memory *memory, qs_executor **out);
/* Where the communicator's algorithm leaves gradients to the devices (qs_comm_by_devices), all its ranks join into one group, before the
 * first executor; elsewhere nothing is done. Collective: QS_UNSUPPORTED of one rank, whose device cannot, is that of all. */
QS_API qs_status qs_devices_join(qs_device *device, qs_comm *comm);
QS_API void qs_executor_release(qs_executor *executor);
QS_API void qs_executor_observe(qs_executor *executor, qs_step_observer observer, void *context);
/* Whether the kernels of an executor are started as recordings of its device (device.h). Of the first runs of the whole schedule that
 * nobody observes or times, ten in all, some start kernels one by one and some as recordings; the way whose median takes less time stays,
 * or recordings where the device is to take them always. Either way gives the same bits. Runs that are observed or timed start kernels
 * one by one. */
typedef enum qs_recorded_state { QS_RECORDED_NO, QS_RECORDED_TRYING, QS_RECORDED_YES } qs_recorded_state;
typedef struct qs_recorded {
    qs_recorded_state state;
    int recordings, kernels;           /* how many, and of how many kernels of the schedule; 0: none */
    double one_by_one_us, recorded_us; /* medians of a run by the device's clock; 0: not measured */
} qs_recorded;
QS_API qs_recorded qs_executor_recorded(const qs_executor *executor);
/* When everything happened in one run of a schedule: what the device's clock says, as times of qs_clock. A step ends when the device is
 * done with it, whatever the host does meanwhile. */
typedef struct qs_timeline {
    int steps, buckets;
    double begin;
    double *end;      /* (steps) of each step; the next one begins there */
    double *polled;   /* (steps) seconds at its end in which all-reduces under way were moved on; not the kernel's. 0 where the device
                         computes while the host does that */
    double *complete; /* (buckets) when its all-reduce was seen to be complete; it started where its ready_step begins */
} qs_timeline;
QS_API qs_status qs_timeline_create(const qs_schedule *schedule, qs_timeline *out);
QS_API void qs_timeline_release(qs_timeline *timeline);
/* Every run from now on fills `timeline`, made for this schedule; NULL: none any more. */
QS_API void qs_executor_time(qs_executor *executor, qs_timeline *timeline);
/* What a step took, all-reduces that were moved on behind it included. */
QS_API double qs_timeline_seconds(const qs_timeline *timeline, int step);
/* Adds the microseconds of a run to the phases, but for the data, which are the caller's. */
QS_API void qs_timeline_phases(const qs_timeline *timeline, const qs_schedule *schedule, qs_phase_times *sum);

/* Runs the whole schedule once. run->operator_id (the node, or the number of nodes in the update) and run->stream are set per step by the
 * executor. Between kernels it lets pending all-reduces make progress. It returns when the device is done. With run->samples 0 (a last
 * partial batch that left this rank without a sample) only the all-reduces, with zero gradients, and the update run. The finite flag is
 * set to 1 before the first step. After a failure all-reduces may still be under way: the run is over, release the executor or end the
 * process. */
QS_API qs_status qs_executor_run(qs_executor *executor, const qs_run *run);

/* The buffers of a schedule lie in memory of the device, which this process need not see: nobody follows a pointer into it. What is needed
 * of it is copied: `bytes` bytes of a buffer of the schedule, from its byte `offset` on, between runs or in an observer. QS_USAGE when the
 * schedule has no such buffer or the buffer no such bytes. */
QS_API qs_status qs_executor_read(const qs_executor *executor, int buffer, size_t offset, size_t bytes, void *to);
QS_API qs_status qs_executor_write(qs_executor *executor, int buffer, size_t offset, size_t bytes, const void *from);
/* Sets a whole buffer to zero. */
QS_API qs_status qs_executor_clear(qs_executor *executor, int buffer);
/* Puts the start weights of a model into the masters, and its start values into the running statistics (qs_graph_initialize). */
QS_API qs_status qs_executor_initialize(qs_executor *executor, const qs_graph *graph, uint64_t seed);
/* Puts samples of a set into inputs and target (qs_batch_fill), at most the schedule's batch; what they leave of it becomes zero. Before
 * every run: later steps may write where the inputs lie. */
QS_API qs_status qs_executor_load(qs_executor *executor, const qs_graph *graph, const qs_dataset *dataset,
                                  const qs_augmentation *augmentation, const int64_t *indices, int64_t count);

/* ---- Rates and scales ------------------------------------------------------------------------------------------------------- */

/* Learning rate of a step (counted from 0 over all epochs) of a job with so many steps an epoch. Warm-up: linear from base/10 at step 0 to
 * base after warmup_steps or, where these are 0, warmup_epochs. Then `constant`; `step`: base, × 0.1 from 1/2 and × 0.01 from 3/4 of all
 * steps on; `cosine` and `linear`: from base where warm-up ends down to 0 behind the last step. Pure.
 *
 * The base rate belongs to the job's global batch (batch × ranks), as linear scaling would have it: another global batch would take
 * rate × (global batch / the job's). Plans with unequal local batches keep the global batch (qs_train refuses others), so the factor is 1
 * and does not appear. */
QS_API double qs_learning_rate(const qs_job *job, int64_t step, int64_t steps_per_epoch);

/* Loss scaling. Dynamic: starts at the job's value, halves (not below 1) after a step whose gradients were not finite (all ranks skip that
 * update alike, since the sums they check are equal bits), doubles (not above 2^24) after growth_steps good steps in a row. */
typedef struct qs_loss_scale {
    double value;
    bool dynamic;
    int64_t growth_steps; /* 0, as it starts: it never grows. Training sets an epoch's steps or what its options say */
    int64_t good_steps;   /* since the last change */
    int64_t skipped;      /* steps in a row, up to now */
} qs_loss_scale;
QS_API qs_loss_scale qs_loss_scale_start(const qs_job *job);
QS_API void qs_loss_scale_update(qs_loss_scale *scale, bool finite);

/* ---- Audit: what was predicted against what was measured ------------------------------------------------------------------------ */

#define QS_PHASE_TIMES 7
/* The phases as a list: name ("forward", ..., "data") and time; index 0 .. QS_PHASE_TIMES - 1. */
QS_API const char *qs_phase_times_name(int index);
QS_API double qs_phase_times_at(const qs_phase_times *times, int index);

/* Of one rank. Medians over full-size steps after warm-up (the last 512 at most), each phase on its own. Where steps run from recordings
 * (qs_recorded) these are the steps that were timed, one in 16, kernel by kernel: others take less time, and what is predicted of phases is
 * of those where the plan knows recordings. */
typedef struct qs_audit_rank {
    char class_name[QS_NAME];
    qs_phase_times predicted, measured; /* predicted: all 0 where the plan does not say */
    double iteration_us;                /* of this rank */
    bool recorded;                      /* its steps run from recordings */
    int64_t predicted_arena, reserved_arena;
    int64_t base_bytes, communication_bytes; /* by the plan */
    int64_t program_bytes;               /* by the plan, twice where the last step of an epoch is smaller: it has a program of its own */
    int64_t data_bytes;                  /* that the process grew by when it read its sample sets */
    int64_t predicted_rss, measured_rss; /* predicted: all of these and the arena, or where that lies in a memory that
                                          * the process does not see what it stages; -1 where the plan does not say */
} qs_audit_rank;

/* Full-size steps of one length, under the plan that ran last. */
typedef struct qs_length_time {
    int64_t length; /* 0: samples have one length */
    int64_t steps;
    double predicted_us; /* of the iteration; 0: the plan does not say */
    double measured_us;  /* median of the slowest rank, warm-up left out; 0: there was no step */
} qs_length_time;

/* Where a job has lengths, figures of a step are means over them, each as often as its full-size steps occurred: of medians, and of what
 * was predicted. */
typedef struct qs_audit {
    int ranks;
    qs_audit_rank *rank;
    int lengths; /* at least 1 */
    qs_length_time length[QS_MOST_LENGTHS];
    int64_t steps;        /* that the medians are over */
    int64_t first_step;   /* from 0, under the plan that ran last: what is predicted is that plan's, and no earlier step is in here */
    double predicted_us;  /* of the iteration; 0: the plan does not say */
    double measured_us;   /* median over steps of the slowest rank, as they ran */
    double observing_us;  /* what reading the clock costs in an iteration of rank 0 */
    double bound_percent; /* of the error of the iteration */
    char warning[640];    /* which phase of which rank is off and what to do; "" within the bound */
} qs_audit;
/* Error of a prediction in per cent of what was measured; NaN without either. */
QS_API double qs_audit_error(double predicted, double measured);
QS_API void qs_audit_release(qs_audit *audit);
/* What audit.json holds; the caller frees. */
QS_API qs_status qs_audit_text(const qs_audit *audit, char **json);

/* Resident bytes of this process, exactly: Rss of /proc/self/smaps_rollup, pages shared with others in full. 0 where the system does not
 * say. Read in training behind the last step; what the heap holds free was given back (qs_heap_trim) before the first. */
QS_API int64_t qs_resident_bytes(void);
QS_API void qs_heap_trim(void);

/* ---- Trainer --------------------------------------------------------------------------------------------------------------------- */

/* Twice the halvings that lead from the largest scale a run grows to down to 1. */
#define QS_SKIP_LIMIT 48

/* ---- Measures --------------------------------------------------------------------------------------------------------------- */

/* How well a model does on a set. What is measured beside loss and accuracy depends on the target (docs/method.md §2.6):
 *   a class                  nothing
 *   a class a position       perplexity, exp(loss); or, where classes are tags (qs_data_description.tag), precision, recall and f1 of the
 *                            named things, each right where type, beginning and end are; positions that are ignored are not there
 *   a span                   exact_match and f1 of the best span of at most QS_LONGEST_SPAN positions, which ends where it begins or later:
 *                            of its positions, or, where the set has answers, of its text, the best of all windows of a question
 *   real numbers             nothing */
enum { QS_MOST_MEASURES = 3, QS_LONGEST_SPAN = 30 };
typedef struct qs_measure {
    const char *name; /* "f1" */
    double value;     /* fractions, but perplexity */
} qs_measure;
typedef struct qs_evaluation {
    double loss, accuracy; /* mean a sample or counted position, fraction of them; NaN: there is none */
    int64_t samples;       /* or counted positions */
    int measures;
    qs_measure measure[QS_MOST_MEASURES];
} qs_evaluation;

/* How a run keeps its plan in step with the pace of its ranks, see "Keeping pace". */
typedef struct qs_offer {
    char *plan;                 /* its text, on the heap */
    double present_us, next_us; /* of an iteration at these paces: under the present plan and under this one */
} qs_offer;
typedef struct qs_adaptation {
    int64_t every; /* steps between two looks */
    void *context;
    /* Microseconds of every step of a schedule of this rank's class by the profile, into us[schedule->steps]; all ranks. */
    qs_status (*expect)(void *context, const qs_schedule *schedule, double *us);
    /* The plan for these paces, (classes) of the cluster; rank 0. */
    qs_status (*plan)(void *context, const qs_pace *pace, const qs_plan *present, qs_offer *out);
} qs_adaptation;

typedef struct qs_train_options {
    const qs_job *job;
    const qs_cluster *cluster;
    const qs_plan *plan;                /* NULL: fp32 everywhere; QS_MISMATCH where a class has an accumulator of its own */
    const char *data_folder;            /* NULL: environment */
    const qs_graph *graph;              /* a model of the program's own in place of the job's; NULL: the job's. The caller keeps it */
    const qs_dataset *training, *test;  /* the same for sample sets; NULL: the parts of the job's */
    int64_t training_limit, test_limit; /* 0: all samples; test_limit below 0: no evaluation */
    const char *run_folder;             /* see "Run folder"; NULL: nothing is written */
    const char *start_weights;          /* weights file to start from, or NULL */
    qs_weights_choice start_choice;     /* which parameters start anew all the same, and what of the file is not used */
    const char *resume;                 /* state.qsync of a run to go on with, see "Going on"; NULL: from the beginning */
    int64_t checkpoint_every;           /* write state.qsync after every N epochs and at the end; 0: never */
    int64_t max_steps;                  /* stop after so many steps (0: all), as at the end of an epoch: evaluation, weights */
    const char *watch_plan;             /* see "Another plan on the way"; only rank 0 looks at these two */
    int64_t watch_after;                /* look only when so many steps are done */
    const qs_adaptation *adaptation;    /* NULL: the plan stays; QS_USAGE without a plan */
    const qs_pace_trace *pace_trace;    /* slows kernels down, and stands for what would be measured; NULL: none */
    double promote_at;                  /* for all tensors with a format, instead of the plan's; 0: the plan's; below 0: never */
    double promote_underflow;           /* promotes tensors whose underflows / elements exceed it, too; 0: they are only reported */
    int64_t gradients_every;            /* write the variance of the weight gradients every N steps; 0: never */
    int64_t norm_gap_every;             /* write the gap of quantized normalisations every N steps, see "Run folder"; 0: never */
    int64_t scale_growth;               /* qs_loss_scale.growth_steps; 0: the steps of an epoch */
    int64_t skip_limit;                 /* so many skipped steps in a row end the run, see "How a run fails"; 0: QS_SKIP_LIMIT */
    double diverged_at;                 /* a loss of more than so many times the first step's ends the run; 0: never */
    bool trace;                         /* write trace.json */
    double audit_bound;                 /* warn when the iteration is further from its prediction, in per cent; 0: 10 */
    int hash_every;                     /* compare hashes of the master weights over ranks every N steps, and always when an epoch ends */
    /* Progress for the terminal: called on rank 0 after each step; NULL: none. Epochs and steps count from 0; the loss is this rank's mean
     * since the last report (every 10 steps), for display only. */
    void (*progress)(void *context, int epoch, int epochs, int64_t step, int64_t steps, double loss, double samples_per_second,
                     const char *unit);
    void *progress_context;
    /* Rank 0, with progress_context; test figures are NaN without evaluation. */
    void (*epoch_done)(void *context, int epoch, double training_loss, const qs_evaluation *test);
    /* Called when a training step ended with its step number (over all epochs) and duration in seconds (every rank); NULL: none. */
    void (*step_done)(void *context, int64_t step, double seconds);
    void *step_context;
} qs_train_options;

typedef struct qs_train_result {
    double test_accuracy, test_loss, training_loss; /* after the last epoch; fractions */
    qs_evaluation test;                             /* the same, and what else is measured; in fp32 */
    /* In the end, in the forward formats of the plan, to nearest, every rank's share in those of its class. NaN: they are fp32, nothing is
     * evaluated, or not one sample fits the memory of training. */
    qs_evaluation planned;
    int64_t steps;
    int64_t replans;    /* plans taken on the way; what follows is of the last one, but for `seconds` */
    int64_t promotions; /* tensors promoted, and those for which there was no memory */
    int64_t promotions_refused;
    int64_t promotion_bytes; /* by which the arena grew through promotions, on the rank where most */
    double promotion_share;  /* counted bytes that promotions added / those of all tensors in fp(6,9,0), on the rank where most */
    double seconds;          /* of training steps, without evaluation */
    double adapting_seconds; /* of looks at the pace, planning and switching, between steps; on the rank where most */
    double median_step_us; /* of the slowest rank per step, over full-size steps after warm-up; of several lengths their mean (qs_audit) */
    int lengths;           /* at least 1 */
    qs_length_time length[QS_MOST_LENGTHS];
    double samples_per_second; /* global batch / median step */
    char unit[16];             /* what people call the samples: the data set's */
    int ranks;
    int64_t *reserved_bytes;  /* (ranks) arena bytes reserved by each rank; caller frees */
    int64_t *predicted_bytes; /* (ranks) from the plan, -1 without; caller frees */
    int windows;              /* with an adaptation or a pace trace, else 0: how fast it was over time */
    int64_t window_steps;     /* of each but the last, which may be shorter */
    double *window_us;        /* (windows) mean of their steps on the slowest rank; caller frees */
    int recorded_ranks;       /* ranks whose full-size steps (of the longest length) run from recordings */
    uint64_t weights_hash;
    qs_audit audit; /* rank 0 only */
} qs_train_result;
QS_API void qs_train_result_release(qs_train_result *result);

/* Run folder (written by rank 0):
 * - config.json: job, cluster, ranks, sizes, rank 0's device
 * - plan.json: the effective plan, with the job that was run; after a switch the new one
 * - metrics.jsonl: a line every 10 steps {"type":"step", epoch, step, samples, loss, accuracy, learning_rate, loss_scale} with means over
 *   all ranks and the steps since the last line, one an epoch {"type":"epoch", ...}, and one a switch of plans {"type":"replan", ...}; no
 *   times: equal runs give equal bytes
 *   Where the plan computes forward in other formats than fp32 the run ends with {"type":"planned", epoch, steps, test_loss, test_accuracy}
 *   With gradients_every also one an adjustable operator {"type":"gradient", epoch, step, operator, variance}: over the elements of its
 *   weights' gradient, the mean over the global batch, loss scale taken off
 *   With norm_gap_every also a line {"type":"norm-gap", epoch, step, gap, statistics_gap, worst_gap, worst}: how far 8 bits move the values
 *   of normalisations (qs_norm_gap), in the step's forward part, which runs once more for it before the step's time begins
 * - weights.safetensors: master weights and running statistics after the last step
 * - state.qsync, with checkpoint_every: all that is needed to go on
 *   With formats of tensors also one a tensor and epoch {"type":"rounding", ...} where anything overflowed or underflowed, and one a tensor
 *   {"type":"promotion", ...} or {"type":"promotion-refused", ...}. Behind a numeric failure {"type":"failure", ...} is the last.
 * - timing.json: durations, speed and memory of the run
 * - audit.json: phases and memory of every rank, predicted and measured
 * - trace.json, when asked for: one full-size step of the longest length after warm-up, the one of 32 consecutive ones whose slowest rank
 *   is nearest their median, as a Chrome trace with a process a rank
 * These last, and result.json which the program adds, are removed at the start: they tell that a run has ended.
 *
 * Running statistics of batch norm follow each rank's own batches; before evaluation and saving they are replaced by their mean over
 * ranks, weighted by the ranks' batches.
 *
 * Checks on the way: every 10 steps one all-reduce of seven numbers gives all ranks loss, accuracy, whether they and the gradients are
 * finite, and word of a new plan; when an epoch ends the hash of the master weights is compared (QS_FAILED names the rank) and failures of
 * single ranks are agreed upon. A failure inside a step (peer lost, kernel failed) returns on that rank only: the caller ends the run with
 * qs_comm_abort. */

/* Going on. state.qsync holds, behind an epoch, weights, running statistics, what the optimiser keeps, the residuals of a narrow wire on
 * every rank, the number of steps and of those skipped, the loss scale, and promotions. A run that goes on from it with the same job, plan,
 * cluster and data does what the first would have done, bit for bit: rate, order of samples and draws come from the step's number. (Within
 * an epoch, where max_steps stopped it, running statistics were averaged over ranks: they alone go on otherwise.) QS_MISMATCH when it is of
 * another model, optimiser, wire, list of lengths, number of ranks where the wire is narrow, or of epochs of other steps; QS_USAGE when the
 * job ends where it was saved. Its plan is the caller's matter: where a new one was taken on the way, that of the run folder. Promotions
 * need none: what stood promoted is so under any plan, what was refused stays so, and what the last step called for comes before the
 * next. */

/* Unequal batches. Each rank of a class takes the class's batch (the plan's; 0 or no plan: the job's) out of every global batch, in rank
 * order. The batches of all ranks must sum to the job's batch × ranks (QS_MISMATCH with both figures). Every sample is used once an epoch,
 * the last, smaller step included; draws are keyed by sample, not by rank. The loss gradient is scaled by 1/(samples of the global step),
 * so that the plain sum over ranks is the mean over samples whoever computed how many. */

/* Several lengths. With job->lengths each global batch has samples of one length (data.h), and each length programs of its own, lowered
 * from the model at that length, over one arena, of the size of the length that needs most. What lasts lies at the same place for all of
 * them. Each length's schedule is held against its hash in the plan. The loss is scaled by 1/(counted positions of all ranks), as without
 * lengths; evaluation goes by lengths, too. QS_USAGE for a model or a set that has no lengths, or whose length is not the longest. */

/* Another plan on the way. With `watch_plan` rank 0 looks for that file (one stat) every 10 steps and when an epoch ends; its word travels
 * with the loss figures, so that watching costs no message. A plan that is not the present one takes effect before the next step, on all
 * ranks or on none:
 * - rank 0 reads and checks it, for model, job, classes and formats, and sends it to all. The signature of the cluster may be another: a
 *   plan for a smaller limit comes from another cluster file. Batches may shift between ranks, their sum may not change.
 * - every rank lowers it with the kernels of its device, compares the schedule's hash, holds it against its class's memory limit, grows the
 *   arena where it must, and prepares the kernels, the present ones still in place.
 * - what any rank refuses is refused by all, and logged with rank and reason; training goes on as before. So it does when the file cannot
 *   be read. Either is told once a file.
 * Weights, optimiser state, running statistics and gradients keep place and bits; what the arena shrinks by, and the old kernels, go back
 * to the system. Switching between equal plans changes no bit of the weights. Step figures, audit and trace start anew. */

/* Keeping pace (docs/adapting.md). With `adaptation` the ranks look at their pace every so many steps: what the profile expects of kernels
 * over what they took, the median of the window behind, for each class the slowest of its ranks; and what all-reduces take, beside what
 * they took when the present plan began. Kernels of adjustable operators, all others, and all-reduces have paces of their own. A change of
 * more than a tenth (all-reduces: by half) that two looks in a row agree on is one that lasts; every switch doubles how many have to, up to
 * sixteen, until the pace stays for eight. Rank 0 then asks `plan` for the plan at the new paces, and weighs: time saved in
 * the steps that the change is expected to last (four times as many as it was seen for, at most those that are left) against what planning
 * and switching took the last time (0.2 s before the first); where next to no time is saved, a plan of higher precision (2 % less ΣΩ) is
 * taken when that costs at most 2 % of that time. All ranks switch before the next step, by the way above. Each decision is a line of
 * metrics.jsonl {"type":"adapt", ...}.
 *
 * With `pace_trace` the kernels of a class rest so that they run at the trace's pace, and a look takes the trace's paces for measured, a
 * switch for one of 0.2 s: decisions then follow from trace, profile and plan alone, and equal runs give equal metrics. QS_UNSUPPORTED on
 * devices whose memory the host does not see. */

/* Promotion (docs/method.md §7.5). After every step the counts of all rounded tensors are added up over ranks. A tensor of the forward pass
 * whose overflows exceed promote_at of its elements gets its higher format for good, on all ranks before the next step, by the way above:
 * lowered again, held against the memory limits, all or none; where all together do not fit, one by one, those that overflow most first.
 * Overflows and elements are those of ranks where it stands below that format: classes need not be alike. What any rank refuses is logged
 * and not tried again under this plan. Gradients are loss scaling's matter: give them overflow=inf and the job dynamic loss scaling; a sum
 * that is not finite is so on all ranks, and all skip that update. */

/* How a run fails by its numbers (QS_NUMERIC). All ranks end alike, with one message: step, rank, operator and tensor.
 * - a training loss that is not finite: found in every step; the forward part runs once more to the first tensor that is not finite.
 * - a gradient that is not finite, without dynamic loss scaling: each rank looks at each bucket of its own gradients before they are summed
 *   (one reading of what was just written). Forward and backward parts run once more then, before any weight is changed.
 * - dynamic loss scaling that skipped skip_limit steps in a row: the last of them runs once more in the same way.
 * - with diverged_at: the mean loss of the last steps, up to 10, is more than diverged_at times that of the first step. Every tensor is
 *   finite then; told are the rank with the largest loss and the tensor that overflowed most, else the gradient that is largest beside its
 *   weights.
 * - a test loss that is not finite: the forward part on those samples runs once more.
 * The first two are told with the next report, at most 10 steps later. Where several ranks found something the earliest step counts, then
 * the lowest rank. */

/* Trains. Collective: every rank calls it with the same options; the device is this rank's. A failure of one rank stops all with its
 * message. The plan is checked first: model, cluster, job, kernels and schedule hash (QS_MISMATCH names the first difference), memory limit
 * (QS_INFEASIBLE with both figures). Numbers that fail stop it with QS_NUMERIC; the run folder is complete then, but for the weights. */
QS_API qs_status qs_train(const qs_train_options *options, qs_device *device, qs_comm *comm, qs_train_result *out);

typedef struct qs_evaluate_options {
    const char *weights; /* file */
    const qs_job *job;
    const char *data_folder; /* NULL: environment */
    int64_t test_limit;      /* samples; 0: all */
    int64_t memory_limit;    /* bytes, within which the batch is halved; 0: none */
    const qs_plan *plan;     /* forward passes in its formats, rounded to nearest; NULL: fp32 */
    const char *class_name;  /* of the plan, for this rank: ranks may be of several */
    const qs_format *half;   /* the class's half storage format; NULL: fp32 */
} qs_evaluate_options;
/* Saved weights on the test part, by the statistics that were saved, sharded over ranks. */
QS_API qs_status qs_evaluate(const qs_evaluate_options *options, qs_device *device, qs_comm *comm, qs_evaluation *out);

/* ---- Calibration ------------------------------------------------------------------------------------------------------------------- */

typedef struct qs_calibration_options {
    const qs_graph *graph;
    const float *trained, *statistics; /* its flat buffers */
    const qs_job *job;                 /* set and batch */
    const char *data_folder;           /* NULL: environment */
    qs_part part;
    int64_t samples;                /* the first ones of the part; 0: all */
    int64_t recalibrate;            /* before, running statistics follow so many batches of the training part, by the momentum of each
                                     * normalisation, in these formats; 0: they are `statistics` */
    const qs_recipe *const *recipe; /* (nodes) in these formats (qs_plan_bind); NULL: fp32 */
    const qs_format *half;          /* the class's half storage format; NULL: fp32 */
} qs_calibration_options;
/* What values reach: an array for each node, of as many numbers as its output has channels (axis 1). */
typedef struct qs_magnitudes {
    float **largest; /* of all samples */
    float **typical; /* the largest of a batch, its mean over batches: what a quantizer finds that has a step for each batch */
} qs_magnitudes;
/* Evaluation by running statistics in any formats, on one process: integers take the steps of each batch, all is rounded to the nearest.
 * seen, unless NULL, has arrays of zeros for all nodes but the loss, and is filled, for inputs too, but for integers. No measures beside
 * loss and accuracy. */
QS_API qs_status qs_calibrate(const qs_calibration_options *options, qs_device *device, const qs_magnitudes *seen, qs_evaluation *out);

/* ---- Loss landscape ------------------------------------------------------------------------------------------------------------- */

/* A slice through the loss around trained weights w, along one random direction d: the loss at w + alpha d for alpha from -range to range.
 *
 * The direction is normal, then each filter of it (the weights of one output channel of a convolution or linear operator) is scaled to the
 * norm of that filter of w, so that slices of differently scaled networks compare; biases, scales and shifts stay
 * (docs/method.md eq. (12.1)).
 *
 * The loss is the one that training sees, over the first batches of its first epoch without augmentation: in the arithmetic of the plan,
 * normalised by the batch's statistics, draws keyed by seed and step, so the same at every point. At alpha = 0 it is, bit for bit, the
 * training loss of a run from w at rate 0. Ranks take their parts of each batch as in training. */
typedef struct qs_landscape_options {
    const qs_job *job; /* of the run; rate, epochs and augmentation do not matter */
    const qs_cluster *cluster;
    const qs_plan *plan;     /* of the run; NULL: fp32 everywhere */
    const char *weights;     /* file of w */
    const char *data_folder; /* NULL: environment */
    int64_t training_limit;  /* of the run; 0: all samples */
    int points;              /* odd, at least 3: the middle one is w itself */
    double range;
    int64_t batches;                                       /* global ones, at most those of an epoch */
    int64_t direction;                                     /* which one: drawn from the job's seed and this number */
    void (*progress)(void *context, int done, int points); /* on rank 0; NULL: none */
    void *progress_context;
} qs_landscape_options;

typedef struct qs_landscape_point {
    double alpha, loss, accuracy; /* mean a sample, fraction; not finite where the loss is not */
} qs_landscape_point;
typedef struct qs_landscape {
    int points;
    qs_landscape_point *point;
    int64_t samples; /* that each loss is the mean of */
} qs_landscape;

/* Collective; the same figures on all ranks. What qs_train refuses is refused. Release with qs_landscape_release. */
QS_API qs_status qs_landscape_measure(const qs_landscape_options *options, qs_device *device, qs_comm *comm, qs_landscape *out);
QS_API void qs_landscape_release(qs_landscape *landscape);
/* The direction alone; both flat buffers of trained parameters. 0 where a filter of the weights is. */
QS_API void qs_landscape_direction(const qs_graph *graph, uint64_t seed, int64_t number, const float *weights, float *direction);

/* The first `limit` samples (0: all) of a set that stays the caller's, as the program's own in place of the job's; QS_MISMATCH where the
 * model cannot be fed from it. *out is not to be released. */
QS_API qs_status qs_samples_lend(const qs_dataset *set, const qs_graph *graph, int64_t limit, qs_dataset *out);
/* The model that a job trains, as its data set shapes it, or a program's own in place of that (NULL: none). Collective: rank 0 opens it and
 * sends it to the others as a text, so only its host needs the file. Release with qs_graph_release. */
QS_API qs_status qs_model_share(const qs_job *job, const qs_dataset *own, qs_comm *comm, qs_graph **out);
/* A part of the job's data set (qs_dataset_load), checked to be what the model takes (QS_MISMATCH), with the job's normalisation. */
QS_API qs_status qs_job_samples(const qs_job *job, const qs_graph *graph, const char *data_folder, qs_part part, int64_t limit,
                                qs_dataset *out);

#endif
