// SPDX-License-Identifier: Apache-2.0
/* Reading tensor sets, strictly: everything a header says is checked before it is believed, data must be covered without gaps in header
 * order, and the hash must agree. Messages name file, offset and rule. */
#include "set_room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Files above this are no weights of ours; the bound keeps sizes far from overflow. */
static const size_t largest_file = (size_t)1 << 36;

/* A file in memory, as far as it has been understood. */
typedef struct reader {
    const char *path;
    char *file;
    size_t bytes, header_length;
    const char *data; /* behind the header */
    size_t data_bytes;
    json_t *header;
} reader;

static qs_status bad(const reader *from, size_t offset, const char *format, ...) QS_PRINTF(3, 4);
static qs_status bad(const reader *from, size_t offset, const char *format, ...) {
    char text[320];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return qs_fail(QS_BAD_FILE, "%s: offset %zu: %s", from->path, offset, text);
}

/* Length prefix and JSON header. */
static qs_status read_header(reader *from) {
    uint64_t length;
    if (from->bytes < QS__SET_PREFIX) return bad(from, from->bytes, "a tensor set has at least 8 bytes");
    memcpy(&length, from->file, sizeof length);
    if (length > from->bytes - QS__SET_PREFIX) {
        return bad(from, 0, "the header has %" PRIu64 " bytes, the file only %zu more", length, from->bytes - QS__SET_PREFIX);
    }
    json_error_t error;
    from->header = json_loadb(from->file + QS__SET_PREFIX, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!from->header) return bad(from, QS__SET_PREFIX + (size_t)error.position, "the header is no JSON: %s", error.text);
    if (!json_is_object(from->header)) return bad(from, QS__SET_PREFIX, "the header must be a JSON object");
    from->header_length = (size_t)length;
    from->data = from->file + QS__SET_PREFIX + length;
    from->data_bytes = from->bytes - QS__SET_PREFIX - (size_t)length;
    return QS_OK;
}

static qs_status read_metadata(reader *from, qs_tensor_set *set) {
    json_t *metadata = json_object_get(from->header, QS__SET_METADATA);
    const char *schema = json_string_value(json_object_get(metadata, "schema"));
    const char *model = json_string_value(json_object_get(metadata, "model"));
    const char *hash = json_string_value(json_object_get(metadata, "hash"));
    if (!schema || strcmp(schema, QS__SET_SCHEMA) != 0) {
        return bad(from, QS__SET_PREFIX, "%s must hold \"schema\": \"%s\"", QS__SET_METADATA, QS__SET_SCHEMA);
    }
    if (!model || strlen(model) >= sizeof set->model) {
        return bad(from, QS__SET_PREFIX, "%s must hold \"model\", a text of at most %zu bytes", QS__SET_METADATA, sizeof set->model - 1);
    }
    if (!hash || strlen(hash) >= 32) return bad(from, QS__SET_PREFIX, "%s must hold \"hash\"", QS__SET_METADATA);
    memcpy(set->model, model, strlen(model) + 1);
    char said[32], is[32];
    memcpy(said, hash, strlen(hash) + 1);
    json_object_del(metadata, "hash");
    QS_TRY(qs__set_hash(from->header, from->data, from->data_bytes, is));
    if (strcmp(said, is) == 0) return QS_OK;
    return bad(from, QS__SET_PREFIX, "the hash of header and data is %s, the header says %s: the file is damaged", is, said);
}

static qs_status read_shape(const reader *from, const char *name, const json_t *array, qs_shape *out) {
    qs_shape shape = {.axes = (int)json_array_size(array)};
    if (!json_is_array(array) || json_array_size(array) > QS_MAX_AXES) {
        return bad(from, QS__SET_PREFIX, "%s: \"shape\" must be an array of at most %d extents", name, QS_MAX_AXES);
    }
    for (int i = 0; i < shape.axes; i++) {
        shape.dim[i] = (int64_t)json_integer_value(json_array_get(array, (size_t)i)); /* 0, hence refused, when no integer */
    }
    if (qs_shape_check(&shape, name) != QS_OK) return qs_fail_within(QS_BAD_FILE, "%s: offset %d", from->path, QS__SET_PREFIX);
    *out = shape;
    return QS_OK;
}

