// SPDX-License-Identifier: Apache-2.0
/* onnx: models of ONNX files: what stands in a file, and the same model with all shapes known and all that is constant computed.
 *
 * Life cycle. qs_onnx_open maps a file and reads its graph; qs_onnx_fold propagates shapes and folds; qs_onnx_release gives everything
 * back. A model owns all that its structs point to: names, tensors, sub-graphs. Initializers stay in the mapped file and are not copied
 * where the file holds them as plain little-endian bytes: the file must not change while a model is open.
 *
 * Values are numbers of a graph's list: nodes say what they read and write by indices into qs_onnx_graph.value, so that nobody searches
 * names. A sub-graph (a branch of If, a body of Loop) has a list of its own; what it takes from outside are values with `captured`.
 *
 * Format: the ONNX protobuf schema (onnx.proto of onnx/onnx), IR versions 3 to 13, read by field numbers. Limits, each refused with one
 * line: rank 8, sub-graphs and functions 64 deep, 10^6 nodes after functions are put in place, names of 1024 bytes, 2^40 elements a
 * tensor. Whatever a file says is checked before it is believed. */
#ifndef QSYNC_ONNX_H
#define QSYNC_ONNX_H

#include "qsync/base.h"

enum { QS_ONNX_MAX_RANK = 8, QS_ONNX_MAX_DEPTH = 64, QS_ONNX_MAX_NODES = 1000000, QS_ONNX_MAX_NAME = 1024 };

/* ---- Tensors -------------------------------------------------------------------------------------------------------- */

/* Element types by the numbers of TensorProto.DataType: number, what messages call it, bits of an element. */
#define QS_ONNX_TYPE_LIST(X)                           \
    X(QS_ONNX_UNDEFINED, 0, "undefined", 0)            \
    X(QS_ONNX_FLOAT, 1, "float", 32)                   \
    X(QS_ONNX_UINT8, 2, "uint8", 8)                    \
    X(QS_ONNX_INT8, 3, "int8", 8)                      \
    X(QS_ONNX_UINT16, 4, "uint16", 16)                 \
    X(QS_ONNX_INT16, 5, "int16", 16)                   \
    X(QS_ONNX_INT32, 6, "int32", 32)                   \
    X(QS_ONNX_INT64, 7, "int64", 64)                   \
    X(QS_ONNX_STRING, 8, "string", 0)                  \
    X(QS_ONNX_BOOL, 9, "bool", 8)                      \
    X(QS_ONNX_FLOAT16, 10, "float16", 16)              \
    X(QS_ONNX_DOUBLE, 11, "double", 64)                \
    X(QS_ONNX_UINT32, 12, "uint32", 32)                \
    X(QS_ONNX_UINT64, 13, "uint64", 64)                \
    X(QS_ONNX_COMPLEX64, 14, "complex64", 64)          \
    X(QS_ONNX_COMPLEX128, 15, "complex128", 128)       \
    X(QS_ONNX_BFLOAT16, 16, "bfloat16", 16)            \
    X(QS_ONNX_FLOAT8E4M3FN, 17, "float8e4m3fn", 8)     \
    X(QS_ONNX_FLOAT8E4M3FNUZ, 18, "float8e4m3fnuz", 8) \
    X(QS_ONNX_FLOAT8E5M2, 19, "float8e5m2", 8)         \
    X(QS_ONNX_FLOAT8E5M2FNUZ, 20, "float8e5m2fnuz", 8) \
    X(QS_ONNX_UINT4, 21, "uint4", 4)                   \
    X(QS_ONNX_INT4, 22, "int4", 4)                     \
    X(QS_ONNX_FLOAT4E2M1, 23, "float4e2m1", 4)
#define QS_ONNX_TYPE_ENUM(id, number, text, bits) id = (number),
typedef enum qs_onnx_type {
    QS_ONNX_TYPE_LIST(QS_ONNX_TYPE_ENUM) QS_ONNX_TYPE_COUNT,
    QS_ONNX_EXTENTS = 100, /* not of files: integers with symbols, elements are qs_onnx_extent */
} qs_onnx_type;
#undef QS_ONNX_TYPE_ENUM

