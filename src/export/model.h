// SPDX-License-Identifier: Apache-2.0
/* An ONNX model under construction, and its file: nodes, initializers, inputs and outputs, by names. Names live as long as the model and
 * are interned: equal names are the same pointer. The first failure sticks (`status`), so that those who write nodes need not ask behind
 * each; the names that they get then mean nothing. */
#ifndef QSYNC_EXPORT_MODEL_H
#define QSYNC_EXPORT_MODEL_H

#include "qsync/onnx_fields.h"

enum { QS__MOST_AXES = 6, QS__MOST_OUTPUTS = 4 };

/* An initializer. */
typedef struct qs__constant {
    const char *name;
    qs_onnx_type type;
    int axes;
    int64_t dim[QS__MOST_AXES];
    const void *data; /* row-major, little-endian; two int4 a byte, the first one in its low half */
    void *owned;      /* the same, where the model is to free it */
    size_t bytes;
    uint64_t hash; /* of what may be shared; 0: weights, which are told apart by their names */
} qs__constant;

typedef struct qs__node {
    const char *op;
    int inputs, outputs;
    const char **input;
    const char *output[QS__MOST_OUTPUTS];
    qs_protobuf attributes;
    uint64_t hash;
} qs__node;

typedef struct qs__model {
    qs_status status;
    int opset;
    size_t nodes, node_capacity, constants, constant_capacity;
    qs__node *node;
    qs__constant *constant;
    qs_protobuf inputs, outputs; /* ValueInfo fields of the graph */
    const char *result;          /* the output */
    char **name;                 /* in the order in which they came; name_place is their table by hash */
    size_t names, name_capacity, name_places;
    size_t *name_place; /* place in `name`, counted from 1; 0: free */
} qs__model;

void qs__model_release(qs__model *model);

/* ---- Names ---- */

/* The name itself; or the next free one that begins so. */
const char *qs__name_of(qs__model *model, const char *name);
const char *qs__name_unused(qs__model *model, const char *start);

/* ---- Attributes of a node: fields of its message ---- */
void qs__attribute_integer(qs_protobuf *attributes, const char *name, int64_t value);
void qs__attribute_integers(qs_protobuf *attributes, const char *name, int count, const int64_t *value);
void qs__attribute_float(qs_protobuf *attributes, const char *name, double value);
void qs__attribute_text(qs_protobuf *attributes, const char *name, const char *value);
void qs__attribute_texts(qs_protobuf *attributes, const char *name, int count, const char *const *value);

/* ---- Parts ---- */

/* Appends a node. `attributes` (NULL: none) are released; inputs may be NULL, the last ones are then left out. Its outputs
 * are called "WHERE/OP". A node that is there already, with equal inputs and attributes, serves again unless it draws numbers (`unique`).
 * Returns the outputs. */
const char *const *qs__model_node(qs__model *model, const char *where, const char *op, qs_protobuf *attributes, int inputs,
                                  const char *const *input, int outputs, bool unique);
/* An initializer of this very name. `owned`: data, from qs_allocate, are the model's to free. */
const char *qs__model_weights(qs__model *model, const char *name, qs_onnx_type type, int axes, const int64_t *dim, size_t bytes,
                              const void *data, bool owned);
/* A constant by its values, which are copied; equal ones are one. */
const char *qs__model_constant(qs__model *model, const char *start, qs_onnx_type type, int axes, const int64_t *dim, size_t bytes,
                               const void *data);
const qs__constant *qs__model_constant_find(const qs__model *model, const char *name);
/* Inputs; and the output: the value `name`, which is called `as` from now on. The batch is an extent of QS_ONNX_OPEN. */
void qs__model_input(qs__model *model, const char *name, qs_onnx_type type, int axes, const int64_t *dim);
void qs__model_output(qs__model *model, const char *name, const char *as, int axes, const int64_t *dim);

/* The place of a name in `name`. */
size_t qs__name_index(const qs__model *model, const char *name);

/* ---- The file (file.c) ---- */

/* The version of the format that holds an opset. */
int qs__ir_version(int opset);
/* Removes nodes and initializers that nothing leads from to the outputs, then writes, atomically. `external`: values of 1024 bytes and more
 * go to PATH.data beside it, as they do where the file would not be below 2 GB. *bytes: of both files. */
qs_status qs__model_write(qs__model *model, const char *path, const char *graph_name, bool external, int64_t *bytes);

#endif
