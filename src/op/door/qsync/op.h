// SPDX-License-Identifier: Apache-2.0
/* op: the operators, their passes, and the reference kernels.
 *
 * An *operator* (ops.def, one file each) has shape rule, class, parameters, what it saves for backward, and *passes*: the kernels that a
 * device runs for it (conv2d has forward, input_gradient and weight_gradient). Casts, quantization, statistics, finite check and optimisers
 * are operators too: lowering places them and the cost model prices them like any other.
 *
 * A *case* is one pass with attributes and operands bound to shapes and formats. Its text is the key by which kernels are looked up, timed
 * and remembered. A case says nothing about where data lies, which operator of a model it serves, or which device runs it.
 *
 * Every pass has a reference kernel in plain C that works for any formats: it decodes operands to fp32, accumulates in double where a sum
 * is formed unless the definition says otherwise, and encodes the result. Integer GEMMs are exact. Devices are tested against it. */
#ifndef QSYNC_OP_H
#define QSYNC_OP_H

#include "qsync/number.h"
#include "qsync/tensor.h"

/* ---- Operands ------------------------------------------------------------------------------------------------------- */

/* Role of an operand in a pass; the text is used in case keys. */
#define QS_ROLE_LIST(X)                                                                                                  \
    X(QS_SRC, "src")                                                                                                     \
    X(QS_SRC2, "src2")                                                                                                   \
    X(QS_SRC3, "src3")                                                                                                   \
    X(QS_SRC_STEP, "src_step") /* fp32 [1]: fixed-point step of an integer src */                                        \
    X(QS_SRC2_STEP, "src2_step")                                                                                         \
    X(QS_SRC_GROUP, "src_group")       /* int8 [C]: channel c of src has the step src_step 2^-group (ShiftQuant) */      \
    X(QS_WEIGHTS, "weights")           /* conv2d [O, I/groups, kh, kw], linear [O, I] */                                 \
    X(QS_WEIGHTS_STEP, "weights_step") /* fp32 [1] or [O]; in the input gradient [1] or [I/groups] */                    \
    X(QS_BIAS, "bias")                 /* fp32 [O] */                                                                    \
    X(QS_SCALE, "scale")               /* of normalisations: γ, fp32 [C] */                                             \
    X(QS_SHIFT, "shift")               /* of normalisations: β, fp32 [C] */                                             \
    X(QS_MEAN, "mean")                 /* of the batch, fp32 [C]; in layer norms of each position, fp32 [N·H·W] */     \
    X(QS_VARIANCE, "variance")         /* biased, shaped as mean */                                                      \
    X(QS_DEVIATION, "deviation")       /* mean |x - mean|, or standard deviation, shaped as mean */                      \
    X(QS_RUNNING_MEAN, "running_mean")                                                                                   \
    X(QS_RUNNING_VARIANCE, "running_variance")                                                                           \
    X(QS_RUNNING_DEVIATION, "running_deviation")                                                                         \
    X(QS_MASK, "mask")     /* relu: one bit an element, int8 [ceil(count/8)]; max_pool: argmax in the window, int8 */    \
    X(QS_LABELS, "labels") /* int32 [N]; of L positions [N,L], of spans [N,2]; carried in fp32 format slots (4 bytes) */ \
    X(QS_TARGET, "target") /* real numbers that are to be met, fp32 [N,R] */                                             \
    X(QS_IDS, "ids")       /* rows of a table, int32 [N,L], carried as labels are */                                     \
    X(QS_KEEP, "keep")     /* 1 where a position counts, 0 where it is padding, int32 [N,L], carried as labels are */    \
    X(QS_DST, "dst")                                                                                                     \
    X(QS_DST_STEP, "dst_step")           /* fp32 [1] or [channels]: step a quantize pass used */                         \
    X(QS_DST_GROUP, "dst_group")         /* int8 [C]: shift groups a quantize pass found */                              \
    X(QS_LOSS, "loss")                   /* fp32 [2]: sum of the losses, count of correct answers */                     \
    X(QS_ABSMAX, "absmax")               /* fp32 [1] or [channels]; beside a result: [1], the largest magnitude of it */ \
    X(QS_COLUMN_ABSMAX, "column_absmax") /* fp32 [channels along axis 1]: a by-product of quantizing rows */             \
    X(QS_DIFF_DST, "diff_dst")                                                                                           \
    X(QS_DIFF_DST2, "diff_dst2")           /* the other part of a gradient that comes in two */                          \
    X(QS_DIFF_DST_STEP, "diff_dst_step")   /* as src_step, of an integer diff_dst */                                     \
    X(QS_DIFF_DST_GROUP, "diff_dst_group") /* int8 [O]: as src_group */                                                  \
    X(QS_DIFF_SRC, "diff_src")                                                                                           \
    X(QS_DIFF_SRC2, "diff_src2")                                                                                         \
    X(QS_DIFF_SRC3, "diff_src3")                                                                                         \
    X(QS_DIFF_WEIGHTS, "diff_weights") /* fp32, written (not accumulated) */                                             \
    X(QS_DIFF_BIAS, "diff_bias")                                                                                         \
    X(QS_DIFF_SCALE, "diff_scale")                                                                                       \
    X(QS_DIFF_SHIFT, "diff_shift")                                                                                       \
    X(QS_MOMENTUM, "momentum")           /* optimiser state, fp32, flat: of gradients */                                 \
    X(QS_SECOND_MOMENT, "second_moment") /* the same: of their squares */                                                \
    X(QS_FLAG, "flag")                   /* fp32 [1]: 1 when all values were finite, else 0; accumulates by minimum */   \
    X(QS_STATISTICS, "statistics")       /* see the statistics operator */                                               \
    X(QS_PACKED, "packed")               /* the rounded values in the storage of their format */                         \
    X(QS_COUNTS, "counts")               /* qs_rounding_counts, carried in fp32 slots [4] */                             \
    X(QS_PLACE, "place")                 /* of the first position in its sequence, int32 [1,1], carried as labels are */ \
    X(QS_KEY_CACHE, "key_cache")         /* keys of a sequence's positions, fp32 [places, channels] */                   \
    X(QS_VALUE_CACHE, "value_cache")     /* the same: values */
