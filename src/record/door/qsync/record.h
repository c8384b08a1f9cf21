// SPDX-License-Identifier: Apache-2.0
/* record: the typed, versioned, signed files by which the rooms meet: cluster, job, profile, plan, run configuration.
 *
 * Every record is JSON in stable order with "schema": "qsync/<kind>/1". A reader refuses what does not match and names file, line and
 * column (syntax) or the field's path (content), value and rule; unknown fields are refused too, so that a misspelt option is never
 * ignored. Files hold names, never ordinals. Writers are atomic and refuse non-finite numbers (QS_NUMERIC, with the field's path). Structs
 * own their arrays; release with the matching function (zeroed structs are fine). The canonical text is what *_text gives: reading it and
 * writing it again gives the same bytes. Every field, with unit, default and range: docs/records.md. */
#ifndef QSYNC_RECORD_H
#define QSYNC_RECORD_H

#include "qsync/number.h"
#include "qsync/op.h"

#define QS_NAME 64
#define QS_MAX_FORMATS 8
#define QS_MAX_HOSTS 8

/* ---- Cluster --------------------------------------------------------------------------------------------------------- */

typedef struct qs_class {
    char name[QS_NAME];
    bool inference; /* role "inference" or "training" */
    char backend[16];
    char device[32]; /* published name ("v100"): where estimated profiles take its figures from; "": not said */
    int count;       /* devices (ranks) of this class */
    int hosts;       /* patterns of host names it may run on; 0: any */
    char host[QS_MAX_HOSTS][QS_NAME];
    int threads;
    char isa[32];
    double speed;                            /* part of the device's compute that is lent */
    int64_t memory_capacity, memory_limit;   /* bytes, 0: none; "30%" in the file refers to the capacity and is resolved by the reader */
    int formats;                             /* compute formats, in the file's order */
    const qs_format *format[QS_MAX_FORMATS]; /* fp32 is always among them */
    int storages;                            /* formats it may store activations in; defaults to the float compute formats */
    const qs_format *storage[QS_MAX_FORMATS];
    int recipes;                          /* built-in recipes that planners try, in the file's order; 0: those of its formats */
    char recipe[QS_MAX_FORMATS][QS_NAME]; /* "fp32" is always among them */
    qs_narrow accumulator;                /* what its GEMMs of floats add in; adder NULL: fp32 */
} qs_class;

typedef struct qs_link {
    char between[2][QS_NAME];
    char kind[32];            /* "shared-memory": on the same host; any other name ("network"): on different hosts */
    int ranks_per_host;       /* of a class whose own ranks are on different hosts (both ends the same): 1 unless said */
    int64_t bytes_per_second; /* of a host's end, in one direction: for estimated profiles; 0: not said */
    double latency_us;        /* of a message; 0: not said */
} qs_link;

typedef struct qs_cluster {
    int classes;
    qs_class *class_; /* in the file's order: ranks are dealt in this order */
    int links;
    qs_link *link;
} qs_cluster;

QS_API qs_status qs_cluster_read(const char *path, qs_cluster *out);
QS_API qs_status qs_cluster_parse(const char *json, const char *source, qs_cluster *out);
QS_API qs_status qs_cluster_text(const qs_cluster *cluster, char **json); /* caller frees */
QS_API void qs_cluster_release(qs_cluster *cluster);
/* One rank of one class "single", fp32/bf16/int8 as compute and storage formats (the device refuses what it lacks), no memory limit: what a
 * single process without a cluster file uses. */
QS_API qs_status qs_cluster_single(const char *backend, int threads, qs_cluster *out);
QS_API int qs_cluster_ranks(const qs_cluster *cluster);
/* Class index of a rank, ranks in order of the classes' counts; -1 for a rank that the cluster does not have. */
QS_API int qs_cluster_class_of(const qs_cluster *cluster, int rank);
/* Class index by name; QS_USAGE lists the classes. */
/* Host of every rank into host[ranks], counted from 0, and their number. Without links all ranks share one host. Classes between which a
 * link is not "shared-memory" are on different hosts; the others share theirs, rank by rank where their own ranks are spread. */
