// SPDX-License-Identifier: Apache-2.0
/* A case as a model that can be imported: inputs become initializers, or flow in as (batch, numbers) and are brought into their extents
 * by a Reshape; one output leaves as (batch, numbers) by a Flatten. So samples are plain vectors whatever the layouts inside are. The
 * output is negated on its way: a softmax at the end of a model is left to the loss, and one before something else is not. */
#include "conformance_model.h"

#include <stdio.h>
#include <string.h>

#include "qsync/onnx_fields.h"

int case_samples_axis(const onnx_case *one, const qs_onnx_tensor *tensor, bool output) {
    static const char *const recurrent[] = {"LSTM", "GRU", "RNN"};
    const qs_onnx_graph *graph = &one->model.graph;
    for (int n = 0; n < graph->nodes; n++)
        for (size_t i = 0; i < sizeof recurrent / sizeof *recurrent; i++) {
            int64_t layout = 0;
            if (strcmp(graph->node[n].op, recurrent[i]) != 0 || qs_onnx_attribute_int(&graph->node[n], "layout", 0, &layout) != QS_OK)
                continue;
            if (layout == 0 && tensor->rank >= 3) return output ? tensor->rank - 2 : 1;
        }
    return 0;
}

void case_samples_move(const qs_onnx_tensor *tensor, int axis, bool back, const float *from, float *to) {
    int64_t outer = 1, inner = 1;
    for (int a = 0; a < tensor->rank; a++)
        if (a != axis) *(a < axis ? &outer : &inner) *= tensor->dim[a];
    const int64_t samples = tensor->dim[axis];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t n = 0; n < samples; n++) {
            const int64_t own = (o * samples + n) * inner, front = (n * outer + o) * inner;
            memcpy(to + (back ? own : front), from + (back ? front : own), (size_t)inner * sizeof *to);
        }
}

/* Transpose by an order of axes. */
static void transpose_put(qs_protobuf *to, const char *from, int rank, const int64_t *order, const char *result) {
    qs_protobuf node = {0}, attribute = {0};
    qs_protobuf_text(&attribute, QS_FIELD_ATTRIBUTE_NAME, "perm");
    for (int a = 0; a < rank; a++)
        qs_protobuf_integer(&attribute, QS_FIELD_ATTRIBUTE_INTS, order[a]);
    qs_protobuf_integer(&attribute, QS_FIELD_ATTRIBUTE_TYPE, QS_ONNX_ATTRIBUTE_INTS);
    qs_protobuf_text(&node, QS_FIELD_NODE_INPUT, from);
    qs_protobuf_text(&node, QS_FIELD_NODE_OUTPUT, result);
    qs_protobuf_text(&node, QS_FIELD_NODE_OP, "Transpose");
    qs_protobuf_nest(&node, QS_FIELD_NODE_ATTRIBUTE, &attribute);
    qs_protobuf_nest(to, QS_FIELD_GRAPH_NODE, &node);
}

static void node_put(qs_protobuf *to, const char *op, const char *from, const char *with, const char *result) {
    qs_protobuf node = {0};
    qs_protobuf_text(&node, QS_FIELD_NODE_INPUT, from);
    if (with) qs_protobuf_text(&node, QS_FIELD_NODE_INPUT, with);
    qs_protobuf_text(&node, QS_FIELD_NODE_OUTPUT, result);
    qs_protobuf_text(&node, QS_FIELD_NODE_OP, op);
    qs_protobuf_nest(to, QS_FIELD_GRAPH_NODE, &node);
}

/* Numbers of 8 bytes or fewer each, as a file holds them. */
static void initializer_put(qs_protobuf *to, const char *name, qs_onnx_type type, int rank, const int64_t *extent, const void *data,
                            size_t bytes) {
    qs_protobuf tensor = {0};
    for (int a = 0; a < rank; a++)
        qs_protobuf_integer(&tensor, QS_FIELD_TENSOR_DIMS, extent[a]);
    qs_protobuf_integer(&tensor, QS_FIELD_TENSOR_TYPE, type);
    qs_protobuf_bytes(&tensor, QS_FIELD_TENSOR_RAW, bytes, data);
    qs_protobuf_text(&tensor, QS_FIELD_TENSOR_NAME, name);
    qs_protobuf_nest(to, QS_FIELD_GRAPH_INITIALIZER, &tensor);
}

static int64_t numbers_of_sample(const qs_onnx_tensor *tensor, int axis) {
    int64_t count = 1;
    for (int a = 0; a < tensor->rank; a++)
        if (a != axis) count *= tensor->dim[a];
    return count;
}

static size_t bytes_of(const qs_onnx_tensor *tensor) {
    return (size_t)(tensor->count * qs_onnx_type_bits(tensor->type) + 7) / 8;
}

