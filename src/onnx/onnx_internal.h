// SPDX-License-Identifier: Apache-2.0
/* What files of the room onnx share: memory, names, the wire format, tensors of files. */
#ifndef QSYNC_ONNX_INTERNAL_H
#define QSYNC_ONNX_INTERNAL_H

#include "qsync/onnx_fields.h"

/* ---- Memory (memory.c) ------------------------------------------------------------------------------------------------- */

/* Bytes that results of folding, and what a file's data grow to when they are read, may take together: a small file must not ask for
 * gigabytes. */
#define QS__ONNX_MEMORY_LIMIT ((size_t)1 << 30)

/* Zeroed, 16-byte aligned, of count × size bytes; lives as long as the memory does. QS_UNSUPPORTED beyond the limit. */
qs_status qs__onnx_take(qs_onnx_memory *memory, size_t count, size_t size, void *out);
/* A copy of bytes with a NUL behind it. */
qs_status qs__onnx_copy_text(qs_onnx_memory *memory, const void *bytes, size_t count, const char **out);
qs_status qs__onnx_print(qs_onnx_memory *memory, const char **out, const char *format, ...) QS_PRINTF(3, 4);
/* A file's bytes, mapped until the memory is released; the same file is mapped once. An empty file has bytes 0. */
qs_status qs__onnx_map_file(qs_onnx_memory *memory, const char *path, const void **data, size_t *bytes);

/* ---- Names (names.c) ---------------------------------------------------------------------------------------------------- */

/* Names with a number each. Keys are not copied. */
typedef struct qs__names {
    size_t count, capacity;
    struct qs__name {
        const char *key;
        int64_t number;
    } * slot;
} qs__names;
/* Adds a name that is not there, or changes its number; the key stays the first one. */
qs_status qs__names_set(qs__names *names, const char *key, int64_t number);
bool qs__names_get(const qs__names *names, const char *key, int64_t *number);
void qs__names_release(qs__names *names);

/* ---- Fields of messages (wire.c) --------------------------------------------------------------------------------------------- */

/* How often a field is there; counts[number] for numbers below `limit`. */
qs_status qs__wire_count(qs_wire from, size_t *counts, uint32_t limit);
/* Contents of a field that must be of one kind; `what` names it in messages. */
qs_status qs__field_int(const qs_wire_field *field, const char *what, int64_t *out);
qs_status qs__field_float(const qs_wire_field *field, const char *what, float *out);
qs_status qs__field_message(const qs_wire_field *field, const char *what, qs_wire *out);
/* A text without a NUL in it, at most QS_ONNX_MAX_NAME bytes, in memory. */
qs_status qs__field_name(const qs_wire_field *field, const char *what, qs_onnx_memory *memory, const char **out);
/* A field of a list of numbers, packed or one by one: appends its numbers at out[*count], at most `room` in all; out NULL: counts alone.
 * Varints go to int64_t. */
qs_status qs__field_varints(const qs_wire_field *field, const char *what, int64_t *out, size_t room, size_t *count);
/* Numbers of 4 or 8 bytes, as they are. */
qs_status qs__field_fixed(const qs_wire_field *field, const char *what, size_t size, void *out, size_t room, size_t *count);

/* ---- Tensors of files (tensor_read.c, external.c) --------------------------------------------------------------------------- */

/* Where data outside of the file are looked for; folder NULL: nowhere. */
typedef struct qs__place {
    qs_onnx_memory *memory;
    const char *folder;
} qs__place;

/* A TensorProto, and a SparseTensorProto as the tensor that it describes. */
qs_status qs__tensor_read(const qs__place *place, qs_wire from, qs_onnx_tensor *out);
qs_status qs__sparse_read(const qs__place *place, qs_wire from, qs_onnx_tensor *out);
/* Bytes of a file of the folder. `bytes` below 0: to its end. */
qs_status qs__external_read(const qs__place *place, const char *location, int64_t offset, int64_t bytes, const void **data, size_t *got);
/* A TypeProto of a tensor as a value declares it; another type leaves it undeclared. */
qs_status qs__type_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_value *out);
/* Product of extents; false where one is negative or it is above 2^40. */
bool qs__tensor_count(int rank, const int64_t *dim, int64_t *count);
/* Bytes of `count` elements in `data`. */
size_t qs__tensor_bytes(qs_onnx_type type, int64_t count);