#define QS_ROLE_ENUM(id, text) id,
typedef enum qs_role { QS_ROLE_LIST(QS_ROLE_ENUM) QS_ROLE_COUNT } qs_role;
#undef QS_ROLE_ENUM
QS_API const char *qs_role_name(qs_role role);
/* The format of all operands of a role: int8 for masks and groups, fp32 for steps, sums and parameters; NULL for the values of a model,
 * which come in any. */
QS_API const qs_format *qs_role_format(qs_role role);
/* Operands of the role hold int32 in fp32 slots: labels, ids, keep, place. */
QS_API bool qs_role_is_integers(qs_role role);

#define QS_MAX_OPERANDS 12

typedef struct qs_operand {
    qs_role role;
    qs_shape shape;
    const qs_format *format; /* NULL: this optional operand is absent */
} qs_operand;

typedef struct qs_attributes {
    int kernel[2];        /* height, width; conv2d, conv_transpose, max_pool, average_pool */
    int stride[2];        /* 0 means 1 */
    int dilation[2];      /* places from one tap of the window to the next; 0 means 1 */
    int padding[2];       /* zeros above and to the left (pools: padded values never win, averages count them not) */
    int padding_more[2];  /* so many more below and to the right; less where negative; 0: as many */
    int groups;           /* 0 means 1; conv2d, channel_shuffle */
    int offset;           /* slice: the first channel or position taken; positions: the first row */
    int axis;             /* 0 or 1 (channels-last: innermost in memory): whose indices have a step each, with per_channel; or along which
                            * values are transformed, with hadamard */
    int hadamard;         /* block of a Hadamard transform, 2 ... QS_MOST_HADAMARD; 0: none. absmax, quantize: of the values that they see;
                            * weight_gradient: both factors were transformed over the samples, which only diff_bias has to know */
    int shifts;           /* number of shift groups (ShiftQuant) of the grouped operand that the sum runs over; 0: none */
    double epsilon;       /* normalisations: added to the spread; adam */
    double momentum;      /* batch norms: share of the batch in running statistics (new = (1-m) old + m batch); sgd */
    double probability;   /* dropout: of an element to be dropped */
    double ceiling;       /* relu, or with the attribute `relu`: the largest result (ReLU6: 6); 0: none */
    double beta1, beta2;  /* adam */
    double weight_decay;  /* sgd, adam */
    double clip_norm;     /* clip_norm: the bound */
    double vocabulary;    /* embedding: rows of the table */
    double heads;         /* attention, matmul, rotary: matrices that lie side by side in the channels of a sequence */
    double key_heads;     /* attention, matmul: those of keys and values, each read by heads / key_heads of the others; 0: as many */
    double causal;        /* attention, softmax: 1: position m sees the positions up to m */
    double window;        /* the same two: 1 or more: position m sees k where |m - k| is below it; 0: none */
    double sequences;     /* attention, positions, position: so many, of equal lengths, one behind the other in the positions; 0: 1 */
    double along;         /* concat, slice: 1: along positions, not channels; recurrence: which way along them */
    double transposed;    /* matmul: 1: the second factor is taken transposed */
    double merged;        /* matmul: 1: the results of heads lie side by side in the channels of a sequence */
    double scale;         /* softmax: what values are multiplied by before; 0: 1 */
    double base;          /* rotary: of the wave lengths */
    double position;      /* position: which one is taken, from the end where it is negative */
    double approximate;   /* gelu: 1: by tanh */
    double context;       /* cached_attention: places of its caches */
    double size;          /* local_response_norm: channels of a sum; recurrence: biases of a gate */
    double alpha, beta;   /* local_response_norm: factor and power of a sum */
    double bias;          /* local_response_norm: added to a sum */
    double mode;          /* pad, resize: what is written; recurrence: its cell; see there */
    double value;         /* pad: of what is written around the image */
    double height, width; /* resize: extents of the result; 0: they follow from its scales */
    double scale_height, scale_width; /* resize: of the result over the image; 0: what the extents say */
    double coordinates;               /* resize: how places of the result lie on the image; see there */
    double nearest;                   /* resize: how a place is rounded; see there */
    double extent[5];                 /* permute: of a sample; reshape, expand: height, width and channels of the result */
    double order;                     /* permute: in which order the extents stand in the result, a digit each; recurrence: of its gates */
    double over;                      /* gain, offset, prelu: what has a number of its own; reductions: along what is reduced */
    double constant[2];               /* of functions of one number, under the names that they give them */
    qs_rounding rounding;             /* cast, quantize, round, recurrence */
    qs_overflow overflow;             /* cast, round */
    const qs_format *to; /* round: the float format whose values it leaves; recurrence: of codes that it multiplies; NULL elsewhere */
    const struct qs_block_format *blocks; /* block_round: of its values (qsync/blocks.h) */
    const qs_format *gradients;           /* recurrence: of codes of gradients; NULL: none */
    bool batched;                         /* cast, quantize, round, dropout: axis N is samples, random counters follow the global sample */
    bool relu;                            /* normalisations, add: a relu behind, done in the same kernel */
    bool count_padding;                   /* average_pool: a mean is over the whole window, zeros of the padding included */
    bool accumulate;       /* backward passes of operators that may share their table: its gradient is added to what stands there */
    bool least_squares;    /* quantize: steps are of the range of least squared error (qs_clip_find), not of the largest magnitude */
    bool per_channel;      /* absmax, quantize, dequantize: a step for each index of `axis`; statistics: channels on axis 0, not 1 */
    qs_narrow accumulator; /* of products of floats: what each sum is formed in; all 0: the device's own (fp32 or better) */
} qs_attributes;

