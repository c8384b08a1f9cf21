// SPDX-License-Identifier: Apache-2.0
/* Models: opening a file, its head (ModelProto), and release. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

enum { OLDEST_IR = 3, NEWEST_IR = 13 };

static qs_status metadata_read(qs_onnx_memory *memory, qs_wire from, qs_onnx_metadata *out) {
    *out = (qs_onnx_metadata){"", ""};
    for (;;) {
        qs_wire_field field;
        qs_wire text;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (field.number != QS_FIELD_ENTRY_KEY && field.number != QS_FIELD_ENTRY_VALUE) continue;
        QS_TRY(qs__field_message(&field, "metadata", &text));
        QS_TRY(qs__onnx_copy_text(memory, text.at, (size_t)(text.end - text.at),
                                  field.number == QS_FIELD_ENTRY_KEY ? &out->key : &out->value));
    }
}

/* All but the graph, which needs opsets and functions first. */
static qs_status head_read(qs__reader *reader, qs_wire from, qs_onnx_model *out, qs_wire *graph) {
    qs_onnx_memory *memory = reader->place.memory;
    size_t counts[QS_FIELD_MODEL_END];
    qs_onnx_opset *opset;
    qs_onnx_metadata *metadata;
    qs__function *function;
    QS_TRY(qs__wire_count(from, counts, QS_FIELD_MODEL_END));
    if (counts[QS_FIELD_MODEL_OPSET] > QS__MOST_OPSETS)
        return qs_fail(QS_UNSUPPORTED, "%zu opsets: at most %d", counts[QS_FIELD_MODEL_OPSET], QS__MOST_OPSETS);
    if (counts[QS_FIELD_MODEL_GRAPH] != 1) return qs_fail(QS_BAD_FILE, "%zu graphs: a model has one", counts[QS_FIELD_MODEL_GRAPH]);
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_MODEL_OPSET], sizeof *opset, &opset));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_MODEL_METADATA], sizeof *metadata, &metadata));
    QS_TRY(qs__onnx_take(memory, counts[QS_FIELD_MODEL_FUNCTION], sizeof *function, &function));
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_MODEL_IR) QS_TRY(qs__field_int(&field, "ir_version", &out->ir_version));
        if (field.number == QS_FIELD_MODEL_PRODUCER) QS_TRY(qs__field_name(&field, "producer_name", memory, &out->producer_name));
        if (field.number == QS_FIELD_MODEL_PRODUCER_VERSION)
            QS_TRY(qs__field_name(&field, "producer_version", memory, &out->producer_version));
        if (field.number != QS_FIELD_MODEL_OPSET && field.number != QS_FIELD_MODEL_METADATA && field.number != QS_FIELD_MODEL_GRAPH &&
            field.number != QS_FIELD_MODEL_FUNCTION)
            continue;
        QS_TRY(qs__field_message(&field, "a part of the model", &message));
        if (field.number == QS_FIELD_MODEL_GRAPH) *graph = message;
        if (field.number == QS_FIELD_MODEL_OPSET) QS_TRY(qs__opset_read(memory, message, &opset[out->opsets++]));
        if (field.number == QS_FIELD_MODEL_METADATA) QS_TRY(metadata_read(memory, message, &metadata[out->metadata_entries++]));
        if (field.number == QS_FIELD_MODEL_FUNCTION) {
            qs__function *read = &function[reader->functions];
            const char *key;
            QS_TRY(qs__function_read(&reader->place, message, read));
            QS_TRY(qs__onnx_print(memory, &key, "%s\n%s\n%s", read->domain, read->name, read->overload));
            QS_TRY(qs__names_set(&reader->function_names, key, reader->functions++));
        }
    }
    if (out->ir_version < OLDEST_IR || out->ir_version > NEWEST_IR)
        return qs_fail(QS_UNSUPPORTED, "IR version %" PRId64 ": %d to %d are read", out->ir_version, OLDEST_IR, NEWEST_IR);
    out->opset = reader->opset = opset;
    out->metadata = metadata;
    reader->opsets = out->opsets;
    reader->function = function;
    return QS_OK;
}

static qs_status model_read(const char *name, const char *folder, qs_onnx_memory *memory, const void *data, size_t bytes,
                            qs_onnx_model *out) {
    qs__reader reader = {.place = {memory, folder}};
    const uint8_t *start = data;
    qs_wire graph = {0};
    qs_onnx_model model = {.producer_name = "", .producer_version = "", .memory = memory};
    if (bytes == 0) return qs_fail(QS_BAD_FILE, "%s: no ONNX model: the file is empty", name);
    if (!qs_onnx_recognise(data, bytes)) return qs_fail(QS_BAD_FILE, "%s: no ONNX model: it does not begin like one", name);
    qs_status status = QS_OK;
    QS_GOTO(qs__onnx_copy_text(memory, name, strlen(name), &model.path));
    QS_GOTO(head_read(&reader, (qs_wire){model.path, start, start, start + bytes}, &model, &graph));
    QS_GOTO(qs__graph_read(&reader, graph, &model.graph));
    *out = model;
done:
    qs__call_release(reader.calls);
    qs__names_release(&reader.prefixes);
    qs__names_release(&reader.function_names);
    /* Messages of the wire format begin with the file's name. */
    if (status != QS_OK && strncmp(qs_message(), name, strlen(name)) != 0) qs_fail_within(status, "%s", name);
    return status;
}

bool qs_onnx_recognise(const void *data, size_t bytes) {
    const uint8_t *head = data;
    /* ir_version first, a small number; behind it any other field of a model. */
    return bytes >= 2 && head[0] == (QS_FIELD_MODEL_IR << 3) && head[1] >= 1 && head[1] < 64 &&
           (bytes == 2 || ((head[2] & 7) != 3 && (head[2] & 7) != 4 && (head[2] & 7) < 6 && head[2] >= (QS_FIELD_MODEL_PRODUCER << 3)));
}

qs_status qs_onnx_open_bytes(const char *name, const void *data, size_t bytes, qs_onnx_model *out) {
    qs_onnx_memory *memory;
    QS_TRY(qs_onnx_memory_make(&memory));
    const qs_status status = model_read(name, NULL, memory, data, bytes, out);
    if (status != QS_OK) qs_onnx_memory_release(memory);
    return status;
}

qs_status qs_onnx_open(const char *path, qs_onnx_model *out) {
    qs_onnx_memory *memory;
    const void *data;
    size_t bytes;
    QS_TRY(qs_onnx_memory_make(&memory));
    char *folder = strdup(path);
    qs_status status = folder ? QS_OK : qs_fail(QS_OUT_OF_MEMORY, "out of memory: %zu bytes", strlen(path));
    if (status != QS_OK) goto done;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    QS_GOTO(qs__onnx_map_file(memory, path, &data, &bytes));
    QS_GOTO(model_read(path, slash ? folder : ".", memory, data, bytes, out));
done:
    free(folder);
    if (status != QS_OK) qs_onnx_memory_release(memory);
    return status;
}

void qs_onnx_release(qs_onnx_model *model) {
    if (!model) return;
    qs_onnx_memory_release(model->memory);
    *model = (qs_onnx_model){0};
}
