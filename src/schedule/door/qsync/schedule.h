// SPDX-License-Identifier: Apache-2.0
/* schedule: lowering a model with a precision assignment into the steps that a device runs, and the memory they live in.
 *
 * lower(graph, batch, job, recipes, kernel facts, mode) -> steps is the one function by which prediction and execution agree: `train` runs
 * the steps, the cost model prices them, the replayer places them in time, and the arena both predict and reserve comes from the same
 * packing.
 *
 * Precision (docs/method.md §4.2, §4.3). A float recipe writes its own format. A fixed-point recipe writes the widest of what the
 * adjustable consumers need, reached through dependent operators; a fixed-point consumer counts as the class's half storage format; fp32
 * where no adjustable consumer exists. A dependent operator works in the widest format of its inputs; ids count as fp32. The gradient of
 * a value has the value's format. Where formats differ an explicit cast step stands before the first reader; a converted copy is made
 * once per (value, quantizer) and shared by its readers. A quantizer with one step for the tensor needs its absmax: the pass that writes
 * the tensor delivers it where it can (optional operand absmax), else a step looks for it.
 *
 * Tensors (docs/method.md §7.1). A plan may say in which format each tensor of a gradient computation stands. Operators then compute in
 * fp32 and a `round` step behind each rounds what it wrote, in place: outputs behind the forward pass, the finished gradient of an output
 * before the first backward pass that reads it, weight gradients before their all-reduce. Parameters are rounded from their masters into
 * the place of their gradient. An output with a `saved` format that a backward pass reads is packed there by the same step; the fp32 form
 * dies with its last forward reader, and each backward reader decodes a copy for itself. Masks (ReLU: a bit, max pool: a byte an element)
 * and batch norm's mean and variance (fp32) are not tensors of an assignment. Evaluation is fp32.
 *
 * Memory. Buffers have the interval of steps in which they live; one arena holds the persistent part (master weights, running statistics,
 * optimiser state, residuals of a narrow wire, gradients: the same in every mode) and behind it the transient part, packed by interval.
 * Offsets are multiples of 64.
 *
 * Recomputation (docs/method.md §4.9). A plan may name blocks (qs_graph_blocks) whose values are made again for backward: what is written
 * inside such a block and read there alone lives no longer than forward needs it, and right before the block's first backward step its
 * forward steps that backward needs stand once more, marked, into buffers of their own. They draw what they drew before, so bits stay as
 * they were. Kept are the block's output, and what passes write beside outputs (masks, means, spreads), which is small: no running
 * statistic is updated twice. Evaluation knows nothing of it.
 *
 * Gradients lie in one flat fp32 buffer in parameter order; buckets are consecutive pieces of it, filled from the end (backward order).
 * They come from graph and job only: the same for all ranks, classes and plans. From a step's start until a gradient is written its place
 * may hold the converted form of the same weights, so gradients mean something only between a step's backward part and the next step.
 *
 * Frozen parameters have masters and nothing else: no gradient, no state, no update. Backward passes that only they would want are not
 * there; where a pass is there for something else, it writes their gradients beside, where nobody reads them. Where a job has parameters
 * learn at rates of their own, or exempts some from weight decay, a bucket's update is several steps, one for each range that learns
 * alike. */
#ifndef QSYNC_SCHEDULE_H
#define QSYNC_SCHEDULE_H

#include "qsync/graph.h"
#include "qsync/op.h"
#include "qsync/record.h"

typedef enum qs_mode {
    QS_MODE_TRAIN,      /* forward, backward, all-reduce, update */
    QS_MODE_EVALUATION, /* forward with running statistics, loss and correct answers */
    QS_MODE_STATISTICS  /* train plus raw statistics of every adjustable operator's input, weights and output gradient */
} qs_mode;

typedef enum qs_phase { QS_FORWARD, QS_BACKWARD, QS_UPDATE, QS_PHASE_COUNT } qs_phase;
QS_API const char *qs_phase_name(qs_phase phase);

#define QS_CATEGORY_LIST(X)                                                                                \
    X(QS_MASTER_WEIGHTS, "master weights")                                                                 \
    X(QS_OPTIMIZER_STATE, "optimizer state")                                                               \
    X(QS_RUNNING_STATISTICS, "running statistics")                                                         \
    X(QS_GRADIENTS, "gradients")                                                                           \
    X(QS_WIRE_RESIDUALS, "wire residuals")       /* what narrow wires left out, for the next step */       \
    X(QS_SAVED_ACTIVATIONS, "saved activations") /* written in forward, read in backward */                \
    X(QS_TRANSIENT_ACTIVATIONS, "transient activations")                                                   \
    X(QS_ACTIVATION_GRADIENTS, "activation gradients")                                                     \
    X(QS_CONVERTED, "converted operands") /* casts and quantized copies that do not outlive their phase */ \
    X(QS_SCRATCH, "kernel scratch")                                                                        \
    X(QS_INPUT_BATCH, "input batch")                                                                       \
    X(QS_STATISTICS_OUT, "statistics")
