// SPDX-License-Identifier: Apache-2.0
/* What families of operators are written against: facts about values, from which the shape rule of an operator finds those of its results;
 * tensors, from which its evaluator computes them; and tools for both. A member is a row of its family's table.
 *
 * The same shape rule serves both uses: for a node in a model extents may have symbols or be unknown; before an evaluation all are fixed,
 * and the results' memory is made from what the rule says. */
#ifndef QSYNC_ONNX_FOLD_H
#define QSYNC_ONNX_FOLD_H

#include "onnx_internal.h"

/* ---- Facts and shape rules --------------------------------------------------------------------------------------------------- */

/* What is known of a value. */
typedef struct qs__fact {
    qs_onnx_type type; /* QS_ONNX_UNDEFINED: not known */
    int rank;          /* -1: not known */
    qs_onnx_extent extent[QS_ONNX_MAX_RANK];
    const qs_onnx_tensor *constant; /* its elements, or integers with symbols (QS_ONNX_EXTENTS); NULL: not known */
} qs__fact;

typedef struct qs__shaping {
    const qs_onnx_node *node;
    int inputs, outputs;
    const qs__fact *in; /* [inputs] absent ones have type and rank of nothing known, and `present` false */
    const bool *present;
    int64_t batch; /* what the file has in place of N, where it fixes the batch; 0: it leaves it open */
    qs__fact *out; /* [outputs] nothing known to begin with */
} qs__shaping;

/* Finds what it can. QS_BAD_FILE where inputs contradict each other or the attributes; the message begins with the rule, the node is put
 * before it by the caller. */
typedef qs_status (*qs__shape_rule)(const qs__shaping *at);

/* ---- Evaluators ------------------------------------------------------------------------------------------------------------------ */

typedef struct qs__evaluation {
    const qs_onnx_node *node;
    int inputs, outputs;
    const qs_onnx_tensor *const *in; /* NULL: absent */
    qs_onnx_tensor *out;             /* type and shape as the rule said; `data` is room for all elements */
    qs_onnx_memory *memory;
} qs__evaluation;

typedef qs_status (*qs__evaluator)(const qs__evaluation *at);

/* ---- Rows -------------------------------------------------------------------------------------------------------------------------- */

enum {
    QS__MOST_ELEMENTS = 1 << 25, /* of an operand or a result of evaluators: what is larger is data, and stays where it is */
    QS__NEWEST_OPSET = 28,       /* the newest version of ai.onnx that was compared: a row without an end holds to it */
    QS__ALL_INPUTS = 0xffff,     /* of `symbols`: every input */
    QS__REARRANGES = 1 << 0,     /* of `flags`: every element of the result is one of input 0, which may be uniform */
    QS__SAMPLEWISE = 1 << 1,     /* where axis 0 of the result is the batch, each sample's result comes from that sample's operands alone */
    QS__DEPENDS = 1 << 2,        /* of parameters: computed all the same, as weights that are stored in another form */
    QS__SHARES = 1 << 3,         /* the evaluator sets `data` to what is there already: no memory is made */
    QS__SAYS_SHAPE = 1 << 4,     /* elements of the only input, or of those behind the first, say how large the result is */
    QS__SELECTS = 1 << 5,        /* every element of input 0 is compared with as many as the result has along the attribute "axis" */
    QS__BY_PIECES = 1 << 6,      /* takes no memory but the result's: operands may be as large as the file has them */
};

typedef struct qs__operator {
    const char *name;
    int first, last; /* versions of ai.onnx in which the row means the operator; last 0: up to the newest known */
    qs__shape_rule shape;
    qs__evaluator evaluate; /* NULL: it is never computed here */
    unsigned symbols;       /* inputs whose elements may be integers with symbols, bit by bit */
    unsigned flags;
} qs__operator;

/* Ends with a row without a name. */
extern const qs__operator qs__rows_arithmetic[], qs__rows_functions[], qs__rows_layout[], qs__rows_selection[], qs__rows_indexing[],
    qs__rows_reductions[], qs__rows_products[], qs__rows_layers[];

/* The row of a node; NULL where no table has it. */
const qs__operator *qs__operator_find(const qs_onnx_node *node);
/* QS_UNSUPPORTED where the node's opset is newer than what is known of its operator, or older. */
qs_status qs__operator_check(const qs_onnx_node *node);

/* ---- Tools of shape rules (facts.c) -------------------------------------------------------------------------------------------- */

/* Nothing known. */
qs__fact qs__fact_none(void);
qs__fact qs__fact_of(const qs_onnx_tensor *tensor);
/* An input that must be there. */
qs_status qs__need(const qs__shaping *at, int input);
/* Whether input `index` is there. */
bool qs__given(const qs__shaping *at, int index);
/* An axis of a rank, counted from the end where it is negative. */
qs_status qs__axis(int64_t axis, int rank, int *out);
/* Integers of a constant input or, in older versions, of an attribute: *known false where an input is there and not constant; *count -1
 * where neither is there. At most QS__MOST_INTS. */
