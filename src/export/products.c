// SPDX-License-Identifier: Apache-2.0
/* Convolutions, linear layers and products of activations. */
#include "operators.h"

#include "qsync/norm.h"

#include <math.h>
#include <stdlib.h>

/* ---- Convolution ------------------------------------------------------------------------------------------------------------------ */

/* The batch norm that goes into the convolution at hand: its only reader, a normalisation of channels by running statistics; -1: none.
 * Where a plan gives the convolution's tensors formats, what is rounded to them is not what a fold would leave. */
static int folding(const qs__writer *w) {
    if (!w->options->fold || qs__node_at(w)->consumers != 1 || qs__tensors_assigned(w)) return -1;
    for (int n = w->at + 1; n < w->graph->nodes; n++) {
        const qs_node *reader = &w->graph->node[n];
        if (reader->inputs > 0 && reader->input[0] == w->at) return reader->op->norm && !reader->op->norm->per_position ? n : -1;
    }
    return -1;
}

static const float *vector_of(const qs__writer *w, int node, qs_role role) {
    const qs_parameter *parameter = qs_graph_parameter(w->graph, node, role);
    if (!parameter) return NULL;
    const qs_weights_place place = qs__place(w, parameter);
    return qs__values(w, &place)->data;
}

/* y = (conv(x) - mean) inverse scale + shift is a convolution with weights times f = inverse scale and the bias (b - mean) f + shift. */
static void fold(qs__writer *w, int norm, qs__weights *one) {
    const qs_norm *kind = w->graph->node[norm].op->norm;
    const float *mean = vector_of(w, norm, QS_RUNNING_MEAN), *spread = vector_of(w, norm, kind->running),
                *scale = vector_of(w, norm, QS_SCALE), *shift = vector_of(w, norm, QS_SHIFT);
    const int64_t outputs = one->dim[0], inner = one->dim[1] * one->dim[2] * one->dim[3];
    const double epsilon = w->graph->node[norm].attributes.epsilon;
    qs__weights_own(w, one);
    if (w->model.status == QS_OK && !one->bias) w->model.status = qs_allocate((size_t)outputs, sizeof *one->bias, &one->bias);
    if (w->model.status != QS_OK) return;
    for (int64_t o = 0; o < outputs; o++) {
        const double factor = qs_norm_inverse(kind, (double)spread[o], epsilon) * (double)scale[o];
        for (int64_t i = 0; i < inner; i++)
            one->values[o * inner + i] = (float)((double)one->values[o * inner + i] * factor);
        one->bias[o] = (float)(((double)one->bias[o] - (double)mean[o]) * factor + (double)shift[o]);
    }
    w->folded[norm] = w->at;
}

void qs__window_attributes(const qs_attributes *of, qs_protobuf *with) {
    qs__attribute_integers(with, "kernel_shape", 2, (int64_t[]){of->kernel[0], of->kernel[1]});
    qs__attribute_integers(with, "strides", 2, (int64_t[]){of->stride[0], of->stride[1]});
    qs__attribute_integers(
        with, "pads", 4,
        (int64_t[]){of->padding[0], of->padding[1], of->padding[0] + of->padding_more[0], of->padding[1] + of->padding_more[1]});
    if (of->dilation[0] > 1 || of->dilation[1] > 1)
        qs__attribute_integers(with, "dilations", 2, (int64_t[]){of->dilation[0], of->dilation[1]});
}

void qs__write_conv2d(qs__writer *w) {
    const qs_attributes *of = &qs__node_at(w)->attributes;
    const qs_parameter *parameter = qs__parameter(w, QS_WEIGHTS);
    const qs_weights_place place = qs__place(w, parameter);
    const int norm = folding(w);
    qs__weights weights = {.place = &place, .axes = 4};
    qs_protobuf with = {0};
    for (int i = 0; i < 4; i++)
        weights.dim[i] = parameter->shape.dim[i];
    qs__window_attributes(of, &with);
    qs__attribute_integer(&with, "group", of->groups > 0 ? of->groups : 1);
    qs__factor x = qs__factor_of(w, 0, QS__CHANNELS_FIRST, qs__value_in(w, 0, QS__CHANNELS_FIRST), false);
    if (norm >= 0) fold(w, norm, &weights);
    const char *bias, *matrix = qs__weights_write(w, &weights, &x, &bias);
    qs__result(w, QS__CHANNELS_FIRST, QS__NODE(w, "Conv", &with, x.name, matrix, bias));
}