#define QS_CATEGORY_ENUM(id, text) id,
typedef enum qs_category { QS_CATEGORY_LIST(QS_CATEGORY_ENUM) QS_CATEGORY_COUNT } qs_category;
#undef QS_CATEGORY_ENUM
QS_API const char *qs_category_name(qs_category category);

typedef struct qs_buffer {
    char name[80]; /* "stage1.block0.conv1:dst", "stage1.block0.conv1:src:int8" */
    size_t bytes;
    size_t offset; /* in the arena */
    qs_category category;
    bool persistent;
    int first, last; /* steps in which it lives; first = -1: filled before the step (input batch) */
} qs_buffer;

typedef enum qs_step_kind {
    QS_STEP_KERNEL,
    QS_STEP_REDUCE_START, /* all-reduce of a bucket may start: its gradients are complete */
    QS_STEP_REDUCE_WAIT   /* what follows needs the bucket's sums */
} qs_step_kind;

/* Where an operand of a step lies: bytes from the start of a buffer; buffer -1 where absent. */
typedef struct qs_place {
    int buffer;
    size_t offset;
} qs_place;

typedef struct qs_step {
    qs_step_kind kind;
    qs_phase phase;
    int node;        /* graph node it serves; -1: none (update) */
    uint64_t stream; /* random stream within the node (qs_run.stream) */
    int bucket;      /* all-reduce steps and updates; else -1 */
    double rate;     /* of an update: its learning rate as part of the run's; 1 elsewhere */
    qs_case case_;   /* kernels only */
    char *case_text; /* kernels only; owned by the schedule */
    char kernel[64]; /* from the kernel facts */
    qs_place place[QS_MAX_OPERANDS];
    qs_place scratch;
    bool conversion; /* cast, absmax, quantize, dequantize or gradient sum placed by lowering: priced by fits */
    bool recomputed; /* a forward step that stands in the backward phase once more */
} qs_step;

typedef struct qs_bucket {
    int64_t first, count; /* elements of the flat gradient buffer */
    int ready_step;       /* its QS_STEP_REDUCE_START */
    int wait_step;
} qs_bucket;

typedef struct qs_schedule {
    int64_t batch;
    qs_mode mode;
    int steps;
    qs_step *step;
    int buffers;
    qs_buffer *buffer;
    int buckets;
    qs_bucket *bucket;
    size_t persistent_bytes, arena_bytes;     /* arena_bytes includes the persistent part */
    size_t live_bytes;                        /* largest sum of live buffers: a lower bound of arena_bytes */
    size_t category_bytes[QS_CATEGORY_COUNT]; /* at the step where live_bytes is reached */
    int peak_step;
    /* buffers that upstairs rooms fill or read */
    int states, state[QS_MOST_STATES];           /* of the optimiser */
    int inputs, input[QS_SAMPLES_MOST_INPUTS];   /* as the graph has them: fp32, or int32 where the input is of integers */
    int target;                                  /* (batch, qs_target_values) int32, or fp32 real numbers */
    int masters, running, gradients, loss, flag; /* -1 where the mode has none */
    int residuals;                               /* like gradients, kept from step to step; -1: the wire is fp32 */
    char wire[16];                               /* in which gradients travel, the job's */
    int counts; /* qs_rounding_counts of every rounded tensor, QS_COUNTS_PITCH bytes each, see qs_counts_offset; -1: nothing is rounded */
    int nodes;
    int *statistics_buffer;         /* (nodes × 3): src, weights, diff_dst; -1 elsewhere; NULL unless QS_MODE_STATISTICS */
    const qs_format **value_format; /* (nodes) storage format of each node's output */
} qs_schedule;

/* Kernel facts for a case: a device fills it live (train), a profile or plan from its rows (decide). QS_UNSUPPORTED or QS_MISMATCH with the
 * reason stops the lowering. */
typedef struct qs_kernel_row {
    char kernel[64];
    size_t scratch_bytes;
    bool allocates;
    bool tuned; /* chosen by measurement: told to readers, of no consequence */
} qs_kernel_row;
typedef qs_status (*qs_kernel_lookup)(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out);

/* Recipe of each node (nodes pointers, NULL for non-adjustable) for a class under a plan; pointers live as long as the plan. QS_MISMATCH
 * names operators that the graph lacks. plan NULL: all fp32. The caller frees the array. */
QS_API qs_status qs_plan_bind(const qs_plan *plan, const char *class_name, const qs_graph *graph, const qs_recipe ***out);

/* What a plan says of tensors by their place in the graph: their formats (entries NULL: fp32; they point into the plan), and which are made
 * again for backward. */
