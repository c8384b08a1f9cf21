// SPDX-License-Identifier: Apache-2.0
/* Functions of one and of two values, values that are repeated to meet others, reductions, and samples seen in other extents. */
#include "operators.h"

#include "qsync/views.h"

#include <math.h>

/* ---- Functions of one value ----------------------------------------------------------------------------------------------------- */

static const char *input(qs__writer *w) {
    return qs__value_in(w, 0, qs__in_layout(w, 0));
}

/* An ONNX operator that takes nothing else; with one setting, with two of them as attributes. */
static void function(qs__writer *w, const char *op) {
    qs__result_alike(w, QS__NODE(w, op, NULL, input(w)));
}

static void function_with(qs__writer *w, const char *op, const char *first, const char *second) {
    qs_protobuf with = {0};
    qs__attribute_float(&with, first, qs__node_at(w)->attributes.constant[0]);
    if (second) qs__attribute_float(&with, second, qs__node_at(w)->attributes.constant[1]);
    qs__result_alike(w, QS__NODE(w, op, &with, input(w)));
}

#define FUNCTION(name, op)                 \
    void qs__write_##name(qs__writer *w) { \
        function(w, op);                   \
    }
FUNCTION(sigmoid, "Sigmoid")
FUNCTION(hard_swish, "HardSwish")
FUNCTION(softplus, "Softplus")
FUNCTION(softsign, "Softsign")
FUNCTION(exp, "Exp")
FUNCTION(log, "Log")
FUNCTION(sqrt, "Sqrt")
FUNCTION(abs, "Abs")
FUNCTION(erf, "Erf")
FUNCTION(reciprocal, "Reciprocal")

#define FUNCTION_WITH(name, op, first, second) \
    void qs__write_##name(qs__writer *w) {     \
        function_with(w, op, first, second);   \
    }
FUNCTION_WITH(hard_sigmoid, "HardSigmoid", "alpha", "beta")
FUNCTION_WITH(leaky_relu, "LeakyRelu", "alpha", NULL)
FUNCTION_WITH(elu, "Elu", "alpha", NULL)
FUNCTION_WITH(celu, "Celu", "alpha", NULL)
FUNCTION_WITH(selu, "Selu", "alpha", "gamma")

/* Opset 18 has Mish. */
void qs__write_mish(qs__writer *w) {
    qs__result_alike(w, QS__NODE(w, "Mul", NULL, input(w), QS__NODE(w, "Tanh", NULL, QS__NODE(w, "Softplus", NULL, input(w)))));
}

void qs__write_power(qs__writer *w) {
    qs__result_alike(w, QS__NODE(w, "Pow", NULL, input(w), qs__onnx_number(w, qs__node_at(w)->attributes.constant[0])));
}

void qs__write_clip(qs__writer *w) {
    const double *range = qs__node_at(w)->attributes.constant;
    qs__result_alike(w, QS__NODE(w, "Clip", NULL, input(w), qs__onnx_number(w, range[0]), qs__onnx_number(w, range[1])));
}

void qs__write_affine(qs__writer *w) {
    const double factor = qs__node_at(w)->attributes.constant[0], term = qs__node_at(w)->attributes.constant[1];
    const char *y = input(w);
    if (factor != 1) y = QS__NODE(w, "Mul", NULL, y, qs__onnx_number(w, factor));
    if (term != 0 || factor == 1) y = QS__NODE(w, "Add", NULL, y, qs__onnx_number(w, term));
    qs__result_alike(w, y);
}

/* ---- Values that are repeated ----------------------------------------------------------------------------------------------------- */

/* An input as it stands beside a value of so many axes in an order: missing axes have the extent 1. Channels are last unless the order is
 * channels first. */
static const char *beside(qs__writer *w, int index, qs__layout layout, int axes) {
    const qs_shape *shape = qs__in_shape(w, index);
    const char *x = qs__value_in(w, index, layout);
    if (shape->axes == axes) return x;
    const int64_t length = shape->axes == 3 ? shape->dim[2] : 1;
    if (axes == 3) return QS__RESHAPE(w, x, -1, 1, shape->dim[1]);
    if (layout == QS__CHANNELS_LAST) return QS__RESHAPE(w, x, -1, length, 1, shape->dim[1]);
    if (shape->axes == 2) return QS__RESHAPE(w, x, -1, shape->dim[1], 1, 1);
    return QS__RESHAPE(w, QS__TRANSPOSE(w, x, 0, 2, 1), -1, shape->dim[1], length, 1);
}

/* Features have memory's order unless both are those of one flattened image. */
static qs__layout order_of_both(const qs__writer *w) {
    const bool features = qs__node_at(w)->shape.axes == 2;
    return features && (qs__in_shape(w, 1)->dim[1] == 1 || !qs__in_one_order(w)) ? QS__CHANNELS_LAST : qs__in_layout(w, 0);
}

void qs__write_gate(qs__writer *w) {
    const int axes = qs__node_at(w)->shape.axes;
    const qs__layout layout = order_of_both(w);
    const char *y = QS__NODE(w, "Mul", NULL, qs__value_in(w, 0, layout), beside(w, 1, layout, axes));
    if (layout == qs__in_layout(w, 0))
        qs__result_alike(w, y);
    else
        qs__result(w, layout, y);
}