/* ---- Linear ----------------------------------------------------------------------------------------------------------------------- */

/* Several layers that one tensor holds: its product once, split. Equal nodes are one, so the others find it. */
static const char *packed_product(qs__writer *w, const char *x, const qs_weights_place *place) {
    const qs_parameter *bias = qs__parameter(w, QS_BIAS);
    const int64_t outputs = qs__node_at(w)->shape.dim[1];
    int64_t part[QS__MOST_OUTPUTS];
    qs_protobuf with = {0};
    const char *matrix = qs__initializer(w, QS_WEIGHTS);
    const char *y = QS__NODE(w, "MatMul", NULL, x, place->transposed ? matrix : QS__TRANSPOSE(w, matrix, 1, 0));
    if (bias) y = QS__NODE(w, "Add", NULL, y, qs__initializer(w, QS_BIAS));
    for (int i = 0; i < place->parts; i++)
        part[i] = outputs;
    qs__attribute_integer(&with, "axis", -1);
    const char *const inputs[] = {y, qs__onnx_integers(w, place->parts, part)};
    return qs__model_node(&w->model, qs__node_at(w)->name, "Split", &with, 2, inputs, place->parts, false)[place->part];
}

void qs__write_linear(qs__writer *w) {
    const qs_parameter *parameter = qs__parameter(w, QS_WEIGHTS);
    const qs_weights_place place = qs__place(w, parameter);
    const bool rows = qs__node_at(w)->shape.axes == 2, reduced = qs__weights_narrow(w);
    const qs__layout layout = place.image.axes ? QS__CHANNELS_FIRST : QS__CHANNELS_LAST;
    qs__features_turn(w, QS_WEIGHTS);
    qs__factor x = qs__factor_of(w, 0, layout, qs__value_in(w, 0, layout), false);
    if (!reduced && place.parts > 1 && place.parts <= QS__MOST_OUTPUTS) {
        qs__result(w, QS__CHANNELS_LAST, packed_product(w, x.name, &place));
        return;
    }
    qs__weights weights = {
        .place = &place, .axes = 2, .dim = {parameter->shape.dim[0], parameter->shape.dim[1]}, .turned = !rows, .bare = !rows};
    if (place.parts > 1) qs__weights_own(w, &weights);
    const bool as_in_file = !weights.values && !reduced;
    const char *bias, *matrix = qs__weights_write(w, &weights, &x, &bias);
    if (rows) { /* a file's [out, in] is Gemm's second factor transposed */
        qs_protobuf with = {0};
        qs__attribute_integer(&with, "transB", !as_in_file || !place.transposed);
        qs__result(w, QS__CHANNELS_LAST, QS__NODE(w, "Gemm", &with, x.name, matrix, bias));
        return;
    }
    const char *y = QS__NODE(w, "MatMul", NULL, x.name, matrix);
    qs__result(w, QS__CHANNELS_LAST, bias ? QS__NODE(w, "Add", NULL, y, bias) : y);
}

/* ---- Products of activations ------------------------------------------------------------------------------------------------------- */

/* Heads that lie side by side in the channels of a sequence of so many positions, as [N, heads, positions, width];
 * turned: [N, heads, width, positions]. */
static const char *heads_apart(qs__writer *w, const char *x, int64_t heads, int64_t positions, int64_t width, bool turned) {
    const char *apart = QS__RESHAPE(w, x, -1, positions, heads, width);
    return turned ? QS__TRANSPOSE(w, apart, 0, 2, 3, 1) : QS__TRANSPOSE(w, apart, 0, 2, 1, 3);
}

