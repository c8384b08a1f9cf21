// SPDX-License-Identifier: Apache-2.0
/* Attributes of nodes: reading them, and their values by name. */
#include <inttypes.h>
#include <string.h>

#include "onnx_internal.h"

/* ---- Reading --------------------------------------------------------------------------------------------------------------- */

/* Files before IR 3 may lack the type: it is what is there. */
static int64_t type_of(const size_t counts[QS_FIELD_ATTRIBUTE_END]) {
    static const struct {
        int field, type;
    } found[] = {{QS_FIELD_ATTRIBUTE_F, QS_ONNX_ATTRIBUTE_FLOAT},
                 {QS_FIELD_ATTRIBUTE_I, QS_ONNX_ATTRIBUTE_INT},
                 {QS_FIELD_ATTRIBUTE_S, QS_ONNX_ATTRIBUTE_STRING},
                 {QS_FIELD_ATTRIBUTE_T, QS_ONNX_ATTRIBUTE_TENSOR},
                 {QS_FIELD_ATTRIBUTE_G, QS_ONNX_ATTRIBUTE_GRAPH},
                 {QS_FIELD_ATTRIBUTE_FLOATS, QS_ONNX_ATTRIBUTE_FLOATS},
                 {QS_FIELD_ATTRIBUTE_INTS, QS_ONNX_ATTRIBUTE_INTS},
                 {QS_FIELD_ATTRIBUTE_STRINGS, QS_ONNX_ATTRIBUTE_STRINGS},
                 {QS_FIELD_ATTRIBUTE_TENSORS, QS_ONNX_ATTRIBUTE_TENSORS},
                 {QS_FIELD_ATTRIBUTE_GRAPHS, QS_ONNX_ATTRIBUTE_GRAPHS},
                 {QS_FIELD_ATTRIBUTE_SPARSE, QS_ONNX_ATTRIBUTE_SPARSE_TENSOR},
                 {QS_FIELD_ATTRIBUTE_SPARSES, QS_ONNX_ATTRIBUTE_SPARSE_TENSORS}};
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (counts[found[i].field] > 0) return found[i].type;
    return 0;
}

/* One field of the value that the type says. Others are left aside. */
static qs_status value_read(const qs__place *place, const qs_wire_field *field, qs_onnx_attribute *out, int64_t *ints, float *floats,
                            const char **strings, qs_onnx_tensor *tensors, size_t *at) {
    qs_wire message;
    const qs_onnx_attribute_type type = out->type;
    switch (field->number) {
    case QS_FIELD_ATTRIBUTE_F:
        return type == QS_ONNX_ATTRIBUTE_FLOAT ? qs__field_float(field, "its number", &out->f) : QS_OK;
    case QS_FIELD_ATTRIBUTE_I:
        return type == QS_ONNX_ATTRIBUTE_INT ? qs__field_int(field, "its integer", &out->i) : QS_OK;
    case QS_FIELD_ATTRIBUTE_S:
        if (type != QS_ONNX_ATTRIBUTE_STRING) return QS_OK;
        QS_TRY(qs__field_message(field, "its text", &message));
        out->count = (size_t)(message.end - message.at);
        return qs__onnx_copy_text(place->memory, message.at, out->count, &out->s);
    case QS_FIELD_ATTRIBUTE_FLOATS:
        return type == QS_ONNX_ATTRIBUTE_FLOATS ? qs__field_fixed(field, "its numbers", sizeof *floats, floats, out->count, at) : QS_OK;
    case QS_FIELD_ATTRIBUTE_INTS:
        return type == QS_ONNX_ATTRIBUTE_INTS ? qs__field_varints(field, "its integers", ints, out->count, at) : QS_OK;
    case QS_FIELD_ATTRIBUTE_STRINGS:
        if (type != QS_ONNX_ATTRIBUTE_STRINGS) return QS_OK;
        QS_TRY(qs__field_message(field, "its texts", &message));
        return qs__onnx_copy_text(place->memory, message.at, (size_t)(message.end - message.at), &strings[(*at)++]);
    case QS_FIELD_ATTRIBUTE_T:
    case QS_FIELD_ATTRIBUTE_TENSORS:
        if (type != (field->number == QS_FIELD_ATTRIBUTE_T ? QS_ONNX_ATTRIBUTE_TENSOR : QS_ONNX_ATTRIBUTE_TENSORS)) return QS_OK;
        QS_TRY(qs__field_message(field, "its tensor", &message));
        return qs__tensor_read(place, message, &tensors[field->number == QS_FIELD_ATTRIBUTE_T ? 0 : (*at)++]);
    case QS_FIELD_ATTRIBUTE_SPARSE:
    case QS_FIELD_ATTRIBUTE_SPARSES:
        if (type != (field->number == QS_FIELD_ATTRIBUTE_SPARSE ? QS_ONNX_ATTRIBUTE_SPARSE_TENSOR : QS_ONNX_ATTRIBUTE_SPARSE_TENSORS))
            return QS_OK;
        QS_TRY(qs__field_message(field, "its sparse tensor", &message));
        return qs__sparse_read(place, message, &tensors[field->number == QS_FIELD_ATTRIBUTE_SPARSE ? 0 : (*at)++]);
    default:
        return QS_OK;
    }
}