void qs__write_expand(qs__writer *w) {
    const qs_shape *shape = &qs__node_at(w)->shape;
    const int64_t *dim = shape->dim;
    const qs__layout layout = shape->axes == 4 && qs__in_shape(w, 0)->axes == 4 ? qs__in_layout(w, 0) : QS__CHANNELS_LAST;
    const char *x = beside(w, 0, layout, shape->axes), *extents;
    if (shape->axes == 4)
        extents = layout == QS__CHANNELS_FIRST ? QS__INTEGERS(w, 1, dim[1], dim[2], dim[3]) : QS__INTEGERS(w, 1, dim[2], dim[3], dim[1]);
    else
        extents = shape->axes == 3 ? QS__INTEGERS(w, 1, dim[2], dim[1]) : QS__INTEGERS(w, 1, dim[1]);
    qs__result(w, layout, QS__NODE(w, "Expand", NULL, x, extents));
}

/* A parameter beside a value: one number a channel, one for each place of a sample ([positions, channels]), one, or one a position (its
 * setting `over`). */
static const char *over(qs__writer *w, qs_role role, qs__layout layout) {
    const qs_shape *shape = &qs__node_at(w)->shape;
    const int what = (int)qs__node_at(w)->attributes.over;
    const bool image = shape->axes == 4, first = image && layout == QS__CHANNELS_FIRST;
    const char *name = qs__initializer(w, role);
    if (what == 0) return qs__channel_vector(w, role, layout, shape->axes);
    if (what == 1 && image && first) return QS__RESHAPE(w, QS__TRANSPOSE(w, name, 1, 0), shape->dim[1], shape->dim[2], shape->dim[3]);
    if (what == 1 && image) return QS__RESHAPE(w, name, shape->dim[2], shape->dim[3], shape->dim[1]);
    if (what == 3 && first) return QS__RESHAPE(w, name, 1, shape->dim[2], shape->dim[3]);
    if (what == 3 && image) return QS__RESHAPE(w, name, shape->dim[2], shape->dim[3], 1);
    return what == 3 && shape->axes == 3 ? QS__RESHAPE(w, name, shape->dim[2], 1) : name;
}

static void with_parameter(qs__writer *w, const char *op, qs_role role) {
    qs__features_turn(w, role);
    const qs__layout layout = qs__in_layout(w, 0);
    qs__result_alike(w, QS__NODE(w, op, NULL, qs__value_in(w, 0, layout), over(w, role, layout)));
}

void qs__write_gain(qs__writer *w) {
    with_parameter(w, "Mul", QS_SCALE);
}

void qs__write_offset(qs__writer *w) {
    with_parameter(w, "Add", QS_SHIFT);
}

void qs__write_prelu(qs__writer *w) {
    with_parameter(w, "PRelu", QS_SCALE);
}

/* ---- Reductions ------------------------------------------------------------------------------------------------------------------- */

/* Axes became inputs: of sums with opset 13, of others with 18. */
static const char *reduced(qs__writer *w, const char *op, int least_opset, const char *x, int axes, const int64_t *axis) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "keepdims", 1);
    if (w->model.opset >= least_opset) return QS__NODE(w, op, &with, x, qs__onnx_integers(w, axes, axis));
    qs__attribute_integers(&with, "axes", axes, axis);
    return QS__NODE(w, op, &with, x);
}

static void reduce(qs__writer *w, const char *op, int least_opset) {
    const int axes = qs__in_shape(w, 0)->axes, what = (int)qs__node_at(w)->attributes.over;
    const qs__layout layout = axes == 4 ? qs__in_layout(w, 0) : QS__CHANNELS_LAST;
    const int channels = layout == QS__CHANNELS_FIRST ? 1 : axes - 1;
    int64_t axis[4];
    int count = 0;
    for (int i = 1; i < axes; i++)
        if (what == 2 || (what == 1) == (i == channels)) axis[count++] = i;
    qs__result(w, layout, count ? reduced(w, op, least_opset, qs__value_in(w, 0, layout), count, axis) : qs__value_in(w, 0, layout));
}

void qs__write_reduce_sum(qs__writer *w) {
    reduce(w, "ReduceSum", 13);
}

void qs__write_reduce_mean(qs__writer *w) {
    reduce(w, "ReduceMean", 18);
}

void qs__write_reduce_max(qs__writer *w) {
    reduce(w, "ReduceMax", 18);
}

/* ---- Other extents ---------------------------------------------------------------------------------------------------------------- */

/* As memory has a value of that shape. */
static const char *in_shape(qs__writer *w, const char *x, const qs_shape *shape) {
    if (shape->axes == 2) return QS__RESHAPE(w, x, -1, shape->dim[1]);
    if (shape->axes == 3) return QS__RESHAPE(w, x, -1, shape->dim[2], shape->dim[1]);
    return QS__RESHAPE(w, x, -1, shape->dim[2], shape->dim[3], shape->dim[1]);
}

void qs__write_reshape(qs__writer *w) {
    qs__result(w, QS__CHANNELS_LAST, in_shape(w, qs__value_in(w, 0, QS__CHANNELS_LAST), &qs__node_at(w)->shape));
}

void qs__write_permute(qs__writer *w) {
    int64_t extent[6] = {-1}, order[6] = {0};
    int places[5];
    const int axes = qs_permute_axes(&qs__node_at(w)->attributes, qs_shape_count(qs__in_shape(w, 0)), extent + 1, places);
    for (int i = 0; i < axes; i++)
        order[1 + i] = places[i] + 1;
    const char *x = QS__NODE(w, "Reshape", NULL, qs__value_in(w, 0, QS__CHANNELS_LAST), qs__onnx_integers(w, axes + 1, extent));
    qs__result(w, QS__CHANNELS_LAST, in_shape(w, qs__onnx_transpose(w, x, axes + 1, order), &qs__node_at(w)->shape));
}
