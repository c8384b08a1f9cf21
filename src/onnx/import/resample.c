// SPDX-License-Identifier: Apache-2.0
/* Operators that make images larger or smaller: padding along any axis, and resizing. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"

/* ---- Padding -------------------------------------------------------------------------------------------------------------- */

/* Places before and behind one axis, seen as the columns of an image whose lines are what lies before it in memory. */
static void pad_axis(qs__import *one, qs__value *x, int axis, const int64_t by[2], int mode, double value) {
    qs__layout_merge(&x->layout);
    if (qs__axis_is_batched(&x->layout, axis)) {
        qs__refuse_node(one, "it pads the batch");
        return;
    }
    if (x->layout.axis[axis].count > 1) qs__bring_last(one, x, 1, &axis), qs__layout_merge(&x->layout);
    int f = qs__axis_factor(&x->layout, axis);
    if (f < 0) qs__layout_add(&x->layout, axis, f = x->layout.factors);
    const int64_t all = x->layout.factor[f].extent;
    const qs_shape seen =
        qs_shape_of(4, (int64_t)1, qs__layout_span(&x->layout, f + 1, x->layout.factors), qs__layout_span(&x->layout, 1, f), all);
    qs_shape shape = seen;
    const int source = qs__seen_as(one, x, &seen);
    shape.dim[3] += by[0] + by[1];
    const int made = qs__make(one, "pad", NULL, 1, &source, shape);
    qs__row(one, made)->padding[1] = (int)by[0];
    qs__row(one, made)->padding_more[1] = (int)(by[1] - by[0]);
    if (mode != 0) qs__set(one, made, "mode", mode);
    if (mode == 0 && value != 0) qs__set(one, made, "value", value);
    x->source = made;
    x->shape = shape;
    qs__layout_resize(&x->layout, f, shape.dim[3]);
}

/* Both axes of an image at once. */
static void pad_image(qs__import *one, qs__value *x, const int64_t (*by)[2], int mode, double value) {
    qs_shape image;
    const int source = qs__bring_image(one, x, &image);
    const int64_t extent[2] = {image.dim[2] + by[0][0] + by[0][1], image.dim[3] + by[1][0] + by[1][1]};
    const qs_shape shape = qs_shape_of(4, (int64_t)1, image.dim[1], extent[0], extent[1]);
    const int made = qs__make(one, "pad", NULL, 1, &source, shape);
    for (int i = 0; i < 2; i++) {
        qs__row(one, made)->padding[i] = (int)by[i][0];
        qs__row(one, made)->padding_more[i] = (int)(by[i][1] - by[i][0]);
    }
    if (mode != 0) qs__set(one, made, "mode", mode);
    if (mode == 0 && value != 0) qs__set(one, made, "value", value);
    const qs__layout layout = qs__image_like(x, image.dim[1], 2, extent);
    qs__flow(x, made, shape, &layout);
}