/* How many elements the value has. */
static qs_status count_read(qs_wire from, const size_t counts[QS_FIELD_ATTRIBUTE_END], qs_onnx_attribute *out) {
    static const int fields[] = {[QS_ONNX_ATTRIBUTE_STRINGS] = QS_FIELD_ATTRIBUTE_STRINGS,
                                 [QS_ONNX_ATTRIBUTE_TENSORS] = QS_FIELD_ATTRIBUTE_TENSORS,
                                 [QS_ONNX_ATTRIBUTE_GRAPHS] = QS_FIELD_ATTRIBUTE_GRAPHS,
                                 [QS_ONNX_ATTRIBUTE_SPARSE_TENSORS] = QS_FIELD_ATTRIBUTE_SPARSES,
                                 [QS_ONNX_ATTRIBUTE_TYPE_PROTOS] = 0};
    if (out->type == QS_ONNX_ATTRIBUTE_TENSOR || out->type == QS_ONNX_ATTRIBUTE_GRAPH || out->type == QS_ONNX_ATTRIBUTE_SPARSE_TENSOR) {
        out->count = 1;
        return counts[out->type == QS_ONNX_ATTRIBUTE_TENSOR  ? QS_FIELD_ATTRIBUTE_T
                      : out->type == QS_ONNX_ATTRIBUTE_GRAPH ? QS_FIELD_ATTRIBUTE_G
                                                             : QS_FIELD_ATTRIBUTE_SPARSE] > 0
                   ? QS_OK
                   : qs_fail(QS_BAD_FILE, "attribute \"%.64s\": its value is missing", out->name);
    }
    if (out->type != QS_ONNX_ATTRIBUTE_INTS && out->type != QS_ONNX_ATTRIBUTE_FLOATS) {
        out->count = out->type < (int)(sizeof fields / sizeof *fields) && fields[out->type] ? counts[fields[out->type]] : 0;
        return QS_OK;
    }
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) return QS_OK;
        if (out->type == QS_ONNX_ATTRIBUTE_INTS && field.number == QS_FIELD_ATTRIBUTE_INTS)
            QS_TRY(qs__field_varints(&field, "its integers", NULL, 0, &out->count));
        if (out->type == QS_ONNX_ATTRIBUTE_FLOATS && field.number == QS_FIELD_ATTRIBUTE_FLOATS)
            QS_TRY(qs__field_fixed(&field, "its numbers", sizeof(float), NULL, 0, &out->count));
    }
}

static qs_status values_read(const qs__place *place, qs_wire from, qs_onnx_attribute *out) {
    const qs_onnx_attribute_type type = out->type;
    int64_t *ints = NULL;
    float *floats = NULL;
    const char **strings = NULL;
    qs_onnx_tensor *tensors = NULL;
    size_t at = 0;
    if (type == QS_ONNX_ATTRIBUTE_INTS) QS_TRY(qs__onnx_take(place->memory, out->count, sizeof *ints, &ints));
    if (type == QS_ONNX_ATTRIBUTE_FLOATS) QS_TRY(qs__onnx_take(place->memory, out->count, sizeof *floats, &floats));
    if (type == QS_ONNX_ATTRIBUTE_STRINGS) QS_TRY(qs__onnx_take(place->memory, out->count, sizeof *strings, &strings));
    if (type == QS_ONNX_ATTRIBUTE_TENSOR || type == QS_ONNX_ATTRIBUTE_TENSORS || type == QS_ONNX_ATTRIBUTE_SPARSE_TENSOR ||
        type == QS_ONNX_ATTRIBUTE_SPARSE_TENSORS)
        QS_TRY(qs__onnx_take(place->memory, out->count, sizeof *tensors, &tensors));
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        QS_TRY(value_read(place, &field, out, ints, floats, strings, tensors, &at));
    }
    out->ints = ints;
    out->floats = floats;
    out->strings = strings;
    out->tensors = tensors;
    return QS_OK;
}