typedef struct qs_tensor_table {
    const qs_tensor_choice **value;     /* (nodes) of each operator's output, inputs first; NULL: nothing is rounded */
    const qs_tensor_choice **parameter; /* (parameters) */
    int *recomputed; /* (nodes) the last node of the recomputed block that a node is in; -1: it is in none. NULL: no block is */
} qs_tensor_table;
/* The table of a class's plan (NULL: an empty one). QS_MISMATCH names tensors that the graph lacks or that cannot have what the plan wants:
 * the loss and operators that move no data (flatten) have no tensor of their own, parameters that are not trained none at all; and blocks
 * that the graph lacks: a block goes by the name of its first operator. */
QS_API qs_status qs_tensors_bind(const qs_class_plan *plan, const qs_graph *graph, qs_tensor_table *out);
QS_API void qs_tensor_table_release(qs_tensor_table *table);
/* Fills a class plan's list of recomputed blocks, in place of the one that it has: "all" (every block but the last one, whose backward part
 * comes next anyway), "no", or names with commas between them. QS_USAGE names a block that the graph lacks, and those that it has. */
QS_API qs_status qs_recompute_list(const char *text, const qs_graph *graph, qs_class_plan *plan);

enum { QS_COUNTS_PITCH = 64 };
/* Where in the buffer `counts` those of an output, a parameter or an output's gradient lie. */
QS_API size_t qs_counts_offset_value(const qs_graph *graph, int node);
QS_API size_t qs_counts_offset_parameter(const qs_graph *graph, int parameter);
QS_API size_t qs_counts_offset_gradient(const qs_graph *graph, int node);

typedef struct qs_lowering {
    const qs_graph *graph;
    int64_t batch;
    qs_mode mode;
    const qs_job *job;              /* optimiser, buckets, loss scaling */
    const qs_recipe *const *recipe; /* (nodes) recipe of each adjustable operator; NULL entries mean fp32 */
    const qs_format *half;          /* the class's half storage format */
    const qs_tensor_table *tensors; /* NULL: fp32, and all is kept; its formats outlive drafts, `recomputed` is copied */
    bool joins;                     /* in training: as qs_device_joins says of the device */
    qs_kernel_lookup lookup;
    void *context;
} qs_lowering;

/* Lowers. QS_USAGE for impossible jobs, QS_UNSUPPORTED (with operator and recipe) when the kernel table lacks a case. Release with
 * qs_schedule_release. */
QS_API qs_status qs_schedule_lower(const qs_lowering *lowering, qs_schedule **out);
QS_API void qs_schedule_release(qs_schedule *schedule);
/* The arena that the same lowering would take were nothing computed again. */
QS_API qs_status qs_schedule_kept_bytes(const qs_lowering *lowering, size_t *bytes);

/* ---- Drafts: schedules that change (Algorithm 1, docs/method.md §4.5) -------------------------------------------------------------- */

/* A schedule in segments: the forward part of each node (segment n), the backward part of each (2 nodes - 1 - n), the update. What is made
 * again of a block stands first in the backward part of its last node. A change of
 * one operator's recipe emits again only the segments whose steps may differ: its own, and those of neighbours whose formats, casts or
 * shared copies follow. The emission is that of qs_schedule_lower, so a draft gives at any time the very schedule that lowering its recipes
 * from scratch would. What is not incremental is packing the arena; live bytes, the bound from below, are. */
typedef struct qs_schedule_draft qs_schedule_draft;

/* A case with its text and kernel row, looked up once per draft. */
typedef struct qs_draft_case {
    qs_case case_;
    char *text;
    qs_kernel_row row;
    int index; /* cases are counted from 0 as they first appear; equal cases of a draft are one */
} qs_draft_case;

typedef struct qs_draft_step {
    qs_step_kind kind;
    qs_phase phase;
    int node, bucket; /* as in qs_step */
    double rate;
    uint64_t stream;
    bool conversion, recomputed;
    int made;                        /* buffers that the segment makes before the step's scratch */
    const qs_draft_case *case_;      /* kernels only */
    qs_place place[QS_MAX_OPERANDS]; /* buffers by the draft's numbers, which tell them apart, not by a schedule's */
} qs_draft_step;

/* Steps of one segment that a change removed and added; those before and behind them stayed. */
typedef struct qs_segment_change {
    int segment, first; /* first: their place among the segment's steps */
    int removed, added;
    const qs_draft_step *removed_step, *added_step;
} qs_segment_change;
typedef struct qs_draft_change {
    int removed, added; /* steps in all */
    int segments;
    const qs_segment_change *segment; /* by ascending segment; valid until the next call for this draft */
} qs_draft_change;

