// SPDX-License-Identifier: Apache-2.0
/* Inside the room: a read and folded model on its way to a record of operators.
 *
 * The import runs over the nodes of the file in their order. Every value is of one kind: numbers that the file holds; integers of an
 * input; what an input of zeros and ones says of which positions count (a mask); or what flows from sample to sample, the output of an
 * operator that was made. A function for each operator of ONNX (table.def) looks at what its inputs are, makes operators of ours, and
 * says what its outputs are. Failures stick in `status` and refusals are collected, so that these functions read without checks. */
#ifndef QSYNC_ONNX_IMPORT_H
#define QSYNC_ONNX_IMPORT_H

#include "layout.h"
#include "onnx_internal.h"
#include "qsync/onnx_import.h"

typedef enum qs__kind {
    QS__UNKNOWN,  /* not made: by an operator that was refused */
    QS__NUMBERS,  /* of the file: parameters and constants */
    QS__INTEGERS, /* an input of integers as it is */
    QS__MASK,     /* what follows from an input of zeros and ones */
    QS__FLOW      /* of the samples */
} qs__kind;

/* A mask stands for its two worlds: its values where no position of the input counts, and where all do. What it says of a position
 * depends on that position alone, so that both together say it of any input. */
typedef struct qs__value {
    const char *name; /* in the file */
    const char *from; /* of numbers that are seen otherwise, or are codes: what those are called; NULL: as the value */
    int producer;     /* node; -1: an input or an initializer */
    int readers;      /* inputs of nodes, and outputs of the model */
    int reader;       /* the first node of them; -1: none */
    bool is_output;   /* of the model */
    bool is_ids;      /* an input that rows of a table are read by */
    qs__kind kind;
    bool parameter; /* numbers: trained */
    bool turned;    /* numbers: a matrix that weights files have the other way round than `tensor` */
    bool number;    /* numbers: one, an initializer of the file, which may have been a parameter of what was exported */
    qs__layout layout;
    const qs_onnx_tensor *tensor;   /* numbers: row-major over the layout's factors; masks: where nothing counts */
    const qs_onnx_tensor *counting; /* masks: where all does */
    int64_t rows, first;            /* numbers that are rows of a table, from `first` on: so many has that, which `tensor` is; 0: none */
    bool same_row;                  /* the same: all are row `first` */
    bool of_batch;                  /* numbers that depend on which sample it is or how many there are: those of a batch of one */
    int input;                      /* integers, masks, and flows that hide positions: of the record; -1: none */
    int source;                     /* flows: operator of the record, or -1 - input */
    qs_shape shape;                 /* flows: of the source's output, N = 1 */
    bool causal;                    /* flows of scores: the last axis is hidden behind the place of the one before it */
} qs__value;

typedef struct qs__node {
    const char *op; /* of ONNX, also where a fusion put it there */
    const qs_onnx_node *from;
    int inputs, outputs;
    int *input, *output; /* values; -1: left out */
    int own[13];         /* inputs of fusions */
    double setting;      /* of fusions: epsilon, or which form it is */
    int64_t groups;      /* of a fused group normalisation; directions of a recurrent network that have parameters of their own */
    bool fused, dead;
    bool known; /* its outputs are numbers, which were computed before (rotary.c) */
} qs__node;

typedef struct qs__problem {
    char op[48], why[200];
    int nodes;
} qs__problem;

/* A table of an embedding, whose weights an output layer may share. */
typedef struct qs__table {
    const qs_onnx_tensor *tensor;
    int source;
    bool tied; /* one does */
} qs__table;
enum { QS__MOST_TABLES = 16 };

/* A parameter that several operators read. */
typedef struct qs__shared {
    char name[96];
    int readers;
} qs__shared;

/* Cosines and sines of a rotation, of so many positions and pairs; base 0: none. */
typedef struct qs__waves {
    const qs_onnx_tensor *table[2];
    int64_t length, pairs;
    double base;
} qs__waves;

typedef struct qs__import {
    const qs_onnx_model *model;
    int values, nodes;
    qs__value *value;
    qs__node *node;
    qs_onnx_imported *out;
    size_t operator_capacity, tensor_capacity, shared_capacity, row_capacity, note_capacity, problem_capacity, values_capacity;
    bool with_values; /* of weights, beside their names */
    int problems, tables, shares;
    qs__problem *problem;
    qs__shared *shared;
    qs__names named, mangled;     /* values by their names, once somebody asks (torch.c) */
    qs__names operators, tensors; /* names that are taken, with the next number to stand behind them */
    qs__names notes, readers;     /* what was said; places in `shared` by name */
    qs__table table[QS__MOST_TABLES];
    qs__waves waves;    /* the last that were found to be a rotation's (rotary.c) */
    int64_t length;     /* that the extent which varies is bound to */
    int learned;        /* the value that is; -1: not chosen */
    const qs__node *at; /* being imported */
    qs_onnx_memory *memory;
    qs_status status;
} qs__import;

/* The first failure stays. */
void qs__stick(qs__import *one, qs_status status);
/* Memory that lives as long as the weights that were imported, zeroed (numbers.c); NULL on failure. */
void *qs__keep_memory(qs__import *one, size_t count, size_t size);

/* ---- Asking a node (ask.c) ---------------------------------------------------------------------------------------------------- */

