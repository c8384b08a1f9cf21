// SPDX-License-Identifier: Apache-2.0
/* The ONNX file of a model: what nothing reads is left out, values lie in the file or in one beside it. */
#include "model.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALLEST_OUTSIDE = 1024, ALIGNMENT = 64 }; /* bytes of values beside the file; where each begins */

/* A file holds less than this: protobuf's readers refuse more. */
static const size_t most_bytes = INT_MAX;

int qs__ir_version(int opset) {
    static const int last[][2] = {{18, 8}, {20, 9}, {22, 10}, {23, 11}}; /* opset, the version that it came with */
    const int rows = sizeof last / sizeof *last;
    for (int i = 0; i < rows; i++)
        if (opset <= last[i][0]) return last[i][1];
    return last[rows - 1][1];
}

/* ---- What is needed ------------------------------------------------------------------------------------------------------------- */

/* used[name]: a node that leads to the result, or the result itself. Nodes stand behind what they read. */
static void used_mark(qs__model *model, bool *used) {
    size_t kept = model->nodes;
    used[qs__name_index(model, model->result)] = true;
    for (size_t n = model->nodes; n-- > 0;) {
        qs__node *one = &model->node[n];
        bool needed = false;
        for (int i = 0; i < one->outputs; i++)
            needed = needed || used[qs__name_index(model, one->output[i])];
        for (int i = 0; i < one->inputs && needed; i++)
            used[qs__name_index(model, one->input[i])] = true;
        if (needed) {
            model->node[--kept] = *one;
        } else {
            free(one->input);
            qs_protobuf_release(&one->attributes);
        }
    }
    memmove(model->node, model->node + kept, (model->nodes - kept) * sizeof *model->node);
    model->nodes -= kept;
}

/* ---- Parts of the file ------------------------------------------------------------------------------------------------------------ */

static void node_put(qs_protobuf *graph, const qs__node *one) {
    qs_protobuf node = {0};
    for (int i = 0; i < one->inputs; i++)
        qs_protobuf_text(&node, QS_FIELD_NODE_INPUT, one->input[i]);
    for (int i = 0; i < one->outputs; i++)
        qs_protobuf_text(&node, QS_FIELD_NODE_OUTPUT, one->output[i]);
    qs_protobuf_text(&node, QS_FIELD_NODE_NAME, one->output[0]);
    qs_protobuf_text(&node, QS_FIELD_NODE_OP, one->op);
    qs_protobuf_append(&node, &one->attributes);
    qs_protobuf_nest(graph, QS_FIELD_GRAPH_NODE, &node);
}

static void entry_put(qs_protobuf *tensor, const char *key, const char *text) {
    qs_protobuf entry = {0};
    qs_protobuf_text(&entry, QS_FIELD_ENTRY_KEY, key);
    qs_protobuf_text(&entry, QS_FIELD_ENTRY_VALUE, text);
    qs_protobuf_nest(tensor, QS_FIELD_TENSOR_EXTERNAL, &entry);
}

static bool lies_outside(const qs__constant *one, const char *outside) {
    return outside && one->bytes >= SMALLEST_OUTSIDE;
}