QS_API void qs_cluster_hosts(const qs_cluster *cluster, int *host, int *hosts);
/* Kind of the links between hosts: the first that is not "shared-memory"; "network" when none is named. */
QS_API const char *qs_cluster_network(const qs_cluster *cluster);
QS_API qs_status qs_cluster_find(const qs_cluster *cluster, const char *name, int *out);
/* Signature "xxh64:%016x" over the canonical text, into buffer[32]; returns it. */
QS_API const char *qs_cluster_signature(const qs_cluster *cluster, char *buffer);
/* True when a class may run on this host: its `hosts` patterns (shell wildcards), any host when it names none. */
QS_API bool qs_class_allows_host(const qs_class *one, const char *host);
/* The class's half storage format: its first 16-bit float storage, else fp32 (qsync.md §4.3). */
QS_API const qs_format *qs_class_half(const qs_class *one);

/* ---- Job ------------------------------------------------------------------------------------------------------------------ */

typedef enum qs_rate_schedule { QS_RATE_CONSTANT, QS_RATE_STEP, QS_RATE_COSINE } qs_rate_schedule;

typedef struct qs_job {
    char model[QS_NAME];
    char dataset[QS_NAME];
    int64_t batch; /* local batch of every rank */
    struct {
        char name[16];                    /* of an operator that is one (op.h): "sgd" */
        double setting[QS_MOST_SETTINGS]; /* in the operator's order; 0 behind its last */
    } optimizer;
    struct {
        double base, warmup_epochs; /* linear warm-up from base/10 */
        qs_rate_schedule schedule;  /* "constant", "step" (×0.1 at 1/2 and 3/4 of the epochs), "cosine" (to 0) */
    } rate;
    bool dynamic_loss_scaling; /* loss_scaling: "off", "dynamic" or a number */
    double loss_scale;         /* start or fixed value; 1 when off */
    double clip_norm;          /* 0: off */
    int64_t bucket_bytes;
    char wire[16];      /* in which gradients travel (qs_comm_wire_at): "fp32" */
    char algorithm[32]; /* all-reduce: "shared" */
    int epochs;
    uint64_t seed;
    bool augmentation;
} qs_job;

/* Field defaults: sgd with momentum 0.9 and weight decay 5e-4, rate 0.1 (another optimiser brings its own) cosine with 0.5 warm-up epochs,
 * loss scaling off, buckets 1 MiB, fp32, "shared"; batch 64, 1 epoch, seed 1, augmentation on; model and data set "" (not said). Dynamic
 * loss scaling starts from 65536 where the file says no more. */
QS_API void qs_job_default(qs_job *out);
/* Gives a job another optimiser, with its standard settings and base rate; QS_USAGE lists them. */
QS_API qs_status qs_job_optimizer_set(qs_job *job, const char *name);
/* The job's value of a setting of its optimiser; NULL: it has no such setting. */
QS_API double *qs_job_setting(qs_job *job, const char *name);
/* QS_USAGE unless the optimiser exists and its settings are in their ranges. */
QS_API qs_status qs_job_check(const qs_job *job);
QS_API const char *qs_job_signature(const qs_job *job, char *buffer);
/* A job as a record of its own ("qsync/job/1": the job part of run/config.json); every field may be left out. Seeds end at 2^63 - 1. */
QS_API qs_status qs_job_parse(const char *json, const char *source, qs_job *out);
QS_API qs_status qs_job_text(const qs_job *job, char **json);

/* ---- Recipes -------------------------------------------------------------------------------------------------------------- */
/* The GEMMs of an adjustable operator. */
typedef enum qs_gemm { QS_GEMM_FORWARD, QS_GEMM_INPUT_GRADIENT, QS_GEMM_WEIGHT_GRADIENT, QS_GEMMS } qs_gemm;
QS_API const char *qs_gemm_name(qs_gemm gemm); /* "forward", "input_gradient", "weight_gradient": as the passes */