/* "float16"; "type 77" is "unknown". */
QS_API const char *qs_onnx_type_name(qs_onnx_type type);
/* Bits of an element in `data`; 0 for strings and unknown types. */
QS_API int qs_onnx_type_bits(qs_onnx_type type);
/* Types that hold real numbers (float, double, float16, bfloat16, float8, float4), and integers (bool too). */
QS_API bool qs_onnx_type_is_float(qs_onnx_type type);
/* The decimal number of fewest digits whose nearest float this is: 0.7 of 0.699999988. Scales go by it (Resize): 10 times 0.7 is 7, as in
 * the products in fp32 of ONNX Runtime, where the float's own value falls beside a whole number. */
QS_API double qs_onnx_decimal(float value);
QS_API bool qs_onnx_type_is_integer(qs_onnx_type type);

/* A tensor: elements row-major, little-endian, not necessarily aligned; those of 4 bits two a byte, the first in the low half, rounded up
 * to whole bytes at the end. Read elements with the functions below, which know all of this. */
typedef struct qs_onnx_tensor {
    const char *name; /* "" where it has none */
    qs_onnx_type type;
    int rank;                      /* 0 .. QS_ONNX_MAX_RANK */
    int64_t dim[QS_ONNX_MAX_RANK]; /* each 0 or more */
    int64_t count;                 /* product of them */
    const void *data;              /* in the mapped file, or the model's memory; strings: const char *const [count], each with a NUL */
    bool uniform;                  /* all elements are equal, and only the first one lies in `data` */
} qs_onnx_tensor;

/* Elements first .. first + count - 1 as fp32: floats, integers and bools of every type; int64 and double are rounded to nearest. QS_USAGE
 * for strings and complex numbers, and a range that is not in the tensor. */
QS_API qs_status qs_onnx_tensor_floats(const qs_onnx_tensor *tensor, int64_t first, int64_t count, float *out);
/* The same as double, exact but for int64 and uint64 beyond 2^53. */
QS_API qs_status qs_onnx_tensor_doubles(const qs_onnx_tensor *tensor, int64_t first, int64_t count, double *out);
/* Integers and bools as int64 (uint64 by its bits); QS_USAGE for others. */
QS_API qs_status qs_onnx_tensor_integers(const qs_onnx_tensor *tensor, int64_t first, int64_t count, int64_t *out);
/* The tensor without what it repeats: of a uniform one its first element alone, as a list, else the tensor as it is. *each: how many
 * elements of the tensor one of the result stands for. What is counted or compared element by element asks for it, so that a file of few
 * bytes cannot ask for much work. */
QS_API qs_onnx_tensor qs_onnx_tensor_distinct(const qs_onnx_tensor *tensor, int64_t *each);
/* "float [64,3,7,7]" into a buffer of QS_ONNX_SHAPE_TEXT bytes; returns it. */
#define QS_ONNX_SHAPE_TEXT 224
QS_API const char *qs_onnx_tensor_text(const qs_onnx_tensor *tensor, char text[QS_ONNX_SHAPE_TEXT]);

/* ---- Extents with symbols ---------------------------------------------------------------------------------------------- */

/* An integer that may depend on the batch N and one varying length L: the sum of term[n][l] × N^n × L^l. Products and quotients that
 * leave these powers are unknown, and are never guessed. An extent that is not known has INT64_MIN in term[1][2]. */
typedef struct qs_onnx_extent {
    int64_t term[2][3];
} qs_onnx_extent;

