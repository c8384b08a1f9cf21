// SPDX-License-Identifier: Apache-2.0
/* What the files of this room share: the draft of a schedule. A schedule is emitted in segments (one per node and direction, and the
 * update); what a segment emits follows from facts about its node and its neighbours alone, never from what happened to be emitted before,
 * so that any segment can be emitted again after a change. */
#ifndef QSYNC_SCHEDULE_INTERNAL_H
#define QSYNC_SCHEDULE_INTERNAL_H

#include "qsync/schedule.h"

/* Random streams within one node: independent draws for each converted operand and each GEMM's narrow accumulator (QS_STREAM_SUM +
 * qs_gemm); passes of the node itself (dropout) draw from stream 0. */
typedef enum qs_stream {
    QS_STREAM_VALUE = 1,
    QS_STREAM_WEIGHTS,
    QS_STREAM_INPUT_WEIGHTS,
    QS_STREAM_GRADIENT,
    QS_STREAM_SAVED,
    QS_STREAM_SUM,
    QS_STREAM_ROUND_VALUE = QS_STREAM_SUM + QS_GEMMS,
    QS_STREAM_ROUND_GRADIENT,
    QS_STREAM_ROUND_PARAMETER,                                   /* the last one plus the role */
    QS_STREAM_SECOND = QS_STREAM_ROUND_PARAMETER + QS_ROLE_COUNT /* of a quantizer with draw2: plus what it were without */
} qs_stream;

/* ---- Buffers of a draft ---- */

/* A converted operand takes up to four buffers. */
enum { QS_PART_ABSMAX, QS_PART_VALUES, QS_PART_STEP, QS_PART_GROUP, QS_PARTS };
/* What a buffer is to the node whose segment makes it. Node and slot number a buffer of a draft: the number outlives changes elsewhere. */
typedef enum qs_slot {
    QS_SLOT_VALUE,
    QS_SLOT_MASK,
    QS_SLOT_MEAN,
    QS_SLOT_SPREAD, /* variance or deviation */
    QS_SLOT_VALUE_ABSMAX,
    QS_SLOT_INPUT, /* parts for each input that this node is the first to want in some form */
    QS_SLOT_WEIGHTS = QS_SLOT_INPUT + QS_PARTS * QS_MAX_INPUTS,
    QS_SLOT_STATISTICS = QS_SLOT_WEIGHTS + QS_PARTS, /* src, weights, diff_dst */
    QS_SLOT_GRADIENT = QS_SLOT_STATISTICS + 3,       /* parts twice: for the weight gradient, for the input gradient */
    QS_SLOT_SAVED = QS_SLOT_GRADIENT + 2 * QS_PARTS, /* parts by input */
    QS_SLOT_INPUT_WEIGHTS = QS_SLOT_SAVED + QS_PARTS * QS_MAX_INPUTS,
    QS_SLOT_DIFF_SRC = QS_SLOT_INPUT_WEIGHTS + QS_PARTS,    /* these by input */
    QS_SLOT_DIFF_ABSMAX = QS_SLOT_DIFF_SRC + QS_MAX_INPUTS, /* of the gradient of the first input */
    QS_SLOT_DIFF_CAST,
    QS_SLOT_DIFF_SUM = QS_SLOT_DIFF_CAST + QS_MAX_INPUTS,
    QS_SLOT_PACKED = QS_SLOT_DIFF_SUM + QS_MAX_INPUTS, /* the output in its saved format */
    QS_SLOT_UNPACKED,                                  /* an input that was saved packed, for this node's backward pass */
    QS_SLOT_ROUNDED_PARAMETER,                         /* for the backward pass; forward's lies in the place of the gradient */
    QS_SLOT_ROUNDED_GRADIENT,                          /* of the output, where others still read it as it came */
    QS_SLOT_ROUNDED_FROZEN,                            /* these by parameter (qs__parameter_slot): what has no place of a gradient, */
    QS_SLOT_UNUSED_GRADIENT = QS_SLOT_ROUNDED_FROZEN + 1 + QS_MAX_PARAMETERS, /* and the gradient where a pass cannot leave it out */
    QS_SLOTS = QS_SLOT_UNUSED_GRADIENT + 1 + QS_MAX_PARAMETERS
} qs_slot;

