// SPDX-License-Identifier: Apache-2.0
/* Values that flow, written as files declare them. */
#include "qsync/onnx_fields.h"

void qs_onnx_value_write(qs_protobuf *graph, int field, const char *name, qs_onnx_type type, int axes, const int64_t *dim) {
    qs_protobuf value = {0}, kind = {0}, tensor = {0}, shape = {0};
    for (int i = 0; i < axes; i++) {
        qs_protobuf extent = {0};
        if (dim[i] == QS_ONNX_OPEN)
            qs_protobuf_text(&extent, QS_FIELD_SHAPE_SYMBOL, "batch");
        else
            qs_protobuf_integer(&extent, QS_FIELD_SHAPE_NUMBER, dim[i]);
        qs_protobuf_nest(&shape, QS_FIELD_SHAPE_DIMENSION, &extent);
    }
    qs_protobuf_integer(&tensor, QS_FIELD_TYPE_ELEMENT, type);
    qs_protobuf_nest(&tensor, QS_FIELD_TYPE_SHAPE, &shape);
    qs_protobuf_nest(&kind, QS_FIELD_TYPE_TENSOR, &tensor);
    qs_protobuf_text(&value, QS_FIELD_VALUE_NAME, name);
    qs_protobuf_nest(&value, QS_FIELD_VALUE_TYPE, &kind);
    qs_protobuf_nest(graph, field, &value);
}
