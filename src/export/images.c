// SPDX-License-Identifier: Apache-2.0
/* What stands around windows: transposed convolutions, norms of groups, instances and neighbours, padding, resizing. Sequences and features
 * are images of one column, or of one place. */
#include "operators.h"

#include "qsync/resample.h"

#include <stdlib.h>

/* The input as [N,C,H,W]. */
static const char *image_in(qs__writer *w) {
    const qs_shape *src = qs__in_shape(w, 0);
    if (src->axes == 4) return qs__value_in(w, 0, QS__CHANNELS_FIRST);
    const char *x = qs__value_in(w, 0, QS__CHANNELS_LAST);
    if (src->axes == 2) return QS__RESHAPE(w, x, -1, src->dim[1], 1, 1);
    return QS__RESHAPE(w, QS__TRANSPOSE(w, x, 0, 2, 1), -1, src->dim[1], src->dim[2], 1);
}

/* The output from such an image. */
static void image_result(qs__writer *w, const char *y) {
    const qs_shape *dst = &qs__node_at(w)->shape;
    if (dst->axes == 4)
        qs__result(w, QS__CHANNELS_FIRST, y);
    else if (dst->axes == 2)
        qs__result(w, QS__CHANNELS_LAST, QS__RESHAPE(w, y, -1, dst->dim[1]));
    else
        qs__result(w, QS__CHANNELS_LAST, QS__TRANSPOSE(w, QS__RESHAPE(w, y, -1, dst->dim[1], dst->dim[2]), 0, 2, 1));
}

/* Padding behind that would be negative is padding of the output. Its weights are [I, O/groups, kh, kw], also in the file. */
void qs__write_conv_transpose(qs__writer *w) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const qs_parameter *parameter = qs__parameter(w, QS_WEIGHTS);
    const qs_weights_place place = qs__place(w, parameter);
    const int64_t *dim = parameter->shape.dim;
    qs__weights weights = {.place = &place, .axes = 4, .dim = {dim[1], dim[0], dim[2], dim[3]}, .turned = true};
    int64_t behind[2], extra[2];
    qs_protobuf with = {0};
    for (int i = 0; i < 2; i++) {
        behind[i] = of->padding[i] + of->padding_more[i];
        extra[i] = behind[i] < 0 ? -behind[i] : 0;
        behind[i] += extra[i];
    }
    qs__attribute_integers(&with, "kernel_shape", 2, (int64_t[]){of->kernel[0], of->kernel[1]});
    qs__attribute_integers(&with, "strides", 2, (int64_t[]){of->stride[0], of->stride[1]});
    qs__attribute_integers(&with, "dilations", 2, (int64_t[]){of->dilation[0], of->dilation[1]});
    qs__attribute_integers(&with, "pads", 4, (int64_t[]){of->padding[0], of->padding[1], behind[0], behind[1]});
    qs__attribute_integers(&with, "output_padding", 2, extra);
    qs__attribute_integer(&with, "group", of->groups);
    qs__factor x = qs__factor_of(w, 0, QS__CHANNELS_FIRST, qs__value_in(w, 0, QS__CHANNELS_FIRST), false);
    const char *bias, *matrix = qs__weights_write(w, &weights, &x, &bias);
    qs__result(w, QS__CHANNELS_FIRST, QS__NODE(w, "ConvTranspose", &with, x.name, matrix, bias));
}

/* ---- Norms --------------------------------------------------------------------------------------------------------------------------- */

static const char *normalised(qs__writer *w, const char *x, const char *scale, const char *shift) {
    qs_protobuf with = {0};
    qs__attribute_float(&with, "epsilon", qs__node_at(w)->attributes.epsilon);
    return QS__NODE(w, "InstanceNormalization", &with, x, scale, shift);
}

/* Instances of as many channels as there are groups, each with all values of a group; opsets before 21 have nothing nearer. */
void qs__write_group_norm(qs__writer *w) {
    const qs_shape *src = qs__in_shape(w, 0);
    const int64_t groups = qs__node_at(w)->attributes.groups;
    float *vector = NULL;
    if (qs_allocate(2 * (size_t)groups, sizeof *vector, &vector) != QS_OK) {
        w->model.status = QS_OUT_OF_MEMORY;
        return;
    }
    for (int64_t g = 0; g < groups; g++)
        vector[g] = 1;
    const char *ones = qs__onnx_numbers(w, 1, &groups, vector), *zeros = qs__onnx_numbers(w, 1, &groups, vector + groups);
    free(vector);
    const char *y = normalised(w, QS__RESHAPE(w, image_in(w), 0, groups, -1), ones, zeros);
    y = QS__RESHAPE(w, y, -1, src->dim[1], src->axes > 2 ? src->dim[2] : 1, src->axes > 3 ? src->dim[3] : 1);
    y = QS__NODE(w, "Mul", NULL, y, qs__channel_vector(w, QS_SCALE, QS__CHANNELS_FIRST, 4));
    image_result(w, QS__NODE(w, "Add", NULL, y, qs__channel_vector(w, QS_SHIFT, QS__CHANNELS_FIRST, 4)));
}