/* How an adjustable operator computes: the quantizer of each operand of its three GEMMs, and what they add in. */
typedef struct qs_recipe {
    char name[QS_NAME]; /* "fp32", "bf16", "int8/bf16" */
    struct {
        qs_quantizer src, weights;
        const qs_format *dst; /* NULL: "auto" (qsync.md §4.3) */
    } forward;
    struct {
        qs_quantizer diff_dst, weights;
    } input_gradient;
    struct {
        qs_quantizer src, diff_dst; /* src is converted from what forward saved: "bf16<saved" in the file */
    } weight_gradient;
    qs_narrow accumulator[QS_GEMMS]; /* adder NULL: what the device has, fp32 or, of integers, int32 */
} qs_recipe;

/* Built-in recipes that planners try on a class, from the highest precision to the lowest (forward first, then gradients): those that it
 * names, else by its formats "fp32", "bf16" / "fp16", "int8/<half or fp32>", "int6:shift4", "int4:shift4"; in its accumulator. */
QS_API qs_status qs_class_recipes(const qs_class *one, int capacity, qs_recipe *out, int *count);
/* The operands of one of its GEMMs that are multiplied: the first two of the pass. */
QS_API void qs_recipe_operands(const qs_recipe *recipe, qs_gemm gemm, const qs_format **a, const qs_format **b);
/* Built-in recipe by name. QS_USAGE lists. Integers round stochastically.
 *   "bf16"           everything in a float format
 *   "int8/bf16"      forward in the integer, src with one step, weights with one for each output channel; both gradients in the
 *                    float. "int6:shift4/bf16": src in 4 shift groups of channels
 *   "int4:shift4"    all three products in integers (shiftquant.md §4): src and diff_dst in 4 shift groups of channels, weights with a
 *                    step for each output channel forward, for each input channel in the input gradient; the weight gradient takes the
 *                    codes that forward saved, one byte each. src takes unsigned codes (uint4) where a value cannot be negative, as behind
 *                    a ReLU; of 8 bits it stays signed. "int8:tensor": one step for src, one for diff_dst
 *   "int4:hadamard"  all three products in integers, with one step for each factor (Xi et al.): both are transformed along the product's
 *                    inner dimension, in blocks of 16 or of the largest power of two that divides it ("hadamard32": of 32): forward over
 *                    input channels of a group, input gradient over output channels, weight gradient over the samples of a local batch.
 *                    A dimension without such a block takes one step as it is. src has signed codes, and the weight gradient codes of its
 *                    own, which forward makes and saves. "int4:hadamard/bf16": forward alone; gradients in the float, src saved in it */
QS_API qs_status qs_recipe_builtin(const char *name, qs_recipe *out);

/* ---- Profile ----------------------------------------------------------------------------------------------------------------- */

typedef struct qs_kernel_cost {
    char *case_text;
    char kernel[64];
    int64_t scratch_bytes;
    bool allocates;
    bool tuned;                 /* measured beside the case's other kernels before, and faster than they were */
    double us, us_low, us_high; /* over the places in plans where it was met, each a median over time: mean and quartiles; rests of
                                 * `speed` included */
    int samples;
    double cold_bytes, us_per_cold_byte; /* mean over those places of what was cold there (qs_schedule_cold_bytes at the class's
                                          * cache_bytes), and what a byte of it costs: a place with other c takes
                                          * us + us_per_cold_byte (c - cold_bytes) */
    int64_t held_bytes;                  /* of the process for each kernel that is bound to the case; 0: not measured */
    int64_t shared_bytes;                /* of the process once for the case: generated code and what libraries keep; 0: not measured */
    int64_t code_bytes; /* of the process once for the kernel, whatever its cases: pages of its code; 0: none, or not measured */
    double us_alone;    /* as us, while the other ranks of its host wait; 0: not measured, us holds */
} qs_kernel_cost;

typedef struct qs_fit_piece {
    int64_t to_elements;                           /* piece holds up to here; the last one holds beyond */
    double us_per_element, us, r2, worst_residual; /* residual: largest |fit - measured| / measured */
    double mean_residual;                          /* of |fit - measured| / measured over its sizes */
} qs_fit_piece;

/* Steps of a conversion to or from integers: one; one for each index of axis 0 (output channels of weights) or of axis 1 (input
 * channels); shift groups of channels. Maxima of channels for the latter are columns. One step of transformed values: in blocks along
 * axis 1, or across the rows of axis 0. Output channels while the maxima of columns fall off. */