QS_API qs_onnx_extent qs_onnx_extent_of(int64_t value);
QS_API bool qs_onnx_extent_is_known(const qs_onnx_extent *extent);
QS_API bool qs_onnx_extent_equal(const qs_onnx_extent *a, const qs_onnx_extent *b);
/* True where it is known and depends on neither; then *value (NULL: not wanted) is it. */
QS_API bool qs_onnx_extent_is_fixed(const qs_onnx_extent *extent, int64_t *value);
/* True where it is just N. */
QS_API bool qs_onnx_extent_is_batch(const qs_onnx_extent *extent);
/* True where it is known and N is in it. */
QS_API bool qs_onnx_extent_has_batch(const qs_onnx_extent *extent);
/* Its value for a batch and a length. */
QS_API int64_t qs_onnx_extent_at(const qs_onnx_extent *extent, int64_t batch, int64_t length);
/* Element `index` of a tensor of extents. */
QS_API const qs_onnx_extent *qs_onnx_tensor_extent(const qs_onnx_tensor *tensor, int64_t index);
/* "12", "N", "4 N L + 1", "?" into text[96]; returns it. */
#define QS_ONNX_EXTENT_TEXT 96
QS_API const char *qs_onnx_extent_text(const qs_onnx_extent *extent, char text[QS_ONNX_EXTENT_TEXT]);

/* ---- Attributes, nodes, values, graphs ---------------------------------------------------------------------------------- */

typedef struct qs_onnx_graph qs_onnx_graph;

/* By the numbers of AttributeProto.AttributeType. */
typedef enum qs_onnx_attribute_type {
    QS_ONNX_ATTRIBUTE_FLOAT = 1,
    QS_ONNX_ATTRIBUTE_INT = 2,
    QS_ONNX_ATTRIBUTE_STRING = 3,
    QS_ONNX_ATTRIBUTE_TENSOR = 4,
    QS_ONNX_ATTRIBUTE_GRAPH = 5,
    QS_ONNX_ATTRIBUTE_FLOATS = 6,
    QS_ONNX_ATTRIBUTE_INTS = 7,
    QS_ONNX_ATTRIBUTE_STRINGS = 8,
    QS_ONNX_ATTRIBUTE_TENSORS = 9,
    QS_ONNX_ATTRIBUTE_GRAPHS = 10,
    QS_ONNX_ATTRIBUTE_SPARSE_TENSOR = 11, /* read as the tensor that it describes, zeros included */
    QS_ONNX_ATTRIBUTE_SPARSE_TENSORS = 12,
    QS_ONNX_ATTRIBUTE_TYPE_PROTO = 13, /* known to be there, its contents are not kept */
    QS_ONNX_ATTRIBUTE_TYPE_PROTOS = 14,
} qs_onnx_attribute_type;

typedef struct qs_onnx_attribute {
    const char *name;
    qs_onnx_attribute_type type;
    float f;
    int64_t i;
    const char *s; /* with a NUL behind its `count` bytes; may hold others */
    size_t count;  /* of the lists; bytes of s */
    const float *floats;
    const int64_t *ints;
    const char *const *strings;
    const qs_onnx_tensor *tensors; /* TENSOR and SPARSE_TENSOR: one */
    qs_onnx_graph *const *graphs;  /* GRAPH: one */
    const char *reference;         /* inside function bodies alone: the attribute of the caller; "" in what qs_onnx_open gives out */
} qs_onnx_attribute;

typedef struct qs_onnx_node {
    const char *name;   /* "" where the file gives none; nodes of functions have "caller/name" */
    const char *op;     /* "Conv" */
    const char *domain; /* "" is ai.onnx, however the file writes it */
    int opset;          /* version of that domain, of the model or the function that the node stands in */
    int inputs, outputs;
    int *input;  /* [inputs] indices of values; -1: absent */
    int *output; /* [outputs] */
    int attributes;
    qs_onnx_attribute *attribute;
    /* What PyTorch's exporter notes on a node: the paths of the modules it stands in, "['', 'encoder', 'encoder.fc', 'linear']", and the
     * call that it was, "%linear : ... aten.linear.default](args = (%x, %p_encoder_fc_weight), ...". "" where there are none. */
    const char *scopes, *call;
} qs_onnx_node;

