// SPDX-License-Identifier: Apache-2.0
/* Tensors as files hold them (TensorProto, SparseTensorProto). Data that lie in the file as plain little-endian elements stay there: raw
 * bytes, packed floats and doubles, external files. Lists of varints are unpacked into elements of the tensor's type. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

/* What a message says, before its parts are compared. */
typedef struct tensor_fields {
    qs_wire wire;
    qs_onnx_tensor tensor;
    int64_t type;
    bool has_raw, external;
    qs_wire raw;
    size_t typed[15]; /* fields of each number */
    const char *location;
    int64_t offset, length;
} tensor_fields;

/* A number of an external_data entry: digits alone. */
static qs_status decimal(const char *key, const char *text, int64_t *out) {
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno != 0)
        return qs_fail(QS_BAD_FILE, "external data: %s \"%.40s\" is no number", key, text);
    *out = value;
    return QS_OK;
}

static qs_status external_entry(const qs__place *place, qs_wire from, tensor_fields *out) {
    const char *key = "", *value = "";
    for (;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_ENTRY_KEY) QS_TRY(qs__field_name(&field, "a key of external data", place->memory, &key));
        if (field.number == QS_FIELD_ENTRY_VALUE) QS_TRY(qs__field_name(&field, "a value of external data", place->memory, &value));
    }
    if (strcmp(key, "location") == 0) out->location = value;
    if (strcmp(key, "offset") == 0) return decimal(key, value, &out->offset);
    if (strcmp(key, "length") == 0) return decimal(key, value, &out->length);
    return QS_OK;
}

static qs_status fields_read(const qs__place *place, qs_wire from, tensor_fields *out) {
    *out = (tensor_fields){.wire = from, .tensor = {.name = ""}, .location = "", .length = -1};
    size_t rank = 0;
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        int64_t location;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number < sizeof out->typed / sizeof *out->typed) out->typed[field.number]++;
        switch (field.number) {
        case QS_FIELD_TENSOR_DIMS:
            QS_TRY(qs__field_varints(&field, "an extent of a tensor", out->tensor.dim, QS_ONNX_MAX_RANK, &rank));
            break;
        case QS_FIELD_TENSOR_TYPE:
            QS_TRY(qs__field_int(&field, "a tensor's data_type", &out->type));
            break;
        case QS_FIELD_TENSOR_NAME:
            QS_TRY(qs__field_name(&field, "a tensor's name", place->memory, &out->tensor.name));
            break;
        case QS_FIELD_TENSOR_RAW:
            QS_TRY(qs__field_message(&field, "a tensor's raw_data", &out->raw));
            out->has_raw = true;
            break;
        case QS_FIELD_TENSOR_EXTERNAL:
            QS_TRY(qs__field_message(&field, "a tensor's external_data", &message));
            QS_TRY(external_entry(place, message, out));
            break;
        case QS_FIELD_TENSOR_LOCATION:
            QS_TRY(qs__field_int(&field, "a tensor's data_location", &location));
            if (location != 0 && location != 1) return qs_fail(QS_BAD_FILE, "data_location %" PRId64 ": 0 or 1", location);
            out->external = location == 1;
            break;
        default:
            break;
        }
    }
    if (rank > QS_ONNX_MAX_RANK) return qs_fail(QS_UNSUPPORTED, "%zu extents: at most %d", rank, QS_ONNX_MAX_RANK);
    out->tensor.rank = (int)rank;
    return QS_OK;
}

/* Which list holds elements of a type, and what its elements are. */
static int typed_field(qs_onnx_type type) {
    switch (type) {
    case QS_ONNX_FLOAT:
    case QS_ONNX_COMPLEX64:
        return QS_FIELD_TENSOR_FLOATS;
    case QS_ONNX_DOUBLE:
    case QS_ONNX_COMPLEX128:
        return QS_FIELD_TENSOR_DOUBLES;
    case QS_ONNX_INT64:
        return QS_FIELD_TENSOR_INT64S;
    case QS_ONNX_UINT32:
    case QS_ONNX_UINT64:
        return QS_FIELD_TENSOR_UINT64S;
    case QS_ONNX_STRING:
        return QS_FIELD_TENSOR_STRINGS;
    default:
        return QS_FIELD_TENSOR_INT32S;
    }
}