/* What a run needs beyond operands; the same for all kernels of a step. */
typedef struct qs_run {
    uint64_t seed, step;
    uint64_t operator_id;   /* of the step at hand: keys random draws */
    uint64_t stream;        /* tells the draws of one operator apart */
    int64_t first_sample;   /* global position of this rank's first sample in the step */
    int64_t samples;        /* this rank's samples (== batch, or fewer in a padded evaluation batch: the rest is ignored by the loss) */
    int64_t global_samples; /* of all ranks, what the loss is the mean of: samples, or the labels that count where positions have them;
                             * its gradient is scaled by loss_scale / global_samples */
    double loss_scale;      /* 1 when loss scaling is off; optimisers divide it out */
    double label_smoothing; /* ε of losses over classes, 0 ... 1: the share of targets that all classes have alike; 0 in evaluation */
    double learning_rate;
    int64_t updates; /* that the weights have had before this step; those that loss scaling skipped do not count */
} qs_run;

/* ---- Operators and passes ------------------------------------------------------------------------------------------------ */

typedef enum qs_op_class {
    QS_ADJUSTABLE, /* takes any recipe of its device: conv2d, conv_transpose, linear, matmul, recurrence */
    QS_DEPENDENT,  /* follows its inputs' precision */
    QS_FIXED,      /* fp32: loss, optimiser */
    QS_AUXILIARY   /* placed by lowering, never a graph node: cast, quantize, ... */
} qs_op_class;

/* What is known of an output's sign. */
typedef enum qs_sign { QS_SIGN_ANY, QS_SIGN_KEPT, QS_SIGN_NEVER_NEGATIVE } qs_sign; /* KEPT: not negative where no input is */

/* What a position of the output depends on where values are sequences: how a decoder computes the next one alone (qs_graph_decoder). */
typedef enum qs_decoding {
    QS_ALL_POSITIONS,    /* more than that: nothing can be computed before all positions are there */
    QS_ONE_POSITION,     /* the same position of the inputs */
    QS_PLACED_POSITION,  /* that and its place in the sequence: the last input, an optional one, says where the first position stands */
    QS_EARLIER_POSITIONS /* that and those before it, where causal: `cached` names the operator that keeps what it needs of them */
} qs_decoding;

struct qs_case;
/* Runs a case on operands in the order of case->operand (absent ones have format NULL). */
typedef qs_status (*qs_reference_kernel)(const struct qs_case *one, const qs_tensor *operands, const qs_run *run);

/* The operands of a pass in their order: QS_OPERANDS({.role = ..., .source = ...}, ...). */
#define QS_OPERANDS(...) .operands = sizeof((qs_pass_operand[]){__VA_ARGS__}) / sizeof(qs_pass_operand), .operand = {__VA_ARGS__}

/* Where lowering finds an operand of a pass of a graph's node, or lets it be written. Operands of auxiliary operators are its own affair;
 * they say whether they are read (QS_GIVEN), written (QS_MADE) or both (QS_UPDATED). */
typedef enum qs_source {
    QS_GIVEN,
    QS_FROM_INPUT,     /* the value of input `of`, absent where the node lacks it; a backward pass reads what forward read, saved for it */
    QS_FROM_PARAMETER, /* the node's parameter of this role */
    QS_FROM_FORWARD,   /* what the forward pass wrote in this role (QS_TO_BACKWARD) */
    QS_FROM_GRADIENT,  /* the gradient of the output */
    QS_FROM_SECOND_GRADIENT, /* the gradient of the output comes in two parts that nobody has added yet: the other part; absent where it is
                              * whole */
    QS_FROM_RESIDUAL,        /* what the sum behind the norm adds, where the norm's kernels do that sum; absent where they do not */
    QS_FROM_TARGET,          /* of the batch */
    QS_STEP_OF,              /* of the operand of role `of`, where that is in fixed point */
    QS_GROUPS_OF,            /* shift groups of that operand, where it has some */
    QS_MADE,                 /* from here on: written */
    QS_TO_OUTPUT,
    QS_TO_BACKWARD,       /* a result beside the output, kept for backward passes; its shape is qs_op.beside. An optional one is written in
                         * training where a backward pass needs it, or the attribute relu does (QS_MASK) */
    QS_TO_LOSS,           /* sums of the loss */
    QS_TO_INPUT_GRADIENT, /* of input `of` */
    QS_TO_PARAMETER_GRADIENT,
    QS_ABSMAX_OF,        /* the largest magnitude of the operand of role `of`, where a quantizer will want it */
    QS_UPDATED,          /* from here on: read, too */
    QS_UPDATED_PARAMETER /* the node's parameter of this role */
} qs_source;

/* An operand as a pass declares it. */
typedef struct qs_pass_operand {
    qs_role role;
    qs_source source;
    int of;        /* number of an input, or a role: see qs_source */
    bool optional; /* a case may lack it */
    bool integer;  /* may have an integer format (a mask always is int8) */
} qs_pass_operand;

