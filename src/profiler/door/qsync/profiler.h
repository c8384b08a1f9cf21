// SPDX-License-Identifier: Apache-2.0
/* profiler: measures what the predictor needs, by driving the same executor that trains.
 *
 * Kernels are timed inside whole training steps (the caches that real neighbours leave, ranks of the host running): uniform plans of every
 * recipe and mixed ones until every case that a plan may need has been seen in several; what no plan reached is timed alone with its
 * operands out of cache. A time is the mean over places in plans of the median over time. Conversions are timed over
 * sizes from 2^10 to 2^24 and fitted, with sources as the step before leaves them. All ranks measure at once, as in training; rank 0
 * merges, and the first rank of a class speaks for it.
 *
 * Reading the result. Every case has a row, conversions too (their kernels and scratch are needed for lowering; what they took in steps
 * stands beside the fit that prices them, so the two can be compared). Rows hold the executor's time, dispatch included: step_overhead_us
 * is 0 here. iteration_overhead_us is what a whole step takes beyond its data and its kernels; medians of kernels add up to less
 * than the median of the step, so each of a plan's is lengthened by the same factor until they do. base_bytes is the resident
 * size of a process that trains, without its arena. All plans are visited in turn until what kernels take of a step is known to 1 %
 * (95 %; each from four plans or more). Rounds in which the whole machine was slower are left out and made up for, and so are in the end
 * steps that took 5 % more than their plan's median, half of them at most: on a machine that others use, a core is slower by a third for
 * tenths of a second. Times are those of an undisturbed machine. `quality` tells how well that went, and how well the figures give the very
 * plans that they came from (closure): not a promise for others, but what is wrong there is wrong everywhere.
 *
 * Memory. The arena of the most demanding plan is reserved, even beyond the class's memory limit: that limit is for plans, and profiling
 * asks what they would cost. QS_OUT_OF_MEMORY when the machine itself lacks it. Fits take about 400 MiB for a short while. */
#ifndef QSYNC_PROFILER_H
#define QSYNC_PROFILER_H

#include "qsync/costmodel.h"
#include "qsync/train.h"

/* Where kernels are timed. Steps is right; the others are kept to show by how much (bench/prediction.sh). */
typedef enum qs_context {
    QS_CONTEXT_STEPS, /* inside training steps */
    QS_CONTEXT_COLD,  /* by themselves, operands out of cache */
    QS_CONTEXT_HOT    /* by themselves, again and again */
} qs_context;

enum { QS_PROFILE_BATCHES = 8, QS_PROFILE_WIRES = 4 };
/* Part of the time that somebody else may have a core of a profile: one that was measured beside more is of no use to others. */
#define QS_PROFILE_MOST_FOREIGN 0.1
/* Part of a stated time that is left to whoever times plans of balanced ranks behind a measurement of several ranks (replayer.h). */
#define QS_PROFILE_BALANCED_PART 0.1

typedef struct qs_profile_options {
    const qs_job *job;
    const qs_cluster *cluster;
    const char *data_folder;
    const qs_graph *graph; /* a model of the program's own in place of the job's, and its samples, as in training; NULL: the job's */
    const qs_dataset *training, *test; /* both or none */
    int repetitions;                   /* steps timed per plan at least, at most twice as many: 8; at least 2 */
    double minutes;                    /* 0: no limit; for all of it, -1: by the model (see below) */
    qs_context context;                /* QS_CONTEXT_STEPS */
    double conversion_seconds;         /* about so long for all conversion fits together: 7 */
    int statistics_iterations;         /* 50 (docs/method.md §3.6), at half batch: a real fp32 training over all ranks; 0: none */
    int noise_runs;                    /* -1; of single operators for indicator `measured`, on each class: 0 none, -1 see below */
    int batches;                       /* 0; local batches to time steps at beside the job's, for plans with unequal ones */
    int64_t batch[QS_PROFILE_BATCHES];
    int wires; /* 0; on which the job's algorithm is measured beside the job's own, for planners that choose */
    const char *wire[QS_PROFILE_WIRES];
    int recipes; /* 0; whose kernels and conversions are measured beside those of the class's recipes: for plans by hand */
    qs_recipe recipe[QS_MAX_FORMATS];
    int checks; /* 0; plans to time beside those that figures are taken from, see below */
    const qs_plan *check;
    const char *const *check_name;
    int check_steps;     /* timed in a visit; 0: fifty */
    const char *partial; /* file of this rank that keeps finished stages; NULL: none, on all ranks */
    const char *cache;   /* file of this user (tuning.h) with cases of other models' profiles; NULL: none, as by default (see below) */
    double taken_days;   /* 30; older ones are not taken; 0: none is */
    bool fresh;          /* what such files hold is not taken over */
    bool pinned;         /* told to the reader of the profile: every thread has a core of its own */
    /* Progress on rank 0: what is being measured and how far (0..1); NULL: none. */
    void (*progress)(void *context, const char *what, double fraction);
    void *progress_context;
} qs_profile_options;

