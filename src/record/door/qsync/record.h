// SPDX-License-Identifier: Apache-2.0
/* record: the typed, versioned, signed files by which the rooms meet: cluster, job, profile, plan, run configuration.
 *
 * Every record is JSON in stable order with "schema": "qsync/<kind>/2". A reader refuses what does not match and names file, line and
 * column (syntax) or the field's path (content), value and rule; unknown fields are refused too, so that a misspelt option is never
 * ignored. Files hold names, never ordinals. Writers are atomic and refuse non-finite numbers (QS_NUMERIC, with the field's path).
 *
 * Functions of a record X: qs_X_read takes a file, qs_X_parse a text (`source` names it in messages). qs_X_text gives the canonical text
 * (caller frees): reading it and writing it again gives the same bytes; qs_X_write makes a file of it. Signatures are "xxh64:%016x" over
 * it, into buffer[32], which is returned; "" when the record cannot be written. Structs own their arrays; release with the matching
 * function (zeroed structs are fine). A copy shares no memory with its original; a struct without pointers (job, class, link, recipe,
 * choices) is copied by assignment.
 *
 * What a field of a file means, with unit, range and default: docs/records.md, which is made from the tables in the room, like what
 * qs_record_describe tells. Comments here say what code must know beyond that. */
#ifndef QSYNC_RECORD_H
#define QSYNC_RECORD_H

#include "qsync/number.h"
#include "qsync/speeds.h"
#include "qsync/raw_statistics.h"
#include "qsync/samples.h"
#include "qsync/verification.h"

#define QS_MODEL 512 /* the text by which a model is opened: a name with options, or a path */
#define QS_MAX_FORMATS 8
#define QS_MOST_CHANNELS 4 /* that images have */
#define QS_MAX_HOSTS 8

/* ---- Cluster --------------------------------------------------------------------------------------------------------------- */