void qs__write_instance_norm(qs__writer *w) {
    image_result(w, normalised(w, image_in(w), qs__initializer(w, QS_SCALE), qs__initializer(w, QS_SHIFT)));
}

void qs__write_local_response_norm(qs__writer *w) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    qs_protobuf with = {0};
    qs__attribute_float(&with, "alpha", of->alpha);
    qs__attribute_float(&with, "beta", of->beta);
    qs__attribute_float(&with, "bias", of->bias);
    qs__attribute_integer(&with, "size", (int64_t)of->size);
    image_result(w, QS__NODE(w, "LRN", &with, image_in(w)));
}

/* ---- Other extents ------------------------------------------------------------------------------------------------------------------- */

void qs__write_pad(qs__writer *w) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const int mode = (int)of->mode;
    const int64_t behind[2] = {of->padding[0] + of->padding_more[0], of->padding[1] + of->padding_more[1]};
    qs_protobuf with = {0};
    if (mode == 3 && w->model.opset < 19)
        w->model.status =
            qs_fail(QS_USAGE, "operator %s: padding by the image again needs opset 19, not %d", qs__node_at(w)->name, w->model.opset);
    qs__attribute_text(&with, "mode", modes[mode]);
    const char *x = image_in(w), *by = QS__INTEGERS(w, 0, 0, of->padding[0], of->padding[1], 0, 0, behind[0], behind[1]);
    image_result(w, mode == 0 ? QS__NODE(w, "Pad", &with, x, by, qs__onnx_number(w, of->value)) : QS__NODE(w, "Pad", &with, x, by));
}

/* By scales of four axes, or, where these are NULL, to their extents. */
static const char *resized(qs__writer *w, const char *x, const float *scale, const char *size) {
    static const char *const coordinates[] = {"half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"};
    static const char *const modes[] = {"nearest", "linear", "cubic", "linear", "cubic"};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const int64_t none = 0, axes = 4;
    qs_protobuf with = {0};
    const bool inside = of->mode > 4, wide = of->mode - 3 * inside > 2;
    const char *mode = modes[(int)of->mode - 3 * inside];
    qs__attribute_text(&with, "mode", mode);
    if (*mode == 'c') qs__attribute_float(&with, "cubic_coeff_a", qs_resample_coefficient(of));
    if (inside) qs__attribute_integer(&with, "exclude_outside", 1);
    if (wide) qs__attribute_integer(&with, "antialias", 1);
    qs__attribute_text(&with, "coordinate_transformation_mode", coordinates[(int)of->coordinates]);
    if (of->mode == 0) qs__attribute_text(&with, "nearest_mode", nearest[(int)of->nearest]);
    const char *nothing = qs__onnx_numbers(w, 1, &none, NULL);
    if (scale) return QS__NODE(w, "Resize", &with, x, nothing, qs__onnx_numbers(w, 1, &axes, scale));
    return QS__NODE(w, "Resize", &with, x, nothing, nothing, size);
}

/* By scales along the axes that have one, then to the extents that others are to have: a node says either. */
void qs__write_resize(qs__writer *w) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const qs_shape *dst = &qs__node_at(w)->shape;
    const double given[2] = {of->scale_height, of->scale_width}, extent[2] = {of->height, of->width};
    float scale[4] = {1, 1, 1, 1};
    bool scales = false, sizes = false;
    const char *y = image_in(w);
    if (of->coordinates == 4 && w->model.opset < 19)
        w->model.status =
            qs_fail(QS_USAGE, "operator %s: symmetric coordinates need opset 19, not %d", qs__node_at(w)->name, w->model.opset);
    if (of->mode > 2 && of->mode != 5 && w->model.opset < 18)
        w->model.status =
            qs_fail(QS_USAGE, "operator %s: resizing against aliasing needs opset 18, not %d", qs__node_at(w)->name, w->model.opset);
    for (int i = 0; i < 2; i++) {
        if (given[i] > 0 && extent[i] > 0)
            w->model.status = qs_fail(QS_UNSUPPORTED, "operator %s: ONNX takes an extent or a scale, not both", qs__node_at(w)->name);
        if (given[i] > 0) scale[2 + i] = (float)given[i];
        scales = scales || given[i] > 0;
        sizes = sizes || extent[i] > 0;
    }
    if (scales) y = resized(w, y, scale, NULL);
    if (sizes) {
        const int64_t height = dst->dim[2], width = dst->axes > 3 ? dst->dim[3] : 1;
        qs_protobuf with = {0};
        qs__attribute_integer(&with, "start", 0);
        qs__attribute_integer(&with, "end", 1);
        const char *batch = QS__NODE(w, "Shape", &with, y);
        y = resized(w, y, NULL, qs__onnx_concat(w, 0, batch, QS__INTEGERS(w, dst->dim[1], height, width)));
    }
    image_result(w, y);
}