QS_API void qs_profile_options_default(qs_profile_options *out);
/* Collective: the device is this rank's, its class the cluster's for this rank. Rank 0 receives the merged profile, other ranks an empty
 * one. QS_USAGE when cluster and ranks do not match, QS_UNSUPPORTED (with class, recipe and operator) when the device lacks a format of its
 * class, QS_NUMERIC when the training behind the statistics diverges. A failure of one rank stops all with its message. */
QS_API qs_status qs_profile_measure(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *out);
/* A stated time. With options->minutes other than 0, plans are timed as long as there is time: what the stages behind them take is set
 * aside first, by count and by what a step takes, and other batches and lengths get as much each. Every plan has its six steps
 * (with checks, `repetitions`), whatever the time. After that a round is a quarter of the plans, those whose steps take most off what later
 * plans may be off by (worth.h): cases that are long, or of which a pass of an operator may have others that lie so close that their order
 * is not known, count most. It ends when kernels are known to 1 % all the same, and after four rounds for each of `repetitions`. -1: 20 s
 * and 16 steps a plan in the highest precision, two minutes at most, and as much for each other batch or length. `quality` says what was
 * given, what it took and how well kernels are known then, every row how well it is. */

/* Shared cases. With options->cache the times that profiles of other models have left there are taken for cases that both have: of the
 * same device, kernels, threads and machine, class, speeds and neighbours (`tuning` keeps the rest apart), known to 5 %, measured in
 * steps, in the last taken_days. They count as covered by plans, so a second model of a family measures little more than its uniform
 * plans; those tell at what pace the machine is now, by the median over cases that both have, and taken times are multiplied by that.
 * Fits of conversions are taken of the same batch, where a step holds half to twice as many bytes. `quality` says how many cases were
 * measured and taken, and at which pace. What a profile has measured itself and not found there it leaves there, unless others had its
 * cores for more than QS_PROFILE_MOST_FOREIGN of the time. Kernels of other batches and shorter lengths are always measured. */

/* Other batches. With options->batches the profile knows every local batch from the least to the greatest measured one in steps of 1/16 of
 * the job's (`batches` of the record). Kernels and scratch of each are what the device says of its cases, so memory stays exact and
 * plans can be checked; times were measured at the measured ones, in the plans of the same recipes, and lie on straight lines between
 * them. What a process holds, conversions, overheads and the data of a sample are the job's batch's. All ranks measure a batch together,
 * as if all had it, one batch after the other: a machine whose pace changes meanwhile bends the lines. Each takes about as long as the
 * job's own and is measured anew after an interruption. QS_USAGE for a batch below 1, or twice the same. */

/* Noise of single operators (docs/method.md §3.10). Behind the statistics, at the weights that their training reached, single operators
 * are lowered to single recipes in steps at half the batch, each compared with the fp32 gradient of the same samples: on the first rank
 * of each class in the recipes that no class before has. -1: as many as make up 30 % of the steps that are timed at least (plans ×
 * repetitions, or 6 with a stated time, as twice as many half ones, and the statistics'), so their number does not depend on times. A
 * run goes where the order of two candidates is least certain; less are made when the order is. None without statistics, and of a model
 * of the program's own. */