/* A buffer that a segment makes: its number and what its name and size will be. */
typedef struct qs_made {
    int number, node; /* node: the one it is named after */
    const char *what, *kind;
    size_t bytes;
    qs_category category;
} qs_made;

/* ---- Facts ---- */

enum { QS_MAX_COPIES = 8 };

/* A form of a value, gradient or weights that lies somewhere. */
typedef struct qs_copy {
    qs_quantizer quantizer;
    int buffer, step_buffer, group_buffer; /* step_buffer: fixed-point step, -1 for floats; group_buffer: -1 without shift groups */
} qs_copy;

/* The gradient of a value after a reader's contribution. */
typedef struct qs_gradient {
    int buffer;               /* -1: none yet */
    int second;               /* what the pass that reads the gradient adds to it, where it can; -1: nothing */
    bool owned;               /* no other reader: sums may be formed in place */
    const qs_format *rounded; /* every value is one of this format; NULL: not known */
} qs_gradient;

/* What a node's segments and its neighbours' follow from, besides recipes. */
typedef struct qs_facts {
    const qs_format *value, *need;    /* storage format of the output; what its adjustable readers need of it */
    qs_quantizer want[QS_MAX_INPUTS]; /* the form in which each input is read; format NULL: it is not */
} qs_facts;

/* What never changes. Edges are (node × QS_MAX_INPUTS + input). */
typedef struct qs_topology {
    bool *needs_gradient; /* (nodes) */
    bool *non_negative;   /* (nodes) outputs that cannot be negative */
    int *root;            /* (nodes) the node in whose buffer the output lies: operators that move no data hand on their input's */
    int *first_reader;    /* (nodes + 1) into reader[] */
    int *reader;          /* edges that read each node, ascending */
    int *before, *after;  /* (edges) of the gradient contributions to one node: the one before, the one after; -1: none */
    int *last;            /* (nodes) the last contribution to its gradient; -1: none */
    int *bucket_of;       /* (parameters) the bucket that this gradient, written last, completes; -1: none */
} qs_topology;

/* Nobody contributed yet. */
static inline qs_gradient qs__no_gradient(void) {
    return (qs_gradient){.buffer = -1, .second = -1};
}

/* ---- Segments ---- */

/* A segment's use of a buffer. */
typedef struct qs_touch {
    int number, segment;
    int first, last; /* steps within the segment */
    struct qs_touch *previous, *next;
} qs_touch;

typedef struct qs_segment {
    int steps, mades, touches;
    qs_draft_step *step;
    qs_made *made;
    qs_touch *touch;
    qs_gradient gradient[QS_MAX_INPUTS]; /* of each input after this segment's contribution */
    struct qs_segment *next;             /* among the retired ones */
} qs_segment;

/* The segment being emitted. */
typedef struct qs_build {
    int node;
    qs_phase phase;
    int steps, mades;
    size_t step_capacity, made_capacity;
    qs_draft_step *step;
    qs_made *made;
    qs_gradient gradient[QS_MAX_INPUTS];
    qs_gradient rounded; /* of the node's output, behind its rounding; buffer -1: as it came */
    bool again;          /* forward steps are emitted once more, for backward (recompute.c) */
    bool reading;        /* emitted only to see what is read: gradients are left out */
    int gradient_copies;
    qs_copy gradient_copy[2];
} qs_build;

typedef struct qs_case_slot {
    uint64_t hash;
    qs_draft_case *entry; /* NULL: free */
} qs_case_slot;

typedef struct qs_cases {
    size_t slots; /* a power of two */
    int count;
    qs_case_slot *slot;
} qs_cases;

/* Bits in ascending or descending order. */
typedef struct qs_marks {
    int words;
    uint64_t *word;
} qs_marks;

/* ---- Journal: what a change replaced, in order ---- */