typedef struct qs_class {
    char name[QS_NAME];
    bool inference; /* role "inference" or "training" */
    char backend[16];
    char device[32]; /* published name ("v100"): where estimated profiles take its figures from; "": not said */
    int count;       /* devices (ranks) of this class */
    int hosts;       /* patterns of host names it may run on; 0: any */
    char host[QS_MAX_HOSTS][QS_NAME];
    int threads;       /* of backends in backends.def; 0: the backend has none */
    char isa[32];      /* of backends cpu, ref and far; "": the backend has none */
    char far_runs[16]; /* this and the next two: of backend far (qs_far_options) */
    double far_bytes_per_second, far_latency_us;
    char cuda_device[64];                  /* of backend cuda: a GPU's index or UUID; "": ranks of a host take its GPUs in turn */
    int cuda_multiprocessors, cuda_record; /* the same: that all runs on (0: the whole); recordings: where faster (0), never, always (2) */
    double speed;                          /* part of the device's compute that is lent */
    qs_speeds products;                    /* the same of products, where they differ by format; `speed` is the greatest of them */
    int64_t memory_capacity, memory_limit; /* bytes, 0: none; "30%" in the file refers to the capacity and is resolved by the reader */
    int formats;                           /* compute formats, in the file's order */
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
QS_API qs_status qs_cluster_text(const qs_cluster *cluster, char **json);
QS_API qs_status qs_cluster_copy(const qs_cluster *cluster, qs_cluster *out);
QS_API void qs_cluster_release(qs_cluster *cluster);
/* One rank of one class "single", fp32/bf16/int8 as compute and storage formats (the device refuses what it lacks), no memory limit: what a
 * single process without a cluster file uses. */
QS_API qs_status qs_cluster_single(const char *backend, int threads, qs_cluster *out);
QS_API int qs_cluster_ranks(const qs_cluster *cluster);
/* Class index of a rank, ranks in order of the classes' counts; -1 for a rank that the cluster does not have. */
QS_API int qs_cluster_class_of(const qs_cluster *cluster, int rank);
/* Host of every rank into host[ranks], counted from 0, and their number. Without links all ranks share one host. Classes between which a
 * link is not "shared-memory" are on different hosts; the others share theirs, rank by rank where their own ranks are spread. */
QS_API void qs_cluster_hosts(const qs_cluster *cluster, int *host, int *hosts);
/* Kind of the links between hosts: the first that is not "shared-memory"; "network" when none is named. */
QS_API const char *qs_cluster_network(const qs_cluster *cluster);
/* Class index by name; QS_USAGE lists the classes. */
QS_API qs_status qs_cluster_find(const qs_cluster *cluster, const char *name, int *out);
QS_API const char *qs_cluster_signature(const qs_cluster *cluster, char *buffer);
/* True when a class may run on this host: its `hosts` patterns (shell wildcards), any host when it names none. */
QS_API bool qs_class_allows_host(const qs_class *one, const char *host);
/* The class's half storage format: its first 16-bit float storage, else fp32 (docs/method.md §4.3). */
QS_API const qs_format *qs_class_half(const qs_class *one);

/* ---- Job ------------------------------------------------------------------------------------------------------------------- */

typedef enum qs_rate_schedule { QS_RATE_CONSTANT, QS_RATE_STEP, QS_RATE_COSINE, QS_RATE_LINEAR } qs_rate_schedule;

typedef struct qs_job {
    char model[QS_MODEL];
    char dataset[QS_MODEL];    /* with options, which may name files */
    struct {                   /* of images and floats: (value / scale - mean) / deviation; nothing said: the data set's own */
        int means, deviations; /* 0: not said, 0 and 1; 1: of all channels; else one a channel */
        double mean[QS_MOST_CHANNELS], deviation[QS_MOST_CHANNELS];
        double scale; /* 0: not said, 255 of bytes and 1 of floats */
    } normalization;
    int64_t batch;      /* local batch of every rank */
    qs_lengths lengths; /* to which samples are padded, each global batch to one; none: all to the extents of the data set */
    struct {
        char name[16];                    /* of an operator that is one (op.h): "sgd" */
        double setting[QS_MOST_SETTINGS]; /* in the operator's order; 0 behind its last */
    } optimizer;
    struct {
        double base, warmup_epochs; /* linear warm-up from base/10 */
        int64_t warmup_steps;       /* in place of epochs; 0: not said */
        qs_rate_schedule schedule;  /* "constant", "step" (×0.1 at 1/2 and 3/4 of the epochs), "cosine" (to 0), "linear" (to 0) */
        double layer_decay;         /* a layer's rate is that of the one behind it times this; 1: all learn at one rate */
    } rate;
    bool dynamic_loss_scaling; /* loss_scaling: "off", "dynamic" or a number */
    double loss_scale;         /* start or fixed value; 1 when off */
    double clip_norm;          /* 0: off */
    double label_smoothing;    /* of losses over classes, 0 ... 1 (qs_run); 0: none */
    char freeze[256];          /* patterns of parameters that are not trained, with commas between them (qs_graph_freeze) */
    bool decay_matrices;       /* decay: "all", or "matrices": weight decay is of parameters of two axes or more alone */
    int64_t bucket_bytes;
    char wire[16];      /* in which gradients travel (qs_comm_wire_at): "fp32" */
    char algorithm[32]; /* all-reduce: "shared" */
    int epochs;
    uint64_t seed;
    bool augmentation;
} qs_job;

/* Field defaults: sgd with momentum 0.9 and weight decay 5e-4, rate 0.1 (another optimiser brings its own) cosine with 0.5 warm-up epochs,
 * loss scaling off, all is trained and decays, buckets 1 MiB, fp32, "shared"; batch 64, 1 epoch, seed 1, augmentation on; model and data
 * set "" (not said). Dynamic loss scaling starts from 65536 where the file says no more. */
QS_API void qs_job_default(qs_job *out);
/* Gives a job another optimiser, with its standard settings and base rate; QS_USAGE lists them. */
QS_API qs_status qs_job_optimizer_set(qs_job *job, const char *name);
/* The job's value of a setting of its optimiser; NULL: it has no such setting. */
QS_API double *qs_job_setting(qs_job *job, const char *name);
/* QS_USAGE unless the optimiser exists and its settings are in their ranges, and lengths ascend. */
QS_API qs_status qs_job_check(const qs_job *job);
QS_API const char *qs_job_signature(const qs_job *job, char *buffer);
/* A job as a record of its own ("qsync/job/2": the job part of run/config.json); every field may be left out. Seeds end at 2^63 - 1. */
QS_API qs_status qs_job_parse(const char *json, const char *source, qs_job *out);
QS_API qs_status qs_job_text(const qs_job *job, char **json);

/* ---- Graph ----------------------------------------------------------------------------------------------------------------- */
/* graph.json: a model as others may write it. Reading checks types and ranges; whether the operators exist and fit together, and what a
 * qs_graph is made of, says the room graph (qs_graph_read, qs_graph_text). */

enum { QS_GRAPH_BATCH = -1, QS_GRAPH_LENGTH = -2 }; /* extents that are symbols: the batch, and the length of samples that vary */
enum { QS_GRAPH_MOST_INPUTS = 4 };

typedef struct qs_graph_input {
    qs_shape shape; /* extents of one sample as in qs_input, the first maybe QS_GRAPH_LENGTH */
    char name[32];
    qs_input_type type;
    int64_t length; /* bound of QS_GRAPH_LENGTH; 0: nothing varies */
    int64_t padding, bound;
} qs_graph_input;

typedef struct qs_graph_setting {
    char name[QS_NAME];
    double value;
} qs_graph_setting;

/* Where a parameter of an operator comes from: its tensor in weights files, and whether it is one of the model's constants. */
typedef struct qs_graph_origin {
    char parameter[32]; /* "weights": as its operator calls it */
    char file[96];      /* name of the tensor; "": that of the node and the parameter, as docs/weights.md says */
    bool transposed;    /* a matrix that files hold as [in, out] */
    bool constant;      /* never trained */
    int axes;           /* extents of the tensor in files, where they are others than the parameter's own; 0: they are those */
    int64_t extent[QS_MAX_AXES];
} qs_graph_origin;

typedef struct qs_graph_operator {
    qs_shape shape;                                       /* of the output; axes 0: not said */
    char name[QS_NAME], op[QS_NAME], weights_of[QS_NAME]; /* weights_of "": its own */
    int inputs;
    char input[QS_GRAPH_MOST_INPUTS][QS_NAME];
    int64_t outputs;
    bool bias, batched, count_padding;
    int kernel[2], stride[2], dilation[2], padding[2], padding_more[2], groups, offset; /* as in qs_attributes */
    int settings;
    qs_graph_setting *setting;
    int origins; /* of its parameters; those that are not listed have none */
    qs_graph_origin *origin;
} qs_graph_operator;

typedef struct qs_graph_parameter_row {
    qs_shape shape;
    char name[96], role[32];
    bool trained;
    double initial, gain;
    int64_t fan_in;
} qs_graph_parameter_row;

typedef struct qs_graph_record {
    char name[QS_MODEL_NAME], unit[16];
    int inputs;
    qs_graph_input *input;
    qs_target target;
    int operators;
    qs_graph_operator *operator_;
    char output[QS_NAME];
    int tensors; /* 0: not said */
    qs_graph_parameter_row *tensor;
    char signature[32]; /* "": not said */
} qs_graph_record;

QS_API qs_status qs_graph_record_read(const char *path, qs_graph_record *out);
QS_API qs_status qs_graph_record_parse(const char *json, const char *source, qs_graph_record *out);
QS_API qs_status qs_graph_record_text(const qs_graph_record *graph, char **json);
QS_API void qs_graph_record_release(qs_graph_record *graph);

/* ---- Recipes --------------------------------------------------------------------------------------------------------------- */
QS_API const char *qs_gemm_name(qs_gemm gemm); /* "forward", "input_gradient", "weight_gradient": as the passes */

/* How an adjustable operator computes: the quantizer of each operand of its three GEMMs, and what they add in. */
typedef struct qs_recipe {
    char name[QS_NAME]; /* "fp32", "bf16", "int8/bf16" */
    struct {
        qs_quantizer src, weights;
        const qs_format *dst; /* NULL: "auto" (docs/method.md eq. (4.2)) */
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
/* Built-in recipe by name. QS_USAGE lists. Integers round stochastically unless forward says otherwise.
 *   "bf16"           everything in a float format
 *   "int8/bf16"      forward in the integer, src with one step, weights with one for each output channel; both gradients in the
 *                    float. "int6:shift4/bf16": src in 4 shift groups of channels
 *   "int4:shift4"    all three products in integers (docs/method.md §9.3): src and diff_dst in 4 shift groups of channels, weights with
 *                    a step for each output channel forward, for each input channel in the input gradient; the weight gradient takes the
 *                    codes that forward saved, one byte each. src takes unsigned codes (uint4) where a value cannot be negative, as behind
 *                    a ReLU; of 8 bits it stays signed. "int8:tensor": one step for src, one for diff_dst
 *   "int4:hadamard"  all three products in integers, with one step for each factor (Xi et al.): both are transformed along the product's
 *                    inner dimension, in blocks of 16 or of the largest power of two that divides it ("hadamard32": of 32): forward over
 *                    input channels of a group, input gradient over output channels, weight gradient over the samples of a local batch.
 *                    A dimension without such a block takes one step as it is. src has signed codes, and the weight gradient codes of its
 *                    own, which forward makes and saves. "int4:hadamard/bf16": forward alone; gradients in the float, src saved in it
 *   "mxfp8", "mxfp4:stochastic", "mx(e4m3,128,fp32)"
 *                    all three products in blocks that share scales (qsync/blocks.h), along the same dimensions
 *   "int4:shift4:mse/log4", "bf16/int4:shift4", "mxfp4/mxfp8/bf16": forward, gradients; or forward, input gradient, weight gradient */
QS_API qs_status qs_recipe_builtin(const char *name, qs_recipe *out);

/* ---- Profile --------------------------------------------------------------------------------------------------------------- */

typedef struct qs_kernel_cost {
    char *case_text;
    char kernel[64];
    int64_t scratch_bytes;
    bool allocates, tuned;
    double us, us_low, us_high; /* rests of `speed` included */
    int samples;
    double confidence;                            /* half the 95 % interval of us, as a share of it; 0: not known */
    double cold_bytes, us_per_cold_byte;          /* of qs_schedule_cold_bytes at the class's cache_bytes: a place with other c takes
                                          * us + us_per_cold_byte (c - cold_bytes) */
    int64_t held_bytes, shared_bytes, code_bytes; /* of the process: for each kernel that is bound to the case; once for the case; once
                                                   * for the kernel, whatever its cases. 0: none, or not measured */
    double us_alone, us_recorded;                 /* 0: not measured, us holds; or qs_class_profile.recorded does */
} qs_kernel_cost;

typedef struct qs_fit_piece {
    int64_t to_elements;
    double us_per_element, us, r2, worst_residual, mean_residual;
} qs_fit_piece;

/* Steps of a conversion to or from integers: one for the tensor; one for each index of axis 0 (output channels of weights) or of axis 1
 * (input channels: a column); shift groups of channels, whose maxima a pass over columns finds; one step of transformed values, in blocks
 * along axis 1 or across the rows of axis 0; steps of output channels by a pass that notes the maxima of columns as well; scales of blocks
 * (qsync/blocks.h) along axis 1, or across positions. */
typedef enum qs_conversion_steps {
    QS_STEPS_TENSOR,
    QS_STEPS_CHANNEL,
    QS_STEPS_COLUMN,
    QS_STEPS_SHIFT,
    QS_STEPS_HADAMARD,
    QS_STEPS_HADAMARD_ROWS,
    QS_STEPS_CHANNEL_AND_COLUMN,
    QS_STEPS_BLOCKS,
    QS_STEPS_BLOCK_ROWS,
    QS_STEPS_COUNT
} qs_conversion_steps;

typedef struct qs_conversion_cost {
    char kind[24];
    const qs_format *from, *to; /* to NULL for absmax */
    qs_conversion_steps steps;
    qs_rounding rounding;
    bool least_squares; /* of `quantize`: its range is the one of least squared error, which it looks for */
    bool weights;       /* of weights, which a whole step has cooled; else of values, which the kernel before has just written */
    int pieces;
    qs_fit_piece piece[3];
    double in_steps, alone, recorded; /* 0: not known */
} qs_conversion_cost;

/* Under which a class was measured, and how far its kernel times can be trusted. Records written by hand may lack both. */
typedef struct qs_conditions {
    bool known, pinned;
    double load_average, preemptions, waited, stolen;
    int core;                                  /* where the thread that waited longest last ran; -1: nobody waited, or it is not known */
    char communicator[QS_NAME], libc[QS_NAME]; /* "Open MPI 4.1.4", "glibc 2.36" */
} qs_conditions;
typedef struct qs_quality {
    bool known;
    int plans, steps;
    int measured, taken;                                                       /* kernels; 0: not known, none */
    double taken_pace;                                                         /* 0: none was taken */
    double confidence, kernels, disturbed, drift, closure_mean, closure_worst; /* shares of a whole step; kernels 0: not known */
    double budget_s, seconds;                                                  /* stated for the whole profile; that it took. 0: none */
} qs_quality;

/* Of copies between a host and memory of a device that it does not see: microseconds of one, and of a byte. */
typedef struct qs_copy_cost {
    bool known; /* false: the host sees the memory, there are no copies */
    double in_us, in_us_per_byte, out_us, out_us_per_byte;
} qs_copy_cost;

typedef struct qs_class_profile {
    char class_name[QS_NAME];
    char backend[16], device[96]; /* device: its name, "AMD EPYC ..." */
    char library[64], build[64], date[32];
    double speed;
    qs_speeds products;           /* this and speed: as in the cluster file */
    char isa[64];                 /* of cuda: the architecture, "sm_90" */
    int threads, multiprocessors; /* 0: the backend has none, or it was a whole GPU */
    int64_t cache_bytes;          /* 0: no such model */
    qs_conditions conditions;
    qs_quality quality;
    bool estimated, joins; /* joins: qs_device_joins of its device; of what is estimated: no */
    int64_t base_bytes;
    double step_overhead_us, iteration_overhead_us, data_us_per_sample;
    qs_copy_cost copies;
    double jitter, recorded, recorded_loop_us; /* 0: none, or not measured */
    double beside;                             /* 0: not fitted; else times beside busy ranks hold it */
    int kernels;
    qs_kernel_cost *kernel; /* sorted by case_text */
    int conversions;
    qs_conversion_cost *conversion;
} qs_class_profile;

/* A straight line of all-reduce times, up to a message size; libraries send small and large messages in different ways. */
typedef struct qs_message_piece {
    int64_t to_bytes;
    double us_per_byte, us;
} qs_message_piece;

/* One row per link, algorithm, wire, ranks and hosts; the first row of two ranks or more is of the job's own algorithm and wire. Bytes are
 * those of the values in fp32, whatever the wire; times hold what packing takes. */
typedef struct qs_collective_cost {
    int ranks, hosts; /* hosts 0: the file does not say, 1 */
    char link[32];    /* "": the file does not say */
    char algorithm[32];
    char wire[16]; /* "": fp32 */
    double alpha_us, us_per_byte, r2, worst_residual, spread;
    int samples; /* 0: not said */
    int pieces;  /* 0: the line holds for all sizes; else closer than it, what predictions use */
    qs_message_piece piece[3];
    double cpu_share, temporary_per_byte;
    int64_t window_bytes;
} qs_collective_cost;

/* A local batch that kernels have rows for: their cases hold it in their shapes. */
typedef struct qs_profile_batch {
    int64_t samples;
    bool measured; /* false: by straight lines between measured batches */
} qs_profile_batch;

/* One of the lengths that kernels have rows for, and how many samples of the training part are padded to it. */
typedef struct qs_profile_length {
    int64_t length, samples;
} qs_profile_length;

/* A plan whose steps were timed in turn with those that kernels have their times from, while no figure was taken from them: what this
 * profile's predictions are worth. A step is that of the slowest rank, its batch of data included. */
typedef struct qs_profile_check {
    char plan[128];
    int steps, undisturbed;
    double median_us, measured_us, confidence; /* of all steps; of the undisturbed ones */
    double predicted_us, no_casts_us;
} qs_profile_check;

typedef struct qs_profile {
    char graph[32]; /* signature */
    char model[QS_MODEL];
    int64_t batch;
    int batches;                   /* 0: only `batch` */
    qs_profile_batch *batch_row;   /* (batches) ascending, `batch` among them */
    qs_samples samples;            /* what the model takes and learns, as it was profiled */
    int lengths;                   /* 0: samples have one length */
    qs_profile_length *length_row; /* (lengths) ascending, the last that of `samples` */
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

/* ---- Plan ------------------------------------------------------------------------------------------------------------------ */

typedef struct qs_operator_choice {
    char name[QS_NAME];   /* operator (node) */
    char recipe[QS_NAME]; /* by name, in the plan's recipes */
    bool pin;
    bool adds[QS_GEMMS]; /* the GEMMs that add in an accumulator of their own, not in the recipe's */
    qs_narrow accumulator[QS_GEMMS];
} qs_operator_choice;

/* In which formats one tensor of a gradient computation stands (mixed-precision assignments). An operator's output is named after it
 * ("conv1"; the model's images: "input"), a parameter as in graph.json ("conv1.weights", "bn1.scale"). Operators compute in fp32; their
 * results are rounded behind them. */
typedef struct qs_tensor_choice {
    char name[96];
    qs_quantizer value;      /* the output as every reader sees it, or the parameter as forward and backward do; format NULL: fp32 */
    const qs_format *saved;  /* storage from forward to backward; NULL: as it was computed. Parameters: NULL, their masters are kept */
    qs_quantizer gradient;   /* of the loss by this tensor; format NULL: fp32 */
    double promote_at;       /* 0: never */
    qs_quantizer promote_to; /* format NULL: fp(6,9,0), rounded as `value` */
} qs_tensor_choice;

/* What an assignment of formats comes to: in all high precision, by this plan, in all that can be in low. */
typedef struct qs_assignment {
    double ratio_low;
    int64_t high_bytes, bytes, low_bytes; /* of tensors in their formats */
    int64_t high_arena_bytes, low_arena_bytes;
} qs_assignment;

typedef struct qs_plan_kernel {
    char *case_text;
    char kernel[64];
    int64_t scratch_bytes;
    bool allocates;
} qs_plan_kernel;

typedef struct qs_operator_reason {
    char name[QS_NAME];
    char stopped_by[24];
    char next[QS_NAME]; /* "" when highest */
    double time_us, omega;
    int64_t bytes;
} qs_operator_reason;

/* One iteration of a rank by what its compute thread does. */
typedef struct qs_phase_times {
    double forward_us, backward_us, cast_us, communication_us, waiting_us, optimizer_us, data_us;
} qs_phase_times;

/* What a class runs at one of the job's lengths. Times are predicted of a step of that length. */
typedef struct qs_length_plan {
    int64_t length;
    char schedule[32]; /* "": not checked */
    double share;      /* of the samples, so of the full-size steps */
    double iteration_us, compute_us, waiting_us;
    int64_t arena_bytes, program_bytes;
    qs_phase_times phases;
} qs_length_plan;

typedef struct qs_class_plan {
    char class_name[QS_NAME];
    int64_t batch; /* local batch; 0 in a hand-written plan: the job's */
    bool idle;     /* it takes no samples: its ranks add zeros to sums, and keep their weights; batch is what its schedule is lowered at */
    int operators;
    qs_operator_choice *operator_;
    int tensors; /* tensors not named are fp32 */
    qs_tensor_choice *tensor;
    qs_assignment assignment; /* all 0: none was made, or by hand */
    int recomputes;           /* blocks that are computed again for backward, each by the name of its first operator */
    char (*recompute)[QS_NAME];
    char recompute_why[16]; /* why these and no others, see qs_plan_options; "": nobody chose */
    int kernels;
    qs_plan_kernel *kernel;
    char schedule[32];      /* hash of the lowered schedule, at the longest length; "" in a hand-written plan: not checked */
    int lengths;            /* 0: samples have one length, or nothing is known of several */
    qs_length_plan *length; /* (lengths) ascending */
    struct { /* of several lengths: times are means over steps, memory is that of the length that needs most, programs are all of them */
        double iteration_us, compute_us, waiting_us, doubt; /* doubt: share by which its steps may take longer; 0: none is known */
        double factor; /* by which a verification had found that steps take longer than profiled; in the times here; 0: none did */
        int64_t arena_bytes, communication_bytes, base_bytes, program_bytes; /* program_bytes 0: not known */
        double sum_omega, lower_bound;                                       /* lower_bound 0: not known */
        qs_phase_times phases;                                               /* all 0: not known */
        double recompute_us;                                                 /* of backward_us and cast_us: what is computed again */
        int64_t kept_bytes; /* arena_bytes, were nothing computed again; 0: not known, or nothing is */
    } predicted;
    int reasons;
    qs_operator_reason *reason;
} qs_class_plan;

/* A wire that a planner compared with others: its plan on it, and why it was taken or not (docs/records.md). */
typedef struct qs_wire_plan {
    char wire[16];
    double iteration_us, exposed_us; /* exposed: of the iteration, what it would be shorter if all-reduces took no time. 0: no plan on it */
    int64_t residual_bytes;          /* of a rank */
    char why[16];
} qs_wire_plan;

typedef struct qs_plan {
    char planner[QS_NAME];                    /* "" in a hand-written plan */
    char graph[32], cluster[32], profile[32]; /* signatures; "" in a hand-written plan: not checked */
    qs_job job;
    bool without_job; /* a plan written by hand that says nothing of the job, which is the trainer's then */
    double samples_per_second, confidence, upper_us, longest_us; /* predicted, of all ranks; the last three: "guard". 0: not known */
    char unit[16]; /* what people call the samples, in the plural (qs_samples); "": not said */
    int withouts;
    qs_class_pace *without; /* what the others would reach without a class, each by its own plan */
    int left_outs;
    qs_class_pace *left_out; /* classes that were left out of the cluster, in this order, and the pace while each was still there */
    int wires;
    qs_wire_plan *wire; /* that were compared, from the most exact one on; none: there was nothing to choose */
    int verifications;
    qs_verification *verification; /* in the order of rounds, the last of the plan as it is, unless that is the uniform one */
    int recipes;
    qs_recipe *recipe;
    int classes;
    qs_class_plan *class_;
} qs_plan;

QS_API qs_status qs_plan_read(const char *path, qs_plan *out);
QS_API qs_status qs_plan_write(const char *path, const qs_plan *plan);
QS_API qs_status qs_plan_parse(const char *json, const char *source, qs_plan *out);
QS_API qs_status qs_plan_text(const qs_plan *plan, char **json);
QS_API qs_status qs_plan_copy(const qs_plan *plan, qs_plan *out);
QS_API void qs_plan_release(qs_plan *plan);
/* Drops what only the planner could say (signatures, kernels, schedules, predictions, reasons), as after a change by hand. */
QS_API void qs_plan_forget(qs_plan *plan);
QS_API const qs_class_plan *qs_plan_class(const qs_plan *plan, const char *name); /* NULL when absent */
/* Local batch of a rank of each class of a cluster into batch[cluster->classes]: the plan's (0, or no such class: job_batch); 0 of one that
 * is idle. plan NULL: the job's everywhere. QS_MISMATCH with both figures unless they sum to job_batch × ranks over all ranks. */
QS_API qs_status qs_plan_batches(const qs_plan *plan, const qs_cluster *cluster, int64_t job_batch, int64_t *batch);
/* The same schedules at the same batches in every class; false where a plan knows no schedules, as one by hand does. */
QS_API bool qs_plans_alike(const qs_plan *a, const qs_plan *b);
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

/* ---- Manuals --------------------------------------------------------------------------------------------------------------- */
/* What a manual says of a field: --help of the program (plain texts), docs/records.md (Markdown). */
typedef struct qs_field_manual {
    const char *table;    /* heading of the table that it stands in, for good; NULL: the record's own */
    const char *name;     /* in that table: "batch", "rate.base" */
    const char *values;   /* unit, range: "samples, >= 1" */
    const char *standard; /* what its absence means; "": it must be there */
    const char *text;     /* what it is, for good; the other texts are gone behind the visit */
    const char *more;     /* Markdown that follows the text; or "" */
} qs_field_manual;
typedef void (*qs_field_visitor)(const qs_field_manual *field, void *context);
/* Visits the fields of a record ("cluster", "job", "graph", "profile", "plan"), table by table, in the order of its files. QS_USAGE: no
 * such one. */
QS_API qs_status qs_record_describe(const char *kind, qs_field_visitor visit, void *context);

/* ---- Run ------------------------------------------------------------------------------------------------------------------- */
/* Lines of run/metrics.jsonl are made with these helpers so that numbers print the same everywhere (%.9g, nan/inf as strings). */
typedef struct qs_line qs_line; /* one JSON object under construction */
QS_API qs_status qs_line_create(qs_line **out);
QS_API void qs_line_number(qs_line *line, const char *key, double value);
QS_API void qs_line_integer(qs_line *line, const char *key, int64_t value);
QS_API void qs_line_text(qs_line *line, const char *key, const char *value);
/* Finishes: compact JSON without newline (caller frees), releases the line. QS_OUT_OF_MEMORY if any step failed. */
QS_API qs_status qs_line_finish(qs_line *line, char **json);

#endif
