// SPDX-License-Identifier: Apache-2.0
/* Values that flow, written as files declare them. */
#include "qsync/onnx_fields.h"

/* Field numbers of ValueInfoProto, TypeProto, its tensor's, and TensorShapeProto with its dimensions. */
enum { NAME = 1, TYPE = 2 };
enum { OF_TENSOR = 1, ELEMENT = 1, SHAPE = 2 };
enum { DIMENSION = 1, NUMBER = 1, SYMBOL = 2 };

void qs_onnx_value_write(qs_protobuf *graph, int field, const char *name, qs_onnx_type type, int axes, const int64_t *dim) {
    qs_protobuf value = {0}, kind = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < axes; i++) {
        qs_protobuf extent = {0};
        if (dim[i] < 0)
            qs_protobuf_text(&extent, SYMBOL, "batch");
        else
            qs_protobuf_integer(&extent, NUMBER, dim[i]);
        qs_protobuf_nest(&shape, DIMENSION, &extent);
    }
    qs_protobuf_integer(&tensor, ELEMENT, type);
    qs_protobuf_nest(&tensor, SHAPE, &shape);
    qs_protobuf_nest(&kind, OF_TENSOR, &tensor);
    qs_protobuf_text(&value, NAME, name);
    qs_protobuf_nest(&value, TYPE, &kind);
    qs_protobuf_nest(graph, field, &value);
}