/* Real numbers flow in as vectors, integers as they are: they are rows of a table. */
static void input_put(qs_protobuf *graph, const qs_onnx_tensor *tensor, int axis, const char *name, int index) {
    char flat[32], extents[32], front[32];
    int64_t extent[QS_ONNX_MAX_RANK] = {0}, order[QS_ONNX_MAX_RANK] = {0};
    snprintf(flat, sizeof flat, CASE_INPUT, index);
    if (qs_onnx_type_is_integer(tensor->type)) {
        memcpy(extent, tensor->dim, (size_t)tensor->rank * sizeof *extent);
        extent[0] = QS_ONNX_OPEN;
        qs_onnx_value_write(graph, QS_FIELD_GRAPH_INPUT, flat, tensor->type, tensor->rank, extent);
        node_put(graph, "Identity", flat, NULL, name);
        return;
    }
    qs_onnx_value_write(graph, QS_FIELD_GRAPH_INPUT, flat, tensor->type, 2,
                        (const int64_t[2]){QS_ONNX_OPEN, numbers_of_sample(tensor, axis)});
    snprintf(extents, sizeof extents, "case_extents_%d", index);
    snprintf(front, sizeof front, "case_front_%d", index);
    for (int a = 0, place = 1; a < tensor->rank; a++) {
        if (a == axis) continue; /* it stands in front, and stays as it is: 0 */
        extent[place] = tensor->dim[a];
        order[a] = place++;
    }
    initializer_put(graph, extents, QS_ONNX_INT64, 1, (const int64_t[1]){tensor->rank}, extent, (size_t)tensor->rank * sizeof *extent);
    node_put(graph, "Reshape", flat, extents, axis == 0 ? name : front);
    if (axis > 0) transpose_put(graph, front, tensor->rank, order, name);
}

static void graph_put(qs_protobuf *graph, const onnx_case *one, const bool *flows, int output) {
    const qs_onnx_graph *from = &one->model.graph;
    for (int i = 0; i < one->inputs; i++) {
        const char *name = from->value[from->input[i]].name;
        const qs_onnx_tensor *tensor = &one->input[i];
        if (flows[i])
            input_put(graph, tensor, case_samples_axis(one, tensor, false), name, i);
        else
            initializer_put(graph, name, tensor->type, tensor->rank, tensor->dim, tensor->data, bytes_of(tensor));
    }
    const char *name = from->value[from->output[output]].name;
    const qs_onnx_tensor *result = &one->output[output];
    const int axis = case_samples_axis(one, result, true);
    int64_t order[QS_ONNX_MAX_RANK] = {axis};
    for (int a = 0, place = 1; a < result->rank; a++)
        if (a != axis) order[place++] = a;
    node_put(graph, "Neg", name, NULL, "case_negative");
    if (axis > 0) transpose_put(graph, "case_negative", result->rank, order, "case_back");
    node_put(graph, "Flatten", axis > 0 ? "case_back" : "case_negative", NULL, CASE_OUTPUT);
    qs_onnx_value_write(graph, QS_FIELD_GRAPH_OUTPUT, CASE_OUTPUT, result->type, 2,
                        (const int64_t[2]){QS_ONNX_OPEN, numbers_of_sample(result, axis)});
}

/* Fields of kinds that the format's own messages have. */
static void field_copy(qs_protobuf *to, const qs_wire_field *field) {
    if (field->kind == 0)
        qs_protobuf_integer(to, (int)field->number, (int64_t)field->value);
    else if (field->kind == 2)
        qs_protobuf_bytes(to, (int)field->number, (size_t)(field->bytes.end - field->bytes.at), field->bytes.at);
}

qs_status case_model_write(const onnx_case *one, const bool *flows, int output, const char *path) {
    qs_protobuf model = {0}, graph = {0};
    qs_wire_field field, part;
    qs_status status;
    bool more;
    for (qs_wire from = case_wire(one);;) {
        QS_GOTO(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != QS_FIELD_MODEL_GRAPH) field_copy(&model, &field);
        for (qs_wire in = field.bytes; field.number == QS_FIELD_MODEL_GRAPH;) {
            QS_GOTO(qs_wire_next(&in, &part, &more));
            if (!more) break;
            if (part.number != QS_FIELD_GRAPH_INPUT && part.number != QS_FIELD_GRAPH_OUTPUT && part.number != QS_FIELD_GRAPH_VALUE_INFO)
                field_copy(&graph, &part);
        }
    }
    graph_put(&graph, one, flows, output);
    qs_protobuf_nest(&model, QS_FIELD_MODEL_GRAPH, &graph);
    QS_GOTO(model.status);
    status = qs_file_write(path, model.data, model.count);
done:
    qs_protobuf_release(&graph);
    qs_protobuf_release(&model);
    return status;
}
