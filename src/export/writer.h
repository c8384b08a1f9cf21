// SPDX-License-Identifier: Apache-2.0
/* What the functions that write operators share: the node at hand, its inputs in the order of axes that they want, its parameters, ONNX
 * nodes and constants. */
#ifndef QSYNC_EXPORT_WRITER_H
#define QSYNC_EXPORT_WRITER_H

#include "model.h"
#include "qsync/export.h"

/* In which order of axes a value stands in ONNX, batch first. Values of 3 axes are always [N,L,C]. */
typedef enum qs__layout {
    QS__CHANNELS_LAST, /* as memory has it: [N,C], [N,L,C], [N,H,W,C] */
    QS__CHANNELS_FIRST /* [N,C,H,W]; of 2 axes: the features of such an image, flattened in that order */
} qs__layout;

typedef struct qs__value {
    const char *name;
    qs__layout layout;
    int64_t channels, positions; /* of 2 axes and channels first: of the image */
} qs__value;

typedef struct qs__writer {
    const qs_graph *graph;
    const qs_export_options *options;
    const qs_recipe *const *recipe; /* (nodes) NULL: fp32 */
    qs__model model;
    qs_tensor_set weights;
    int at;           /* the node that is being written */
    qs__value *value; /* (nodes) */
    int *folded;      /* (nodes) the convolution that a batch norm went into; 0: none (node 0 is an input) */
    qs_export_summary *summary;
} qs__writer;

/* The node at hand; its input of that number, and its shape; where it lies. */
const qs_node *qs__node_at(const qs__writer *w);
const qs_shape *qs__in_shape(const qs__writer *w, int input);
/* The value of an input in an order of axes; in the one that it has. */
const char *qs__value_in(qs__writer *w, int input, qs__layout layout);
qs__layout qs__in_layout(const qs__writer *w, int input);
/* Whether the first two inputs have their values in one order: features of flattened images only where these have the same extents. */
bool qs__in_one_order(const qs__writer *w);
/* A value in another order of axes. */
const char *qs__laid(qs__writer *w, int node, qs__layout layout);
/* The node's output. */
void qs__result(qs__writer *w, qs__layout layout, const char *name);
/* The same, laid out as its first input. */
void qs__result_alike(qs__writer *w, const char *name);

/* An ONNX node with one output; inputs may be NULL. QS__NODE(w, "Add", NULL, a, b). */
const char *qs__onnx_node(qs__writer *w, const char *op, qs_protobuf *attributes, int inputs, const char *const *input);
#define QS__NODE(w, op, attributes, ...)                                                                  \
    qs__onnx_node(w, op, attributes, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)), \
                  (const char *const[]){__VA_ARGS__})

/* Constants: int64 [count], a scalar; fp32 of some shape, a scalar. */
const char *qs__onnx_integers(qs__writer *w, int count, const int64_t *value);
#define QS__INTEGERS(w, ...) \
    qs__onnx_integers(w, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
const char *qs__onnx_integer(qs__writer *w, int64_t value);
const char *qs__onnx_numbers(qs__writer *w, int axes, const int64_t *dim, const float *value);
const char *qs__onnx_number(qs__writer *w, double value);

/* Reshape to extents, of which one may be -1; Transpose by axes 0, 1, ... */
#define QS__RESHAPE(w, x, ...) QS__NODE(w, "Reshape", NULL, x, QS__INTEGERS(w, __VA_ARGS__))
const char *qs__onnx_transpose(qs__writer *w, const char *x, int axes, const int64_t *order);
#define QS__TRANSPOSE(w, x, ...) \
    qs__onnx_transpose(w, x, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
/* Mean over axes, which stay as extents of 1. */
const char *qs__onnx_mean(qs__writer *w, const char *x, int axes, const int64_t *axis);
#define QS__MEAN(w, x, ...) \
    qs__onnx_mean(w, x, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
const char *qs__onnx_slice(qs__writer *w, const char *x, int axis, int64_t begin, int64_t end);
const char *qs__onnx_concat(qs__writer *w, int axis, const char *a, const char *b);
const char *qs__onnx_cast(qs__writer *w, const char *x, qs_onnx_type to);

/* The node's parameter of a role, that of its table where it is tied to one; NULL: it has none. Its place in files, and the values there.
 * As an initializer; as one of the shape that the parameter has here, where files have another, of so many parts and turned as they have
 * it. */
const qs_parameter *qs__parameter(const qs__writer *w, qs_role role);
qs_weights_place qs__place(const qs__writer *w, const qs_parameter *parameter);
const qs_tensor *qs__values(const qs__writer *w, const qs_weights_place *place);
const char *qs__initializer_at(qs__writer *w, const qs_weights_place *place);
const char *qs__initializer_shaped(qs__writer *w, const qs_parameter *parameter);
const char *qs__initializer(qs__writer *w, qs_role role);
/* Features of the first input that the parameter has in the order of a flattened image, C,H,W, stand in that order from here on. */
void qs__features_turn(qs__writer *w, qs_role role);
/* A vector of channels as it meets values of that layout: [C], or [C,1,1]. */
const char *qs__channel_vector(qs__writer *w, qs_role role, qs__layout layout, int axes);

#endif
