// SPDX-License-Identifier: Apache-2.0
/* Weights files: the flat buffers of a graph as a named tensor set, one tensor a parameter. Reading compares everything before it copies
 * anything, so a refused file leaves the buffers as they were. */
#include "qsync/checkpoint.h"

#include <stdlib.h>
#include <string.h>

static bool is_trained(const qs_parameter *parameter) {
    return parameter->gradient != QS_ROLE_COUNT;
}

static size_t parameter_bytes(const qs_parameter *parameter) {
    return (size_t)qs_shape_count(&parameter->shape) * sizeof(float);
}

qs_status qs_weights_write(const char *path, const qs_graph *graph, const float *trained, const float *statistics) {
    qs_tensor_set set = {.count = (size_t)graph->parameters};
    QS_TRY(qs_allocate(set.count, sizeof *set.tensors, &set.tensors));
    memcpy(set.model, graph->name, sizeof set.model);
    qs_graph_signature(graph, set.graph);
    for (int i = 0; i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        const float *data = (is_trained(parameter) ? trained : statistics) + parameter->offset;
        qs_named_tensor *one = &set.tensors[i];
        memcpy(one->name, parameter->name, sizeof one->name);
        one->tensor = (qs_tensor){parameter->shape, qs_format_of("fp32"), (void *)(uintptr_t)data}; /* written from, never to */
    }
    qs_status status = qs_tensor_set_write(path, &set);
    free(set.tensors);
    return status;
}

static qs_status parameter_check(const qs_tensor_set *set, const qs_parameter *parameter) {
    char expected[96], found[96];
    const qs_tensor *tensor = qs_tensor_set_find(set, parameter->name);
    if (!tensor) return qs_fail(QS_MISMATCH, "tensor %s is missing", parameter->name);
    if (!qs_shape_equal(&tensor->shape, &parameter->shape)) {
        return qs_fail(QS_MISMATCH, "tensor %s has shape %s, the model's is %s", parameter->name, qs_shape_text(&tensor->shape, found),
                       qs_shape_text(&parameter->shape, expected));
    }
    if (tensor->format != qs_format_of("fp32")) {
        return qs_fail(QS_MISMATCH, "tensor %s is %s, weights are kept in fp32", parameter->name, tensor->format->name);
    }
    return QS_OK;
}

static bool is_known(const qs_graph *graph, const char *name) {
    for (int i = 0; i < graph->parameters; i++) {
        if (strcmp(graph->parameter[i].name, name) == 0) return true;
    }
    return false;
}

static qs_status set_check(const qs_tensor_set *set, const qs_graph *graph) {
    char signature[32];
    const bool same_graph = strcmp(set->graph, qs_graph_signature(graph, signature)) == 0; /* whatever it is called */
    if (!same_graph && strcmp(set->model, graph->name) != 0)
        return qs_fail(QS_MISMATCH, "these are weights of model \"%s\", not of \"%s\" (signatures %s and %s)", set->model, graph->name,
                       set->graph[0] ? set->graph : "not said", signature);
    for (int i = 0; i < graph->parameters; i++)
        QS_TRY(parameter_check(set, &graph->parameter[i]));
    for (size_t i = 0; i < set->count; i++) {
        const char *name = set->tensors[i].name;
        if (!is_known(graph, name)) return qs_fail(QS_MISMATCH, "tensor %s is superfluous: the model has no such parameter", name);
    }
    return QS_OK;
}

qs_status qs_weights_read(const char *path, const qs_graph *graph, float *trained, float *statistics) {
    qs_tensor_set set = {0};
    char signature[32];
    QS_TRY(qs_tensor_set_read(path, &set));
    qs_status status = qs_fail_within(set_check(&set, graph), "%s", path);
    if (status == QS_OK && set.graph[0] && strcmp(set.graph, qs_graph_signature(graph, signature)) != 0)
        qs_log(QS_LOG_WARNING, "%s: weights of graph %s go into %s of the same name and parameters", path, set.graph, signature);
    for (int i = 0; status == QS_OK && i < graph->parameters; i++) {
        const qs_parameter *parameter = &graph->parameter[i];
        float *data = (is_trained(parameter) ? trained : statistics) + parameter->offset;
        memcpy(data, qs_tensor_set_find(&set, parameter->name)->data, parameter_bytes(parameter));
    }
    qs_tensor_set_release(&set);
    return status;
}

qs_status qs_weights_model(const char *path, char *name) {
    qs_tensor_set set = {0};
    QS_TRY(qs_tensor_set_read(path, &set));
    memcpy(name, set.model, sizeof set.model);
    qs_tensor_set_release(&set);
    return QS_OK;
}
