// SPDX-License-Identifier: Apache-2.0
/* graph: the model as a DAG of operators, and the built-in models (models.def).
 *
 * The first nodes are the inputs (op NULL), one for each of `samples`. Nodes stand in topological order; the last one is the loss. Shapes
 * hold batch size 1 on axis N: lowering binds the batch. Parameters are listed in node order and lie in that order in flat fp32 buffers,
 * each start aligned to 16 elements; frozen ones lie behind those that are trained. */
#ifndef QSYNC_GRAPH_H
#define QSYNC_GRAPH_H

#include "qsync/op.h"
#include "qsync/samples.h"

#define QS_MAX_INPUTS 4

typedef struct qs_node {
    char name[64];   /* "stage1.block0.conv1" */
    const qs_op *op; /* NULL for inputs */
    qs_attributes attributes;
    int inputs;
    int input[QS_MAX_INPUTS]; /* node indices, all smaller than this one's */
    qs_shape shape;           /* of the output, N = 1 */
    int first_parameter, parameters;
    int64_t outputs; /* that were asked for, and whether a bias was */
    bool bias;
    int consumers; /* number of nodes that read the output */
    int table;     /* the node before it whose weights it reads as its own; 0: it has its own (node 0 is an input) */
    bool shared;   /* another node reads its weights */
} qs_node;

/* Where a parameter of an imported model comes from. */
typedef struct qs_parameter_origin {
    char file[96];   /* its tensor's name in weights files; "": as checkpoint calls it */
    bool transposed; /* there a matrix is [in, out] */
    bool constant;   /* of the model: frozen, whatever else is */
    qs_shape shape;  /* in files; axes 0: its own */
} qs_parameter_origin;

typedef struct qs_parameter {
    char name[96]; /* "stage1.block0.conv1.weights" */
    int node;
    qs_role role, gradient; /* gradient == QS_ROLE_COUNT: not trained (running statistics) */
    qs_shape shape;
    int64_t offset; /* elements, within the flat buffer of trained parameters or of running statistics */
    float initial;
    int64_t fan_in;
    float gain;  /* variance of the start is gain/fan_in */
    bool frozen; /* it could be trained and is not (qs_graph_freeze): it has a gradient's role, and no gradient */
    qs_parameter_origin origin;
} qs_parameter;

typedef struct qs_graph {
    char name[QS_MODEL_NAME]; /* "resnet8", with options: "resnet8:width=0.5" */
    int nodes;
    qs_node *node;
    int parameters;
    qs_parameter *parameter;
    int64_t trained_elements, statistics_elements; /* sizes of the flat buffers, alignment included */
    int64_t frozen_elements;                       /* of the weights, behind the trained ones; gradients have none for them */
    qs_samples samples;                            /* what it takes and learns; the target is empty until qs_graph_finish */
    size_t node_capacity, parameter_capacity;      /* of the arrays above, while building */
} qs_graph;

/* ---- Building ------------------------------------------------------------------------------------------------------------ */

/* Starts a graph with its inputs, called `unit` in texts ("images"): nodes 0 .. inputs - 1, of the inputs' names. Extents (height, width,
 * channels) make a node of shape (1, channels, height, width), (length, features) one of (1, features, length), (length) one of
 * (1, length); integers of extents (sequences, length) one of (1, sequences · length), one behind the other. A first extent that varies is
 * bound to its maximum. QS_USAGE names an input that no node can be. */
QS_API qs_status qs_graph_create(const char *name, const char *unit, int inputs, const qs_input *input, qs_graph **out);
/* The same for one image, or vector of `channels` fp32 features where height and width are 0, called "input". */
QS_API qs_status qs_graph_of_images(const char *name, int channels, int height, int width, qs_graph **out);
QS_API void qs_graph_release(qs_graph *graph);
/* Appends a node: one generic call for all operators. attributes NULL: the operator's defaults. `outputs` = output channels or features
 * of conv2d, linear and slice (else 0), `bias` wants one. *node receives its index. QS_USAGE with node name and figures on impossible
 * shapes; the graph then is as it was. Inputs of integers are read by operators with operands of such roles alone: tables (ids), which must
 * have as many rows as the input's bound, and whatever leaves out padding (keep: 0 or 1). An input without a bound gets theirs. */
QS_API qs_status qs_graph_add(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int inputs,
                              const int *input, int64_t outputs, bool bias, int *node);
/* The same for a node that reads the weights of the node `table` before it as its own (the output layer of a language model, tied to the
 * table of its embedding: Press and Wolf 2017). The parameter stays the table's; its gradient is the sum of both. QS_USAGE where shapes
 * differ, where `table` is no operator that shares (embedding), or shares already. */
