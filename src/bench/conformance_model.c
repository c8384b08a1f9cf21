// SPDX-License-Identifier: Apache-2.0
/* A case as a model that can be imported: inputs become initializers, or flow in as (batch, numbers) and are brought into their extents
 * by a Reshape; one output leaves as (batch, numbers) by a Flatten. So samples are plain vectors whatever the layouts inside are. The
 * output is negated on its way: a softmax at the end of a model is left to the loss, and one before something else is not. */
#include "conformance_model.h"

#include "conformance_wire.h"

/* Field numbers of the ONNX schema. */
enum { MODEL_GRAPH = 7 };
enum { GRAPH_NODE = 1, GRAPH_INITIALIZER = 5, GRAPH_INPUT = 11, GRAPH_OUTPUT = 12, GRAPH_VALUE_INFO = 13 };
enum { NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_OP = 4, NODE_ATTRIBUTE = 5 };
enum { TENSOR_DIMS = 1, TENSOR_TYPE = 2, TENSOR_NAME = 8, TENSOR_RAW = 9 };
enum { VALUE_NAME = 1, VALUE_TYPE = 2, TYPE_TENSOR = 1, TYPE_ELEMENT = 1, TYPE_SHAPE = 2, SHAPE_DIM = 1, DIM_VALUE = 1, DIM_SYMBOL = 2 };

static void value_put(message *to, uint32_t number, const char *name, qs_onnx_type element, int rank, const int64_t *extent) {
    message value = {.size = 0}, type = {.size = 0}, tensor = {.size = 0}, shape = {.size = 0}, dim = {.size = 0};
    put_text(&dim, DIM_SYMBOL, "N");
    put_message(&shape, SHAPE_DIM, &dim);
    for (int a = 1; a < rank; a++) {
        put_integer(&dim, DIM_VALUE, extent[a]);
        put_message(&shape, SHAPE_DIM, &dim);
    }
    put_integer(&tensor, TYPE_ELEMENT, element);
    put_message(&tensor, TYPE_SHAPE, &shape);
    put_message(&type, TYPE_TENSOR, &tensor);
    put_text(&value, VALUE_NAME, name);
    put_message(&value, VALUE_TYPE, &type);
    put_message(to, number, &value);
}

static void node_put(message *to, const char *op, const char *from, const char *with, const char *result) {
    message node = {.size = 0};
    put_text(&node, NODE_INPUT, from);
    if (with) put_text(&node, NODE_INPUT, with);
    put_text(&node, NODE_OUTPUT, result);
    put_text(&node, NODE_OP, op);
    put_message(to, GRAPH_NODE, &node);
}

/* Numbers of 8 bytes or fewer each, as a file holds them. */
static void initializer_put(message *to, const char *name, qs_onnx_type type, int rank, const int64_t *extent, const void *data,
                            size_t bytes) {
    message tensor = {.size = 0};
    for (int a = 0; a < rank; a++)
        put_integer(&tensor, TENSOR_DIMS, extent[a]);
    put_integer(&tensor, TENSOR_TYPE, type);
    put_bytes(&tensor, TENSOR_RAW, data, bytes);
    put_text(&tensor, TENSOR_NAME, name);
    put_message(to, GRAPH_INITIALIZER, &tensor);
}

static int64_t numbers_of_sample(const qs_onnx_tensor *tensor) {
    int64_t count = 1;
    for (int a = 1; a < tensor->rank; a++)
        count *= tensor->dim[a];
    return count;
}

static size_t bytes_of(const qs_onnx_tensor *tensor) {
    return (size_t)(tensor->count * qs_onnx_type_bits(tensor->type) + 7) / 8;
}

/* Real numbers flow in as vectors, integers as they are: they are rows of a table. */
static void input_put(message *graph, const qs_onnx_tensor *tensor, const char *name, int index) {
    char flat[32], extents[32];
    int64_t extent[QS_ONNX_MAX_RANK];
    snprintf(flat, sizeof flat, CASE_INPUT, index);
    if (qs_onnx_type_is_integer(tensor->type)) {
        value_put(graph, GRAPH_INPUT, flat, tensor->type, tensor->rank, tensor->dim);
        node_put(graph, "Identity", flat, NULL, name);
        return;
    }
    value_put(graph, GRAPH_INPUT, flat, tensor->type, 2, (const int64_t[2]){0, numbers_of_sample(tensor)});
    snprintf(extents, sizeof extents, "case_extents_%d", index);
    for (int a = 0; a < tensor->rank; a++)
        extent[a] = a == 0 ? 0 : tensor->dim[a]; /* 0: as it is */
    initializer_put(graph, extents, QS_ONNX_INT64, 1, (const int64_t[1]){tensor->rank}, extent, (size_t)tensor->rank * sizeof *extent);
    node_put(graph, "Reshape", flat, extents, name);
}

static void graph_put(message *graph, const onnx_case *one, const bool *flows, int output) {
    const qs_onnx_graph *from = &one->model.graph;
    for (int i = 0; i < one->inputs; i++) {
        const char *name = from->value[from->input[i]].name;
        const qs_onnx_tensor *tensor = &one->input[i];
        if (flows[i])
            input_put(graph, tensor, name, i);
        else
            initializer_put(graph, name, tensor->type, tensor->rank, tensor->dim, tensor->data, bytes_of(tensor));
    }
    const char *name = from->value[from->output[output]].name;
    node_put(graph, "Neg", name, NULL, "case_negative");
    node_put(graph, "Flatten", "case_negative", NULL, CASE_OUTPUT);
    value_put(graph, GRAPH_OUTPUT, CASE_OUTPUT, one->output[output].type, 2,
              (const int64_t[2]){0, numbers_of_sample(&one->output[output])});
}

qs_status case_model_write(const onnx_case *one, const bool *flows, int output, const char *path) {
    message model = {.size = 0}, graph = {.size = 0};
    wire_field field, part;
    for (wire from = {(const uint8_t *)one->bytes, one->count}; wire_next(&from, &field);) {
        const uint8_t *begin = field.bytes.at;
        if (field.number != MODEL_GRAPH) {
            if (begin)
                put_bytes(&model, field.number, begin, field.bytes.left);
            else
                put_integer(&model, field.number, (int64_t)field.integer);
            continue;
        }
        for (wire in = field.bytes; wire_next(&in, &part);)
            if (part.bytes.at && part.number != GRAPH_INPUT && part.number != GRAPH_OUTPUT && part.number != GRAPH_VALUE_INFO)
                put_bytes(&graph, part.number, part.bytes.at, part.bytes.left);
    }
    graph_put(&graph, one, flows, output);
    put_message(&model, MODEL_GRAPH, &graph);
    const qs_status status = qs_file_write(path, model.data, model.size);
    free(model.data);
    return status;
}