/* Several lengths. With job->lengths the plans are timed at each of them, with samples that have it, and kernels have rows for all; the
 * profile says how many training samples have each. Statistics, conversions, overheads and what a process holds are those of the longest.
 * QS_UNSUPPORTED together with batches or checks; QS_USAGE for a length that no sample is short enough for. */

/* Checks. The steps of options->check are visited in turn with the profile's own plans, all-reduces included, in the same disturbed or
 * quiet minutes: what differs from a prediction is the prediction's fault, not the machine's. No figure is taken from them. A visit is a
 * step that is not timed and fifty that are, one after the other; with 4 repetitions or more a check has at least two. `check` of the
 * result holds medians of the slowest rank, of all steps and of those in which no rank was disturbed: none whose kernels took 5 % more
 * than their median there. Predictions are 0: they are for who can replay.
 * Plans need nothing but operators, and may need more memory than a class's limit;
 * QS_MISMATCH for another model's, QS_USAGE for one with batches of its own. */

/* Checks without a profile: only the plans of options->check are visited, in turn, in options->repetitions rounds of fifty steps each. All
 * ranks get the rows, row[checks], and what kernels take of a step of each class, kernels_us[checks x cluster->classes], its slowest rank,
 * all-reduces that are moved on beside them left out; 0 where no clock stands beside kernels, which are started as recordings. Fails as
 * checks do. */
QS_API qs_status qs_profile_time_plans(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile_check *row,
                                       double *kernels_us);

/* Resuming. With options->partial each finished stage (plans, each kind of conversion, all-reduces, statistics) is kept; a later
 * measurement with equal options on an equal device goes on from the last stage that all its ranks have, and leaves other files aside with
 * a warning. A process may be killed at any time. The caller removes this rank's file when the profile is where it belongs. */
QS_API void qs_profile_partial_remove(const qs_profile_options *options);

/* ---- Monte-Carlo ground truth of the gradient's noise (docs/method.md §3.8) ------------------------------------------------------- */

/* What lowering one operator alone, all others fp32, does to the whole gradient: of the mean loss of a fixed batch (half the job's, as in
 * statistics), at the weights that a short fp32 training on this one process reached. The truth is error2, the gradient's second moment
 * about the fp32 one, = variance + bias2_raw. Recipes that draw nothing (floats round to nearest) have variance 0 and are run twice.
 * Over several batches, each seed's gradient is compared with the fp32 one of the same samples, and the error takes the gradient's place in
 * variance and bias; recipes that draw nothing are run once on each. */
typedef struct qs_truth_row {
    char name[QS_NAME], recipe[QS_NAME];
    int node, seeds;  /* graph node; runs that were made */
    double variance;  /* Σ over elements of the unbiased sample variance over seeds */
    double bias2_raw; /* ‖mean - g_fp32‖² - variance/seeds: unbiased, so it may be negative */
    double bias2;     /* the same, 0 at least */
    double error2;    /* mean of ‖g - g_fp32‖² */
    double half[2];   /* the same over the first half of the seeds, and over the second: other draws and, of two batches or more, samples */
    double standard_error; /* of error2 over seeds. All INFINITY: loss or gradient left the range of a format */
} qs_truth_row;

typedef struct qs_truth {
    int64_t batch;         /* samples of a batch */
    int batches, warm_up;  /* training iterations before them */
    double gradient_norm2; /* of the fp32 gradient, mean over batches */
    int rows;
    qs_truth_row *row; /* operators in graph order, their recipes in the order given */
} qs_truth;

