// SPDX-License-Identifier: Apache-2.0
/* Recurrent layers. A recurrence and the linear of its gates that it alone reads are one LSTM, GRU or RNN, with W from the linear; one
 * whose gates come from elsewhere, or from a product in other formats, has a W that picks them. Gates in PyTorch's order are brought into
 * ONNX's by nodes, as PyTorch's own exporter does, so that weights keep their names and rows. */
#include "operators.h"

#include "qsync/recurrence.h"

#include <stdlib.h>

enum { MOST_PARTS = 2 * 2 * QS_MOST_GATES }; /* directions, biases, gates */

static bool as_onnx(const qs_recurrence *of) {
    bool same = true;
    for (int g = 0; g < (int)of->gates; g++)
        same = same && of->at[g] == g;
    return same;
}

/* A parameter of node `node` of `blocks` times all gates in ONNX's order, in these extents. */
static const char *by_gates(qs__writer *w, int node, qs_role role, const qs_recurrence *of, int blocks, int axes, const int64_t *dim) {
    const int here = w->at;
    qs_shape wanted = {.axes = axes};
    for (int a = 0; a < axes; a++)
        wanted.dim[a] = dim[a];
    w->at = node;
    const qs_parameter *parameter = qs__parameter(w, role);
    const qs_weights_place place = qs__place(w, parameter);
    const bool moves = !as_onnx(of), there = !moves && !place.transposed && qs_shape_equal(&qs__values(w, &place)->shape, &wanted);
    const char *rows = there ? qs__initializer_at(w, &place) : qs__initializer(w, role), *part[MOST_PARTS];
    w->at = here;
    if (there) return rows;
    if (place.transposed) rows = QS__TRANSPOSE(w, rows, 1, 0);
    if (moves) {
        qs_protobuf with = {0};
        qs__attribute_integer(&with, "axis", 0);
        for (int i = 0; i < blocks * (int)of->gates; i++) {
            const int64_t first = (i / of->gates * of->gates + of->at[i % of->gates]) * of->hidden;
            part[i] = qs__onnx_slice(w, rows, 0, first, first + of->hidden);
        }
        rows = qs__onnx_node(w, "Concat", &with, blocks * (int)of->gates, part);
    }
    if (qs_shape_equal(&parameter->shape, &wanted)) return rows;
    if (of->directions == 1 && axes == parameter->shape.axes + 1) return QS__NODE(w, "Unsqueeze", NULL, rows, QS__INTEGERS(w, 0));
    return QS__NODE(w, "Reshape", NULL, rows, qs__onnx_integers(w, axes, dim));
}

/* Constants of so many zeros and, where `picks`, a 1 in each row: the value of src that a gate's value in ONNX's order is. */
static const char *constant(qs__writer *w, const qs_recurrence *of, int axes, const int64_t *dim, bool picks) {
    float *values = NULL;
    int64_t count = 1;
    for (int a = 0; a < axes; a++)
        count *= dim[a];
    if (w->model.status == QS_OK) w->model.status = qs_allocate((size_t)count, sizeof *values, &values); /* zeros */
    if (w->model.status != QS_OK) return "";
    for (int64_t row = 0; row < of->channels && picks; row++) {
        const int64_t block = row / of->hidden, gate = block % of->gates;
        values[row * of->channels + (block - gate + of->at[gate]) * of->hidden + row % of->hidden] = 1;
    }
    const char *name = qs__onnx_numbers(w, axes, dim, values);
    free(values);
    return name;
}

/* The linear that goes into the operator: its values are the recurrence's alone, and fp32. -1: none does. */
static int gates_node(qs__writer *w, const qs_recurrence *of) {
    const int here = w->at, from = qs__node_at(w)->input[0];
    const qs_node *node = &w->graph->node[from];
    if (!node->op || node->op != qs_op_of("linear") || node->consumers != 1 || node->table > 0 || (node->bias && of->biases == 2))
        return -1;
    if (w->options->value && w->options->value[from]) return -1;
    w->at = from;
    const qs_weights_place place = qs__place(w, qs__parameter(w, QS_WEIGHTS));
    const bool plain = !qs__weights_narrow(w) && place.parts <= 1 && place.image.axes == 0 && qs__in_shape(w, 0)->axes == 3;
    w->at = here;
    return plain ? from : -1;
}

/* B [D, 2·G·H]: biases of the input, then those of the product; NULL: there are none. */
static const char *biases(qs__writer *w, int linear, const qs_recurrence *of) {
    const int64_t all = of->channels / of->directions, dim[] = {of->directions, all}, both[] = {of->directions, 2 * all};
    const bool own = qs__parameter(w, QS_BIAS) != NULL, inputs = linear >= 0 && w->graph->node[linear].bias;
    qs_protobuf with = {0};
    if (!own && !inputs) return NULL;
    if (own && of->biases == 2) return by_gates(w, w->at, QS_BIAS, of, 2 * of->directions, 2, both);
    const bool one = of->directions == 1; /* then both, and the axis of directions in front, as PyTorch writes it */
    const int axes = one ? 1 : 2;
    const int64_t *extent = one ? dim + 1 : dim;
    const char *first = inputs ? by_gates(w, linear, QS_BIAS, of, of->directions, axes, extent) : constant(w, of, axes, extent, false);
    const char *second = own ? by_gates(w, w->at, QS_BIAS, of, of->directions, axes, extent) : constant(w, of, axes, extent, false);
    qs__attribute_integer(&with, "axis", axes - 1);
    const char *all_of = QS__NODE(w, "Concat", &with, first, second);
    return one ? QS__NODE(w, "Unsqueeze", NULL, all_of, QS__INTEGERS(w, 0)) : all_of;
}

void qs__write_recurrence(qs__writer *w) {
    static const char *const ops[QS_CELLS] = {"RNN", "RNN", "LSTM", "GRU", "GRU"}, *const relu[] = {"Relu", "Relu"};
    qs_recurrence of;
    const qs_status known = qs_recurrence_of(&qs__node_at(w)->attributes, qs__in_shape(w, 0), &of);
    if (known != QS_OK) {
        w->model.status = known;
        return;
    }
    const int64_t all = of.channels / of.directions;
    const int linear = gates_node(w, &of), here = w->at;
    if (linear >= 0) w->at = linear;
    const int64_t inputs = qs__in_shape(w, 0)->dim[1], weights[] = {of.directions, all, inputs}, states[] = {of.directions, all, of.hidden};
    const char *x = QS__TRANSPOSE(w, qs__value_in(w, 0, QS__CHANNELS_LAST), 1, 0, 2);
    w->at = here;
    const char *input = linear >= 0 ? by_gates(w, linear, QS_WEIGHTS, &of, of.directions, 3, weights) : constant(w, &of, 3, weights, true);
    const char *state = by_gates(w, here, QS_WEIGHTS, &of, of.directions, 3, states), *bias = biases(w, linear, &of);
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "hidden_size", of.hidden);
    if (of.directions == 2 || of.reverse[0]) qs__attribute_text(&with, "direction", of.directions == 2 ? "bidirectional" : "reverse");
    if (of.cell == QS_CELL_GRU_LATE) qs__attribute_integer(&with, "linear_before_reset", 1);
    if (of.cell == QS_CELL_RELU) qs__attribute_texts(&with, "activations", of.directions, relu);
    const char *y = QS__NODE(w, ops[of.cell], &with, x, input, state, bias); /* [L, D, N, H] */
    qs__result(w, QS__CHANNELS_LAST, QS__RESHAPE(w, QS__TRANSPOSE(w, y, 2, 0, 1, 3), -1, of.positions, of.units));
}