typedef enum qs_entry_kind { QS_ENTRY_RECIPE, QS_ENTRY_FACTS, QS_ENTRY_SEGMENT } qs_entry_kind;
typedef struct qs_entry {
    qs_entry_kind kind;
    int index;
    union {
        const qs_recipe *recipe;
        qs_facts facts;
        qs_segment *segment;
    } old;
} qs_entry;

typedef struct qs_journal {
    int entries, changes;
    size_t entry_capacity, change_capacity;
    qs_entry *entry;
    int *change; /* the first entry of each change */
} qs_journal;

/* A range of a bucket that learns alike. */
typedef struct qs_update_span {
    int bucket;
    int64_t first, count; /* elements of the flat buffers */
    double rate;          /* part of the run's */
    bool decays;
} qs_update_span;

/* Blocks that are computed again for backward. What the forward part of their nodes makes has a second number then, under which the
 * backward phase sees it; all but what is read outside the block, and what passes write beside outputs. */
typedef struct qs_recompute {
    int *last;    /* (nodes) the last node of a node's block; -1: it is in none. NULL: no block is */
    bool *value;  /* (nodes) what lies in the node's buffer is made again */
    bool *copies; /* (nodes) and so are converted forms of its output: all who read it are in one such block */
    bool *needed; /* (nodes × QS_SLOTS) scratch */
} qs_recompute;

/* An auxiliary operator and its one pass. */
typedef struct qs_auxiliary {
    const qs_op *op;
    const qs_pass *pass;
} qs_auxiliary;

typedef struct qs_live qs_live;

/* Who follows the segments of a draft, in changes and when they are taken back: live bytes. */
typedef struct qs_segment_listener {
    /* The touches of steps that will be a segment, into memory that the next call uses again. */
    qs_status (*touches)(qs_live *live, int steps, const qs_draft_step *step, int segment, const qs_touch **out, int *count);
    void (*swapped)(qs_live *live, int index, qs_segment *old, qs_segment *now); /* old NULL: there was none */
    void (*release)(qs_live *live);
} qs_segment_listener;

struct qs_schedule_draft {
    qs_lowering in; /* its recipes are copied, see `recipe` */
    const qs_graph *graph;
    qs_schedule *frame; /* the buffers that belong to no segment, and the buckets */
    qs_topology topology;
    qs_recompute recompute;
    const qs_recipe **recipe; /* (nodes); into `recipes` */
    int recipes;
    size_t recipe_capacity;
    qs_recipe **recipe_known;
    qs_facts *facts;                                           /* (nodes) */
    const qs_format *fp32, *int8, *role_format[QS_ROLE_COUNT]; /* found once: names are looked up slowly */
    const qs_format *unsigned_of[9];                           /* integer formats for values that cannot be negative, by bits; NULL: none */
    qs_auxiliary cast, block_round, absmax, quantize, dequantize, sum, statistics, check, clip, optimizer, round, pack;
    qs_cases cases;
    qs_build build;
    int segments;
    qs_segment **segment, *retired;
    qs_marks dirty, need_dirty, value_dirty, changed;
    int spans; /* of updates */
    qs_update_span *span;
    bool journaling;
    qs_journal journal;
    qs_segment_change *report;
    const qs_segment_listener *listener; /* NULL: live bytes are not followed */
    qs_live *live;
};

/* ---- A step under construction: the case and where its operands lie ---- */
typedef struct qs_pending {
    int node;
    uint64_t stream;
    bool conversion;
    int bucket;
    double rate; /* of an update: part of the run's */
    qs_case case_;
    qs_place place[QS_MAX_OPERANDS];
} qs_pending;

/* ---- Numbers ---- */