/* Whether a varint of a list is an element, or two of 4 bits, of this type; a negative int32 has 10 bytes, sign and all. */
static bool fits(qs_onnx_type type, int64_t value) {
    switch (type) {
    case QS_ONNX_BOOL:
        return value == 0 || value == 1;
    case QS_ONNX_INT8:
        return value >= INT8_MIN && value <= INT8_MAX;
    case QS_ONNX_INT16:
        return value >= INT16_MIN && value <= INT16_MAX;
    case QS_ONNX_INT32:
        return value >= INT32_MIN && value <= INT32_MAX;
    case QS_ONNX_UINT16:
    case QS_ONNX_FLOAT16:
    case QS_ONNX_BFLOAT16:
        return value >= 0 && value <= UINT16_MAX;
    case QS_ONNX_INT4: /* both signs are written */
        return value >= INT8_MIN && value <= UINT8_MAX;
    case QS_ONNX_UINT32:
        return value >= 0 && value <= UINT32_MAX;
    case QS_ONNX_INT64:
    case QS_ONNX_UINT64:
        return true;
    default:
        return value >= 0 && value <= UINT8_MAX;
    }
}

/* Floats and doubles: where one packed field holds all of them they stay in the file. */
static qs_status fixed_data(const qs__place *place, const tensor_fields *fields, int number, size_t size, size_t wanted,
                            qs_onnx_tensor *out) {
    uint8_t *data = NULL;
    size_t count = 0;
    const bool copied = fields->typed[number] != 1;
    if (copied) {
        size_t given = 0;
        for (qs_wire from = fields->wire;;) {
            qs_wire_field field;
            bool more;
            QS_TRY(qs_wire_next(&from, &field, &more));
            if (!more) break;
            if (field.number == (uint32_t)number) QS_TRY(qs__field_fixed(&field, "a tensor's data", size, NULL, 0, &given));
        }
        if (given != wanted) return qs_fail(QS_BAD_FILE, "%zu numbers of %zu bytes in its data, %zu expected", given, size, wanted);
        QS_TRY(qs__onnx_take(place->memory, wanted, size, &data));
        out->data = data;
    }
    for (qs_wire from = fields->wire;;) {
        qs_wire_field field;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != (uint32_t)number) continue;
        if (!copied && field.kind == 2)
            out->data = field.bytes.at;
        else if (!copied) {
            QS_TRY(qs__onnx_take(place->memory, 1, size, &data));
            out->data = data;
        }
        QS_TRY(qs__field_fixed(&field, "a tensor's data", size, data, wanted, &count));
    }
    if (count != wanted) return qs_fail(QS_BAD_FILE, "%zu numbers of %zu bytes in its data, %zu expected", count, size, wanted);
    return QS_OK;
}

/* A list of varints as elements of the tensor's type. */
static qs_status varint_data(const qs__place *place, const tensor_fields *fields, int number, size_t wanted, qs_onnx_tensor *out) {
    const size_t size = qs_onnx_type_bits(out->type) >= 8 ? (size_t)qs_onnx_type_bits(out->type) / 8 : 1;
    int64_t *values = NULL;
    uint8_t *data;
    qs_status status = QS_OK;
    for (int pass = 0; pass < 2; pass++) { /* counts what is there before it asks for memory */
        size_t count = 0;
        for (qs_wire from = fields->wire;;) {
            qs_wire_field field;
            bool more;
            QS_GOTO(qs_wire_next(&from, &field, &more));
            if (!more) break;
            if (field.number == (uint32_t)number) QS_GOTO(qs__field_varints(&field, "a tensor's data", values, wanted, &count));
        }
        if (count != wanted) QS_GOTO(qs_fail(QS_BAD_FILE, "%zu integers in its data, %zu expected", count, wanted));
        if (pass == 0) QS_GOTO(qs_allocate(wanted, sizeof *values, &values));
    }
    QS_GOTO(qs__onnx_take(place->memory, wanted, size, &data));
    for (size_t at = 0; at < wanted; at++) {
        if (!fits(out->type, values[at]))
            QS_GOTO(qs_fail(QS_BAD_FILE, "%" PRId64 " in its data is no %s", values[at], qs_onnx_type_name(out->type)));
        for (size_t i = 0; i < size; i++)
            data[at * size + i] = (uint8_t)((uint64_t)values[at] >> (8 * i));
    }
    out->data = data;
done:
    free(values);
    return status;
}