void qs__import_Pad(qs__import *one, const qs__node *node) {
    static const char *const modes[] = {"constant", "reflect", "edge", "wrap"};
    qs__value x;
    int64_t pads[2 * QS__MOST_RANK], axes[QS__MOST_RANK], by[QS__MOST_RANK][2] = {{0}};
    double value = 0;
    int mode = 0;
    if (!qs__flow_in(one, node, 0, &x)) return;
    const char *name = qs__word(one, node, "mode", "constant");
    while (mode < 4 && strcmp(modes[mode], name) != 0)
        mode++;
    const qs__value *given = qs__read_by(one, node, 1);
    int count = 0;
    if (given && given->kind == QS__NUMBERS && given->tensor->count <= 2 * QS__MOST_RANK) {
        double *all = qs__all_numbers(one, given);
        for (; all && count < given->tensor->count; count++)
            pads[count] = (int64_t)all[count];
        free(all);
    } else if (!given) {
        const int64_t *list = NULL;
        size_t length = 0;
        if (qs_onnx_attribute_ints(node->from, node->from->opset < 2 ? "paddings" : "pads", &list, &length) == QS_OK &&
            length <= 2 * QS__MOST_RANK)
            for (; count < (int)length; count++)
                pads[count] = list[count];
    }
    const int named = qs__int_list(one, node, "axes", 3, axes), rank = qs__rank(&x);
    if (qs__read_by(one, node, 2)) qs__one_number(one, qs__read_by(one, node, 2), &value);
    value = qs__float(one, node, "value", value);
    if (mode == 4 || count != 2 * (named > 0 ? named : rank)) {
        qs__refuse_node(one, mode == 4 ? "mode %s" : "its extents are not numbers of the file%s", mode == 4 ? name : "");
        return;
    }
    for (int i = 0; i < count / 2; i++) {
        const int axis = named > 0 ? qs__axis_at(one, axes[i], rank) : i;
        by[axis][0] = pads[i];
        by[axis][1] = pads[count / 2 + i];
        if (by[axis][0] < 0) { /* a place is cut off */
            qs__cut(one, &x, axis, -by[axis][0], qs__extent(&x, axis) + by[axis][0], 1);
            by[axis][0] = 0;
        }
        if (by[axis][1] < 0) {
            qs__cut(one, &x, axis, 0, qs__extent(&x, axis) + by[axis][1], 1);
            by[axis][1] = 0;
        }
    }
    const bool image =
        rank == 4 && (by[2][0] || by[2][1] || by[3][0] || by[3][1]) && qs__axis_is_batched(&x.layout, 0) && x.layout.axis[0].count == 1;
    if (image) pad_image(one, &x, (const int64_t(*)[2])by + 2, mode, value);
    for (int a = 0; a < rank && one->status == QS_OK; a++)
        if ((by[a][0] || by[a][1]) && !(image && a >= 2)) pad_axis(one, &x, a, by[a], mode, value);
    qs__pass_on(one, node, &x);
}

/* ---- Resizing ------------------------------------------------------------------------------------------------------------- */

/* One scale for all axes that have a size: with which none gets larger, or none smaller, than that. */
static void aspect_keep(const qs__value *x, bool not_larger, int rank, int64_t *size, double *scale) {
    double common = 0;
    for (int a = 0; a < rank; a++) {
        const double own = (double)size[a] / (double)qs__extent(x, a);
        if (size[a] > 0 && (common == 0 || (not_larger ? own < common : own > common))) common = own;
    }
    for (int a = 0; a < rank; a++) {
        if (size[a] == 0) continue;
        size[a] = (int64_t)floor(common * (double)qs__extent(x, a) + 0.5);
        if (a == 1 && size[a] == qs__extent(x, a)) size[a] = 0; /* channels stay what they are */
        scale[a] = common;
    }
}