/* The three GEMMs of an adjustable operator. */
typedef enum qs_gemm { QS_GEMM_FORWARD, QS_GEMM_INPUT_GRADIENT, QS_GEMM_WEIGHT_GRADIENT, QS_GEMMS } qs_gemm;

/* A pass that is a matrix product, with batch dimensions or without: a recipe has a quantizer for each of its two factors, which are
 * parameters or activations. Passes of adjustable operators are called after their GEMM. The factors are those that a recipe calls src and
 * weights (forward), diff_dst and weights (input_gradient), src and diff_dst (weight_gradient; where the second factor forward is an
 * activation, this is the gradient of that). */
typedef struct qs_product {
    qs_gemm gemm;
    qs_role factor[2];
} qs_product;

typedef struct qs_pass {
    const char *name; /* "forward", "input_gradient", "weight_gradient", "backward", "inference" */
    int operands;
    qs_pass_operand operand[QS_MAX_OPERANDS];
    const qs_product *product; /* NULL: it is none */
    qs_reference_kernel reference;
    double (*flops)(const struct qs_case *one);    /* 2 per multiply-add; NULL: one per element of the first operand */
    qs_status (*check)(const struct qs_case *one); /* the pass's own part of qs_case_check; presence, extents, formats by role precede it */
} qs_pass;

typedef struct qs_parameter_rule {
    const char *name;       /* "weights", "bias", "scale", "shift", "running_mean", "running_variance" */
    qs_role role, gradient; /* gradient role; QS_ROLE_COUNT for untrained ones */
    qs_shape shape;
    float initial;  /* constant start value when fan_in is 0 */
    int64_t fan_in; /* > 0: normal with variance 2/fan_in (He), or 1/fan_in for a last layer */
} qs_parameter_rule;
#define QS_MAX_PARAMETERS 4

/* A number among the attributes that an operator declares as its own, under whose name it stands in texts of cases. Of optimisers it is a
 * hyperparameter: a field of the job's optimizer and an option of the program, too. */
#define QS_MOST_SETTINGS 8
typedef struct qs_setting {
    const char *name;   /* "weight_decay"; NULL behind the last */
    size_t field;       /* where it lies in qs_attributes */
    double standard;    /* what 0 stands for in a case; of an optimiser's: what a job has that says nothing */
    double least, most; /* the range, ends included */
    const char *text;   /* what it is, for manuals */
} qs_setting;
#define QS_SETTING(name, standard, least, most, text) QS_SETTING_AS(#name, name, standard, least, most, text)
/* The same under another name than its field's. */
#define QS_SETTING_AS(name, field, standard, least, most, text) \
    { name, offsetof(qs_attributes, field), standard, least, most, text }

/* How a normalisation normalises: what its reference and the devices' kernels go by. */
typedef struct qs_norm {
    bool per_position;       /* over the channels of each position (layer norm), not over the positions of each channel */
    bool absolute;           /* the deviation is mean |x - mean| (L1), and backward goes by the signs of x - mean */
    bool quantized;          /* src is int8 with a step, and every vector takes 8 bits */
    qs_role spread, running; /* QS_VARIANCE and QS_RUNNING_VARIANCE, or QS_DEVIATION and QS_RUNNING_DEVIATION; running: not per_position */
} qs_norm;

/* ---- Optimisers ---- */

/* An optimiser is an operator whose pass updates flat fp32 weights from flat fp32 gradients: forward src weights <states> flag?, every
 * element by itself, in one pass over memory. All that rooms above know of one stands here: lowering gives every state a buffer of its own
 * beside the weights, the job its settings, devices run its kernels on ranges of elements. */
#define QS_MOST_STATES 2
#define QS_UPDATE_TERMS 12

/* Updates `count` elements: reads the gradient, reads and writes weights and states. The arrays do not overlap. */
typedef void (*qs_update_kernel)(int64_t count, const float *term, const float *gradient, float *weights, float *const *state);

typedef struct qs_optimizer {
    int states;                                                                   /* those of its pass, behind QS_WEIGHTS; 0 at the start */
    double rate;                                                                  /* base learning rate of a job that says none */
    void (*terms)(const qs_attributes *settings, const qs_run *run, float *term); /* what all elements of a step share */
    struct {
        const char *isa;
        qs_update_kernel run; /* NULL: this build has none */
    } kernel[3];              /* the same bits from all */
} qs_optimizer;

enum {
    QS_TAKES_WINDOW = 1, /* kernel, stride, dilation, padding */
    QS_TAKES_GROUPS = 2,
    QS_TAKES_OFFSET = 4,
    QS_TAKES_BATCHED = 8,
    QS_TAKES_OUTPUTS = 16, /* a number of outputs */
    QS_TAKES_BIAS = 32,    /* may have one */
    QS_TAKES_PADDING = 64, /* padding without a window */
    QS_TAKES_COUNT = 128   /* count_padding */
};