/* ---- Arithmetic of extents (extent.c) ------------------------------------------------------------------------------------------- */

extern const qs_onnx_extent qs__extent_unknown, qs__extent_batch, qs__extent_length;
/* Unknown where an operand is, or the result has other powers, or does not fit. */
qs_onnx_extent qs__extent_add(const qs_onnx_extent *a, const qs_onnx_extent *b);
qs_onnx_extent qs__extent_subtract(const qs_onnx_extent *a, const qs_onnx_extent *b);
qs_onnx_extent qs__extent_multiply(const qs_onnx_extent *a, const qs_onnx_extent *b);
/* Where b divides a for every N and L. */
qs_onnx_extent qs__extent_divide(const qs_onnx_extent *a, const qs_onnx_extent *b);
/* With 1 in place of N. */
qs_onnx_extent qs__extent_of_one_sample(const qs_onnx_extent *extent);
/* -1, 0 or 1 where a is below, equal to or above b for all N and L of at least 1; false where that depends on them. */
bool qs__extent_compare(const qs_onnx_extent *a, const qs_onnx_extent *b, int *order);

/* ---- Reading graphs (attribute.c, call.c, graph_read.c, order.c) -------------------------------------------------------------- */

/* An AttributeProto; of graphs, which the graph's reader reads, the number alone. */
qs_status qs__attribute_read(const qs__place *place, qs_wire from, qs_onnx_attribute *out);

enum { QS__FUNCTION_KEY = 3 * QS_ONNX_MAX_NAME + 3, QS__MOST_OPSETS = 1000, QS__MOST_FORMAL = 1000 };
/* A function of the file, read only where it is called. */
typedef struct qs__function {
    const char *domain, *name, *overload;
    qs_wire wire;
    int inputs, outputs;
    const char *const *input, *const *output; /* formal names */
    int defaults;
    const qs_onnx_attribute *standard; /* attributes with a default */
    int opsets;
    const qs_onnx_opset *opset;
} qs__function;
qs_status qs__function_read(const qs__place *place, qs_wire from, qs__function *out);
/* OperatorSetIdProto; "ai.onnx" becomes "". */
qs_status qs__opset_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_opset *out);

/* A call of a function whose nodes are put in place of it. */
typedef struct qs__call {
    struct qs__call *list;         /* of all, for their release */
    const struct qs__call *caller; /* NULL: the model's graphs */
    const qs__function *function;
    int depth;
    const char *prefix;     /* of names that the function alone has: "caller/" */
    qs__names renamed;      /* names of its text that were seen: indices of `actual` */
    size_t count, capacity; /* of `actual` */
    const char **actual;    /* what they are in the graph */
    int attributes;         /* of the node that calls */
    const qs_onnx_attribute *attribute;
} qs__call;
/* What a name of the function's text is in the graph; call NULL: the name itself. */
qs_status qs__call_name(qs_onnx_memory *memory, qs__call *call, const char *name, const char **out);
/* Makes a name of the function's text stand for one of the graph. */
qs_status qs__call_rename(qs__call *call, const char *name, const char *actual);
/* Resolves a reference to an attribute of the caller: *out changed, or *absent where neither caller nor function give it. */
qs_status qs__call_attribute(const qs__call *call, qs_onnx_attribute *out, bool *absent);
void qs__call_release(qs__call *list);

/* What is the same for all graphs of a file. */
typedef struct qs__reader {
    qs__place place;
    int functions, opsets;
    const qs__function *function;
    qs__names function_names; /* "domain\nname\noverload" */
    const qs_onnx_opset *opset;
    int64_t nodes;      /* read so far */
    int64_t formals;    /* names of functions that calls gave a meaning so far */
    qs__names prefixes; /* of calls */
    qs__call *calls;
} qs__reader;
/* A GraphProto, functions in place. */
qs_status qs__graph_read(qs__reader *reader, qs_wire from, qs_onnx_graph *out);
/* Puts nodes in an order in which each reads what those before it write; QS_BAD_FILE names a node of a cycle. */
qs_status qs__graph_order(qs_onnx_graph *graph);
/* Counts again what reads each value. */
void qs__graph_count_uses(qs_onnx_graph *graph);

#endif
