// SPDX-License-Identifier: Apache-2.0
/* Sequences [N,L,C]: tables of ids and of positions, rotations, positions that are taken or put before. */
#include "operators.h"

#include <math.h>
#include <stdlib.h>

void qs__write_embedding(qs__writer *w) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "axis", 0);
    qs__result(w, QS__CHANNELS_LAST, QS__NODE(w, "Gather", &with, qs__initializer(w, QS_WEIGHTS), qs__value_in(w, 0, QS__CHANNELS_LAST)));
}

/* Rows of a table from `first` on, as exporters of PyTorch take them: by their numbers. */
static const char *rows_taken(qs__writer *w, const char *table, int64_t first, int64_t rows) {
    int64_t *number = NULL;
    qs_protobuf with = {0};
    if (w->model.status == QS_OK) w->model.status = qs_allocate((size_t)rows, sizeof *number, &number);
    if (w->model.status != QS_OK) return "";
    for (int64_t l = 0; l < rows; l++)
        number[l] = first + l;
    const char *numbers = qs__onnx_integers(w, (int)rows, number);
    free(number);
    qs__attribute_integer(&with, "axis", 0);
    return QS__NODE(w, "Gather", &with, table, numbers);
}

/* The table begins anew with every sequence. */
void qs__write_positions(qs__writer *w) {
    const qs_shape *shape = &qs__node_at(w)->shape;
    const qs_parameter *parameter = qs__parameter(w, QS_WEIGHTS);
    const int64_t sequences = qs__node_at(w)->attributes.sequences > 1 ? (int64_t)qs__node_at(w)->attributes.sequences : 1;
    const int64_t channels = shape->dim[1], length = shape->dim[2] / sequences, first = qs__node_at(w)->attributes.offset;
    const char *x = qs__value_in(w, 0, QS__CHANNELS_LAST), *table = qs__initializer(w, QS_WEIGHTS);
    if (parameter->shape.dim[0] > length) table = rows_taken(w, table, first, length);
    if (sequences > 1) x = QS__RESHAPE(w, x, -1, length, channels);
    const char *y = QS__NODE(w, "Add", NULL, x, table);
    qs__result(w, QS__CHANNELS_LAST, sequences > 1 ? QS__RESHAPE(w, y, -1, length * sequences, channels) : y);
}

/* Cosine or sine of every position's angles, [L, 1, d]: those of the first half of a head, and again. */
static const char *waves(qs__writer *w, bool sine, int64_t positions, int64_t width) {
    const int64_t half = width / 2, dim[] = {positions, 1, width};
    float *values = NULL;
    if (w->model.status == QS_OK) w->model.status = qs_allocate((size_t)(positions * width), sizeof *values, &values);
    if (w->model.status != QS_OK) return "";
    for (int64_t l = 0; l < positions; l++)
        for (int64_t i = 0; i < width; i++) {
            const double angle = (double)l * pow(qs__node_at(w)->attributes.base, -(double)(i % half) / (double)half);
            values[l * width + i] = (float)(sine ? sin(angle) : cos(angle));
        }
    const char *name = qs__onnx_numbers(w, 3, dim, values);
    free(values);
    return name;
}

/* (x, y) of the two halves of a head to (x cos - y sin, y cos + x sin): all times cos, and (-y, x) times sin. */
void qs__write_rotary(qs__writer *w) {
    const qs_shape *shape = &qs__node_at(w)->shape;
    const int64_t channels = shape->dim[1], positions = shape->dim[2], heads = (int64_t)qs__node_at(w)->attributes.heads,
                  width = channels / heads;
    const char *x = QS__RESHAPE(w, qs__value_in(w, 0, QS__CHANNELS_LAST), -1, positions, heads, width);
    const char *first = qs__onnx_slice(w, x, 3, 0, width / 2), *second = qs__onnx_slice(w, x, 3, width / 2, width);
    const char *turned = qs__onnx_concat(w, 3, QS__NODE(w, "Neg", NULL, second), first);
    const char *y = QS__NODE(w, "Add", NULL, QS__NODE(w, "Mul", NULL, x, waves(w, false, positions, width)),
                             QS__NODE(w, "Mul", NULL, turned, waves(w, true, positions, width)));
    qs__result(w, QS__CHANNELS_LAST, QS__RESHAPE(w, y, -1, positions, channels));
}

void qs__write_position(qs__writer *w) {
    const qs_shape *src = qs__in_shape(w, 0);
    const int64_t sequences = qs__node_at(w)->attributes.sequences > 1 ? (int64_t)qs__node_at(w)->attributes.sequences : 1;
    const char *x = qs__value_in(w, 0, QS__CHANNELS_LAST);
    qs_protobuf with = {0};
    if (sequences > 1) x = QS__RESHAPE(w, x, -1, sequences, src->dim[2] / sequences, src->dim[1]);
    qs__attribute_integer(&with, "axis", sequences > 1 ? 2 : 1);
    qs__result(w, QS__CHANNELS_LAST, QS__NODE(w, "Gather", &with, x, qs__onnx_integer(w, (int64_t)qs__node_at(w)->attributes.position)));
}

void qs__write_gather(qs__writer *w) {
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "batch_dims", 1);
    const char *ids = QS__NODE(w, "Unsqueeze", NULL, qs__value_in(w, 1, QS__CHANNELS_LAST), QS__INTEGERS(w, -1));
    qs__result(w, QS__CHANNELS_LAST, QS__NODE(w, "GatherND", &with, qs__value_in(w, 0, QS__CHANNELS_LAST), ids));
}

/* The vector once for every sample, in front. */
void qs__write_class_token(qs__writer *w) {
    const int64_t channels = qs__node_at(w)->shape.dim[1];
    const char *x = qs__value_in(w, 0, QS__CHANNELS_LAST);
    qs_protobuf with = {0};
    qs__attribute_integer(&with, "start", 0);
    qs__attribute_integer(&with, "end", 1);
    const char *shape = qs__onnx_concat(w, 0, QS__NODE(w, "Shape", &with, x), QS__INTEGERS(w, 1, channels));
    const char *token = QS__NODE(w, "Expand", NULL, qs__initializer(w, QS_WEIGHTS), shape);
    qs__result(w, QS__CHANNELS_LAST, qs__onnx_concat(w, 1, token, x));
}