typedef enum qs_conversion_steps {
    QS_STEPS_TENSOR,
    QS_STEPS_CHANNEL,
    QS_STEPS_COLUMN,
    QS_STEPS_SHIFT,
    QS_STEPS_HADAMARD,
    QS_STEPS_HADAMARD_ROWS,
    QS_STEPS_CHANNEL_AND_COLUMN,
    QS_STEPS_COUNT
} qs_conversion_steps;

typedef struct qs_conversion_cost {
    char kind[24];              /* "cast", "absmax", "quantize", "dequantize", "add", ... : operator name */
    const qs_format *from, *to; /* to NULL for absmax */
    qs_conversion_steps steps;
    qs_rounding rounding;
    bool weights; /* of weights, which a whole step has cooled; else of values, which the kernel before has just written */
    int pieces;
    qs_fit_piece piece[3];
    double in_steps; /* fitted over seen time of this kind in whole steps, for information; 0: no step showed it */
    double alone;    /* time while the other ranks of its host wait, as a share of the fitted time; 0: not measured, 1 holds */
} qs_conversion_cost;

/* Under which a class was measured: what a reader needs to doubt a figure. */
typedef struct qs_conditions {
    bool known;                                /* records written by hand may lack them */
    bool pinned;                               /* every thread had a core of its own */
    double load_average;                       /* of the machine when measuring began, over a minute */
    double preemptions;                        /* involuntary context switches of this process, a second */
    double waited;                             /* part of the time that its first thread was ready but not running */
    double stolen;                             /* part of the machine's time that its host took for others */
    char communicator[QS_NAME], libc[QS_NAME]; /* "Open MPI 4.1.4", "glibc 2.36" */
} qs_conditions;

/* How far a class's kernel times can be trusted, from the plans they were measured in. Shares of a whole step. */
typedef struct qs_quality {
    bool known;                         /* records written by hand may lack them */
    int plans, steps;                   /* measured, and timed steps of each */
    double confidence;                  /* half width of the 95 % interval of a plan's median step; the worst plan's */
    double disturbed;                   /* part of the steps that were left out, each slower than its plan's others; 0: or not said */
    double drift;                       /* how far the pace of one round over all plans was from the median round; the worst round's */
    double closure_mean, closure_worst; /* |predicted - measured| of these plans from the figures above, each taken from all plans */
} qs_quality;

typedef struct qs_class_profile {
    char class_name[QS_NAME];
    char cpu[96], isa[64], library[64], build[64], date[32];
    int threads;
    double speed;
    qs_conditions conditions;
    qs_quality quality;
    bool estimated;               /* true: roofline, not measured */
    int64_t base_bytes;           /* resident bytes of a process that evaluates in fp32, without its arena and data */
    double step_overhead_us;      /* per schedule step: dispatch, timers, polling */
    double iteration_overhead_us; /* per iteration: bookkeeping of the training loop */
    double data_us_per_sample;
    int64_t cache_bytes; /* of the cache that best explains how kernel times differ from place to place; 0: no such model */
    double jitter;       /* standard deviation of a rank's whole step around its median, as a share of the step; 0: none, or not measured */
    int kernels;
    qs_kernel_cost *kernel; /* sorted by case_text */
    int conversions;
    qs_conversion_cost *conversion;
} qs_class_profile;

/* A straight line of all-reduce times, up to a message size; libraries send small and large messages in different ways. */
typedef struct qs_message_piece {
    int64_t to_bytes; /* piece holds up to here; the last one holds beyond */
    double us_per_byte, us;
} qs_message_piece;

/* One row per link, algorithm, wire, ranks and hosts; the first row of two ranks or more is of the job's own algorithm and wire. Bytes are
 * those of the values in fp32, whatever the wire; times hold what packing takes. */
