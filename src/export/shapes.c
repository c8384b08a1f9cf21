// SPDX-License-Identifier: Apache-2.0
/* Channels and positions that are moved, taken or averaged: concat, slice, shuffle, pools, flatten. */
#include "operators.h"

/* ---- Channels ---------------------------------------------------------------------------------------------------------------------- */

/* Features of a flattened image have no channels that one could take: they go back to memory's order. */
static qs__layout channels_layout(const qs__writer *w) {
    return qs__node_at(w)->shape.axes == 4 ? qs__in_layout(w, 0) : QS__CHANNELS_LAST;
}

/* The axis of channels, or with the setting `along` that of positions. */
static int axis_of(const qs__writer *w, qs__layout layout) {
    const qs_node *node = qs__node_at(w);
    if (node->attributes.along != 0 || (layout == QS__CHANNELS_FIRST && node->shape.axes == 4)) return 1;
    return node->shape.axes - 1;
}

void qs__write_concat(qs__writer *w) {
    const qs__layout layout = channels_layout(w);
    const char *first = qs__as_read(w, qs__value_in(w, 0, layout)), *second = qs__as_read(w, qs__value_in(w, 1, layout));
    qs__result(w, layout, qs__onnx_concat(w, axis_of(w, layout), first, second));
}

void qs__write_slice(qs__writer *w) {
    const qs_node *node = qs__node_at(w);
    const qs__layout layout = channels_layout(w);
    const int64_t count = node->shape.dim[node->attributes.along != 0 ? 2 : 1], first = node->attributes.offset;
    qs__result(w, layout, qs__onnx_slice(w, qs__value_in(w, 0, layout), axis_of(w, layout), first, first + count));
}

/* Seen as groups of members, the transpose. */
void qs__write_channel_shuffle(qs__writer *w) {
    const qs_shape *shape = &qs__node_at(w)->shape;
    const int64_t groups = qs__node_at(w)->attributes.groups, members = shape->dim[1] / groups;
    const int64_t positions = shape->axes == 2 ? 1 : qs_shape_count(shape) / shape->dim[1];
    if (shape->axes == 4) {
        const int64_t height = shape->dim[2], width = shape->dim[3];
        const char *apart = QS__RESHAPE(w, qs__value_in(w, 0, QS__CHANNELS_FIRST), -1, groups, members, height, width);
        qs__result(w, QS__CHANNELS_FIRST, QS__RESHAPE(w, QS__TRANSPOSE(w, apart, 0, 2, 1, 3, 4), -1, groups * members, height, width));
        return;
    }
    const char *apart = QS__RESHAPE(w, qs__value_in(w, 0, QS__CHANNELS_LAST), -1, positions, groups, members);
    const char *shuffled = QS__TRANSPOSE(w, apart, 0, 1, 3, 2);
    qs__result(w, QS__CHANNELS_LAST,
               shape->axes == 3 ? QS__RESHAPE(w, shuffled, -1, positions, groups * members)
                                : QS__RESHAPE(w, shuffled, -1, groups * members));
}

/* ---- Pools ------------------------------------------------------------------------------------------------------------------------- */

void qs__write_max_pool(qs__writer *w) {
    qs_protobuf with = {0};
    qs__window_attributes(&qs__node_at(w)->attributes, &with);
    qs__result(w, QS__CHANNELS_FIRST, QS__NODE(w, "MaxPool", &with, qs__value_in(w, 0, QS__CHANNELS_FIRST)));
}

void qs__write_average_pool(qs__writer *w) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    qs_protobuf with = {0};
    if ((of->dilation[0] > 1 || of->dilation[1] > 1) && w->model.opset < 19)
        w->model.status =
            qs_fail(QS_USAGE, "operator %s: means of windows with dilation need opset 19, not %d", qs__node_at(w)->name, w->model.opset);
    qs__window_attributes(of, &with);
    if (of->count_padding) qs__attribute_integer(&with, "count_include_pad", 1);
    qs__result(w, QS__CHANNELS_FIRST, QS__NODE(w, "AveragePool", &with, qs__value_in(w, 0, QS__CHANNELS_FIRST)));
}

void qs__write_global_average_pool(qs__writer *w) {
    if (qs_shape_count(qs__in_shape(w, 0)) > 0 && qs__in_shape(w, 0)->axes == 3) {
        qs__result(w, QS__CHANNELS_LAST, QS__MEAN(w, qs__value_in(w, 0, QS__CHANNELS_LAST), 1));
        return;
    }
    qs__result(w, QS__CHANNELS_FIRST, QS__NODE(w, "GlobalAveragePool", NULL, qs__value_in(w, 0, QS__CHANNELS_FIRST)));
}

/* ---- The same values in other shapes ------------------------------------------------------------------------------------------------- */

/* An image's features stand in the order C,H,W, as PyTorch's do, and so do the weights of what reads them (writer.h). */
void qs__write_flatten(qs__writer *w) {
    const qs_shape *src = qs__in_shape(w, 0);
    const bool image = src->axes == 4;
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", 1);
    const char *x = qs__value_in(w, 0, image ? QS__CHANNELS_FIRST : QS__CHANNELS_LAST);
    qs__result(w, image ? QS__CHANNELS_FIRST : QS__CHANNELS_LAST, QS__NODE(w, "Flatten", &with, qs__as_read(w, x)));
    if (!image) return;
    w->value[w->at].channels = src->dim[1];
    w->value[w->at].positions = src->dim[2] * src->dim[3];
}

/* [N,C,H,W] to [N,H·W,C]. */
void qs__write_sequence(qs__writer *w) {
    const qs_shape *src = qs__in_shape(w, 0);
    const int64_t channels = src->dim[1], positions = src->dim[2] * src->dim[3];
    if (qs__in_layout(w, 0) == QS__CHANNELS_LAST) {
        qs__result(w, QS__CHANNELS_LAST, QS__RESHAPE(w, qs__value_in(w, 0, QS__CHANNELS_LAST), -1, positions, channels));
        return;
    }
    const char *rows = QS__RESHAPE(w, qs__value_in(w, 0, QS__CHANNELS_FIRST), -1, channels, positions);
    qs__result(w, QS__CHANNELS_LAST, QS__TRANSPOSE(w, rows, 0, 2, 1));
}