typedef struct qs_op qs_op;
struct qs_op {
    const char *name;
    qs_op_class kind;
    int inputs;   /* activations in; 0 for auxiliary */
    int optional; /* that many of them, the last ones, a node may lack: operands from them are absent then */
    /* Output shape (batch included) from input shapes; QS_USAGE with the figures on impossible ones. NULL: that of the first input.
     * `outputs` = output channels or features of conv2d, linear, slice and embedding, else ignored. */
    qs_status (*infer)(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst);
    /* Parameters for an input shape; returns their number. NULL: none. `bias` says whether an optional bias is wanted. */
    int (*parameters)(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out);
    /* Shape of a result beside the output (QS_TO_BACKWARD), from that of the output, batch included. NULL: there is none. */
    qs_shape (*beside)(const qs_op *op, qs_role role, const qs_shape *dst);
    unsigned takes;       /* QS_TAKES_...: what of a node's attributes it looks at, beside its settings */
    qs_sign sign;         /* of the output */
    bool alias;           /* moves no data: flatten, sequence, reshape */
    bool image_features;  /* what is one behind another in the result are the channels of each pixel; files order the weights of its
                           * readers by channel first: flatten */
    bool training_only;   /* outside training an alias of its input: dropout */
    bool behind_norm;     /* a normalisation before it may do it in its own kernels (attribute relu) */
    bool does_relu;       /* takes the attribute relu as normalisations do: add */
    bool converts;        /* stores the values of src in another format: cast, quantize */
    bool any_size;        /* which kernel runs, and what that needs, depends on no shape: cast, round */
    bool shares;          /* other nodes may read its QS_WEIGHTS as theirs: its backward pass takes the attribute accumulate */
    bool evaluation_only; /* has no place in training: cached_attention */
    qs_decoding decoding; /* of a sequence */
    bool (*takes_all)(const qs_attributes *attributes); /* with these attributes it is QS_ALL_POSITIONS all the same; NULL: with none */
    const char *cached;  /* of QS_EARLIER_POSITIONS: the operator of the same inputs and then the place, with caches */
    const char *mirror;  /* the operator that this one is the other way around, whose kernels run it (qs_case_mirror); NULL: none */
    bool updates;        /* as optimisers do: what it writes it has read, and its settings are data to its kernels */
    int class_axis;      /* losses over classes: the axis of src that they lie on; 0: it is none */
    const qs_norm *norm; /* normalisations; NULL: it is none */
    const struct qs_inner *inner;  /* adjustable ones with products inside their passes (qsync/inner.h); NULL: it is none */
    const qs_optimizer *optimizer; /* NULL: it is none */
    qs_setting setting[QS_MOST_SETTINGS];
    int passes;
    const qs_pass *pass;
    /* Test cases: text of cases (qs_case_parse) that every device is checked on; NULL-terminated. */
    const char *const *cases;
};
/* Its passes are products of their operands: adjustable, and products do not lie inside of them (qsync/inner.h). */
static inline bool qs_op_multiplies(const qs_op *op) {
    return op->kind == QS_ADJUSTABLE && !op->inner;
}

/* Puts the standard where a setting is 0 (but those of optimisers, which their job gives), and 1 for a stride, dilation or groups of 0.
 * Graphs do so when a node is added, and so does qs_case_make. */
QS_API void qs_attributes_complete(const qs_op *op, qs_attributes *attributes);
/* Output shape of an operator by its infer rule. */
QS_API qs_status qs_op_infer(const qs_op *op, const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst);
/* Operator by name; QS_USAGE with the list otherwise. */
QS_API qs_status qs_op_find(const char *name, const qs_op **out);
/* The same for names that are known to exist; asserts. */
QS_API const qs_op *qs_op_of(const char *name);
/* In the order of ops.def; NULL past the end. */
QS_API const qs_op *qs_op_at(size_t index);
/* Pass of an operator by name, or NULL. */
QS_API const qs_pass *qs_op_pass(const qs_op *op, const char *name);
/* Position of a role among the operands of a pass (NULL: none), or -1. */
QS_API int qs_pass_position(const qs_pass *pass, qs_role role);
/* The pass writes this operand. */
QS_API bool qs_pass_writes(const qs_pass *pass, int operand);
/* A backward pass reads the value of an input as forward read it: the value is saved. */
QS_API bool qs_op_saves(const qs_op *op, int input);
/* In training the forward pass writes this operand (a QS_TO_BACKWARD) of a node with these attributes. */
QS_API bool qs_op_keeps(const qs_op *op, const qs_attributes *attributes, const qs_pass_operand *operand);
/* Number of its settings; place of one by name, -1: it has no such setting. */
QS_API int qs_op_settings(const qs_op *op);
QS_API int qs_op_setting(const qs_op *op, const char *name);
/* Value of the setting at a place; 0 behind the last. */
QS_API double qs_op_value(const qs_op *op, const qs_attributes *attributes, int place);
/* Attributes from values of its settings in their order. */
QS_API qs_attributes qs_op_attributes(const qs_op *op, const double *setting);
/* An optimiser by name; QS_USAGE with the list otherwise. */
QS_API qs_status qs_optimizer_find(const char *name, const qs_op **out);
/* Their names in the order of ops.def; NULL past the end. */
QS_API const char *qs_optimizer_name_at(size_t index);
/* The role of one of its states. */
QS_API qs_role qs_optimizer_state(const qs_op *op, int index);
/* Its kernel for "portable", "avx2" or "avx512". */
QS_API qs_update_kernel qs_optimizer_kernel(const qs_optimizer *optimizer, const char *isa);
/* What clip_norm multiplies gradients by: `squares` is the sum of their squares, still times loss_scale². 1: they stay as they are. */
QS_API float qs_clip_norm_factor(double bound, double squares, double loss_scale);