static inline int qs__number(const qs_schedule_draft *draft, int node, int slot) {
    return draft->frame->buffers + node * QS_SLOTS + slot;
}
/* As the steps under construction see what the forward part of a node makes: where that is made again, backward has the second one. */
static inline int qs__number_again(const qs_schedule_draft *draft, int node, int slot) {
    return qs__number(draft, draft->graph->nodes + node, slot);
}
static inline int qs__number_seen(const qs_schedule_draft *draft, int node, int slot, bool again) {
    const bool later = draft->build.again || draft->build.phase == QS_BACKWARD;
    return later && again ? qs__number_again(draft, node, slot) : qs__number(draft, node, slot);
}
/* How many numbers there are. */
static inline int qs__numbers(const qs_schedule_draft *draft) {
    return qs__number(draft, (draft->recompute.last ? 2 : 1) * draft->graph->nodes, 0);
}
static inline bool qs__value_again(const qs_schedule_draft *draft, int root) {
    return draft->recompute.last && draft->recompute.value[root];
}
static inline bool qs__copies_again(const qs_schedule_draft *draft, int value) {
    return draft->recompute.last && draft->recompute.copies[value];
}
/* What the forward part left in the place of the parameter's gradient still stands when its reader is computed again: the place is free
 * from the update until a backward pass writes there. Of shared weights that is the later reader's, long before the earlier one's block
 * comes. */
static inline bool qs__parameter_stands(const qs_schedule_draft *draft, const qs_parameter *parameter) {
    return !draft->graph->node[parameter->node].shared;
}
static inline int qs__edge(int node, int input) {
    return node * QS_MAX_INPUTS + input;
}
/* The buffer in which a node's output lies. */
static inline int qs__value_number(const qs_schedule_draft *draft, int node) {
    const int root = draft->topology.root[node];
    return root < draft->frame->inputs ? draft->frame->input[root]
                                       : qs__number_seen(draft, root, QS_SLOT_VALUE, qs__value_again(draft, root));
}
/* A parameter's place among those that a node reads: the weights, which may be another node's, come first. */
static inline int qs__parameter_slot(const qs_graph *graph, const qs_parameter *parameter) {
    const int own = (int)(parameter - &graph->parameter[graph->node[parameter->node].first_parameter]);
    return parameter->role == QS_WEIGHTS ? 0 : 1 + own;
}
/* Segment n is the forward part of node n, then follow the backward parts in reverse order of nodes, then the update. */
static inline int qs__forward_segment(int node) {
    return node;
}
static inline int qs__backward_segment(const qs_schedule_draft *draft, int node) {
    return 2 * draft->graph->nodes - 1 - node;
}

/* ---- builder.c ---- */

/* A buffer of the segment's node; it is named after `node`: "node:what" or "node:what:kind". */
qs_status qs__buffer_make(qs_schedule_draft *draft, int slot, qs_category category, size_t bytes, int node, const char *what,
                          const char *kind, int *out);
/* The gradient of a node's output; and as an edge's contribution leaves it, which may be one of the segment under construction. */
qs_gradient qs__gradient_of(const qs_schedule_draft *draft, int node);
qs_gradient qs__gradient_after(const qs_schedule_draft *draft, int edge);
/* Starts a step of a node, with no operand bound yet. */
void qs__pending_make(qs_pending *pending, int node, const qs_op *op, const qs_pass *pass, const qs_attributes *attributes);
/* A step that lowering places: a conversion or a gradient sum. */
void qs__conversion_make(qs_pending *pending, int node, uint64_t stream, const qs_auxiliary *with, const qs_attributes *attributes);
void qs__pending_bind(qs_pending *pending, qs_role role, qs_shape shape, const qs_format *format, int buffer, size_t offset);
/* An operand by its copy, and the fixed-point step and shift groups of the copy, for which the pass declares operands; QS_UNSUPPORTED where
 * it does not. */
qs_status qs__copy_bind(const qs_schedule_draft *draft, qs_pending *pending, qs_role role, qs_shape shape, const qs_copy *copy,
                        size_t offset);
qs_status qs__step_emit(qs_schedule_draft *draft, const qs_pending *pending);
qs_status qs__reduce_emit(qs_schedule_draft *draft, qs_step_kind kind, int bucket);
void qs__case_table_release(qs_cases *cases);

/* ---- topology.c ---- */