static const char *heads_joined(qs__writer *w, const char *x, int64_t channels, int64_t positions) {
    return QS__RESHAPE(w, QS__TRANSPOSE(w, x, 0, 2, 1, 3), -1, positions, channels);
}

/* [N, heads, rows, inner] times [N, key_heads, inner, columns]: heads that share one are rows of it, one behind the other. */
static const char *product(qs__writer *w, const char *a, const char *b, int64_t heads, int64_t key_heads, int64_t rows, int64_t inner,
                           int64_t columns) {
    if (heads == key_heads) return QS__NODE(w, "MatMul", NULL, a, b);
    const char *shared = QS__RESHAPE(w, a, -1, key_heads, heads / key_heads * rows, inner);
    return QS__RESHAPE(w, QS__NODE(w, "MatMul", NULL, shared, b), -1, heads, rows, columns);
}

void qs__write_matmul(qs__writer *w) {
    const qs_node *node = qs__node_at(w);
    const qs_attributes *of = &node->attributes;
    const qs_shape *a = qs__in_shape(w, 0), *b = qs__in_shape(w, 1);
    const int64_t heads = (int64_t)of->heads, key_heads = of->key_heads > 0 ? (int64_t)of->key_heads : heads;
    const int64_t rows = a->dim[a->axes - 1], inner = a->axes == 3 ? a->dim[1] / heads : a->dim[1];
    const int64_t b_rows = b->dim[b->axes - 1], b_columns = b->axes == 3 ? b->dim[1] / key_heads : b->dim[1];
    const bool transposed = of->transposed != 0;
    const char *left = qs__factor_of(w, 0, QS__CHANNELS_LAST, qs__value_in(w, 0, QS__CHANNELS_LAST), false).name,
               *right = qs__factor_of(w, 1, QS__CHANNELS_LAST, qs__value_in(w, 1, QS__CHANNELS_LAST), true).name;
    if (a->axes == 3) left = heads_apart(w, left, heads, rows, inner, false);
    if (b->axes == 3)
        right = heads_apart(w, right, key_heads, b_rows, b_columns, transposed);
    else if (transposed)
        right = QS__TRANSPOSE(w, right, 0, 1, 3, 2);
    const int64_t columns = transposed ? b_rows : b_columns;
    const char *y = product(w, left, right, heads, key_heads, rows, inner, columns);
    qs__result(w, QS__CHANNELS_LAST, of->merged != 0 ? heads_joined(w, y, heads * columns, rows) : y);
}

/* ---- Attention --------------------------------------------------------------------------------------------------------------------- */

/* [1, 1, queries, keys]: what every query sees by its place. NULL: everything. */
static const char *places_seen(qs__writer *w, const qs_attributes *of, int64_t queries, int64_t keys) {
    bool *seen = NULL;
    const int64_t dim[] = {1, 1, queries, keys}, window = (int64_t)of->window;
    if (of->causal == 0 && window == 0) return NULL;
    if (w->model.status == QS_OK) w->model.status = qs_allocate((size_t)(queries * keys), sizeof *seen, &seen);
    if (w->model.status != QS_OK) return "";
    for (int64_t q = 0; q < queries; q++)
        for (int64_t k = 0; k < keys; k++) {
            const int64_t ahead = k - (q + keys - queries);
            seen[q * keys + k] = (of->causal == 0 || ahead <= 0) && (window == 0 || (ahead < window && -ahead < window));
        }
    const char *name = qs__model_constant(&w->model, "seen", QS_ONNX_BOOL, 4, dim, (size_t)(queries * keys), seen);
    free(seen);
    return name;
}

/* Softmax over the last axis of [N, heads, queries, keys]. What is not seen is replaced by the lowest number; where a query may see nothing
 * the result is multiplied by what is seen, so that it is 0 then. */