/* Passes, operands in this order (? = optional). Operators that are not listed here are defined at the head of their file.
 *   conv2d, linear
 *     forward            src src_step? src_group? weights weights_step? bias? dst
 *     input_gradient     weights weights_step? diff_dst diff_dst_step? diff_dst_group? diff_src
 *     weight_gradient    src src_step? src_group? diff_dst diff_dst_step? diff_dst_group? diff_weights diff_bias?
 *   batch_norm, l1_batch_norm, and quantized l1_batch_norm_int8, l2_batch_norm_int8, l2_batch_norm_int8_std
 *     forward            src src_step? scale shift mean variance running_mean running_variance src2? mask? dst absmax?   mean..
 *                        running_variance and mask written
 *     inference          src src_step? scale shift running_mean running_variance src2? dst
 *     backward           src src_step? scale mean variance mask? diff_dst diff_src diff_scale diff_shift absmax?
 *                        L1 and std have deviation and running_deviation for the variances; src_step stands where src is int8, the mask
 *                        where the attribute relu is; src2, of floats alone, is what a sum behind the norm adds: backward knows nothing
 *                        of it, a relu behind the sum has a backward pass of its own
 *   layer_norm, l1_layer_norm, and quantized l1_layer_norm_int8
 *     forward            src src_step? scale shift mean variance mask? dst absmax?   mean.. mask written
 *     inference          src src_step? scale shift dst
 *     backward           src src_step? scale mean variance mask? diff_dst diff_src diff_scale diff_shift absmax?
 *                        L1 has deviation for the variance; src_step stands where src is int8
 *   relu                 forward src mask? dst absmax?;  backward mask diff_dst diff_dst2? diff_src absmax?
 *   add                  forward src src2 mask? dst absmax?    (dst may be src's memory; its backward needs no kernel; gradients of shared
 *                        values are summed with it; a mask stands only where the attribute relu is)
 *   max_pool             forward src mask? dst;  backward mask diff_dst diff_src
 *   average_pool, global_average_pool
 *                        forward src dst;  backward diff_dst diff_src
 *   flatten              no passes: [N,C,H,W] to [N, H·W·C] in memory order
 *   dropout              forward src dst;  backward diff_dst diff_src    both draw the same mask from the run's key
 *   softmax_cross_entropy
 *                        forward src labels loss;  backward src labels diff_src
 *   cast                 forward src dst         float storage to float storage
 *   round                forward src dst counts?;  pack src dst packed counts?    simulated formats: dst (may be src's memory) stays fp32
 *   absmax               forward src absmax
 *   quantize             forward src absmax dst dst_step dst_group?
 *   dequantize           forward src src_step src_group? dst
 *   finite_check         forward src flag
 *   clip_norm            forward src(gradient) flag?   scales src in place; skipped when flag is 0
 *   statistics           forward src statistics  raw statistics of one tensor (indicator): fp64 values in fp32 slots, see
 *                        qs_statistics_head
 *   sgd                  forward src(gradient) weights momentum flag?   v = m v + (g/scale + d w); w -= lr v; skipped when flag is 0
 *   adam                 forward src(gradient) weights momentum second_moment flag?   skipped when flag is 0
 *
 * Definitions that every device keeps (x channels-last; results rounded to their format nearest-even unless said otherwise):
 *   conv2d, linear       both factors integer, with their steps, or both float, without. Integer sums are exact, whatever their length: a
 *                        kernel splits or widens where 32 bits could overflow. With c the channel of a code t and s its operand's step:
 *                          forward          Σ t 2^-src_group[c] w · src_step · weights_step[o] + bias[o]
 *                          input gradient   Σ t 2^-diff_dst_group[c] w · diff_dst_step · weights_step[i]; i counts within a group of the
 *                                           convolution
 *                          weight gradient  Σ x y · src_step 2^-src_group[i] · diff_dst_step 2^-diff_dst_group[o]: channels are no inner
 *                                           dimension, so their scales stay outside; diff_bias[o] likewise
 *                        `shifts` G says that groups are below G: in forward and input gradient, where their operand has groups.
 *                        `hadamard` B, in weight gradients of integers with diff_bias: factors are those of values transformed over the
 *                        samples in blocks of B. The sum over a block of samples is sqrt(B) times its first transformed one, so
 *                        diff_bias[o] = sqrt(B) Σ over the first sample of every block; diff_weights needs nothing
 *   batch_norm           over the R = N·H·W >= 2 values of a channel: mean, biased variance; dst = (x - mean) / sqrt(variance + epsilon) ·
 *                        scale + shift; running = (1 - momentum) running + momentum batch, where the batch variance enters unbiased,
 *                        times R/(R-1). Where there is a src2, of this and of l1_batch_norm, it is added before dst is rounded, once
 *   l1_batch_norm        the same with deviation = mean |x - mean|: dst = (x - mean) / (deviation + epsilon) · scale + shift; the running
 *                        deviation takes the batch's as it is. Backward (docs/method.md §9.6), with n = (x - mean) / (deviation
 *                        + epsilon) and g = dy · scale: diff_src = (g - mean(g) - mean(g n) (sign(x - mean) - mean(sign))) / (deviation +
 *                        epsilon), sign(0) = 0; the derivative wherever no x is its channel's mean
 *   layer_norm, l1_layer_norm
 *                        the formulas of batch_norm and l1_batch_norm over the C >= 2 channels of each position, by its own mean and
 *                        spread; scale and shift by channel, nothing running. Backward: g = dy · scale differs from channel to channel
 *                        and stands inside the means; diff_scale = Σ dy n and diff_shift = Σ dy over all positions
 *   ..._int8             x = src_step · code. Every vector is rounded, nearest-even, to 8 bits with one step: scale, shift, spread with
 *                        step = qs_step_of_absmax, mean with step src_step / 2^p for the largest p in -8 ... 8 that holds it, so that x -
 *                        mean is a whole multiple of one unit. Sums of codes, of squares (L2) and of |x - mean| (L1, from the rounded mean)
 *                        and differences are integers, whatever unit adds them; dst is one rescale of the difference by the channel's
 *                        factor, plus shift. l2_batch_norm_int8 rounds the variance, ..._std its root and divides by deviation + epsilon.
 *                        mean, variance and deviation hold the rounded values; running ones are averages of unrounded ones, rounded
 *                        where they are used. Backward is the formula of the operator that is not quantized, at the rounded x, mean,
 *                        spread and scale (straight-through); its arithmetic is fp32, since gradients come in float formats.
 *                        In l1_layer_norm_int8 a position shares no step with others but src's: its mean and its deviation have a
 *                        step of src_step / 2^p each, for the largest p up to 8 that holds it. Its deviation is src_step / 4 at least,
 *                        that of src's own rounding errors: positions whose codes are all the same would have gradients of 1 / epsilon
 *   relu (attribute)     dst, once rounded to its format, passes through relu with this ceiling; backward reads diff_dst through the mask.
 *                        Of add: the bits of add, then of relu in dst's format
 *   relu                 positive part, ceiling where x >= ceiling > 0; a NaN passes (mask bit 1). Mask bit i & 7 of byte i >> 3 is
 *                        element i in memory order: 1 where 0 < x < ceiling. Of a gradient in two parts, diff_dst + diff_dst2 is rounded
 *                        to the format of diff_src before the mask
 *   max_pool             mask: kh · kernel[1] + kw of the first maximum in the window (padding counted in kh, kw); a NaN wins
 *   conv2d, pools        result r reads places r · stride - padding + k · dilation for k = 0 ... kernel - 1. There are as many results as
 *                        windows that lie in `padding` + image + (`padding` + `padding_more`) places
 *   average_pool         mean over the window's elements inside the image: padding counts not; with `count_padding` it does, so that
 *                        every sum is divided by the elements of a whole window. A pool's windows must all reach the image
 *   global_average_pool  dst [N,C,1,1], or [N,C,1] of [N,C,L]
 *   dropout              element i is kept when qs_random_uniform(key, first + i) >= (float)probability; kept ones are scaled by
 *                        1/(1 - probability); key and first from qs_op_random_rows
 *   softmax_cross_entropy loss[0] = -Σ t_c log p_c, loss[1] = rows whose first maximum is the label, of run->samples samples; diff_src =
 *                        (p - t) · loss_scale / global_samples, else 0. Rows (samples or positions) have t_c = ε/C, the label 1 - ε more
 *   round                dst = qs_round_array of src into the format `to`; packed is dst in the storage of `to`, counts are of this call
 *   absmax (operand)     beside dst or diff_src: what absmax of that operand gives, of the values as they are stored
 *   absmax               NaN or infinity anywhere in its range gives a non-finite result. With `hadamard` B: of the values transformed
 *                        along `axis` in blocks of B, which divides that extent
 *   quantize             step = qs_step_of_absmax; one step, or with per_channel one for each index of `axis`. With `shifts` G (axis 1):
 *                        groups and step by qs_shift_groups from the channels' maxima, unsigned formats in the form QS_UNSIGNED. With
 *                        `hadamard`: one step, codes of the transformed values as absmax saw them; no unsigned format
 *   finite_check         flag = min(flag, all finite ? 1 : 0): set it to 1 before the first check of a step
 *   clip_norm            norm = sqrt(Σ src²) / loss_scale, in double, Σ src² as qs_norm2_array; where it is finite and above the setting
 *                        clip_norm c, each element is multiplied by (float)(c / norm), rounded to fp32: bit-identical on every device
 *   sgd                  all in fp32, each operation rounded, no fused multiply-add: bit-identical on every device. With s = (float)(1 /
 *                        loss_scale): t = g·s; t = t + d·w; v = m·v + t; w = w - lr·v. Settings: momentum m, weight decay d
 *   adam                 as exact: Adam (Kingma and Ba, 2015, algorithm 1) with decoupled weight decay (AdamW: Loshchilov and Hutter,
 *                        2019, algorithm 2, where the decay is multiplied by the rate). Settings: beta1, beta2, epsilon, weight decay d.
 *                        In double, rounded once: a = lr / (1 - beta1^t), r = 1 / sqrt(1 - beta2^t), k = lr·d, 1 - beta1, 1 - beta2, with
 *                        t = updates + 1. In fp32: g = g·s; m = beta1·m + (1 - beta1)·g; v = beta2·v + ((1 - beta2)·g)·g, each 0 where
 *                        it is below the smallest normal number; w = w - (a·(m / (sqrt(v)·r + epsilon)) + k·w) */