static qs_status string_data(const qs__place *place, const tensor_fields *fields, size_t wanted, qs_onnx_tensor *out) {
    const char **texts;
    size_t count = 0;
    if (fields->typed[QS_FIELD_TENSOR_STRINGS] != wanted)
        return qs_fail(QS_BAD_FILE, "%zu texts in its data, %zu expected", fields->typed[QS_FIELD_TENSOR_STRINGS], wanted);
    QS_TRY(qs__onnx_take(place->memory, wanted, sizeof *texts, &texts));
    for (qs_wire from = fields->wire;;) {
        qs_wire_field field;
        qs_wire text;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number != QS_FIELD_TENSOR_STRINGS) continue;
        QS_TRY(qs__field_message(&field, "a tensor's string_data", &text));
        QS_TRY(qs__onnx_copy_text(place->memory, text.at, (size_t)(text.end - text.at), &texts[count++]));
    }
    out->data = texts;
    return QS_OK;
}

static qs_status data_find(const qs__place *place, const tensor_fields *fields, qs_onnx_tensor *out) {
    const size_t bytes = qs__tensor_bytes(out->type, out->count);
    if (fields->typed[QS_FIELD_TENSOR_SEGMENT]) return qs_fail(QS_UNSUPPORTED, "a segment of a tensor: only whole tensors are read");
    if (fields->external && out->type != QS_ONNX_STRING) {
        size_t got;
        if (fields->length >= 0 && (uint64_t)fields->length != bytes)
            return qs_fail(QS_BAD_FILE, "external data of %" PRId64 " bytes, %zu expected", fields->length, bytes);
        return qs__external_read(place, fields->location, fields->offset, (int64_t)bytes, &out->data, &got);
    }
    if (fields->has_raw && out->type != QS_ONNX_STRING) {
        const size_t given = (size_t)(fields->raw.end - fields->raw.at);
        if (given != bytes) return qs_fail(QS_BAD_FILE, "%zu bytes of raw data, %zu expected", given, bytes);
        out->data = fields->raw.at;
        return QS_OK;
    }
    const int number = typed_field(out->type);
    const bool complex_numbers = out->type == QS_ONNX_COMPLEX64 || out->type == QS_ONNX_COMPLEX128;
    const size_t elements = (size_t)out->count * (complex_numbers ? 2 : 1);
    if (number == QS_FIELD_TENSOR_STRINGS) return string_data(place, fields, elements, out);
    if (number == QS_FIELD_TENSOR_FLOATS || number == QS_FIELD_TENSOR_DOUBLES)
        return fixed_data(place, fields, number, number == QS_FIELD_TENSOR_FLOATS ? 4 : 8, elements, out);
    return varint_data(place, fields, number, qs_onnx_type_bits(out->type) == 4 ? (elements + 1) / 2 : elements, out);
}

static qs_status tensor_of(const qs__place *place, const tensor_fields *fields, qs_onnx_tensor *out) {
    qs_onnx_tensor tensor = fields->tensor;
    char text[QS_ONNX_SHAPE_TEXT];
    if (fields->type < 1 || fields->type >= QS_ONNX_TYPE_COUNT)
        return qs_fail(QS_UNSUPPORTED, "data_type %" PRId64 ": 1 to %d are known", fields->type, QS_ONNX_TYPE_COUNT - 1);
    tensor.type = (qs_onnx_type)fields->type;
    if (!qs__tensor_count(tensor.rank, tensor.dim, &tensor.count))
        return qs_fail(QS_BAD_FILE, "%s: an extent is negative, or there are more than 2^40 elements", qs_onnx_tensor_text(&tensor, text));
    const qs_status status = data_find(place, fields, &tensor);
    if (status != QS_OK) return qs_fail_within(status, "%s", qs_onnx_tensor_text(&tensor, text));
    *out = tensor;
    return QS_OK;
}

qs_status qs__tensor_read(const qs__place *place, qs_wire from, qs_onnx_tensor *out) {
    tensor_fields fields;
    QS_TRY(fields_read(place, from, &fields));
    const qs_status status = tensor_of(place, &fields, out);
    return status == QS_OK ? status : qs_fail_within(status, "tensor \"%.64s\"", fields.tensor.name);
}

