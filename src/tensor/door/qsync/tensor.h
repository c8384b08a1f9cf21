// SPDX-License-Identifier: Apache-2.0
/* tensor: shapes over logical axes, views of memory in a storage format, and named tensor sets (saved weights).
 *
 * Axes are logical and ordered N, C, H, W for activations and O, I, H, W for weights, whatever the memory order is. Memory order (layout)
 * is always channels-last here: activations N,H,W,C; weights O,H,W,I; matrices row-major (N, C) and (O, I). Lower ranks simply lack axes.
 */
#ifndef QSYNC_TENSOR_H
#define QSYNC_TENSOR_H

#include "qsync/base.h"
#include "qsync/number.h"
#include "qsync/samples.h"

#define QS_MAX_AXES 4

typedef struct qs_shape {
    int axes; /* 0 .. QS_MAX_AXES; 0 is a scalar */
    int64_t dim[QS_MAX_AXES];
} qs_shape;

/* Shapes by value: qs_shape_of(4, n, c, h, w), qs_shape_of(0) for a scalar. A macro, so that extents of any integer type convert. */
#define qs_shape_of(...) qs_shape_make((const int64_t[QS_MAX_AXES + 1]){__VA_ARGS__})
/* The same from {axes, extents ...}; asserts 0 <= axes <= QS_MAX_AXES. */
QS_API qs_shape qs_shape_make(const int64_t axes_and_extents[QS_MAX_AXES + 1]);
/* Number of elements (1 for a scalar). Sizes are validated where shapes are made, so this never overflows. */
QS_API int64_t qs_shape_count(const qs_shape *shape);
QS_API bool qs_shape_equal(const qs_shape *a, const qs_shape *b);
/* "[128,16,32,32]" into a buffer of at least 96 bytes; returns it. */
QS_API const char *qs_shape_text(const qs_shape *shape, char *buffer);
/* QS_USAGE when an axis is < 1 or the element count exceeds 2^40; `what` names the tensor in the message. */
QS_API qs_status qs_shape_check(const qs_shape *shape, const char *what);

/* A view: who made it owns the memory. */
typedef struct qs_tensor {
    qs_shape shape;
    const qs_format *format; /* storage format; NULL marks an absent optional operand */
    void *data;              /* channels-last, packed storage */
} qs_tensor;
/* Bytes of a tensor of this shape and format. */
QS_API size_t qs_tensor_bytes(const qs_shape *shape, const qs_format *format);

/* ---- Named tensor sets: saved weights ------------------------------------------------------------------------------------- */
/* A safetensors file: 8-byte little-endian header length (at most 100,000,000), JSON header (per tensor dtype, shape, data_offsets), raw
 * little-endian data without gaps and overlaps (https://github.com/huggingface/safetensors). Data are row-major over the shape; whoever
 * writes or reads a set puts them into that order. "__metadata__" of our files holds schema, the model's name, the signature of its graph,
 * "format": "pt" for Hugging Face's readers, and an xxHash-64 over the header (without the hash entry, as compact JSON) and the data; where
 * schema or hash is there the hash must agree. Files of other programs need none of it. Written atomically; a damaged file is refused with
 * file, offset and rule. */
typedef struct qs_named_tensor {
    char name[96];
    qs_tensor tensor; /* format fp32, bf16, fp16 or int8; a file's tensor of another dtype has the format NULL */
    char dtype[16];   /* read: what the file calls its type, "F32", "I64" */
} qs_named_tensor;
typedef struct qs_tensor_set {
    size_t count;
    qs_named_tensor *tensors;
    char *memory;              /* owns the data when read from a file; NULL when the caller's tensors are listed for writing */
    char model[QS_MODEL_NAME]; /* metadata: model name with its options, and signature of its graph ("": not said) */
    char graph[32];
    uint64_t hash; /* read: xxHash-64 of the whole file */
} qs_tensor_set;
/* Tensors whose elements have more bytes come first, else in the set's order. QS_USAGE on empty, overlong or repeated names;
 * QS_UNSUPPORTED on a format without a dtype. */
QS_API qs_status qs_tensor_set_write(const char *path, const qs_tensor_set *set);
/* Tensors in the order of their data, each aligned to its elements in set->memory; released by qs_tensor_set_release. */
QS_API qs_status qs_tensor_set_read(const char *path, qs_tensor_set *out);
QS_API void qs_tensor_set_release(qs_tensor_set *set);
/* The tensor of that name, or NULL. */
QS_API const qs_tensor *qs_tensor_set_find(const qs_tensor_set *set, const char *name);

#endif
