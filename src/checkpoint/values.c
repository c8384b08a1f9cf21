// SPDX-License-Identifier: Apache-2.0
/* Values of a parameter between memory and a weights file. In memory everything is channels-last: convolutions O,H,W,I, and what reads a
 * flattened image finds its features in the order H,W,C. Files have PyTorch's order: O,I,H,W, and features C,H,W. Beside that a file may
 * hold a matrix transposed, or several of them as one. */
#include "checkpoint_internal.h"

#include <stdlib.h>
#include <string.h>

/* Values as `rows` matrices of (positions, channels) in memory, each (channels, positions) in files. One position: the same order. */
typedef struct order {
    int64_t rows, channels, positions;
} order;

/* The extents (1, C, H, W) that a node's features were before a flatten, which operators keep whose output is shaped as their input;
 * axes 0: its features are no positions. */
static qs_shape flattened(const qs_graph *graph, int index) {
    static const qs_shape none;
    const qs_node *node = &graph->node[index];
    while (node->op && !node->op->alias) {
        const qs_node *before = &graph->node[node->input[0]];
        if (node->op->kind == QS_ADJUSTABLE || !qs_shape_equal(&node->shape, &before->shape)) return none;
        node = before;
    }
    return node->op && node->op->image_features ? graph->node[node->input[0]].shape : none;
}

qs_shape qs__values_image(const qs_graph *graph, const qs_parameter *parameter) {
    static const qs_shape none;
    const qs_shape *shape = &parameter->shape;
    const qs_node *node = &graph->node[parameter->node];
    const bool by_feature = node->op->kind != QS_ADJUSTABLE || parameter->role == QS_WEIGHTS;
    const qs_shape image = by_feature && shape->axes > 0 ? flattened(graph, node->input[0]) : none;
    return image.axes >= 3 && shape->axes < 3 && shape->dim[shape->axes - 1] == qs_shape_count(&image) ? image : none;
}

static order order_of(const qs_graph *graph, const qs_parameter *parameter) {
    const qs_shape *shape = &parameter->shape;
    const int64_t count = qs_shape_count(shape);
    if (shape->axes >= 3) return (order){shape->dim[0], shape->dim[1], count / (shape->dim[0] * shape->dim[1])};
    const qs_shape image = qs__values_image(graph, parameter);
    if (image.axes == 0) return (order){1, 1, count};
    const int64_t features = qs_shape_count(&image);
    return (order){count / features, image.dim[1], features / image.dim[1]};
}

static void order_change(order of, bool to_file, const float *src, float *dst) {
    const int64_t inner = to_file ? of.positions : of.channels, outer = to_file ? of.channels : of.positions;
    for (int64_t row = 0; row < of.rows; row++)
        for (int64_t i = 0; i < outer; i++)
            for (int64_t j = 0; j < inner; j++)
                dst[(row * outer + i) * inner + j] = src[(row * inner + j) * outer + i];
}

/* Where element `column` of output `row` of a parameter stands in its tensor. */
static int64_t place_at(const qs__place *place, int64_t rows, int64_t columns, int64_t row, int64_t column) {
    row += place->part * rows;
    return place->transposed ? column * (rows * place->parts) + row : row * columns + column;
}

qs_status qs__values_read(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const qs_tensor *tensor,
                          float *out) {
    const int64_t count = qs_shape_count(&parameter->shape), all = qs_shape_count(&tensor->shape);
    const int64_t rows = parameter->shape.axes > 0 ? parameter->shape.dim[0] : 1, columns = count / rows;
    float *wide = NULL;
    QS_TRY(qs_allocate((size_t)(all + count), sizeof *wide, &wide));
    float *const own = wide + all;
    qs_convert_to_fp32(tensor->format, all, tensor->data, wide);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            own[row * columns + column] = wide[place_at(place, rows, columns, row, column)];
    order_change(order_of(graph, parameter), false, own, out);
    free(wide);
    return QS_OK;
}

qs_status qs__values_write(const qs_graph *graph, const qs_parameter *parameter, const qs__place *place, const float *values, float *out) {
    const int64_t count = qs_shape_count(&parameter->shape);
    const int64_t rows = parameter->shape.axes > 0 ? parameter->shape.dim[0] : 1, columns = count / rows;
    float *own = NULL;
    QS_TRY(qs_allocate((size_t)count, sizeof *own, &own));
    order_change(order_of(graph, parameter), true, values, own);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < columns; column++)
            out[place_at(place, rows, columns, row, column)] = own[row * columns + column];
    free(own);
    return QS_OK;
}

qs_status qs__rotary_halves(float *matrix, int64_t heads, int64_t rows, int64_t columns) {
    const int64_t head = rows / heads;
    const size_t row_bytes = (size_t)columns * sizeof *matrix;
    float *pairs = NULL;
    QS_TRY(qs_allocate((size_t)(head * columns), sizeof *pairs, &pairs));
    for (int64_t h = 0; h < heads; h++, matrix += head * columns) {
        memcpy(pairs, matrix, (size_t)head * row_bytes);
        for (int64_t row = 0; row < head; row++)
            memcpy(matrix + row * columns, pairs + (row % (head / 2) * 2 + row / (head / 2)) * columns, row_bytes);
    }
    free(pairs);
    return QS_OK;
}