typedef struct qs_truth_options {
    const qs_job *job;
    const qs_class *class_; /* recipes and storage formats; the device is opened by the caller */
    const char *data_folder;
    int warm_up; /* 20 training iterations at the statistics' batch */
    int seeds;   /* 16; at least 2 */
    int batches; /* 1: the fixed batch; so many from it on, to which seeds are dealt evenly in order */
    int recipes;
    const qs_recipe *recipe; /* recipes 0: all of the class below fp32 */
    bool stochastic_floats;  /* float quantizers round stochastically, as Propositions 1 and 2 want it; kernels' own outputs stay nearest */
    void (*progress)(void *context, const char *what, double fraction); /* NULL: none */
    void *progress_context;
} qs_truth_options;
QS_API void qs_truth_options_default(qs_truth_options *out);
/* One process; no communicator. Dropout is switched off (seeds would change its masks). fp32 against itself gives exactly 0.
 * Memory: the arena, and 16 bytes a trained element and 4 more for
 * each batch. QS_NUMERIC when the fp32 training diverges. Release with qs_truth_release. */
QS_API qs_status qs_truth_measure(const qs_truth_options *options, qs_device *device, qs_truth *out);
QS_API void qs_truth_release(qs_truth *truth);
/* What `stochastic_floats` does: every quantizer to a float format below fp32 rounds stochastically. */
QS_API void qs_recipe_floats_stochastic(qs_recipe *recipe);

/* ---- Noise of single operators, of indicator `measured` (docs/method.md §3.10) ------------------------------------------ */

/* Measures it anew, into a profile with statistics: at the weights that options->statistics_iterations iterations of fp32 training lead to
 * (each class's first rank trains by itself), from those of a file on (qs_weights_read; NULL: of the job's seed). noise_runs -1: three for
 * each operator and recipe. Collective; `profile` is the same on all ranks, and all of them get what was measured. */
QS_API qs_status qs_profile_noise(const qs_profile_options *options, const char *weights_file, qs_device *device, qs_comm *comm,
                                  qs_profile *profile);

/* ---- Hessian eigenvalues, of indicator `hess` (docs/method.md §3.9) ----------------------------------------------- */

typedef struct qs_hessian_options {
    const qs_job *job;
    const char *data_folder;
    int warm_up;          /* 20, as for the ground truth: the same weights and batch */
    int iterations;       /* 20 at most */
    double tolerance;     /* 1e-2: relative change of the eigenvalue that ends the iteration */
    double relative_step; /* h of the central differences over the root mean square of the weights; 0: 2^-8, the cube root of fp32's unit
                             roundoff, see hessian.c */
    int part, parts;      /* only every parts-th operator, from part on: ranks share the work; 0 of 1 */
    void (*progress)(void *context, const char *what, double fraction);
    void *progress_context;
} qs_hessian_options;
QS_API void qs_hessian_options_default(qs_hessian_options *out);
/* Eigenvalue of largest magnitude, with its sign, of the Hessian of the mean loss with respect to each adjustable operator's weights alone:
 * top[nodes] of the job's model, 0 elsewhere. Training mode on the fixed batch (batch norm on its statistics), fp32, deterministic. */
QS_API qs_status qs_hessian_measure(const qs_hessian_options *options, qs_device *device, double *top);
/* The same over all ranks, into a profile's statistics on rank 0; collective. QS_USAGE when the profile has no statistics. */
QS_API qs_status qs_profile_hessian(const qs_profile_options *options, qs_device *device, qs_comm *comm, qs_profile *profile);

/* ---- Which kernels are the fastest (docs/tuning.md) ------------------------------------------------------------------------------- */

typedef struct qs_tune_options {
    const qs_job *job;      /* model and batch, what a step depends on */
    const qs_class *class_; /* that the device is of: formats */
    int recipes;            /* 0: all of the class's */
    const qs_recipe *recipe;
    int rounds; /* 12; at least 6, see left_out in samples.c: fewer decide nothing */
    void (*progress)(void *context, const char *what, double fraction); /* NULL: none */
    void *progress_context;
} qs_tune_options;

/* A case that more than one kernel can run. */
typedef struct qs_tune_row {
    char *case_text;
    int candidates; /* the first is the one that the device takes by itself */
    char kernel[QS_MOST_CANDIDATES][64];
    double us[QS_MOST_CANDIDATES]; /* at a place in a step: mean over places, median over rounds */
    int chosen;
} qs_tune_row;