QS_API qs_status qs_graph_add_tied(qs_graph *graph, const char *name, const char *op, const qs_attributes *attributes, int inputs,
                                   const int *input, int64_t outputs, bool bias, int table, int *node);
/* Ends the graph with the loss of its target on `input`; fills consumers, checks that every node reaches the loss (inputs beyond the first
 * may go unread: samples may have more than a model looks at). `input` gives (batch, classes) for a class, (batch, classes, positions) for
 * classes of positions, (batch, 2, positions) for a span, (batch, numbers) for real numbers; QS_USAGE else. target NULL: one of as many
 * classes as `input` has columns. */
QS_API qs_status qs_graph_finish(qs_graph *graph, int input, const qs_target *target);

/* Says where a parameter (index in the finished graph) comes from; a constant is frozen from then on. Offsets move, as by qs_graph_freeze,
 * whose earlier patterns are forgotten. QS_USAGE where the extents in files have another number of values, or a transposed one is no
 * matrix. */
QS_API qs_status qs_graph_origin_set(qs_graph *graph, int parameter, const qs_parameter_origin *origin);
/* What training leaves as it is: parameters whose names match one of the patterns (fnmatch), with commas between them: "embeddings.*". ""
 * takes freezing back, but for constants. It moves the parameters' offsets, so it comes before anything that keeps some. Neither names nor
 * signature change; running statistics do not either, and are updated as they were. QS_USAGE names a pattern that no parameter matches, and
 * says so when nothing is left to train; the graph then is as it was. */
QS_API qs_status qs_graph_freeze(qs_graph *graph, const char *patterns);
/* The layer of every node, counted from the last one, which is 0, into layer[nodes]. The graph is cut wherever all that follows depends on
 * one value (beside integers of the input), so that a residual block stays whole; a piece with a product (an adjustable operator) begins a
 * layer, others belong to the layer before them, those at the start (tables, norms) make one of their own where they have parameters.
 * Attention and feed-forward of a transformer's layer so are two. */
QS_API qs_status qs_graph_layers(const qs_graph *graph, int *layer);

/* ---- Lengths --------------------------------------------------------------------------------------------------------------- */

/* The same model for samples of another length: names, parameters, their places and what is frozen are the graph's own, shapes follow from
 * the length; learned positions read the first rows of their table. So weights, gradients and all that lasts of the one are the other's.
 * QS_USAGE names the node whose parameters depend on the length, and says so where no input varies. Release with qs_graph_release. */
QS_API qs_status qs_graph_of_length(const qs_graph *graph, int64_t length, qs_graph **out);
/* A model at each of some lengths. */
typedef struct qs_graph_lengths {
    int count;                              /* at least 1 */
    const qs_graph *graph[QS_MOST_LENGTHS]; /* the last is the model itself */
    qs_graph *made[QS_MOST_LENGTHS];        /* those that are to be released */
} qs_graph_lengths;
/* Lengths as a job has them; none: the model alone. QS_USAGE unless the longest is the length of the model's samples. The graph outlives
 * them. Release with qs_graph_lengths_release, also after a failure. */
QS_API qs_status qs_graph_lengths_make(const qs_graph *graph, const qs_lengths *lengths, qs_graph_lengths *out);
QS_API void qs_graph_lengths_release(qs_graph_lengths *one);

/* ---- Decoding ------------------------------------------------------------------------------------------------------------ */

/* The graph that continues sequences of a decoder, a model that says at each position which id comes next: inputs "ids", the next
 * `positions` positions of one sequence, and "place", where the first of them stands, from 0; logits of these positions as the model would
 * give them behind all positions before, whose keys and values its operators keep from run to run (cached_attention) for `context` places.
 * It runs in evaluation with batch 1. Weights have the model's order and offsets, all of them frozen; graphs of one model and context have
 * the same persistent memory whatever their positions. A model's input of what counts (keep) is left out. QS_UNSUPPORTED says why a model
 * is no decoder, and names the operator: images, one class for a sequence, attention that is not causal, maxima over positions; QS_USAGE
 * where a table of positions has fewer rows than the context. Release with qs_graph_release. */
QS_API qs_status qs_graph_decoder(const qs_graph *model, int64_t positions, int64_t context, qs_graph **out);

/* ---- Files --------------------------------------------------------------------------------------------------------------- */

/* graph.json (docs/records.md): canonical text (caller frees), and a file, written whole or not at all. A graph that was written and read
 * again has the same text, signature and start values. QS_UNSUPPORTED names an operator with attributes that only lowering sets. */