/* The attribute of that name, or NULL. */
QS_API const qs_onnx_attribute *qs_onnx_attribute_find(const qs_onnx_node *node, const char *name);
/* Value of an attribute, or `otherwise` where there is none; QS_BAD_FILE where it is there with another type. */
QS_API qs_status qs_onnx_attribute_int(const qs_onnx_node *node, const char *name, int64_t otherwise, int64_t *out);
QS_API qs_status qs_onnx_attribute_float(const qs_onnx_node *node, const char *name, float otherwise, float *out);
QS_API qs_status qs_onnx_attribute_string(const qs_onnx_node *node, const char *name, const char *otherwise, const char **out);
/* The list and its length; NULL and 0 where there is none. */
QS_API qs_status qs_onnx_attribute_ints(const qs_onnx_node *node, const char *name, const int64_t **out, size_t *count);
QS_API qs_status qs_onnx_attribute_floats(const qs_onnx_node *node, const char *name, const float **out, size_t *count);
/* "node \"conv1\" (Conv)", or by its first output where it has no name, into text[QS_ONNX_NODE_TEXT]; returns it. For messages. */
#define QS_ONNX_NODE_TEXT 160
QS_API const char *qs_onnx_node_text(const qs_onnx_graph *graph, const qs_onnx_node *node, char text[QS_ONNX_NODE_TEXT]);

/* An extent as a file declares it. */
typedef struct qs_onnx_dimension {
    int64_t value;      /* -1 where the file gives a symbol or nothing */
    const char *symbol; /* "batch"; "" */
} qs_onnx_dimension;

typedef struct qs_onnx_value {
    const char *name;
    int producer; /* index of the node that writes it; -1: an input, an initializer, or captured */
    int output;   /* which of the producer's outputs */
    int captured; /* of a sub-graph: index in the enclosing graph; else -1 */
    bool is_input, is_output;
    int uses; /* inputs of nodes and outputs of the graph that are this value; with those of sub-graphs */
    /* As declared by inputs, outputs and value_info of the file. */
    qs_onnx_type declared_type;
    int declared_rank; /* -1: not said */
    const qs_onnx_dimension *declared;
    /* As computed by qs_onnx_fold; before, initializers alone have them. */
    qs_onnx_type type;            /* QS_ONNX_UNDEFINED: not known */
    int rank;                     /* -1: not known */
    const qs_onnx_extent *extent; /* [rank] */
    /* What it is where that does not depend on inputs; else NULL. Initializers have it at once, others after folding.
     * Where `repeats`, axis 0 is the batch, all samples are equal, and the tensor holds one: its dim[0] is 1. */
    const qs_onnx_tensor *constant;
    bool repeats;
    /* Integers that depend on the batch or the length, rank 0 or 1; type QS_ONNX_EXTENTS. Else NULL. */
    const qs_onnx_tensor *extents;
    /* The constant is a weight of the file (an initializer, the tensor of a Constant node, what ConstantOfShape fills, or what codes stand
     * for), real numbers, more than one: what reads it is not folded unless it must be, so that it can be trained. */
    bool is_parameter;
    bool is_number; /* the constant is one real number that the file has as an initializer */
    /* Of a parameter that the file stores in codes, which a DequantizeLinear reads: what it calls those (or, where it makes them of
     * numbers, these numbers). Of codes: that one did. NULL: neither. */
    const char *codes;
} qs_onnx_value;

struct qs_onnx_graph {
    const char *name;
    int nodes, values, inputs, outputs;
    qs_onnx_node *node; /* each reads only what those before it write */
    qs_onnx_value *value;
    int *input;  /* [inputs] indices of values; initializers that are listed as inputs too (IR 3) are not here */
    int *output; /* [outputs] */
};

typedef struct qs_onnx_opset {
    const char *domain; /* "" is ai.onnx */
    int64_t version;
} qs_onnx_opset;

typedef struct qs_onnx_metadata {
    const char *key, *value;
} qs_onnx_metadata;

typedef struct qs_onnx_model {
    const char *path;
    int64_t ir_version;
    const char *producer_name, *producer_version;
    int opsets, metadata_entries;
    const qs_onnx_opset *opset;
    const qs_onnx_metadata *metadata;
    qs_onnx_graph graph;
    /* TrainingInfoProto at the end of the file, if any, is not read. */
    struct qs_onnx_memory *memory; /* what owns all of this */
} qs_onnx_model;

/* ---- Opening --------------------------------------------------------------------------------------------------------- */

