// SPDX-License-Identifier: Apache-2.0
/* Models written field by field, for the tests of the room onnx: messages that grow, and become fields of others. */
#ifndef QSYNC_TESTS_ONNX_BYTES
#define QSYNC_TESTS_ONNX_BYTES

#include "kit/kit.h"
#include "qsync/onnx.h"
#include "qsync/protobuf.h"

/* A message, or the text of one. Freed by whoever takes it into another one. */
typedef qs_protobuf bytes;

static inline void bytes_put(bytes *to, const void *data, size_t count) {
    assert_ok(qs_grow(&to->data, &to->capacity, to->count + count, 1));
    if (count > 0) memcpy(to->data + to->count, data, count);
    to->count += count;
}

static inline void put_int(bytes *to, int field, int64_t value) {
    qs_protobuf_integer(to, field, value);
}

static inline void put_float(bytes *to, int field, float value) {
    qs_protobuf_float(to, field, value);
}

static inline void put_data(bytes *to, int field, const void *data, size_t count) {
    qs_protobuf_bytes(to, field, count, data);
}

static inline void put_text(bytes *to, int field, const char *text) {
    qs_protobuf_text(to, field, text);
}

/* Takes the message and frees it. */
static inline void put_message(bytes *to, int field, bytes message) {
    qs_protobuf_nest(to, field, &message);
    assert_ok(to->status);
}

/* ---- Parts of models ---- */

/* TensorProto with raw data. */
static inline bytes tensor_of(const char *name, int type, int rank, const int64_t *dim, const void *data, size_t count) {
    bytes out = {0};
    for (int i = 0; i < rank; i++)
        put_int(&out, 1, dim[i]);
    put_int(&out, 2, type);
    put_text(&out, 8, name);
    put_data(&out, 9, data, count);
    return out;
}

static inline bytes floats_of(const char *name, int64_t count, const float *values) {
    return tensor_of(name, QS_ONNX_FLOAT, 1, &count, values, (size_t)count * sizeof *values);
}

static inline bytes integers_of(const char *name, int64_t count, const int64_t *values) {
    return tensor_of(name, QS_ONNX_INT64, 1, &count, values, (size_t)count * sizeof *values);
}

/* ValueInfoProto: extents below 0 are open, without a name. */
static inline bytes value_of(const char *name, int type, int rank, const int64_t *dim) {
    bytes out = {0}, of_type = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < rank; i++) {
        bytes extent = {0};
        if (dim[i] >= 0) put_int(&extent, 1, dim[i]);
        put_message(&shape, 1, extent);
    }
    put_int(&tensor, 1, type);
    put_message(&tensor, 2, shape);
    put_message(&of_type, 1, tensor);
    put_text(&out, 1, name);
    put_message(&out, 2, of_type);
    return out;
}

/* AttributeProto. */
static inline bytes attribute_int(const char *name, int64_t value) {
    bytes out = {0};
    put_text(&out, 1, name);
    put_int(&out, 3, value);
    put_int(&out, 20, QS_ONNX_ATTRIBUTE_INT);
    return out;
}

static inline bytes attribute_ints(const char *name, int count, const int64_t *values) {
    bytes out = {0};
    put_text(&out, 1, name);
    for (int i = 0; i < count; i++)
        put_int(&out, 8, values[i]);
    put_int(&out, 20, QS_ONNX_ATTRIBUTE_INTS);
    return out;
}

/* Takes the graph. */
static inline bytes attribute_graph(const char *name, bytes graph) {
    bytes out = {0};
    put_text(&out, 1, name);
    put_message(&out, 6, graph);
    put_int(&out, 20, QS_ONNX_ATTRIBUTE_GRAPH);
    return out;
}

/* NodeProto: inputs and outputs are names between commas, "x,,w". */
static inline bytes node_of(const char *op, const char *inputs, const char *outputs) {
    bytes out = {0};
    const char *const lists[] = {inputs, outputs};
    for (int i = 0; i < 2; i++)
        for (const char *at = lists[i]; *lists[i];) {
            const size_t length = strcspn(at, ",");
            put_data(&out, i + 1, at, length);
            if (!at[length]) break;
            at += length + 1;
        }
    put_text(&out, 4, op);
    return out;
}

/* ModelProto of a graph, which it takes. */
static inline bytes model_of(bytes graph, int ir, int opset) {
    bytes out = {0}, version = {0};
    put_int(&out, 1, ir);
    put_message(&out, 7, graph);
    put_text(&version, 1, "");
    put_int(&version, 2, opset);
    put_message(&out, 8, version);
    return out;
}

/* A graph that gives out "y" of a float input "x" [open, 4]; nodes are put into it by field 1, initializers by field 5. */
static inline bytes graph_begin(void) {
    bytes out = {0};
    put_text(&out, 2, "graph");
    put_message(&out, 11, value_of("x", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, 4}));
    put_message(&out, 12, value_of("y", QS_ONNX_FLOAT, 2, (const int64_t[]){-1, 4}));
    return out;
}

#endif