typedef struct qs_collective_cost {
    int ranks;
    int hosts;     /* that the ranks were on; 0 where the file does not say: 1 */
    char link[32]; /* slowest kind of link between them: "shared-memory", "network"; "" where the file does not say */
    char algorithm[32];
    char wire[16];                    /* "" where the file does not say: fp32 */
    double alpha_us, us_per_byte, r2; /* one line over all sizes; r2 and residual are its own */
    double worst_residual;            /* largest |line - measured| / measured */
    double spread;                    /* largest uncertainty of a median among the sizes, as a share of it */
    int samples;                      /* all-reduces behind the row; 0: not said */
    int pieces;                       /* 0: the line holds for all sizes */
    qs_message_piece piece[3];        /* closer than the line: what predictions use */
    double cpu_share;                 /* part of the duration that compute of the same rank stands still */
    double temporary_per_byte;        /* bytes the library allocates per message byte */
    int64_t window_bytes;             /* that a process holds all the while, whatever the messages */
} qs_collective_cost;

/* Raw statistics of one tensor, one value an iteration (profiled at `batch` of qs_statistics). */
typedef struct qs_tensor_statistics {
    int64_t count;
    double *norm2, *absmax, *minimum, *maximum;
    double *channel_absmax2;                               /* Σ over channels of absmax_c² × elements per channel */
    double *variance_int8, *variance_bf16, *variance_fp16; /* exact Σ q² f (1-f) */
    /* Optional, NaN where not measured: Σ over channels of (max_c - min_c)² × elements per channel; Σ q² f (1-f) of int8 with one step a
     * channel (weights only). */
    double *channel_range2, *variance_int8_channel;
    /* Elements per binary exponent e = floor(log2 |t|), at [e - QS_LOWEST_EXPONENT]; lower ones are in the first, zeros in none. Mean over
     * ranks and iterations; all 0: not measured. */
    double *range_histogram;
} qs_tensor_statistics;

typedef struct qs_operator_statistics {
    char name[QS_NAME];
    qs_tensor_statistics src, weights, diff_dst;
    double hessian_top; /* largest eigenvalue by magnitude of the loss' Hessian block of the weights; NaN: not measured */
} qs_operator_statistics;

typedef struct qs_statistics {
    int64_t batch; /* local batch during profiling */
    int iterations, ranks;
    int operators;
    qs_operator_statistics *operator_;
} qs_statistics;

/* A local batch that kernels have rows for: their cases hold it in their shapes. */
typedef struct qs_profile_batch {
    int64_t samples;
    bool measured; /* false: times lie on straight lines between the measured batches around it; kernels and scratch are the device's own */
} qs_profile_batch;

/* A plan whose steps were timed in turn with those that kernels have their times from, while no figure was taken from them: what this
 * profile's predictions are worth. A step is that of the slowest rank, its batch of data included. */
typedef struct qs_profile_check {
    char plan[128];                   /* as whoever asked for it calls it: a file */
    int steps;                        /* timed */
    double median_us;                 /* of all of them */
    int undisturbed;                  /* of them: in which the kernels of every rank took as long as they usually do, within 5 % */
    double measured_us, confidence;   /* median of these, and half the width of its 95 % interval, a share of it */
    double predicted_us, no_casts_us; /* from this profile; without the costs of conversions */
} qs_profile_check;

typedef struct qs_profile {
    char graph[32]; /* signature */
    char model[QS_NAME];
    int64_t batch;
    int batches;                                /* 0: only `batch` */
    qs_profile_batch *batch_row;                /* (batches) ascending, `batch` among them */
    int channels, height, width, model_classes; /* model input profiled with */
    int classes;
    qs_class_profile *class_;
    int collectives;
    qs_collective_cost *collective;
    int checks;
    qs_profile_check *check;
    qs_statistics statistics;
} qs_profile;

QS_API qs_status qs_profile_read(const char *path, qs_profile *out);
QS_API qs_status qs_profile_write(const char *path, const qs_profile *profile);
QS_API qs_status qs_profile_parse(const char *json, const char *source, qs_profile *out);
QS_API qs_status qs_profile_text(const qs_profile *profile, char **json);
QS_API void qs_profile_release(qs_profile *profile);
QS_API const qs_class_profile *qs_profile_class(const qs_profile *profile, const char *name); /* NULL when absent */
/* Sorts the kernels by case; every reader gives them sorted, whoever fills a profile by hand calls it before looking rows up. */
QS_API void qs_class_profile_sort(qs_class_profile *profile);
/* Row of a case, by binary search; of one with a narrow accumulator that of the nearest measured width of it, of an update that by other
 * settings of its optimiser, for widths and settings are data to their kernels. NULL when absent. */