typedef struct qs_tune_result {
    int rows; /* by ascending case */
    qs_tune_row *row;
    double usual_us, chosen_us; /* of these kernels in a step, mean over the plans that were run */
} qs_tune_result;
QS_API void qs_tune_release(qs_tune_result *result);
/* Times the candidates of every case that a plan of these recipes may need, at its places in training steps on synthetic data, alone on the
 * device. Plans that hold the cases are run again and again, with each candidate in turn; candidates are compared within a round, since the
 * machine's pace changes between rounds. Another kernel than the usual one is chosen when, with 97.5 % confidence, it saves 2 % and more,
 * and of several the one that saves most: so noise changes nothing. What the device preferred before does not matter. */
QS_API void qs_tune_options_default(qs_tune_options *out);
QS_API qs_status qs_tune_measure(const qs_tune_options *options, qs_device *device, qs_tune_result *out);

/* ---- What `qsync bench` times: whole training steps on synthetic data ------------------------------------------------------------ */

typedef struct qs_bench_question {
    const char *model;
    const qs_samples *samples; /* NULL: the model's own standard input */
    const char *recipe;        /* a built-in one, of every operator */
    const char *optimizer;     /* NULL: sgd */
    const char *recompute;     /* blocks that are computed again, as qs_recompute_list has them; NULL: none */
    int64_t batch;
    bool loss_scaling; /* with what dynamic loss scaling takes of a step; the scale stays 1 */
    int steps;         /* timed ones, behind two of warm-up */
    bool parts;        /* what the step's parts take, as well: in as many steps again, each behind one that is timed as a whole */
    bool dequantize;   /* what dequantizing by itself would take, as well: in as many steps again, behind all others */
} qs_bench_question;

/* Kernels of a step that run one pass of one operator. */
typedef struct qs_bench_part {
    char name[64];   /* "conv2d/weight_gradient" */
    bool conversion; /* placed by lowering between formats; sums of gradients are none */
    int count;
    double us;           /* all of them in a step: the sum of each one's median over steps */
    double flops, bytes; /* bytes: qs_case_bytes of every kernel */
    double roof_us;      /* of products, see below; else 0 */
} qs_bench_part;

typedef struct qs_bench_figure {
    double samples_per_second, step_us; /* of the median step, filling the batch not counted */
    char unit[16];                      /* what people call the model's samples: "images" */
    double flops_per_step;              /* of the model's kernels, casts excluded; what is computed again counts again */
    size_t arena_bytes;                 /* reserved for the step */
    int cases, tuned;                   /* different cases in the step; those whose kernel was found by measurement */
    /* What the products of the step take where each runs at the device's peak for its operands' format (qs_device_peak), all other work and
     * all memory for nothing. Products with the zeros of the padding count: kernels that leave them out may pass this roof. 0: a peak is
     * not known. */
    double roof_us;
    int parts; /* with question.parts: what takes longest first */
    qs_bench_part *part;
    /* With question.dequantize: what dequantizing the result of every integer product in a pass of its own would take in a step, where the
     * product would leave 32-bit sums. What is timed is a cast of as many fp32 values, just written, into the result's format: the same
     * bytes move. Our products dequantize what they write and take none of this. */
    double dequantize_us;
    qs_recorded recorded; /* whether kernels were started as recordings: then so were those of the steps above, but for the parts' */
} qs_bench_figure;
/* A built-in model, alone on the device. Values between operators stand in the recipe's float format, those of integer recipes in the
 * device's 16-bit one. Release with qs_bench_figure_release. */
QS_API qs_status qs_bench_step(const qs_bench_question *question, qs_device *device, qs_bench_figure *out);
QS_API void qs_bench_figure_release(qs_bench_figure *figure);
/* A kernel of a benchmark's step: `places` steps run this case with it. */
typedef void (*qs_bench_kernel)(void *context, const qs_step *step, int places, bool tuned);
/* The step's kernels, each case once, as they first come in it; nothing is run. */
QS_API qs_status qs_bench_kernels(const qs_bench_question *question, qs_device *device, qs_bench_kernel visit, void *context);

#endif