/* Reads a model. Functions of the file are put in place of the nodes that call them. Data outside the file are taken from the folder of
 * the file alone. QS_BAD_FILE with one line that names file, node or tensor, value and rule. */
QS_API qs_status qs_onnx_open(const char *path, qs_onnx_model *out);
/* The same from bytes at hand, which must stay while the model is open; `name` stands in messages, data outside are refused. */
QS_API qs_status qs_onnx_open_bytes(const char *name, const void *data, size_t bytes, qs_onnx_model *out);
/* A zeroed or released model is fine. */
QS_API void qs_onnx_release(qs_onnx_model *model);
/* Whether the first bytes of a file look like an ONNX model (not its name); for choosing readers. */
QS_API bool qs_onnx_recognise(const void *data, size_t bytes);

/* ---- Folding ---------------------------------------------------------------------------------------------------------- */

/* An extent that the file leaves open and the caller fixes. */
typedef struct qs_onnx_binding {
    const char *name; /* the symbol, "height"; or "input:2", an axis of an input */
    int64_t value;    /* 1 or more; 0: this is the length L, and stays a symbol; -1: this is the batch N */
} qs_onnx_binding;

typedef struct qs_onnx_fold_options {
    size_t bindings;
    const qs_onnx_binding *binding;
    bool fixed_batch;  /* axis 0 of inputs that the file fixes stays what it is; else it is the batch N where all inputs agree in it */
    bool keep_dropout; /* Dropout stays where its ratio is not 0, also in files made for inference, so that it can be trained with */
    bool parameters;   /* parameters are constants like others: everything that does not depend on inputs is computed */
} qs_onnx_fold_options;

/* Shapes of all values, constants, and a smaller graph that computes the same outputs, in place: nodes whose results are constants are
 * gone (parameters stay as they are, `is_parameter`), dead ones too; Identity, Dropout of inference and Cast to the same type are
 * bypassed; an Identity of a parameter that several read becomes a parameter of its own, named by the Identity's output, so that values
 * that an exporter merged do not train as one; If with a constant condition is its branch. Axis 0 of inputs is the batch N. At most one
 * other extent may stay open, L: a symbol, or the only unnamed one; others must be bound. options NULL: all defaults. */
QS_API qs_status qs_onnx_fold(qs_onnx_model *model, const qs_onnx_fold_options *options);

/* ---- Evaluating ------------------------------------------------------------------------------------------------------- */

/* Memory that results live in; released as a whole. */
typedef struct qs_onnx_memory qs_onnx_memory;
QS_API qs_status qs_onnx_memory_make(qs_onnx_memory **out);
QS_API void qs_onnx_memory_release(qs_onnx_memory *memory);

/* True where the evaluator knows an operator in the version of an opset. */
QS_API bool qs_onnx_evaluates(const qs_onnx_node *node);
/* Whether elements of an input say only how large the results are, or which part is taken: the shape of Reshape, the ends of Slice. */
QS_API bool qs_onnx_says_shape(const qs_onnx_node *node, int input);
/* Outputs of one node of a graph for constant inputs (NULL: absent): output[outputs], in `memory`. Arithmetic is that of the type: results
 * of float are rounded to fp32 operation by operator, sums are taken in double. QS_UNSUPPORTED names an operator, attribute or type that
 * is not known here; QS_BAD_FILE what contradicts itself. */
QS_API qs_status qs_onnx_evaluate(const qs_onnx_graph *graph, const qs_onnx_node *node, const qs_onnx_tensor *const *input,
                                  qs_onnx_memory *memory, qs_onnx_tensor *output);
/* A whole model: input[graph.inputs] in its order, output[graph.outputs]. */
QS_API qs_status qs_onnx_run(const qs_onnx_model *model, const qs_onnx_tensor *const *input, qs_onnx_memory *memory,
                             qs_onnx_tensor *output);
/* A file that holds one tensor (TensorProto), as the conformance cases of ONNX have them. */
QS_API qs_status qs_onnx_tensor_read(const char *path, qs_onnx_memory *memory, qs_onnx_tensor *out);

#endif
