// SPDX-License-Identifier: Apache-2.0
/* Normalisations, activations, sums and products by element, dropout. */
#include "operators.h"

#include <math.h>

/* ---- Normalisations ------------------------------------------------------------------------------------------------------------- */

/* scale and shift of each channel behind a normalisation. */
static const char *scaled(qs__writer *w, const char *x, qs__layout layout, int axes) {
    const char *y = QS__NODE(w, "Mul", NULL, x, qs__channel_vector(w, QS_SCALE, layout, axes));
    return qs__parameter(w, QS_SHIFT) ? QS__NODE(w, "Add", NULL, y, qs__channel_vector(w, QS_SHIFT, layout, axes)) : y;
}

/* (x - mean) / (deviation + epsilon). */
static const char *divided(qs__writer *w, const char *centred, const char *deviation) {
    return QS__NODE(w, "Div", NULL, centred, QS__NODE(w, "Add", NULL, deviation, qs__onnx_number(w, qs__node_at(w)->attributes.epsilon)));
}

/* Means of a value: of each position over its channels (last), of each channel over batch and positions. */
static const char *mean_of(qs__writer *w, const char *x, const qs_norm *norm, qs__layout layout, int axes) {
    if (norm->per_position) return QS__MEAN(w, x, -1);
    if (axes == 4 && layout == QS__CHANNELS_FIRST) return QS__MEAN(w, x, 0, 2, 3);
    return axes == 2 ? QS__MEAN(w, x, 0) : QS__MEAN(w, x, 0, 1);
}

/* By deviations: of the values at hand, or running ones. Deviations are means of |x - mean|, or roots of variances. */
static const char *by_deviation(qs__writer *w, const char *x, qs__layout layout, bool running) {
    const qs_norm *norm = qs__node_at(w)->op->norm;
    const int axes = qs__node_at(w)->shape.axes;
    const char *mean = running ? qs__channel_vector(w, QS_RUNNING_MEAN, layout, axes) : mean_of(w, x, norm, layout, axes);
    const char *centred = QS__NODE(w, "Sub", NULL, x, mean), *deviation = NULL;
    if (running) {
        deviation = qs__channel_vector(w, norm->running, layout, axes);
    } else if (norm->absolute) {
        deviation = mean_of(w, QS__NODE(w, "Abs", NULL, centred), norm, layout, axes);
    } else {
        deviation = QS__NODE(w, "Sqrt", NULL, mean_of(w, QS__NODE(w, "Mul", NULL, centred, centred), norm, layout, axes));
    }
    return scaled(w, divided(w, centred, deviation), layout, axes);
}

/* Channels are axis 1 of BatchNormalization, which of a sequence [N,L,C] takes a transpose. */
static const char *batch_norm(qs__writer *w, const char *x) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const bool sequence = qs__node_at(w)->shape.axes == 3, training = w->options->form == QS_EXPORT_TRAINING;
    qs_protobuf with = {0};
    qs__attribute_float(&with, "epsilon", of->epsilon);
    qs__attribute_float(&with, "momentum", 1 - of->momentum); /* ONNX counts the share that stays */
    if (training) qs__attribute_integer(&with, "training_mode", 1);
    const char *const inputs[] = {sequence ? QS__TRANSPOSE(w, x, 0, 2, 1) : x, qs__initializer(w, QS_SCALE), qs__initializer(w, QS_SHIFT),
                                  qs__initializer(w, QS_RUNNING_MEAN), qs__initializer(w, QS_RUNNING_VARIANCE)};
    const char *y = qs__model_node(&w->model, qs__node_at(w)->name, "BatchNormalization", &with, 5, inputs, training ? 3 : 1, training)[0];
    return sequence ? QS__TRANSPOSE(w, y, 0, 2, 1) : y;
}

static const char *layer_norm(qs__writer *w, const char *x) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", -1);
    qs__attribute_float(&with, "epsilon", qs__node_at(w)->attributes.epsilon);
    return QS__NODE(w, "LayerNormalization", &with, x, qs__initializer(w, QS_SCALE), qs__initializer(w, QS_SHIFT));
}

/* Those in 8 bits stand as what they are without rounding. */
void qs__write_norm(qs__writer *w) {
    const qs_norm *norm = qs__node_at(w)->op->norm;
    const bool image = qs__node_at(w)->shape.axes == 4, training = w->options->form == QS_EXPORT_TRAINING;
    if (w->folded[w->at]) {
        w->value[w->at] = w->value[w->folded[w->at]];
        return;
    }
    qs__features_turn(w, QS_SCALE);
    const qs__layout layout = !image ? qs__in_layout(w, 0) : norm->per_position ? QS__CHANNELS_LAST : QS__CHANNELS_FIRST;
    const char *x = qs__value_in(w, 0, layout), *y;
    if (norm->spread != QS_VARIANCE)
        y = by_deviation(w, x, layout, !norm->per_position && !training);
    else
        y = norm->per_position ? layer_norm(w, x) : batch_norm(w, x);
    if (image)
        qs__result(w, layout, y);
    else
        qs__result_alike(w, y);
}