static void resize(qs__import *one, const qs__node *node, bool old, int scales_at, int sizes_at) {
    static const char *const coordinates[] = {"half_pixel",         "asymmetric",           "align_corners",
                                              "pytorch_half_pixel", "half_pixel_symmetric", NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil", NULL};
    qs__value x;
    qs_shape image;
    double scale[QS__MOST_RANK];
    int64_t size[QS__MOST_RANK], axes[QS__MOST_RANK];
    if (!qs__flow_in(one, node, 0, &x)) return;
    const int rank = qs__rank(&x), named = old ? 0 : qs__int_list(one, node, "axes", -1, axes);
    const char *mode = qs__word(one, node, "mode", "nearest");
    const bool linear = strcmp(mode, "linear") == 0 || strcmp(mode, "bilinear") == 0, cubic = strcmp(mode, "cubic") == 0;
    const double coefficient = qs__float(one, node, "cubic_coeff_a", -0.75);
    const bool wide = !old && qs__int(one, node, "antialias", 0) != 0;
    const int at = old ? 1 : qs__word_find(qs__word(one, node, "coordinate_transformation_mode", "half_pixel"), coordinates);
    const int nearest = old ? 2 : qs__word_find(qs__word(one, node, "nearest_mode", "round_prefer_floor"), roundings);
    for (int a = 0; a < rank; a++)
        scale[a] = 1, size[a] = 0;
    const qs__value *scales = scales_at >= 0 ? qs__read_by(one, node, scales_at) : NULL,
                    *sizes = sizes_at >= 0 ? qs__read_by(one, node, sizes_at) : NULL;
    const qs__value *said = sizes && sizes->kind == QS__NUMBERS && sizes->tensor->count > 0 ? sizes : scales;
    double *all = said && said->kind == QS__NUMBERS ? qs__all_numbers(one, said) : NULL;
    int count = all ? (int)said->tensor->count : 0;
    double own[QS__MOST_RANK];
    if (!said) { /* Upsample of opset 7 */
        const float *list = NULL;
        size_t length = 0;
        if (qs_onnx_attribute_floats(node->from, "scales", &list, &length) == QS_OK && length <= QS__MOST_RANK)
            for (; count < (int)length; count++)
                own[count] = qs_onnx_decimal(list[count]);
    }
    const double *numbers = all ? all : own;
    const char *policy = qs__word(one, node, "keep_aspect_ratio_policy", "stretch");
    const bool keeps = said && said == sizes && strcmp(policy, "stretch") != 0;
    const bool counted = count == (named > 0 ? named : rank);
    for (int i = 0; i < count && counted; i++) {
        const int axis = named > 0 ? qs__axis_at(one, axes[i], rank) : i;
        if (said && said == sizes)
            size[axis] = axis == 0 || (!keeps && numbers[i] == (double)qs__extent(&x, axis)) ? 0 : (int64_t)numbers[i];
        else
            scale[axis] = said ? qs_onnx_decimal((float)numbers[i]) : numbers[i];
    }
    free(all);
    if (keeps) aspect_keep(&x, strcmp(policy, "not_larger") == 0, rank, size, scale);
    if (!counted || rank < 3 || rank > 4 || scale[0] != 1 || scale[1] != 1 || size[1] != 0) {
        qs__refuse_node(one, "it resizes more than the last axes of an image, or its extents are not numbers of the file");
        return;
    }
    if ((!linear && !cubic && strcmp(mode, "nearest") != 0) || at < 0 || nearest < 0) {
        qs__refuse_node(one, "mode %s with these coordinates", mode);
        return;
    }
    if (cubic && !(coefficient >= -4 && coefficient < 0)) {
        qs__refuse_node(one, "a cubic of the coefficient %g: -4 to less than 0", coefficient);
        return;
    }
    const int source = qs__bring_image(one, &x, &image);
    int64_t extent[2];
    for (int i = 0; i < 2; i++) {
        const int axis = rank == 4 ? 2 + i : i == 1 ? 2 : 0;
        extent[i] = axis == 0 ? 1 : size[axis] > 0 ? size[axis] : (int64_t)floor((double)image.dim[2 + i] * scale[axis]);
    }
    const qs_shape shape = qs_shape_of(4, (int64_t)1, image.dim[1], extent[0], extent[1]);
    const int made = qs__make(one, "resize", NULL, 1, &source, shape);
    static const char *const names[2][2] = {{"height", "width"}, {"scale_height", "scale_width"}};
    for (int i = 0; i < 2; i++) {
        const int axis = rank == 4 ? 2 + i : i == 1 ? 2 : 0;
        if (axis == 0) continue;
        if (size[axis] > 0) qs__set(one, made, names[0][i], (double)size[axis]);
        if (scale[axis] != 1) qs__set(one, made, names[1][i], scale[axis]);
    }
    const bool sums = cubic || (linear && wide), inside = sums && qs__int(one, node, "exclude_outside", 0) != 0;
    if (linear || cubic) qs__set(one, made, "mode", (cubic ? 2 : 1) + (wide ? 2 : 0) + (inside ? 3 : 0));
    if (cubic && coefficient != -0.75) qs__set(one, made, "coefficient", coefficient);
    if (at != 0) qs__set(one, made, "coordinates", at);
    if (!linear && !cubic && nearest != 0) qs__set(one, made, "nearest", nearest);
    const qs__layout layout = qs__image_like(&x, image.dim[1], rank - 2, rank == 3 ? extent + 1 : extent);
    qs__flow(qs__made_by(one, node, 0), made, shape, &layout);
}

void qs__import_Resize(qs__import *one, const qs__node *node) {
    const bool old = node->from->opset < 11;
    resize(one, node, old, old ? 1 : 2, old ? -1 : 3);
}

void qs__import_Upsample(qs__import *one, const qs__node *node) {
    resize(one, node, true, node->from->opset >= 9 ? 1 : -1, -1);
}
