// SPDX-License-Identifier: Apache-2.0
/* onnx_fields: numbers of the fields of ONNX's messages, for those who write them (https://github.com/onnx/onnx, onnx.proto), and the one
 * message that all of them write alike. Readers are in the room itself: onnx.h. */
#ifndef QSYNC_ONNX_FIELDS_H
#define QSYNC_ONNX_FIELDS_H

#include "qsync/onnx.h"
#include "qsync/protobuf.h"

enum { QS_FIELD_MODEL_IR = 1, QS_FIELD_MODEL_PRODUCER = 2, QS_FIELD_MODEL_GRAPH = 7, QS_FIELD_MODEL_OPSET = 8 };
enum { QS_FIELD_OPSET_VERSION = 2 };
enum {
    QS_FIELD_GRAPH_NODE = 1,
    QS_FIELD_GRAPH_NAME = 2,
    QS_FIELD_GRAPH_INITIALIZER = 5,
    QS_FIELD_GRAPH_INPUT = 11,
    QS_FIELD_GRAPH_OUTPUT = 12,
    QS_FIELD_GRAPH_VALUE_INFO = 13
};
enum { QS_FIELD_NODE_INPUT = 1, QS_FIELD_NODE_OUTPUT = 2, QS_FIELD_NODE_NAME = 3, QS_FIELD_NODE_OP = 4, QS_FIELD_NODE_ATTRIBUTE = 5 };
enum { QS_FIELD_ATTRIBUTE_NAME = 1, QS_FIELD_ATTRIBUTE_F = 2, QS_FIELD_ATTRIBUTE_I = 3, QS_FIELD_ATTRIBUTE_S = 4 };
enum { QS_FIELD_ATTRIBUTE_INTS = 8, QS_FIELD_ATTRIBUTE_STRINGS = 9, QS_FIELD_ATTRIBUTE_TYPE = 20 };
enum {
    QS_FIELD_TENSOR_DIMS = 1,
    QS_FIELD_TENSOR_TYPE = 2,
    QS_FIELD_TENSOR_NAME = 8,
    QS_FIELD_TENSOR_RAW = 9,
    QS_FIELD_TENSOR_EXTERNAL = 13,
    QS_FIELD_TENSOR_LOCATION = 14
};
enum { QS_FIELD_ENTRY_KEY = 1, QS_FIELD_ENTRY_VALUE = 2 };
enum { QS_LOCATION_EXTERNAL = 1 }; /* of a tensor: its values lie in another file */

/* A tensor that flows (ValueInfoProto) as a field of a graph's message: QS_FIELD_GRAPH_INPUT or QS_FIELD_GRAPH_OUTPUT. An extent of -1 is
 * the batch, which stays open. */
QS_API void qs_onnx_value_write(qs_protobuf *graph, int field, const char *name, qs_onnx_type type, int axes, const int64_t *dim);

#endif