/* Puts each value where its index says: a place in row-major order, or one number an axis. */
static qs_status densify(const qs_onnx_tensor *values, const qs_onnx_tensor *indices, const qs_onnx_tensor *out, uint8_t *data) {
    const size_t size = (size_t)qs_onnx_type_bits(out->type) / 8;
    const bool by_axis = indices->rank == 2;
    const int64_t parts = by_axis ? indices->dim[1] : 1;
    if (indices->type != QS_ONNX_INT64 || indices->rank < 1 || indices->rank > 2 || indices->dim[0] != values->count ||
        (by_axis && parts != out->rank))
        return qs_fail(QS_BAD_FILE, "sparse tensor: indices must be int64, one place or %d numbers for each of %" PRId64 " values",
                       out->rank, values->count);
    for (int64_t i = 0; i < values->count; i++) {
        int64_t place = 0;
        for (int64_t axis = 0; axis < parts; axis++) {
            int64_t index;
            const int64_t extent = by_axis ? out->dim[axis] : out->count;
            QS_TRY(qs_onnx_tensor_integers(indices, i * parts + axis, 1, &index));
            if (index < 0 || index >= extent)
                return qs_fail(QS_BAD_FILE, "sparse tensor: index %" PRId64 " must be 0 to %" PRId64, index, extent - 1);
            place = place * extent + index;
        }
        memcpy(data + (size_t)place * size, (const uint8_t *)values->data + (size_t)i * size, size);
    }
    return QS_OK;
}

qs_status qs__sparse_read(const qs__place *place, qs_wire from, qs_onnx_tensor *out) {
    qs_onnx_tensor values = {.name = ""}, indices = {.name = ""};
    qs_onnx_tensor dense = {.name = ""};
    size_t rank = 0;
    for (;;) {
        qs_wire_field field;
        qs_wire message;
        bool more;
        QS_TRY(qs_wire_next(&from, &field, &more));
        if (!more) break;
        if (field.number == QS_FIELD_SPARSE_VALUES || field.number == QS_FIELD_SPARSE_INDICES) {
            QS_TRY(qs__field_message(&field, "a part of a sparse tensor", &message));
            QS_TRY(qs__tensor_read(place, message, field.number == QS_FIELD_SPARSE_VALUES ? &values : &indices));
        }
        if (field.number == QS_FIELD_SPARSE_DIMS)
            QS_TRY(qs__field_varints(&field, "an extent of a sparse tensor", dense.dim, QS_ONNX_MAX_RANK, &rank));
    }
    if (rank > QS_ONNX_MAX_RANK)
        return qs_fail(QS_UNSUPPORTED, "sparse tensor \"%.64s\": %zu extents: at most %d", values.name, rank, QS_ONNX_MAX_RANK);
    dense.rank = (int)rank;
    dense.name = values.name;
    dense.type = values.type;
    if (qs_onnx_type_bits(values.type) < 8)
        return qs_fail(QS_UNSUPPORTED, "sparse tensor \"%.64s\" of type %s", values.name, qs_onnx_type_name(values.type));
    if (!qs__tensor_count(dense.rank, dense.dim, &dense.count))
        return qs_fail(QS_BAD_FILE, "sparse tensor \"%.64s\": an extent is negative, or there are more than 2^40 elements", values.name);
    uint8_t *data;
    QS_TRY(qs__onnx_take(place->memory, (size_t)dense.count, (size_t)qs_onnx_type_bits(dense.type) / 8, &data));
    dense.data = data;
    const qs_status status = densify(&values, &indices, &dense, data);
    if (status != QS_OK) return qs_fail_within(status, "tensor \"%.64s\"", values.name);
    *out = dense;
    return QS_OK;
}

qs_status qs_onnx_tensor_read(const char *path, qs_onnx_memory *memory, qs_onnx_tensor *out) {
    const void *data;
    size_t bytes;
    QS_TRY(qs__onnx_map_file(memory, path, &data, &bytes));
    const uint8_t *start = bytes > 0 ? data : (const uint8_t *)"";
    const qs__place place = {memory, NULL};
    const qs_status status = qs__tensor_read(&place, (qs_wire){path, start, start, start + bytes}, out);
    return status == QS_OK ? status : qs_fail_within(status, "%s", path);
}