qs_status qs__topology_make(const qs_lowering *in, qs_topology *out);
void qs__topology_release(qs_topology *topology);
qs_status qs__buckets_make(const qs_lowering *in, qs_schedule *frame, int *bucket_of);
qs_status qs__frame_make(const qs_lowering *in, qs_schedule **out);
bool qs__is_alias(const qs_lowering *in, int node);
/* Has no backward pass of its own either: the gradient of its output is that of its input. */
bool qs__hands_gradient_on(const qs_lowering *in, int node);
/* Passes are joined: in training, where the device does, but for tensors that are rounded, which are rounded one by one. */
bool qs__is_joining(const qs_lowering *in);
/* The normalisation whose forward pass a sum does, in the same pass, on devices that join the two, and the other way around; -1: none. */
int qs__joined_norm(const qs_lowering *in, int sum);
int qs__joined_sum(const qs_lowering *in, int norm);
/* The forward pass of a node in this mode. */
const qs_pass *qs__forward_pass(const qs_lowering *in, int node);
/* A node's attributes in its cases: a normalisation or a sum takes over those of the relu that it does. */
qs_attributes qs__attributes_of(const qs_lowering *in, int node);
/* A backward pass of a node writes something that is wanted: the gradient of a parameter, or of an input that needs one. */
bool qs__pass_is_wanted(const qs_schedule_draft *draft, int n, const qs_pass *pass);

/* ---- facts.c ---- */

bool qs__quantizer_same(const qs_quantizer *a, const qs_quantizer *b);
/* The quantizer of a factor of a product. */
const qs_quantizer *qs__factor_quantizer(const qs_recipe *recipe, qs_gemm gemm, int factor);
/* QS_UNSUPPORTED where the recipe of a node transforms one factor only, or the two unlike. */
qs_status qs__transforms_check(const qs_schedule_draft *draft, int node);
/* An operand's quantizer with the block that divides its dimension; where none does, with one step for the tensor as it is. */
qs_quantizer qs__operand_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer);
/* The same of weights; those of a mirrored operator (qs_op.mirror) have inputs on axis 0, and outputs on axis 1. */
qs_quantizer qs__weights_form(const qs_schedule_draft *draft, int node, const qs_quantizer *quantizer);
/* The same of an input; where all three products are integer, values that cannot be negative have unsigned codes, unless they are
 * transformed. */
qs_quantizer qs__input_form(const qs_schedule_draft *draft, int node, int input, const qs_quantizer *quantizer);
/* The facts that follow from the marks in need_dirty, value_dirty and changed, which are cleared; segments that facts reach are marked
 * dirty. */
qs_status qs__facts_update(qs_schedule_draft *draft);
/* The rules by which they follow (coverage.c asks them about plans that were never lowered); NULL: no format. */
const qs_format *qs__wider_format(const qs_format *a, const qs_format *b);
const qs_format *qs__need_of_reader(const qs_schedule_draft *draft, int edge); /* by the node's recipe or need */
const qs_format *qs__value_format(const qs_schedule_draft *draft, int n);      /* by n's recipe and need, and its inputs' values */
/* A node that looks up rows of a table by integers and reads no values: it writes what its readers need. */
bool qs__reads_integers_alone(const qs_graph *graph, int n);
qs_quantizer qs__wanted_form(const qs_schedule_draft *draft, int n, int input); /* by n's recipe and value; format NULL: it is not read */
qs_status qs__marks_make(int count, qs_marks *out);
void qs__mark(qs_marks *marks, int index);
/* Takes the first, or last, mark away and returns it; -1: there is none. */
int qs__mark_first(qs_marks *marks);
int qs__mark_last(qs_marks *marks);
/* Notes what is about to be replaced; does nothing while no change is under way. */
qs_status qs__journal_add(qs_schedule_draft *draft, qs_entry entry);

/* ---- recompute.c ---- */

/* Which blocks the lowering has computed again, into the draft. */
qs_status qs__recompute_make(qs_schedule_draft *draft);
void qs__recompute_release(qs_recompute *recompute);
/* First in the backward segment of the last node of such a block: those of its forward steps that its backward part needs. */
qs_status qs__recompute_emit(qs_schedule_draft *draft, int node);

/* ---- convert.c ---- */

/* Where a value (or gradient, or weights) lies in the format a reader needs; emits the conversion where this segment is the first to want
 * it. */