QS_API const qs_kernel_cost *qs_class_profile_kernel(const qs_class_profile *profile, const char *case_text);
/* NULL when the profile knows nothing of such a local batch; also for its own one when it has no list of them. */
QS_API const qs_profile_batch *qs_profile_batch_find(const qs_profile *profile, int64_t samples);
QS_API const char *qs_profile_signature(const qs_profile *profile, char *buffer);
/* Allocates the per-iteration arrays of an operator's three tensors; what is optional starts as NaN. */
QS_API qs_status qs_operator_statistics_create(int iterations, qs_operator_statistics *out);

/* ---- Plan ----------------------------------------------------------------------------------------------------------------------- */

typedef struct qs_operator_choice {
    char name[QS_NAME];   /* operator (node) */
    char recipe[QS_NAME]; /* by name, in the plan's recipes */
    bool pin;             /* planners leave it alone */
    bool adds[QS_GEMMS];  /* the GEMMs that add in an accumulator of their own, not in the recipe's */
    qs_narrow accumulator[QS_GEMMS];
} qs_operator_choice;

/* In which formats one tensor of a gradient computation stands (mixed-precision assignments). An operator's output is named after it
 * ("conv1"; the model's images: "input"), a parameter as in weights files ("conv1.weights", "bn1.scale"). Operators compute in fp32; their
 * results are rounded behind them. */
typedef struct qs_tensor_choice {
    char name[96];
    qs_quantizer value;      /* the output as every reader sees it, or the parameter as forward and backward do; format NULL: fp32 */
    const qs_format *saved;  /* storage from forward to backward; NULL: as it was computed. Parameters: NULL, their masters are kept */
    qs_quantizer gradient;   /* of the loss by this tensor; format NULL: fp32 */
    double promote_at;       /* a step whose overflows / elements exceed it promotes the value for good; 0: never */
    qs_quantizer promote_to; /* value after that, and its format the storage; format NULL: fp(6,9,0), rounded as `value` */
} qs_tensor_choice;

/* What an assignment of formats comes to. Elements and bytes count every tensor of a gradient computation once, and its gradient, at the
 * class's batch. */
typedef struct qs_assignment {
    double ratio_low;                          /* elements in low precision / all elements */
    int64_t high_bytes, bytes, low_bytes;      /* in the tensors' formats: all in high precision, this plan, all that can be in low */
    int64_t high_arena_bytes, low_arena_bytes; /* predicted.arena_bytes of the first and the last of these */
} qs_assignment;

typedef struct qs_plan_kernel {
    char *case_text;
    char kernel[64];
    int64_t scratch_bytes;
    bool allocates;
} qs_plan_kernel;

typedef struct qs_operator_reason {
    char name[QS_NAME];
    char stopped_by[24]; /* "memory", "throughput", "highest", "pinned", "profile" (lacks a case of the mix), "planner" (chose so) */
    char next[QS_NAME];  /* the recipe one step up, "" when highest */
    double time_us;      /* what the step up would cost in iteration time */
    int64_t bytes;       /* and in memory */
    double omega;        /* of the present recipe */
} qs_operator_reason;

/* One iteration of a rank by what its compute thread does: kernels; conversions of all phases; inside calls that start or move all-reduces;
 * blocked until their sums are there; batch loading and the training loop. */
typedef struct qs_phase_times {
    double forward_us, backward_us, cast_us, communication_us, waiting_us, optimizer_us, data_us;
} qs_phase_times;

typedef struct qs_class_plan {
    char class_name[QS_NAME];
    int64_t batch; /* local batch; 0 in a hand-written plan: the job's */
    int operators;
    qs_operator_choice *operator_;
    int tensors; /* tensors not named are fp32 */
    qs_tensor_choice *tensor;
    qs_assignment assignment; /* all 0: none was made, or by hand */
    int kernels;
    qs_plan_kernel *kernel;
    char schedule[32]; /* hash of the lowered schedule; "" in a hand-written plan: not checked */
    struct {
        double iteration_us, compute_us, waiting_us;
        int64_t arena_bytes, communication_bytes;
        int64_t base_bytes;    /* of the process without arena and data, and without the training program */
        int64_t program_bytes; /* that the training program's kernels hold: counted again for a smaller last step; 0: not known */
        double sum_omega;
        double lower_bound;    /* of sum_omega over all feasible plans; 0: not known */
        qs_phase_times phases; /* all 0: not known */
    } predicted;
    int reasons;
    qs_operator_reason *reason;
} qs_class_plan;