static const char *softmax(qs__writer *w, const char *scores, const char *seen, bool maybe_nothing) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", -1);
    if (seen) scores = QS__NODE(w, "Where", NULL, seen, scores, qs__onnx_number(w, -3.40282346638528859812e+38));
    const char *shares = QS__NODE(w, "Softmax", &with, scores);
    return seen && maybe_nothing ? QS__NODE(w, "Mul", NULL, shares, qs__onnx_cast(w, seen, QS_ONNX_FLOAT)) : shares;
}

static const char *both(qs__writer *w, const char *a, const char *b) {
    return a && b ? QS__NODE(w, "And", NULL, a, b) : a ? a : b;
}

/* keep as [N, 1, rows, keys], where rows is that of the queries, or 1 for all of them. */
static const char *kept(qs__writer *w, int input, int64_t rows, int64_t keys) {
    return QS__RESHAPE(w, qs__onnx_cast(w, qs__value_in(w, input, QS__CHANNELS_LAST), QS_ONNX_BOOL), -1, 1, rows, keys);
}

void qs__write_attention(qs__writer *w) {
    const qs_node *node = qs__node_at(w);
    const qs_attributes *of = &node->attributes;
    const int64_t heads = (int64_t)of->heads, key_heads = of->key_heads > 0 ? (int64_t)of->key_heads : heads;
    const int64_t sequences = of->sequences > 0 ? (int64_t)of->sequences : 1;
    const qs_shape *q = qs__in_shape(w, 0), *k = qs__in_shape(w, 1), *v = qs__in_shape(w, 2);
    const int64_t queries = q->dim[2] / sequences, keys = k->dim[2] / sequences;
    const int64_t width = q->dim[1] / heads, value_width = v->dim[1] / key_heads;
    const char *seen = places_seen(w, of, queries, keys);
    if (node->inputs == 4) seen = both(w, seen, kept(w, 3, qs__in_shape(w, 3)->dim[1] == k->dim[2] ? 1 : queries, keys));
    const char *left = heads_apart(w, qs__value_in(w, 0, QS__CHANNELS_LAST), heads, queries, width, false);
    const char *right = heads_apart(w, qs__value_in(w, 1, QS__CHANNELS_LAST), key_heads, keys, width, true);
    const char *scores = product(w, left, right, heads, key_heads, queries, width, keys);
    scores = QS__NODE(w, "Mul", NULL, scores, qs__onnx_number(w, 1 / sqrt((double)width)));
    const char *shares = softmax(w, scores, seen, node->inputs == 4 || queries > keys);
    shares = qs__onnx_dropped(w, shares, of->probability);
    const char *values = heads_apart(w, qs__value_in(w, 2, QS__CHANNELS_LAST), key_heads, keys, value_width, false);
    const char *y = product(w, shares, values, heads, key_heads, queries, keys, value_width);
    qs__result(w, QS__CHANNELS_LAST, heads_joined(w, y, heads * value_width, queries * sequences));
}

/* Of scores [N, heads, queries, keys] what attention does, of others over the channels alone. */
void qs__write_softmax(qs__writer *w) {
    const qs_node *node = qs__node_at(w);
    const qs_attributes *of = &node->attributes;
    const int64_t channels = node->shape.dim[1], last = node->shape.axes > 2 ? node->shape.dim[node->shape.axes - 1] : 1;
    const int64_t kept_rows = node->inputs == 2 && qs__in_shape(w, 1)->dim[1] != channels ? last : 1;
    const int64_t rows = of->causal != 0 || of->window != 0 ? last : kept_rows;
    const char *x = qs__value_in(w, 0, QS__CHANNELS_LAST), *seen = places_seen(w, of, last, channels);
    if (of->scale != 0 && of->scale != 1) x = QS__NODE(w, "Mul", NULL, x, qs__onnx_number(w, of->scale));
    if (node->inputs == 2) seen = both(w, seen, kept(w, 1, kept_rows, channels));
    if (seen && node->shape.axes == 3) seen = QS__RESHAPE(w, seen, -1, rows, channels);
    if (seen && node->shape.axes == 2) seen = QS__RESHAPE(w, seen, -1, channels);
    qs__result(w, QS__CHANNELS_LAST, softmax(w, x, seen, node->inputs == 2));
}
