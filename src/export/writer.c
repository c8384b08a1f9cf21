// SPDX-License-Identifier: Apache-2.0
/* What the functions that write operators share: see writer.h. */
#include "writer.h"

#include <string.h>

/* ---- Nodes and constants ---------------------------------------------------------------------------------------------------------- */

const qs_node *qs__node_at(const qs__writer *w) {
    return &w->graph->node[w->at];
}

const char *qs__onnx_node(qs__writer *w, const char *op, qs_protobuf *attributes, int inputs, const char *const *input) {
    return qs__model_node(&w->model, qs__node_at(w)->name, op, attributes, inputs, input, 1, false)[0];
}

const char *qs__onnx_integers(qs__writer *w, int count, const int64_t *value) {
    const int64_t dim = count;
    return qs__model_constant(&w->model, "integers", QS_ONNX_INT64, 1, &dim, (size_t)count * sizeof *value, value);
}

const char *qs__onnx_integer(qs__writer *w, int64_t value) {
    return qs__model_constant(&w->model, "integer", QS_ONNX_INT64, 0, NULL, sizeof value, &value);
}

const char *qs__onnx_numbers(qs__writer *w, int axes, const int64_t *dim, const float *value) {
    size_t count = 1;
    for (int i = 0; i < axes; i++)
        count *= (size_t)dim[i];
    return qs__model_constant(&w->model, "numbers", QS_ONNX_FLOAT, axes, dim, count * sizeof *value, value);
}

const char *qs__onnx_number(qs__writer *w, double value) {
    const float rounded = (float)value;
    return qs__model_constant(&w->model, "number", QS_ONNX_FLOAT, 0, NULL, sizeof rounded, &rounded);
}

const char *qs__onnx_transpose(qs__writer *w, const char *x, int axes, const int64_t *order) {
    qs_protobuf with = {0};
    qs__attribute_integers(&with, "perm", axes, order);
    return QS__NODE(w, "Transpose", &with, x);
}

/* The axes became an input with opset 18. */
const char *qs__onnx_mean(qs__writer *w, const char *x, int axes, const int64_t *axis) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "keepdims", 1);
    if (w->model.opset >= 18) return QS__NODE(w, "ReduceMean", &with, x, qs__onnx_integers(w, axes, axis));
    qs__attribute_integers(&with, "axes", axes, axis);
    return QS__NODE(w, "ReduceMean", &with, x);
}

const char *qs__onnx_slice(qs__writer *w, const char *x, int axis, int64_t begin, int64_t end) {
    return QS__NODE(w, "Slice", NULL, x, QS__INTEGERS(w, begin), QS__INTEGERS(w, end), QS__INTEGERS(w, axis));
}

const char *qs__onnx_concat(qs__writer *w, int axis, const char *a, const char *b) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", axis);
    return QS__NODE(w, "Concat", &with, a, b);
}

const char *qs__onnx_cast(qs__writer *w, const char *x, qs_onnx_type to) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "to", to);
    return QS__NODE(w, "Cast", &with, x);
}

/* ---- Values ----------------------------------------------------------------------------------------------------------------------- */

const qs_shape *qs__in_shape(const qs__writer *w, int input) {
    return &w->graph->node[qs__node_at(w)->input[input]].shape;
}

const char *qs__laid(qs__writer *w, int node, qs__layout layout) {
    const qs__value *value = &w->value[node];
    const int axes = w->graph->node[node].shape.axes;
    if (value->layout == layout || axes == 3) return value->name;
    if (axes == 4)
        return layout == QS__CHANNELS_LAST ? QS__TRANSPOSE(w, value->name, 0, 2, 3, 1) : QS__TRANSPOSE(w, value->name, 0, 3, 1, 2);
    if (layout == QS__CHANNELS_FIRST) return value->name;                  /* features that are no image's have one order */
    if (value->channels <= 1 || value->positions <= 1) return value->name; /* as have those of one channel, or of one place */
    const char *image = QS__RESHAPE(w, value->name, -1, value->channels, value->positions);
    return QS__RESHAPE(w, QS__TRANSPOSE(w, image, 0, 2, 1), -1, value->channels * value->positions);
}