/* A narrow accumulator (attributes) adds the products of an output element in this order, zeros of the padding included; a chunk is so many
 * of these numbers k:
 *   forward              k = (kh · KW + kw) · I + i    input channel i of the group fastest
 *   input_gradient       k = (kh · KW + kw) · O + o    output channel o of the group fastest; where a stride leaves no result for a kernel
 *                                                      position its numbers have no products, and what lies outside the results is 0
 *   weight_gradient      k = (n · OH + oh) · OW + ow   the results of the local batch
 * The sum, a value of the accumulator, is what the pass makes of it otherwise: the bias is added to it in fp32, then dst is rounded. Bias
 * gradients are no GEMM and stay sums in double. Bits are the same on every device, for any threads and instruction set.
 *
 * Stochastic rounding draws as qs_narrow_draws says, for column c (output channel; input_gradient: input channel) of row r: first =
 * 2^32 r + c, stride = number of columns. Rows are pixels, numbered over the global batch, of dst or diff_src; of weight gradients they are
 * the weights (kh · KW + kw) · I + i of an output channel. */

/* Random counters of the passes that draw (cast, quantize, round with QS_STOCHASTIC; dropout): the elements, in memory order, are cut into
 * rows (samples when batched, indices of axis 0 when per_channel or transformed along it, else one row); element i of row r draws with
 * counter first + r · stride + i.
 * A batched pass numbers its rows by global sample, so draws do not depend on how samples are spread over ranks. stride is per_row rounded
 * up to an even number (dropout: per_row itself), so that two-draws-a-hash kernels start every row on a whole hash. */