void qs__write_rms_norm(qs__writer *w) {
    qs__features_turn(w, QS_SCALE);
    const qs__layout layout = qs__node_at(w)->shape.axes == 2 ? qs__in_layout(w, 0) : QS__CHANNELS_LAST;
    const char *x = qs__value_in(w, 0, layout), *squares = QS__MEAN(w, QS__NODE(w, "Mul", NULL, x, x), -1);
    const char *root = QS__NODE(w, "Sqrt", NULL, QS__NODE(w, "Add", NULL, squares, qs__onnx_number(w, qs__node_at(w)->attributes.epsilon)));
    const char *y = scaled(w, QS__NODE(w, "Div", NULL, x, root), QS__CHANNELS_LAST, qs__node_at(w)->shape.axes);
    if (layout == QS__CHANNELS_FIRST)
        qs__result_alike(w, y);
    else
        qs__result(w, layout, y);
}

/* ---- Activations ------------------------------------------------------------------------------------------------------------------ */

static const char *input(qs__writer *w) {
    return qs__value_in(w, 0, qs__in_layout(w, 0));
}

void qs__write_relu(qs__writer *w) {
    const double ceiling = qs__node_at(w)->attributes.ceiling;
    qs__result_alike(w, ceiling > 0 ? QS__NODE(w, "Clip", NULL, input(w), qs__onnx_number(w, 0), qs__onnx_number(w, ceiling))
                                    : QS__NODE(w, "Relu", NULL, input(w)));
}

/* x (1 + erf(x / sqrt(2))) / 2; approximated x (1 + tanh(sqrt(2/pi) (x + 0.044715 x³))) / 2. Opset 20 has Gelu. */
void qs__write_gelu(qs__writer *w) {
    const char *x = input(w), *inner;
    const bool approximate = qs__node_at(w)->attributes.approximate != 0;
    if (w->model.opset >= 20) {
        qs_protobuf with = {0};
        if (approximate) qs__attribute_text(&with, "approximate", "tanh");
        qs__result_alike(w, QS__NODE(w, "Gelu", &with, x));
        return;
    }
    if (approximate) {
        const char *cube = QS__NODE(w, "Mul", NULL, QS__NODE(w, "Pow", NULL, x, qs__onnx_number(w, 3)), qs__onnx_number(w, 0.044715));
        const char *sum = QS__NODE(w, "Mul", NULL, QS__NODE(w, "Add", NULL, x, cube), qs__onnx_number(w, 0.79788456080286535588));
        inner = QS__NODE(w, "Tanh", NULL, sum);
    } else {
        inner = QS__NODE(w, "Erf", NULL, QS__NODE(w, "Div", NULL, x, qs__onnx_number(w, 1.41421356237309504880)));
    }
    const char *product = QS__NODE(w, "Mul", NULL, x, QS__NODE(w, "Add", NULL, inner, qs__onnx_number(w, 1)));
    qs__result_alike(w, QS__NODE(w, "Mul", NULL, product, qs__onnx_number(w, 0.5)));
}

void qs__write_silu(qs__writer *w) {
    qs__result_alike(w, QS__NODE(w, "Mul", NULL, input(w), QS__NODE(w, "Sigmoid", NULL, input(w))));
}

void qs__write_tanh(qs__writer *w) {
    qs__result_alike(w, QS__NODE(w, "Tanh", NULL, input(w)));
}

/* ---- Two values ------------------------------------------------------------------------------------------------------------------- */

/* Both in the order of the first; of features in unlike orders, in memory's. */
static void by_element(qs__writer *w, const char *op) {
    const bool features = qs__node_at(w)->shape.axes == 2 && !qs__in_one_order(w);
    const qs__layout layout = features ? QS__CHANNELS_LAST : qs__in_layout(w, 0);
    const char *y = QS__NODE(w, op, NULL, qs__value_in(w, 0, layout), qs__value_in(w, 1, layout));
    if (features)
        qs__result(w, layout, y);
    else
        qs__result_alike(w, y);
}

void qs__write_add(qs__writer *w) {
    by_element(w, "Add");
}

void qs__write_multiply(qs__writer *w) {
    by_element(w, "Mul");
}

void qs__write_subtract(qs__writer *w) {
    by_element(w, "Sub");
}

void qs__write_divide(qs__writer *w) {
    by_element(w, "Div");
}

void qs__write_minimum(qs__writer *w) {
    by_element(w, "Min");
}

void qs__write_maximum(qs__writer *w) {
    by_element(w, "Max");
}

/* ---- Dropout ---------------------------------------------------------------------------------------------------------------------- */

const char *qs__onnx_dropped(qs__writer *w, const char *x, double probability) {
    const bool yes = true;
    if (w->options->form != QS_EXPORT_TRAINING || probability == 0) return x;
    const char *const inputs[] = {x, qs__onnx_number(w, probability),
                                  qs__model_constant(&w->model, "training", QS_ONNX_BOOL, 0, NULL, 1, &yes)};
    return qs__model_node(&w->model, qs__node_at(w)->name, "Dropout", NULL, 3, inputs, 1, true)[0];
}

void qs__write_dropout(qs__writer *w) {
    qs__result_alike(w, qs__onnx_dropped(w, input(w), qs__node_at(w)->attributes.probability));
}