qs_status qs__attribute_read(const qs__place *place, qs_wire from, qs_onnx_attribute *out) {
    *out = (qs_onnx_attribute){.name = "", .s = "", .reference = ""};
    size_t counts[QS_FIELD_ATTRIBUTE_END];
    int64_t type = 0;
    QS_TRY(qs__wire_count(from, counts, QS_FIELD_ATTRIBUTE_END));
    for (qs_wire rest = from;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&rest, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_ATTRIBUTE_NAME) QS_TRY(qs__field_name(&field, "an attribute's name", place->memory, &out->name));
        if (field.number == QS_FIELD_ATTRIBUTE_REFERENCE)
            QS_TRY(qs__field_name(&field, "an attribute's reference", place->memory, &out->reference));
        if (field.number == QS_FIELD_ATTRIBUTE_TYPE) QS_TRY(qs__field_int(&field, "an attribute's type", &type));
    }
    if (type == 0) type = type_of(counts);
    if (*out->reference == '\0' && (type < 1 || type > QS_ONNX_ATTRIBUTE_TYPE_PROTOS))
        return qs_fail(QS_BAD_FILE, "attribute \"%.64s\": type %" PRId64 ": 1 to %d are known", out->name, type,
                       QS_ONNX_ATTRIBUTE_TYPE_PROTOS);
    out->type = (qs_onnx_attribute_type)type;
    if (*out->reference) return QS_OK;
    qs_status status = count_read(from, counts, out);
    if (status == QS_OK) status = values_read(place, from, out);
    return status == QS_OK ? status : qs_fail_within(status, "attribute \"%.64s\"", out->name);
}

/* ---- Values by name -------------------------------------------------------------------------------------------------------- */

const qs_onnx_attribute *qs_onnx_attribute_find(const qs_onnx_node *node, const char *name) {
    for (int i = 0; i < node->attributes; i++)
        if (strcmp(node->attribute[i].name, name) == 0) return &node->attribute[i];
    return NULL;
}

/* The attribute, which must be of a type where it is there. */
static qs_status typed(const qs_onnx_node *node, const char *name, qs_onnx_attribute_type type, const qs_onnx_attribute **out) {
    *out = qs_onnx_attribute_find(node, name);
    if (*out && (*out)->type != type)
        return qs_fail(QS_BAD_FILE, "node \"%.64s\" (%.64s): attribute \"%s\" has the type %d, must be %d", node->name, node->op, name,
                       (int)(*out)->type, (int)type);
    return QS_OK;
}

qs_status qs_onnx_attribute_int(const qs_onnx_node *node, const char *name, int64_t otherwise, int64_t *out) {
    const qs_onnx_attribute *found;
    QS_TRY(typed(node, name, QS_ONNX_ATTRIBUTE_INT, &found));
    *out = found ? found->i : otherwise;
    return QS_OK;
}

qs_status qs_onnx_attribute_float(const qs_onnx_node *node, const char *name, float otherwise, float *out) {
    const qs_onnx_attribute *found;
    QS_TRY(typed(node, name, QS_ONNX_ATTRIBUTE_FLOAT, &found));
    *out = found ? found->f : otherwise;
    return QS_OK;
}

qs_status qs_onnx_attribute_string(const qs_onnx_node *node, const char *name, const char *otherwise, const char **out) {
    const qs_onnx_attribute *found;
    QS_TRY(typed(node, name, QS_ONNX_ATTRIBUTE_STRING, &found));
    *out = found ? found->s : otherwise;
    return QS_OK;
}

qs_status qs_onnx_attribute_ints(const qs_onnx_node *node, const char *name, const int64_t **out, size_t *count) {
    const qs_onnx_attribute *found;
    QS_TRY(typed(node, name, QS_ONNX_ATTRIBUTE_INTS, &found));
    *out = found ? found->ints : NULL;
    *count = found ? found->count : 0;
    return QS_OK;
}

qs_status qs_onnx_attribute_floats(const qs_onnx_node *node, const char *name, const float **out, size_t *count) {
    const qs_onnx_attribute *found;
    QS_TRY(typed(node, name, QS_ONNX_ATTRIBUTE_FLOATS, &found));
    *out = found ? found->floats : NULL;
    *count = found ? found->count : 0;
    return QS_OK;
}