typedef struct qs_random_rows {
    uint64_t key; /* of (seed, step, operator_id, stream) */
    uint64_t first, stride;
    int64_t rows, per_row;
} qs_random_rows;

/* ---- Cases ------------------------------------------------------------------------------------------------------------ */

typedef struct qs_case {
    const qs_op *op;
    const qs_pass *pass;
    qs_attributes attributes;
    int operands; /* == pass->operands */
    qs_operand operand[QS_MAX_OPERANDS];
} qs_case;

#define QS_CASE_TEXT 512
/* Canonical key: "conv2d/forward src=int8[128,16,32,32] ... dst=bf16[...] kernel=3x3 padding=1x1"; absent operands and default attributes
 * are left out. `text` holds QS_CASE_TEXT bytes; returns it. */
QS_API const char *qs_case_text(const qs_case *one, char *text);
/* Inverse of qs_case_text. */
QS_API qs_status qs_case_parse(const char *text, qs_case *out);
/* Starts a case: all operands absent, attributes completed (NULL: all default). Asserts that op and pass exist. */
QS_API qs_case qs_case_make(const char *op, const char *pass, const qs_attributes *attributes);
/* The same from the operator and one of its passes, in place: lowering makes millions of them, and a case is large. */
QS_API void qs_case_start(qs_case *one, const qs_op *op, const qs_pass *pass, const qs_attributes *attributes);
/* Binds an operand by role; asserts that the pass has it. */
QS_API void qs_case_bind(qs_case *one, qs_role role, qs_shape shape, const qs_format *format);
/* Position of a role among the case's operands, or -1 when the pass lacks it. */
QS_API int qs_case_position(const qs_case *one, qs_role role);
/* Checks presence, shapes and formats against each other; QS_USAGE with the rule. Called before any kernel is chosen. */
QS_API qs_status qs_case_check(const qs_case *one);
QS_API double qs_case_flops(const qs_case *one);
/* Cases are equal exactly when their texts are; equal cases have equal hashes, which mean something within one process only. */
QS_API bool qs_case_equal(const qs_case *a, const qs_case *b);
QS_API uint64_t qs_case_hash(const qs_case *one);
/* Bytes read plus bytes written: each operand once, what an optimiser updates in place twice. */
QS_API double qs_case_bytes(const qs_case *one);
/* The case by which one of an operator that is another's mirror is computed, and for each operand of it the place of what it is among the
 * operands of `one` (-1: absent). false: it is computed as it is. */
QS_API bool qs_case_mirror(const qs_case *one, qs_case *out, int place[QS_MAX_OPERANDS]);
/* Runs the reference kernel. */
QS_API qs_status qs_case_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run);

/* The ids of a case are rows of its table, or positions of its sequence (gather); QS_USAGE names the first that is none. */
QS_API qs_status qs_ids_check(const qs_case *one, const int32_t *ids);

/* How the logits of a cross-entropy lie in src: row r of sample n begins at element n · rows · classes + r · next_row. */
typedef struct qs_logits {
    int64_t samples, rows;        /* rows: of each sample */
    int64_t classes;              /* of a row */
    int64_t next_row, next_class; /* elements from one to the next */
    double weight;                /* of a row in the loss of its sample */
    bool all;                     /* a sample is right where all its rows are; else every row is right or wrong by itself */
    bool ignores;                 /* rows with a negative label count for nothing */
} qs_logits;
QS_API qs_logits qs_case_logits(const qs_case *one);
/* The labels (samples × rows) are classes, or negative where that is allowed; QS_USAGE names the first that is not. */
QS_API qs_status qs_logits_check(const qs_logits *logits, const int32_t *labels, int64_t samples);

/* Keys and counters of a pass that draws, see qs_random_rows. */
QS_API qs_random_rows qs_op_random_rows(const qs_case *one, const qs_run *run);
/* Draws of column 0 of a row, counted from the local batch's first, of a case with a narrow accumulator. */
QS_API qs_narrow_draws qs_op_narrow_draws(const qs_case *one, const qs_run *run, int64_t row);

/* Layout of the statistics operand: fp64 values. Bytes needed for a tensor whose axis 1 (activations) or 0 (weights) has `channels`. */
typedef struct qs_statistics_head {
    double count, norm2, absmax, minimum, maximum;
    double variance_int8; /* exact Σ q² f(1-f) of stochastic int8 rounding with the tensor-wise step */
    double variance_bf16, variance_fp16;
    double variance_int8_channel;   /* with one step a channel; channels on axis 0 only, else 0 */
    double exponents[QS_EXPONENTS]; /* as qs_summary */
    double channels;                /* followed by the minimum and the maximum of each channel (fp64), NaN passed over */
} qs_statistics_head;
QS_API size_t qs_statistics_bytes(int64_t channels);
/* Fills the operand for values in memory order; `rows`: channels are rows (axis 0 of weights), else columns (axis 1, last in memory). */
QS_API void qs_statistics_measure(int64_t count, int64_t channels, bool rows, const float *values, void *statistics);

#endif