/* A prediction for a cluster with or without one class. Every rank keeps its local batch, so more ranks are a larger global batch. */
typedef struct qs_class_pace {
    char class_name[QS_NAME];
    double images_per_second; /* of all ranks together; 0: no plan fits */
} qs_class_pace;

typedef struct qs_plan {
    char planner[QS_NAME];                    /* "" in a hand-written plan */
    char graph[32], cluster[32], profile[32]; /* signatures; "" in a hand-written plan: not checked */
    qs_job job;
    bool without_job;         /* a plan written by hand that says nothing of the job, which is the trainer's then */
    double images_per_second; /* predicted, of all ranks together; 0: not known */
    int withouts;
    qs_class_pace *without; /* what the others would reach without a class, each by its own plan */
    int left_outs;
    qs_class_pace *left_out; /* classes that were left out of the cluster, in this order, and the pace while each was still there */
    int recipes;
    qs_recipe *recipe;
    int classes;
    qs_class_plan *class_;
} qs_plan;

QS_API qs_status qs_plan_read(const char *path, qs_plan *out);
QS_API qs_status qs_plan_write(const char *path, const qs_plan *plan);
QS_API qs_status qs_plan_parse(const char *json, const char *source, qs_plan *out);
QS_API qs_status qs_plan_text(const qs_plan *plan, char **json);
QS_API void qs_plan_release(qs_plan *plan);
/* Drops what only the planner could say (signatures, kernels, schedules, predictions, reasons), as after a change by hand. */
QS_API void qs_plan_forget(qs_plan *plan);
QS_API const qs_class_plan *qs_plan_class(const qs_plan *plan, const char *name); /* NULL when absent */
/* Local batch of a rank of each class of a cluster into batch[cluster->classes]: the plan's (0, or no such class: job_batch). plan NULL:
 * the job's everywhere. QS_MISMATCH with both figures unless they sum to job_batch × ranks over all ranks. */
QS_API qs_status qs_plan_batches(const qs_plan *plan, const qs_cluster *cluster, int64_t job_batch, int64_t *batch);
/* NULL when absent. After reading, "fp32" and every recipe that an operator names are there, built-in ones included. */
QS_API const qs_recipe *qs_plan_recipe(const qs_plan *plan, const char *name);
/* Recipe of an operator in a class plan; operators that the plan does not name run in "fp32". */
QS_API const char *qs_class_plan_recipe(const qs_class_plan *plan, const char *operator_name);
/* What an operator runs: its recipe with its own accumulators. QS_MISMATCH where the plan lacks the recipe. */
QS_API qs_status qs_choice_recipe(const qs_plan *plan, const qs_operator_choice *choice, qs_recipe *out);
/* Gives an operator the accumulators of `wanted` where they are not those that it has from its recipe. */
QS_API void qs_choice_accumulate(qs_operator_choice *choice, const qs_recipe *recipe, const qs_narrow wanted[QS_GEMMS]);
/* The tensor of that name in a class plan; NULL: fp32. */
QS_API const qs_tensor_choice *qs_class_plan_tensor(const qs_class_plan *plan, const char *name);

/* ---- Run ------------------------------------------------------------------------------------------------------------------------- */
/* Lines of run/metrics.jsonl are made with these helpers so that numbers print the same everywhere (%.9g, nan/inf as strings). */
typedef struct qs_line qs_line; /* one JSON object under construction */
QS_API qs_status qs_line_create(qs_line **out);
QS_API void qs_line_number(qs_line *line, const char *key, double value);
QS_API void qs_line_integer(qs_line *line, const char *key, int64_t value);
QS_API void qs_line_text(qs_line *line, const char *key, const char *value);
/* Finishes: compact JSON without newline (caller frees), releases the line. QS_OUT_OF_MEMORY if any step failed. */
QS_API qs_status qs_line_finish(qs_line *line, char **json);

#endif