QS_API qs_status qs_graph_text(const qs_graph *graph, char **json);
QS_API qs_status qs_graph_write(const qs_graph *graph, const char *path);
/* Builds the graph that a file, or a text, describes; every operator goes through qs_graph_add. QS_BAD_FILE names operator, value and rule:
 * unknown operators, attributes that an operator does not take, inputs that stand behind their reader (so cycles), shapes, parameters and
 * signatures other than those that follow. `source` is for messages. Release with qs_graph_release. */
QS_API qs_status qs_graph_read(const char *path, qs_graph **out);
QS_API qs_status qs_graph_parse(const char *json, const char *source, qs_graph **out);

/* The graph that a record describes, by the same rules; QS_USAGE or QS_BAD_FILE as they come. The record stays the caller's. What a target
 * without an extent (0) is of how many classes, positions or numbers, follows from the output. */
struct qs_graph_record;
QS_API qs_status qs_graph_of_record(const struct qs_graph_record *record, qs_graph **out);

/* ---- Asking -------------------------------------------------------------------------------------------------------------- */

/* d_o: longest path from the input to each node, counted from 1 at the input's first reader (docs/method.md §3.3), into depth[nodes];
 * input = 0. */
QS_API void qs_graph_depths(const qs_graph *graph, int *depth);
/* As what operators read an input of integers: QS_IDS, QS_KEEP or QS_PLACE; QS_ROLE_COUNT: it is of another type. */
QS_API qs_role qs_graph_integers(const qs_graph *graph, int input);
/* Shape of a node's output for a batch. */
QS_API qs_shape qs_graph_shape(const qs_graph *graph, int node, int64_t batch);
/* Index of a node by name, -1 when absent. */
QS_API int qs_graph_find(const qs_graph *graph, const char *name);
/* The node's parameter whose role or gradient role this is, that of its table where it is tied to one; NULL when it has none. */
QS_API const qs_parameter *qs_graph_parameter(const qs_graph *graph, int node, qs_role role);
/* Signature over operators, attributes, shapes (batch excluded) and names: xxHash-64 as "xxh64:%016x" into buffer[32]; returns it. */
QS_API const char *qs_graph_signature(const qs_graph *graph, char *buffer);
/* Start values of the weights, trained and frozen, and of the running statistics (mean 0, variance 1), from `seed`, the same for any thread
 * or rank count: a draw is keyed by parameter index and element. Gaps that alignment leaves are 0. */
QS_API void qs_graph_initialize(const qs_graph *graph, uint64_t seed, float *trained, float *statistics);

/* The relu that a normalisation does behind itself, in its own kernels: its only reader, when that is one; else -1. Lowering then gives
 * the normalisation the attribute relu, and the relu no kernel. */
QS_API int qs_graph_fused_relu(const qs_graph *graph, int node);
/* What a sum of two may do in its forward pass on devices that join them (qs_lowering.joins), while backward passes stay apart: the relu
 * behind it, found in the same way, and a normalisation that nothing else reads, one of the two that it adds up; else -1. */
QS_API int qs_graph_joined_relu(const qs_graph *graph, int node);
QS_API int qs_graph_joined_norm(const qs_graph *graph, int node);
/* Whether a node moves no data, its output being only another name of its first input's: operators like flatten, and relus that the
 * normalisation before them does. */
QS_API bool qs_graph_is_name(const qs_graph *graph, int node);

/* ---- Cost on paper ---------------------------------------------------------------------------------------------------------- */

/* Whether a gradient is formed of a parameter: neither of running statistics nor of what is frozen. */
QS_API bool qs_parameter_learns(const qs_parameter *parameter);
/* needed[i]: a gradient of node i's output is wanted, since the node has trained parameters or one before it has. */
QS_API void qs_graph_gradients(const qs_graph *graph, bool *needed);
/* Shape of an operand of one of a node's passes, for a batch; false where the graph does not know it (steps, absmax) or the node lacks it
 * (bias). */
QS_API bool qs_graph_operand_shape(const qs_graph *graph, int node, const qs_pass_operand *operand, int64_t batch, qs_shape *out);
/* A case of one pass of a node with every operand that the graph knows bound in fp32 (masks in int8): what FLOPs are counted on. */
QS_API qs_case qs_graph_case(const qs_graph *graph, int node, const qs_pass *pass, int64_t batch);