/* `outside`: the file of values; NULL: all lie here. Their place there is *used, which moves on. */
static void constant_put(qs_protobuf *graph, const qs__constant *one, const char *outside, size_t *used) {
    qs_protobuf tensor = {0};
    char text[32];
    for (int i = 0; i < one->axes; i++)
        qs_protobuf_integer(&tensor, QS_FIELD_TENSOR_DIMS, one->dim[i]);
    qs_protobuf_integer(&tensor, QS_FIELD_TENSOR_TYPE, one->type);
    qs_protobuf_text(&tensor, QS_FIELD_TENSOR_NAME, one->name);
    if (lies_outside(one, outside)) {
        entry_put(&tensor, "location", outside);
        snprintf(text, sizeof text, "%zu", *used);
        entry_put(&tensor, "offset", text);
        snprintf(text, sizeof text, "%zu", one->bytes);
        entry_put(&tensor, "length", text);
        qs_protobuf_integer(&tensor, QS_FIELD_TENSOR_LOCATION, QS_LOCATION_EXTERNAL);
        *used += (one->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    } else {
        qs_protobuf_bytes(&tensor, QS_FIELD_TENSOR_RAW, one->bytes, one->data);
    }
    qs_protobuf_nest(graph, QS_FIELD_GRAPH_INITIALIZER, &tensor);
}

/* Into `out`; *beside: bytes of the file of values. */
static void model_put(const qs__model *model, const char *graph_name, const char *outside, const bool *used, qs_protobuf *out,
                      size_t *beside) {
    qs_protobuf graph = {0}, opset = {0};
    *beside = 0;
    for (size_t i = 0; i < model->nodes; i++)
        node_put(&graph, &model->node[i]);
    qs_protobuf_text(&graph, QS_FIELD_GRAPH_NAME, graph_name);
    for (size_t i = 0; i < model->constants; i++)
        if (used[qs__name_index(model, model->constant[i].name)]) constant_put(&graph, &model->constant[i], outside, beside);
    qs_protobuf_append(&graph, &model->inputs);
    qs_protobuf_append(&graph, &model->outputs);
    qs_protobuf_integer(&opset, QS_FIELD_OPSET_VERSION, model->opset);
    qs_protobuf_integer(out, QS_FIELD_MODEL_IR, qs__ir_version(model->opset));
    qs_protobuf_text(out, QS_FIELD_MODEL_PRODUCER, "qsync");
    qs_protobuf_nest(out, QS_FIELD_MODEL_GRAPH, &graph);
    qs_protobuf_nest(out, QS_FIELD_MODEL_OPSET, &opset);
}

static qs_status values_write(const qs__model *model, const char *path, const bool *used, size_t bytes) {
    char *values = NULL;
    size_t at = 0;
    QS_TRY(qs_allocate(bytes, 1, &values));
    for (size_t i = 0; i < model->constants; i++) {
        const qs__constant *one = &model->constant[i];
        if (!used[qs__name_index(model, one->name)] || !lies_outside(one, path)) continue;
        memcpy(values + at, one->data, one->bytes);
        at += (one->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    const qs_status status = qs_file_write(path, values, bytes);
    free(values);
    return status;
}

qs_status qs__model_write(qs__model *model, const char *path, const char *graph_name, bool external, int64_t *bytes) {
    qs_protobuf file = {0};
    char *beside = NULL;
    bool *used = NULL;
    size_t outside = 0, inside = 0;
    const char *folder_end = strrchr(path, '/');
    qs_status status = model->status;
    if (status != QS_OK) return status;
    QS_GOTO(qs_allocate(model->names, sizeof *used, &used));
    QS_GOTO(qs_format_text(&beside, "%s.data", path));
    used_mark(model, used);
    for (size_t i = 0; i < model->constants; i++)
        inside += used[qs__name_index(model, model->constant[i].name)] ? model->constant[i].bytes : 0;
    external = external || inside > most_bytes - (size_t)(1 << 24);
    model_put(model, graph_name, external ? beside + (folder_end ? folder_end + 1 - path : 0) : NULL, used, &file, &outside);
    QS_GOTO(file.status);
    if (file.count > most_bytes)
        QS_GOTO(qs_fail(QS_UNSUPPORTED, "%s: %zu bytes without the values that lie beside it: at most %zu", path, file.count, most_bytes));
    if (outside > 0) QS_GOTO(values_write(model, beside, used, outside));
    status = qs_file_write(path, file.data, file.count);
    if (status != QS_OK && outside > 0) unlink(beside);
    if (bytes) *bytes = (int64_t)(file.count + outside);
done:
    qs_protobuf_release(&file);
    free(beside);
    free(used);
    return status;
}