/* Graph, job and the lookup's context must outlive the draft; recipes are copied. Release with qs_schedule_draft_release. */
QS_API qs_status qs_schedule_draft_create(const qs_lowering *lowering, qs_schedule_draft **out);
QS_API void qs_schedule_draft_release(qs_schedule_draft *draft);
/* Gives an adjustable operator another recipe (NULL: fp32). On failure (QS_USAGE, or what lowering says) the draft is as it was. `change`
 * may be NULL. */
QS_API qs_status qs_schedule_change(qs_schedule_draft *draft, int node, const qs_recipe *recipe, qs_draft_change *change);
/* Takes back the last change that was not taken back yet, exactly; `change` tells what that removes and adds. QS_USAGE: there is none. */
QS_API qs_status qs_schedule_undo(qs_schedule_draft *draft, qs_draft_change *change);
/* Changes made so far stay: they cannot be taken back any more, and what was kept for that is freed. */
QS_API void qs_schedule_keep(qs_schedule_draft *draft);
/* The packed schedule of the draft as it stands; the draft stays. packing_us, unless NULL, receives the time that packing took. */
QS_API qs_status qs_schedule_finish(const qs_schedule_draft *draft, qs_schedule **out, double *packing_us);
/* live_bytes of the schedule that qs_schedule_finish would give. */
QS_API size_t qs_schedule_draft_live_bytes(const qs_schedule_draft *draft);
/* Of these, the most that a segment's scratch and the buffers that begin or end in it come to at one of its steps. */
QS_API size_t qs_schedule_draft_inner_bytes(const qs_schedule_draft *draft, int segment);
QS_API const qs_recipe *qs_schedule_draft_recipe(const qs_schedule_draft *draft, int node);
/* Number of segments; their steps, one after the other, are the schedule's. */
QS_API int qs_schedule_draft_segments(const qs_schedule_draft *draft);
/* A segment's steps into *step (valid until the next change); returns how many. */
QS_API int qs_schedule_draft_steps(const qs_schedule_draft *draft, int segment, const qs_draft_step **step);
/* Buckets, by graph and job only; and the elements of one. */
QS_API int qs_schedule_draft_buckets(const qs_schedule_draft *draft);
QS_API int64_t qs_schedule_draft_bucket_elements(const qs_schedule_draft *draft, int bucket);

/* ---- The cases of all plans ---------------------------------------------------------------------------------------------------- */

/* Plans as indices of recipes, which together contain every case that any plan over these recipes contains. */
typedef struct qs_case_plans {
    int plans, nodes;
    unsigned char *choice; /* (plans × nodes); 0 for nodes that take no recipe */
} qs_case_plans;
/* Every operator is brought into all surroundings that it can have: recipe, formats of inputs and output, and what readers want of it. That
 * takes tens of plans, with five recipes up to 300. At most 256 recipes; lowering->recipe and its lookup are not used. QS_UNSUPPORTED for
 * models of which too many values are alive at once. Release with qs_case_plans_release. */
QS_API qs_status qs_schedule_case_plans(const qs_lowering *lowering, int recipes, const qs_recipe *recipe, qs_case_plans *out);
QS_API void qs_case_plans_release(qs_case_plans *plans);
/* Asks the lowering's lookup once for every case that any plan over these recipes contains, and for no other. Then `visit`, unless NULL,
 * is told each; one that serves both as a kernel of the model and as a conversion, twice. */
typedef qs_status (*qs_case_visit)(void *context, const qs_draft_case *one, bool conversion);
QS_API qs_status qs_schedule_cases(const qs_lowering *lowering, int recipes, const qs_recipe *recipe, qs_case_visit visit, void *context);

/* What a step finds cold: bytes of its operands and scratch that a least-recently-used cache of cache_bytes has thrown out since they were
 * last touched, in this iteration or the one before, into cold[schedule->steps]; 0 for all-reduce steps. Needs the packed arena: which
 * memory a buffer inherits decides whether it is still cached. */
QS_API qs_status qs_schedule_cold_bytes(const qs_schedule *schedule, int64_t cache_bytes, int64_t *cold);
/* What a step finds cold at least, wherever it stands in any schedule whose arena has at most so many bytes. */
QS_API int64_t qs_schedule_cold_bytes_least(const qs_step *step, int64_t cache_bytes, size_t arena_bytes);

/* Hash over steps, kernels and memory offsets: "xxh64:%016x" into buffer[32]; returns it. */
QS_API const char *qs_schedule_hash(const qs_schedule *schedule, char *buffer);
/* QS_MISMATCH naming the first step (or buffer) in which two schedules differ; QS_OK when they are the same. */
QS_API qs_status qs_schedule_compare(const qs_schedule *expected, const qs_schedule *actual);
/* QS_INFEASIBLE with both figures when the arena exceeds `limit` bytes (<= 0: no limit); `who` names the class. */
QS_API qs_status qs_schedule_fits(const qs_schedule *schedule, int64_t limit, const char *who);

#endif