enum { QS__MOST_INTS = 64 };
qs_status qs__ints(const qs__shaping *at, int input, const char *attribute, int64_t out[QS__MOST_INTS], int *count, bool *known);
/* The same with symbols. */
qs_status qs__extents(const qs__shaping *at, int input, const char *attribute, qs_onnx_extent out[QS__MOST_INTS], int *count, bool *known);
/* Axes as a set of bits. */
qs_status qs__axes(const int64_t *axes, int count, int rank, unsigned *out);
/* Shape of two operands that are broadcast to each other as in numpy, into *out, whose rank and extents are those of the first operand. */
qs_status qs__broadcast(qs__fact *out, const qs__fact *with);
/* One result of the first input's type and shape. */
qs_status qs__shape_like(const qs__shaping *at);
/* Product of extents first .. end - 1. */
qs_onnx_extent qs__extent_product(const qs_onnx_extent *extent, int first, int end);

/* ---- Tools of evaluators (array.c) ------------------------------------------------------------------------------------------------ */

/* Elements of a tensor in the widest form of their kind: one of the three lists is there. Real numbers are exact, integers are 64 bits
 * (uint64 by its bits). Released by qs__array_release. */
typedef struct qs__array {
    qs_onnx_type type;
    int64_t count;
    double *real;
    int64_t *integer;
    qs_onnx_extent *symbol;
} qs__array;
qs_status qs__array_make(qs_onnx_type type, int64_t count, qs__array *out);
qs_status qs__array_load(const qs_onnx_tensor *tensor, qs__array *out);
/* Rounds to the tensor's type: reals to nearest even, integers keep their low bits. What is too large for a type of 8 bits becomes infinite
 * or NaN, or the largest where `saturate`. */
qs_status qs__array_store(const qs__array *array, bool saturate, qs_onnx_tensor *out);
void qs__array_release(qs__array *array);
/* A real cut to an integer: the nearest that int64 holds, 0 for NaN. */
int64_t qs__integer_of(double value);
/* Bytes of an element; elements of 4 bits are spread to one byte each by qs__bytes_load. */
size_t qs__element_size(qs_onnx_type type);
/* Elements as they are, `qs__element_size` bytes each, in heap memory that the caller frees. */
qs_status qs__bytes_load(const qs_onnx_tensor *tensor, char **out);
/* Back, into out->data. */
void qs__bytes_store(const char *bytes, qs_onnx_tensor *out);

/* Walks through all places of a shape in row-major order, with a position in up to three operands: strides in elements. */
typedef struct qs__walk {
    int rank;
    int64_t dim[QS_ONNX_MAX_RANK], at[QS_ONNX_MAX_RANK], stride[3][QS_ONNX_MAX_RANK];
    int64_t position[3];
} qs__walk;
qs__walk qs__walk_over(int rank, const int64_t *dim);
/* Operand `which` is a tensor that is broadcast to the shape. */
void qs__walk_broadcast(qs__walk *walk, int which, int rank, const int64_t *dim);
void qs__walk_next(qs__walk *walk);
/* Product of extents first .. end - 1. */
int64_t qs__dims_product(const int64_t *dim, int first, int end);

/* ---- Whole nodes (compute.c) ------------------------------------------------------------------------------------------------------- */

/* Results of a node for constant inputs (NULL: absent): its shape rule, memory, its evaluator. */
qs_status qs__compute(const qs_onnx_node *node, const qs_onnx_tensor *const *in, qs_onnx_memory *memory, qs_onnx_tensor *out);

/* ---- Models (bind.c, infer.c) ------------------------------------------------------------------------------------------------------ */

/* A model that is being folded. */
typedef struct qs__folding {
    qs_onnx_memory *memory;
    const qs_onnx_fold_options *options;
    int64_t batch;              /* what the file has in place of N; 0: it leaves it open, or all stays as it is */
    int64_t work;               /* elements that were read and written by evaluators */
    size_t values, room, marks; /* values, and the room that there is for them and their marks */
    qs_onnx_value *value;
    int *alias;     /* [values] a value that is the same; -1: none */
    bool *computed; /* [values] its constant was computed, and is not one of the file */
} qs__folding;

/* Types and extents of the model's inputs, N and L in place of what is open. */
qs_status qs__bind_inputs(qs__folding *folding, const qs_onnx_graph *graph);
/* Types, extents and constants of what a node writes. */
qs_status qs__infer(qs__folding *folding, const qs_onnx_node *node);

#endif