/* The value that a node reads or writes; NULL: left out. */
qs__value *qs__read_by(qs__import *one, const qs__node *node, int index);
qs__value *qs__made_by(qs__import *one, const qs__node *node, int index);
/* Whether its operator is one of ai.onnx, or was put there by a fusion: one of another domain means what that says, whatever its name. */
bool qs__is_standard(const qs__node *node);
int64_t qs__int(qs__import *one, const qs__node *node, const char *name, int64_t otherwise);
double qs__float(qs__import *one, const qs__node *node, const char *name, double otherwise);
const char *qs__word(qs__import *one, const qs__node *node, const char *name, const char *otherwise);
/* The list of an attribute, or of an input where that is given there; returns how many, 0: neither says it. More than 8 are refused. */
int qs__int_list(qs__import *one, const qs__node *node, const char *name, int input, int64_t out[QS__MOST_RANK]);
/* An axis counted from the front; refused, and 0, outside the rank. */
int qs__axis_at(qs__import *one, int64_t axis, int rank);
/* Numbers of one value, where it is one number. */
bool qs__one_number(qs__import *one, const qs__value *value, double *out);
/* All of them, in the memory of the import; NULL on failure. */
double *qs__all_numbers(qs__import *one, const qs__value *value);
/* Whether two tensors have as many numbers, and the same. Equal elements are compared once (numbers.c). */
bool qs__is_alike(qs__import *one, const qs_onnx_tensor *a, const qs_onnx_tensor *b);
/* Extents of a value of the file as the model says them, for a batch of one; returns the rank, -1: not known. */
int qs__extents_of(qs__import *one, int value, int64_t extent[QS__MOST_RANK]);
/* The axis of a value of the file that the batch is in, alone or multiplied; -1: it does not depend on it, or its extents are unknown. */
int qs__batch_axis(qs__import *one, int value);
/* Whether it is the output that is learned. */
bool qs__is_learned(const qs__import *one, const qs__value *value);
/* The place of a word in a list that ends with NULL; -1: it is not there. */
int qs__word_find(const char *word, const char *const *list);
int64_t qs__extent(const qs__value *value, int axis);
int qs__rank(const qs__value *value);

/* ---- Refusing ---------------------------------------------------------------------------------------------------------------- */

/* Notes that the node at hand cannot be imported, and why; equal reasons are counted. Its outputs stay unknown. */
void qs__refuse_node(qs__import *one, const char *format, ...) QS_PRINTF(2, 3);
/* A line for the summary, said once. */
void qs__note(qs__import *one, const char *format, ...) QS_PRINTF(2, 3);

/* Takes a name: true where nobody had it. Else *again is a number that was not yet tried behind it. */
bool qs__name_take(qs__import *one, qs__names *taken, const char *name, int64_t *again);

/* ---- Making operators (make.c) ------------------------------------------------------------------------------------------------ */

/* Whether the first `length` characters of a name end so, and do not begin with that. */
bool qs__ends_in(const char *text, size_t length, const char *end);
/* Whether a name says nothing: one that an exporter counted ("onnx::MatMul_12", "193"). */
bool qs__is_anonymous(const char *name);
/* Appends an operator called after the node, or after the parameter that it takes (NULL: none); returns its source. On failure 0. */
int qs__make(qs__import *one, const char *op, const qs__value *parameter, int inputs, const int *source, qs_shape shape);
qs_graph_operator *qs__row(qs__import *one, int source);
/* Whether it is one of that operator. */
bool qs__is_of(qs__import *one, int source, const char *op);
void qs__set(qs__import *one, int source, const char *setting, double value);
/* What a value becomes. */
void qs__flow(qs__value *out, int source, qs_shape shape, const qs__layout *layout);
/* Fresh layouts: of row-major extents; and of an image, whose channels are last in memory. */
qs__layout qs__rows_like(const qs__value *like, int rank, const int64_t *extent);
qs__layout qs__image_like(const qs__value *like, int64_t channels, int spatial, const int64_t *extent);
/* The value's operator, in the shape (N,C), (N,C,L) or what it has, of which the last `channels` elements in memory are the channels. */
int qs__seen(qs__import *one, qs__value *value, int64_t channels, qs_shape *shape);
/* The same in one shape. */
int qs__seen_as(qs__import *one, qs__value *value, const qs_shape *shape);
/* Moves data so that the factors stand in that order; a name of the value where they do. */
void qs__arrange(qs__import *one, qs__value *value, const int *order);
/* The same so that the axes are the last in memory, in their order, as the channels; returns how many elements they are. */
int64_t qs__bring_last(qs__import *one, qs__value *value, int axes, const int *axis);
/* Row-major. */
void qs__bring_rows(qs__import *one, qs__value *value);
/* An image (N,C,H,W): axis 1 last in memory, the others before it; axes 2 and 3 may be missing (1). Returns its source. */
int qs__bring_image(qs__import *one, qs__value *value, qs_shape *shape);
/* Two values, or numbers, in one order of memory: `left`'s; false where their extents do not fit. */
bool qs__bring_alike(qs__import *one, const qs__value *left, qs__value *right);

/* ---- Parameters (parameters.c) ------------------------------------------------------------------------------------------------- */

/* Gives the operator the numbers as its parameter. The order of values is that of the layout's axes; a matrix may lie transposed. */
void qs__give(qs__import *one, int source, const char *parameter, const qs__value *numbers);
/* Says which parameters of the file are read by several operators, and that each of these trains a copy. */
void qs__copies_say(qs__import *one);
/* Numbers that are a constant of so many equal values, or those of an array. */
void qs__give_constant(qs__import *one, int source, const char *parameter, const char *name, int64_t count, const double *values,
                       double fill);

#endif