const char *qs__value_in(qs__writer *w, int input, qs__layout layout) {
    return qs__laid(w, qs__node_at(w)->input[input], layout);
}

qs__layout qs__in_layout(const qs__writer *w, int input) {
    return w->value[qs__node_at(w)->input[input]].layout;
}

bool qs__in_one_order(const qs__writer *w) {
    const qs__value *a = &w->value[qs__node_at(w)->input[0]], *b = &w->value[qs__node_at(w)->input[1]];
    return a->layout == b->layout && a->channels == b->channels && a->positions == b->positions;
}

void qs__result(qs__writer *w, qs__layout layout, const char *name) {
    w->value[w->at] = (qs__value){.name = name, .layout = layout};
}

void qs__result_alike(qs__writer *w, const char *name) {
    w->value[w->at] = w->value[qs__node_at(w)->input[0]];
    w->value[w->at].name = name;
}

/* ---- Parameters ------------------------------------------------------------------------------------------------------------------- */

const qs_parameter *qs__parameter(const qs__writer *w, qs_role role) {
    return qs_graph_parameter(w->graph, w->at, role);
}

qs_weights_place qs__place(const qs__writer *w, const qs_parameter *parameter) {
    return qs_weights_place_of(w->graph, (int)(parameter - w->graph->parameter));
}

const qs_tensor *qs__values(const qs__writer *w, const qs_weights_place *place) {
    return qs_tensor_set_find(&w->weights, place->name);
}

const char *qs__initializer_at(qs__writer *w, const qs_weights_place *place) {
    const qs_tensor *tensor = qs__values(w, place);
    const qs__constant *there = qs__model_constant_find(&w->model, place->name);
    if (there) return there->name;
    return qs__model_weights(&w->model, place->name, QS_ONNX_FLOAT, tensor->shape.axes, tensor->shape.dim,
                             qs_tensor_bytes(&tensor->shape, tensor->format), tensor->data, false);
}

const char *qs__initializer_shaped(qs__writer *w, const qs_parameter *parameter) {
    const qs_weights_place place = qs__place(w, parameter);
    const char *name = qs__initializer_at(w, &place);
    qs_shape shape = parameter->shape;
    if (place.transposed) shape = qs_shape_of(2, shape.dim[1], shape.dim[0]);
    shape.dim[place.transposed] *= place.parts;
    return qs_shape_equal(&shape, &qs__values(w, &place)->shape)
               ? name
               : QS__NODE(w, "Reshape", NULL, name, qs__onnx_integers(w, shape.axes, shape.dim));
}

const char *qs__initializer(qs__writer *w, qs_role role) {
    const qs_parameter *parameter = qs__parameter(w, role);
    return parameter ? qs__initializer_shaped(w, parameter) : NULL;
}

void qs__features_turn(qs__writer *w, qs_role role) {
    const qs_parameter *parameter = qs__parameter(w, role);
    const qs_weights_place place = parameter ? qs__place(w, parameter) : (qs_weights_place){.parts = 1};
    qs__value *value = &w->value[qs__node_at(w)->input[0]];
    if (place.image.axes == 0 || value->layout == QS__CHANNELS_FIRST) return;
    const int64_t channels = place.image.dim[1], all = qs_shape_count(&place.image);
    const char *pixels = QS__RESHAPE(w, value->name, -1, all / channels, channels);
    *value = (qs__value){.name = QS__RESHAPE(w, QS__TRANSPOSE(w, pixels, 0, 2, 1), -1, all),
                         .layout = QS__CHANNELS_FIRST,
                         .channels = channels,
                         .positions = all / channels};
}

const char *qs__channel_vector(qs__writer *w, qs_role role, qs__layout layout, int axes) {
    const char *vector = qs__initializer(w, role);
    return layout == QS__CHANNELS_FIRST && axes == 4 ? QS__RESHAPE(w, vector, -1, 1, 1) : vector;
}