qs_status qs__input_as(qs_schedule_draft *draft, int reader, int input, qs_copy *out);
qs_status qs__gradient_as(qs_schedule_draft *draft, int node, const qs_quantizer *quantizer, qs_copy *out);
qs_status qs__saved_as(qs_schedule_draft *draft, int reader, int input, const qs_quantizer *wanted, qs_copy *out);
/* Forward: makes what the weight gradient will read where transforms keep it from reading what forward reads. */
qs_status qs__saved_make(qs_schedule_draft *draft, int reader, int input);
/* Forward: the copy lies in the place of the weights' gradient, until that is written. Backward: there where `first` says that the input's
 * gradient comes first; else in a buffer of its own. */
qs_status qs__weights_as(qs_schedule_draft *draft, int node, bool first, qs_place *weights, int *step_buffer);
bool qs__takes_one_step(const qs_quantizer *quantizer);
/* By graph, mode and formats of tensors alone: the pass that writes a value, or its gradient, can deliver the absmax; of a gradient, if the
 * pass works in the value's format. */
bool qs__value_can_deliver(const qs_schedule_draft *draft, int node);
bool qs__gradient_may_deliver(const qs_schedule_draft *draft, int node);
/* The products of the node take its output's gradient in a form that needs the absmax; by the node's recipe. */
bool qs__gradient_is_wanted(const qs_schedule_draft *draft, int node);
/* The node's forward pass delivers the largest magnitude of its output; the backward pass of `reader` that of the gradient of its first
 * input. */
bool qs__value_delivers(const qs_schedule_draft *draft, int node);
bool qs__gradient_delivers(const qs_schedule_draft *draft, int reader);

/* ---- tensors.c: rounding and packing where the lowering says so; each does nothing for tensors that have no format ---- */

qs_status qs__value_round(qs_schedule_draft *draft, int node);    /* behind the forward pass */
qs_status qs__gradient_round(qs_schedule_draft *draft, int node); /* first in the backward segment */
qs_status qs__parameter_gradient_round(qs_schedule_draft *draft, const qs_parameter *parameter);
/* Where a pass reads a parameter: its master, or its rounded form. in_gradient: the forward pass' form still stands, or may be made, in the
 * place of the gradient. */
qs_status qs__parameter_as(qs_schedule_draft *draft, const qs_parameter *parameter, bool in_gradient, qs_place *out);
/* The formats of its own that the plan gives the output or its gradient, to which a step behind its writer rounds; NULL: none. */
const qs_tensor_choice *qs__value_tensor(const qs_schedule_draft *draft, int node);
/* What rounds a parameter; NULL: nothing does. */
const qs_quantizer *qs__parameter_quantizer(const qs_schedule_draft *draft, const qs_parameter *parameter);
/* The buffer from which a backward pass reads an input that is stored in fp32: decoded where it was packed. */
qs_status qs__value_unpack(qs_schedule_draft *draft, int reader, int input, int *buffer);

/* ---- node.c ---- */

qs_status qs__forward_emit(qs_schedule_draft *draft, int node);
qs_status qs__backward_emit(qs_schedule_draft *draft, int node);

/* ---- update.c ---- */

/* The ranges of all buckets that learn alike, into the draft. */
qs_status qs__spans_make(qs_schedule_draft *draft);
qs_status qs__update_emit(qs_schedule_draft *draft);

/* ---- draft.c ---- */

/* A draft with all its segments emitted; `follow`, unless NULL, starts following them from the first one. */
qs_status qs__draft_make(const qs_lowering *in, qs_status (*follow)(qs_schedule_draft *draft), qs_schedule_draft **out);

/* ---- live.c ---- */

/* Live bytes are followed from now on. */
qs_status qs__live_start(qs_schedule_draft *draft);
/* Brings the maximum up to date after changes of segments. Cannot fail. */
void qs__live_settle(qs_schedule_draft *draft);

/* ---- pack.c ---- */

/* Bytes that a buffer takes in the arena. */
size_t qs__aligned(size_t bytes);

#endif
