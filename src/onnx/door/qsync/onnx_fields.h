// SPDX-License-Identifier: Apache-2.0
/* onnx_fields: numbers of the fields of ONNX's messages (https://github.com/onnx/onnx, onnx.proto), for the room's readers and for those
 * who write files; and the one message that all writers write alike. Fields that nobody here reads or writes are left out. QS_FIELD_..._END
 * stands behind the last number of a message whose fields are counted before they are read. */
#ifndef QSYNC_ONNX_FIELDS_H
#define QSYNC_ONNX_FIELDS_H

#include "qsync/onnx.h"
#include "qsync/protobuf.h"

/* ModelProto. */
enum {
    QS_FIELD_MODEL_IR = 1,
    QS_FIELD_MODEL_PRODUCER = 2,
    QS_FIELD_MODEL_PRODUCER_VERSION = 3,
    QS_FIELD_MODEL_GRAPH = 7,
    QS_FIELD_MODEL_OPSET = 8,
    QS_FIELD_MODEL_METADATA = 14,
    QS_FIELD_MODEL_FUNCTION = 25,
    QS_FIELD_MODEL_END
};
/* OperatorSetIdProto. */
enum { QS_FIELD_OPSET_DOMAIN = 1, QS_FIELD_OPSET_VERSION = 2 };
/* FunctionProto. */
enum {
    QS_FIELD_FUNCTION_NAME = 1,
    QS_FIELD_FUNCTION_INPUT = 4,
    QS_FIELD_FUNCTION_OUTPUT = 5,
    QS_FIELD_FUNCTION_OPSET = 9,
    QS_FIELD_FUNCTION_DOMAIN = 10,
    QS_FIELD_FUNCTION_DEFAULT = 11,
    QS_FIELD_FUNCTION_OVERLOAD = 13,
    QS_FIELD_FUNCTION_END
};
/* GraphProto. */
enum {
    QS_FIELD_GRAPH_NODE = 1,
    QS_FIELD_GRAPH_NAME = 2,
    QS_FIELD_GRAPH_INITIALIZER = 5,
    QS_FIELD_GRAPH_INPUT = 11,
    QS_FIELD_GRAPH_OUTPUT = 12,
    QS_FIELD_GRAPH_VALUE_INFO = 13,
    QS_FIELD_GRAPH_SPARSE_INITIALIZER = 15,
    QS_FIELD_GRAPH_END
};
/* NodeProto. */
enum {
    QS_FIELD_NODE_INPUT = 1,
    QS_FIELD_NODE_OUTPUT = 2,
    QS_FIELD_NODE_NAME = 3,
    QS_FIELD_NODE_OP = 4,
    QS_FIELD_NODE_ATTRIBUTE = 5,
    QS_FIELD_NODE_DOMAIN = 7,
    QS_FIELD_NODE_OVERLOAD = 8,
    QS_FIELD_NODE_METADATA = 9,
    QS_FIELD_NODE_END
};
/* AttributeProto. */
enum {
    QS_FIELD_ATTRIBUTE_NAME = 1,
    QS_FIELD_ATTRIBUTE_F = 2,
    QS_FIELD_ATTRIBUTE_I = 3,
    QS_FIELD_ATTRIBUTE_S = 4,
    QS_FIELD_ATTRIBUTE_T = 5,
    QS_FIELD_ATTRIBUTE_G = 6,
    QS_FIELD_ATTRIBUTE_FLOATS = 7,
    QS_FIELD_ATTRIBUTE_INTS = 8,
    QS_FIELD_ATTRIBUTE_STRINGS = 9,
    QS_FIELD_ATTRIBUTE_TENSORS = 10,
    QS_FIELD_ATTRIBUTE_GRAPHS = 11,
    QS_FIELD_ATTRIBUTE_TYPE = 20,
    QS_FIELD_ATTRIBUTE_REFERENCE = 21,
    QS_FIELD_ATTRIBUTE_SPARSE = 22,
    QS_FIELD_ATTRIBUTE_SPARSES = 23,
    QS_FIELD_ATTRIBUTE_END
};
/* TensorProto. */
enum {
    QS_FIELD_TENSOR_DIMS = 1,
    QS_FIELD_TENSOR_TYPE = 2,
    QS_FIELD_TENSOR_SEGMENT = 3,
    QS_FIELD_TENSOR_FLOATS = 4,
    QS_FIELD_TENSOR_INT32S = 5,
    QS_FIELD_TENSOR_STRINGS = 6,
    QS_FIELD_TENSOR_INT64S = 7,
    QS_FIELD_TENSOR_NAME = 8,
    QS_FIELD_TENSOR_RAW = 9,
    QS_FIELD_TENSOR_DOUBLES = 10,
    QS_FIELD_TENSOR_UINT64S = 11,
    QS_FIELD_TENSOR_EXTERNAL = 13,
    QS_FIELD_TENSOR_LOCATION = 14
};
/* SparseTensorProto. */
enum { QS_FIELD_SPARSE_VALUES = 1, QS_FIELD_SPARSE_INDICES = 2, QS_FIELD_SPARSE_DIMS = 3 };
/* StringStringEntryProto. */
enum { QS_FIELD_ENTRY_KEY = 1, QS_FIELD_ENTRY_VALUE = 2 };
/* ValueInfoProto. */
enum { QS_FIELD_VALUE_NAME = 1, QS_FIELD_VALUE_TYPE = 2 };
/* TypeProto, and its tensor. */
enum { QS_FIELD_TYPE_TENSOR = 1, QS_FIELD_TYPE_ELEMENT = 1, QS_FIELD_TYPE_SHAPE = 2 };
/* TensorShapeProto, and its dimensions. */
enum { QS_FIELD_SHAPE_DIMENSION = 1, QS_FIELD_SHAPE_NUMBER = 1, QS_FIELD_SHAPE_SYMBOL = 2 };
enum { QS_LOCATION_EXTERNAL = 1 }; /* of a tensor: its values lie in another file */

/* Ends of names of weights that an export stored otherwise than the model has them; the import takes them off. TURNED stands before the
 * others. ONNX Runtime's quantizer writes the first, too. */
#define QS_ONNX_STORED_CODES "_quantized"
#define QS_ONNX_STORED_FLOAT8 "_float8"
#define QS_ONNX_STORED_HALF "_half"
#define QS_ONNX_STORED_TURNED "_transposed"

/* A tensor that flows (ValueInfoProto) as a field of a graph's message: QS_FIELD_GRAPH_INPUT or QS_FIELD_GRAPH_OUTPUT. An extent of
 * QS_ONNX_OPEN is the batch, which stays open. */
enum { QS_ONNX_OPEN = -1 };
QS_API void qs_onnx_value_write(qs_protobuf *graph, int field, const char *name, qs_onnx_type type, int axes, const int64_t *dim);

#endif