/* A node on paper, for `inspect` and estimates. */
typedef struct qs_node_summary {
    const char *kind; /* "input", "adjustable", "dependent", "fixed" */
    qs_shape shape;   /* of the output, for the batch */
    int depth;
    int64_t parameters;   /* trained ones, alignment not counted */
    double forward_flops; /* 2 per multiply-add */
    double total_flops;   /* with the backward passes that run: the stem's input gradient does not */
    int64_t saved_bytes;  /* kept from forward to backward */
} qs_node_summary;
/* Fills out[nodes]. Adjustable operators save their input in `compute`, dependent ones in `storage` (of an int8 plan: the class's half
 * storage format, docs/method.md §4.3; of a float plan: the same as compute), fixed ones in fp32; masks are one bit (relu) or one byte (max
 * pool) an element of the output; batch norm keeps mean and variance. A tensor that several nodes save in one format counts once, at
 * the first; so the input image counts once in fp32 where compute is fp32, and else as the stem's cast of it. */
QS_API qs_status qs_graph_summarize(const qs_graph *graph, int64_t batch, const qs_format *compute, const qs_format *storage,
                                    qs_node_summary *out);

/* ---- Blocks ---------------------------------------------------------------------------------------------------------------- */

/* A block: nodes first .. end - 1. Blocks of one kind are isomorphic: operators, attributes, shapes, parameters and the edges among their
 * nodes agree, and the i-th node of one corresponds to the i-th of another. What a block reads from outside and who reads it are not part
 * of its kind. */
typedef struct qs_block {
    int first, end;
    int adjustable;  /* how many of its nodes are */
    int kind;        /* counted from 0 as kinds first appear */
    const int *node; /* (end - first): ascending in the first block of a kind, in the others by correspondence */
} qs_block;
typedef struct qs_blocks {
    int blocks;
    qs_block *block; /* in the order of nodes; every node but the input is in exactly one */
    int kinds;
    int *representative; /* (kinds) the first block of each */
    int *node;           /* what the blocks' lists point into */
} qs_blocks;
/* Cuts the graph where all that follows depends on one value alone (beside integers of the input), so that a residual or attention block
 * stays whole and a chain falls into its operators; batch norms and relus belong to the block before them, pooling and flatten to the one
 * behind. Kinds are found by hashes of the neighbourhood and confirmed node by node: blocks of one kind are isomorphic for certain, and
 * copies made by the same code are found. Near linear in nodes. Release with qs_blocks_release. */
QS_API qs_status qs_graph_blocks(const qs_graph *graph, qs_blocks *out);
QS_API void qs_blocks_release(qs_blocks *blocks);

/* ---- Tensors and their groups ------------------------------------------------------------------------------------------------ */

/* A tensor of one gradient computation (docs/method.md §7.1) and, where one is formed, its gradient, which has its shape. Inputs, but
 * for integers, and every operator's output are tensors, except what moves no data (flatten: its output is its input) and the loss; so
 * are trained parameters. A tensor counts once, however many operators read it. */
typedef struct qs_graph_tensor {
    int node;         /* whose output it is, or whose parameter */
    int parameter;    /* index in the graph; -1: an output */
    int group;        /* see qs_graph_groups */
    int64_t elements; /* at the batch; the gradient has as many again */
    bool gradient;    /* one is formed: none of the inputs */
} qs_graph_tensor;
typedef struct qs_tensor_group {
    int leader; /* the multiplication that names it; -1: the last group, of what only the loss reads */
    int tensors;
    int64_t elements;  /* of its tensors and their gradients: its size (§5) */
    int64_t demotable; /* of these, without gradients of parameters, which stay in high precision */
} qs_tensor_group;
typedef struct qs_groups {
    int tensors;
    qs_graph_tensor *tensor; /* in node order, a node's parameters before its output */
    int groups;
    qs_tensor_group *group; /* in the order of their leaders */
    int64_t elements, demotable;
} qs_groups;
/* Tensors between adjacent matrix multiplications (adjustable operators) form a group (§5). An output belongs to the group of the
 * multiplication that consumes it next downstream; where branches lead to several (a residual sum's, a concatenation's), to the first of
 * them in node order. Parameters belong where the value that their operator reads does: a multiplication's weights share the group of the
 * activation that feeds it, and several multiplications that read one value are one group, led by the first. Every group but the last
 * has a leader: what reaches no multiplication any more, the loss' input, is the last. Release with qs_groups_release. */
QS_API qs_status qs_graph_groups(const qs_graph *graph, int64_t batch, qs_groups *out);
QS_API void qs_groups_release(qs_groups *groups);
/* "conv1", "input"; "conv1.weights": as in plans. */
QS_API const char *qs_graph_tensor_name(const qs_graph *graph, const qs_graph_tensor *tensor);