/* One entry; its data must start at `begin`. */
static qs_status read_tensor(const reader *from, const char *name, const json_t *entry, size_t begin, qs_tensor *out) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const qs_format *format = dtype ? qs__format_of_dtype(dtype) : NULL;
    qs_shape shape;
    if (!format) return bad(from, QS__SET_PREFIX, "%s: \"dtype\" must be F32, BF16, F16 or I8", name);
    QS_TRY(read_shape(from, name, json_object_get(entry, "shape"), &shape));
    size_t needed = qs_tensor_bytes(&shape, format);
    json_int_t first = json_integer_value(json_array_get(offsets, 0)), last = json_integer_value(json_array_get(offsets, 1));
    if (json_array_size(offsets) != 2 || first < 0 || (size_t)first != begin || last < first || (size_t)(last - first) != needed) {
        return bad(from, QS__SET_PREFIX, "%s: \"data_offsets\" must be [%zu, %zu]", name, begin, begin + needed);
    }
    if (needed > from->data_bytes - begin) {
        return bad(from, from->bytes, "the file ends within %s, which needs %zu bytes from data offset %zu", name, needed, begin);
    }
    *out = (qs_tensor){.shape = shape, .format = format};
    return QS_OK;
}

static size_t aligned(size_t bytes) {
    return (bytes + QS__SET_ALIGN - 1) / QS__SET_ALIGN * QS__SET_ALIGN;
}

/* Fills the list; data pointers stay NULL. *memory receives the size of the aligned copy. */
static qs_status read_list(const reader *from, qs_tensor_set *set, size_t *memory) {
    const char *name;
    json_t *entry;
    size_t begin = 0;
    *memory = QS__SET_ALIGN;
    json_object_foreach(from->header, name, entry) {
        if (strcmp(name, QS__SET_METADATA) == 0) continue;
        qs_named_tensor *one = &set->tensors[set->count];
        size_t length = strlen(name);
        if (length == 0 || length >= sizeof one->name) {
            return bad(from, QS__SET_PREFIX, "the name \"%.100s\" must have 1 to %zu bytes", name, sizeof one->name - 1);
        }
        QS_TRY(read_tensor(from, name, entry, begin, &one->tensor));
        size_t bytes = qs_tensor_bytes(&one->tensor.shape, one->tensor.format);
        memcpy(one->name, name, length + 1);
        set->count++;
        begin += bytes;
        *memory += aligned(bytes);
    }
    if (begin == from->data_bytes) return QS_OK;
    return bad(from, QS__SET_PREFIX + from->header_length + begin, "%zu bytes behind the last tensor", from->data_bytes - begin);
}

/* Copies each tensor to an aligned place, in file order. */
static void place(const reader *from, qs_tensor_set *set) {
    const char *source = from->data;
    char *to = set->memory + (QS__SET_ALIGN - (uintptr_t)set->memory % QS__SET_ALIGN) % QS__SET_ALIGN;
    for (size_t i = 0; i < set->count; i++) {
        qs_tensor *tensor = &set->tensors[i].tensor;
        size_t bytes = qs_tensor_bytes(&tensor->shape, tensor->format);
        memcpy(to, source, bytes);
        tensor->data = to;
        source += bytes;
        to += aligned(bytes);
    }
}

qs_status qs_tensor_set_read(const char *path, qs_tensor_set *out) {
    reader from = {.path = path};
    qs_tensor_set set = {0};
    size_t memory;
    qs_status status;
    QS_GOTO(qs_file_read(path, largest_file, &from.file, &from.bytes));
    QS_GOTO(read_header(&from));
    QS_GOTO(qs_allocate(json_object_size(from.header), sizeof *set.tensors, &set.tensors));
    QS_GOTO(read_list(&from, &set, &memory));
    QS_GOTO(read_metadata(&from, &set));
    QS_GOTO(qs_allocate(memory, 1, &set.memory));
    place(&from, &set);
    *out = set;
    set = (qs_tensor_set){0};
done:
    free(set.tensors);
    json_decref(from.header);
    free(from.file);
    return status;
}