/* ---- Models --------------------------------------------------------------------------------------------------------------- */

/* Opens a model: the path of a graph.json (it ends in .json), that of an ONNX file (.onnx, maybe with options of the import behind it:
 * qsync/onnx_import.h), or a built-in name with options as below; and behind each, changes. Built-in models take the size and the classes
 * of `samples`; where images are too small for the model, it takes its standard size (they are then centred in padding). A file has its
 * own size: QS_MISMATCH where it cannot be fed from `samples`. samples NULL: the model's own standard ones. Release with
 * qs_graph_release. */
QS_API qs_status qs_model_open(const char *text, const qs_samples *samples, qs_graph **out);
/* The same with parameters frozen, as qs_graph_freeze says: what a job trains (its model and freeze). */
QS_API qs_status qs_model_open_frozen(const char *text, const char *freeze, const qs_samples *samples, qs_graph **out);
/* Whether a text is a path, maybe with changes behind it. */
QS_API bool qs_model_is_file(const char *text);
/* Whether what the text opens brings weights of its own, which a run starts from unless it is told others: the text then opens them too
 * (qs_weights_open). */
QS_API bool qs_model_has_weights(const char *text);

/* Changes stand behind a model in its text, "resnet18.json+head=10+dropout=0.1@layer4.*", so that whatever names the model names them too;
 * they are part of the graph's name and signature.
 *   +head=N          the last adjustable operator with outputs of its own (linear; the 1×1 convolution of squeezenet) gets N; a tied
 *                    one its own weights
 *   +loss=NAME       cross-entropy (a class), token (a class for each position), span or mse (real numbers); without it, the target's own
 *   +dropout=P       dropout in front of that last layer; P@PATTERNS: behind all operators whose names match (fnmatch, commas between).
 *                    Dropout that is there gets the probability P
 * What is learned of how many classes, positions or numbers follows from the output then. */
/* Where the changes begin in a model's text: at its end where there are none. What stands before is the path of a file. */
QS_API const char *qs_model_changes(const char *text);
/* The text with a change ("head") of that value, in the place of one that it had. QS_USAGE when it does not fit out[capacity]. */
QS_API qs_status qs_model_change(const char *text, const char *what, const char *value, size_t capacity, char *out);
/* Whether a change gives the model a new head: its parameters (qs_graph_head) then start anew, whatever weights there are. */
QS_API bool qs_model_has_new_head(const char *text);
/* The node that a new head replaces; -1: the graph has no such layer. */
QS_API int qs_graph_head(const qs_graph *graph);

typedef struct qs_model_input {
    int channels, height, width, classes;
} qs_model_input;
/* Builds a built-in model: "resnet8", or with options "resnet8:width=0.5,norm=l1bn": width multiplies channel counts, which become
 * multiples of 8, at least 8; norm names the normalisation, see qs_norm_name_at. Transformers (bert, gpt2, vit, ...) take
 * sizes by name and by numbers: "bert:mini,layers=2,dropout=0", docs/models.md. graph->name holds the canonical name: options that change
 * nothing are left out. input NULL: the model's own standard input (CIFAR 3×32×32, 10 classes; ImageNet 3×224×224, 1000; lenet5 and mlp
 * 1×28×28; of tokens, 128 or 256 of the model's vocabulary); models of tokens take no other here. QS_USAGE lists models for an unknown name
 * and says which sizes a model cannot take. */
QS_API qs_status qs_model_build(const char *name, const qs_model_input *input, qs_graph **out);
/* Names in the order of models.def; NULL past the end. */
QS_API const char *qs_model_name_at(size_t index);
/* Normalisations that models can be built with (norms.def), the usual one first: "l2bn" batch_norm, "l1bn" l1_batch_norm, "l1bnq"
 * l1_batch_norm_int8, "l2bnq" l2_batch_norm_int8, "l2bnq-std" l2_batch_norm_int8_std, "ln" layer_norm, "l1ln" l1_layer_norm, "l1lnq"
 * l1_layer_norm_int8, "rms" rms_norm; NULL past the end. */
QS_API const char *qs_norm_name_at(size_t index);
/* The longest sequence that a built-in model of tokens takes: its positions, or its length where they have no limit. QS_USAGE for a model
 * of images. */
QS_API qs_status qs_model_positions(const char *name, int64_t *out);
/* A model's own standard input; QS_USAGE for a model of tokens. */
QS_API qs_status qs_model_input_of(const char *name, qs_model_input *out);

#endif
