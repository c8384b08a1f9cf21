// SPDX-License-Identifier: Apache-2.0
/* Tensor sets as files: look-up, writing, strict reading. Everything a header says is checked before it is believed, data must be covered
 * without gaps in header order, and the hash must agree. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/tensor.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor sets are written from memory: a big-endian machine needs a byte swap here"
#endif

static const char schema[] = "qsync/weights/1", metadata_key[] = "__metadata__";
/* Data start at a multiple of this in files, so that a mapped file has aligned tensors; 8 bytes of header length come first. */
enum { ALIGN = 64, PREFIX = 8 };
/* Files above this are no weights of ours; the bound keeps sizes far from overflow. */
static const size_t largest_file = (size_t)1 << 36;

/* Formats with a safetensors dtype. */
static const struct { const char *format, *dtype; } dtypes[] = {{"fp32", "F32"}, {"bf16", "BF16"}, {"fp16", "F16"}, {"int8", "I8"}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static const char *dtype_of(const qs_format *format) {
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(dtypes[i].format, format->name) == 0) return dtypes[i].dtype;
    return NULL;
}

static qs_status out_of_memory(void) {
    return qs_fail(QS_OUT_OF_MEMORY, "cannot allocate the header of a tensor set");
}

/* Over the header, whose metadata lack "hash", as compact JSON, and the data; into text[32]. */
static qs_status hash_of(const json_t *header, const void *data, size_t bytes, char *text) {
    char *compact = json_dumps(header, JSON_COMPACT);
    if (!compact) return out_of_memory();
    snprintf(text, 32, "xxh64:%016" PRIx64, qs_hash(data, bytes, qs_hash(compact, strlen(compact), 0)));
    free(compact);
    return QS_OK;
}

const qs_tensor *qs_tensor_set_find(const qs_tensor_set *set, const char *name) {
    for (size_t i = 0; i < set->count; i++)
        if (strcmp(set->tensors[i].name, name) == 0) return &set->tensors[i].tensor;
    return NULL;
}

void qs_tensor_set_release(qs_tensor_set *set) {
    if (set->memory) {
        free(set->memory);
        free(set->tensors);
    }
    *set = (qs_tensor_set){0};
}

/* ---- Writing ----------------------------------------------------------------------------------------------------------------------- */

static bool terminated(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

static qs_status set_check(const qs_tensor_set *set) {
    if (!terminated(set->model, sizeof set->model) || !terminated(set->graph, sizeof set->graph))
        return qs_fail(QS_USAGE, "tensor set: the model name or the signature of its graph has no end");
    for (size_t i = 0; i < set->count; i++) {
        const qs_named_tensor *one = &set->tensors[i];
        if (!terminated(one->name, sizeof one->name) || one->name[0] == '\0' || strcmp(one->name, metadata_key) == 0)
            return qs_fail(QS_USAGE, "tensor set: tensor %zu needs a name of 1 to %zu characters that is not %s", i, sizeof one->name - 1,
                           metadata_key);
        if (qs_tensor_set_find(set, one->name) != &one->tensor) return qs_fail(QS_USAGE, "tensor set: two tensors named %s", one->name);
        QS_TRY(qs_shape_check(&one->tensor.shape, one->name));
        if (!one->tensor.format || !dtype_of(one->tensor.format))
            return qs_fail(QS_UNSUPPORTED, "tensor set: %s is %s: only fp32, bf16, fp16 and int8 can be saved", one->name,
                           one->tensor.format ? one->tensor.format->name : "without a format");
    }
    return QS_OK;
}

/* Without hash, NULL when memory ran out; *bytes receives the size of the data. */
static json_t *header_of(const qs_tensor_set *set, size_t *bytes) {
    json_t *header = json_pack("{s{ssss}}", metadata_key, "schema", schema, "model", set->model);
    if (header && set->graph[0]) json_object_set_new(json_object_get(header, metadata_key), "graph", json_string(set->graph));
    *bytes = 0;
    for (size_t i = 0; header && i < set->count; i++) {
        const qs_tensor *tensor = &set->tensors[i].tensor;
        const size_t begin = *bytes;
        json_t *shape = json_array();
        for (int axis = 0; axis < tensor->shape.axes; axis++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape.dim[axis]));
        *bytes += qs_tensor_bytes(&tensor->shape, tensor->format);
        json_t *offsets = json_pack("[II]", (json_int_t)begin, (json_int_t)*bytes);
        json_t *entry = json_pack("{sssoso}", "dtype", dtype_of(tensor->format), "shape", shape, "data_offsets", offsets);
        if (json_object_set_new(header, set->tensors[i].name, entry) == 0) continue;
        json_decref(header);
        header = NULL;
    }
    return header;
}

/* "xxh64:" and 16 digits never change the header's length, so the file is laid out with a placeholder and hashed in place. */
qs_status qs_tensor_set_write(const char *path, const qs_tensor_set *set) {
    char hash[32] = "xxh64:0000000000000000", *text = NULL, *file = NULL;
    size_t bytes;
    QS_TRY(set_check(set));
    json_t *header = header_of(set, &bytes), *metadata = json_object_get(header, metadata_key);
    qs_status status;
    if (!header) return out_of_memory();
    json_object_set_new(metadata, "hash", json_string(hash));
    const size_t needed = json_dumpb(header, NULL, 0, JSON_COMPACT);
    const uint64_t length = (needed + PREFIX + ALIGN - 1) / ALIGN * ALIGN - PREFIX;
    if (needed == 0) QS_GOTO(out_of_memory());
    QS_GOTO(qs_allocate(PREFIX + (size_t)length + bytes, 1, &file));
    char *const data = file + PREFIX + length, *to = data;
    for (size_t i = 0; i < set->count; i++) {
        const qs_tensor *tensor = &set->tensors[i].tensor;
        const size_t size = qs_tensor_bytes(&tensor->shape, tensor->format);
        memcpy(to, tensor->data, size);
        to += size;
    }
    json_object_del(metadata, "hash");
    QS_GOTO(hash_of(header, data, bytes, hash));
    json_object_set_new(metadata, "hash", json_string(hash));
    text = json_dumps(header, JSON_COMPACT);
    if (!text || strlen(text) != needed) QS_GOTO(out_of_memory());
    memcpy(file, &length, sizeof length);
    memset(file + PREFIX, ' ', (size_t)length);
    memcpy(file + PREFIX, text, needed);
    QS_GOTO(qs_file_write(path, file, PREFIX + (size_t)length + bytes));
done:
    free(text);
    free(file);
    json_decref(header);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------------------------- */

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
static qs_status header_read(reader *from) {
    uint64_t length;
    json_error_t error;
    if (from->bytes < PREFIX) return bad(from, from->bytes, "a tensor set has at least 8 bytes");
    memcpy(&length, from->file, sizeof length);
    if (length > from->bytes - PREFIX)
        return bad(from, 0, "the header has %" PRIu64 " bytes, the file only %zu more", length, from->bytes - PREFIX);
    from->header = json_loadb(from->file + PREFIX, (size_t)length, JSON_REJECT_DUPLICATES, &error);
    if (!from->header) return bad(from, PREFIX + (size_t)error.position, "the header is no JSON: %s", error.text);
    if (!json_is_object(from->header)) return bad(from, PREFIX, "the header must be a JSON object");
    from->header_length = (size_t)length;
    from->data = from->file + PREFIX + length;
    from->data_bytes = from->bytes - PREFIX - (size_t)length;
    return QS_OK;
}

static qs_status metadata_read(reader *from, qs_tensor_set *set) {
    json_t *metadata = json_object_get(from->header, metadata_key);
    const char *said = json_string_value(json_object_get(metadata, "schema"));
    const char *model = json_string_value(json_object_get(metadata, "model"));
    const json_t *signature = json_object_get(metadata, "graph");
    const char *graph = signature ? json_string_value(signature) : "";
    const char *hash = json_string_value(json_object_get(metadata, "hash"));
    char stated[32], actual[32];
    if (!said || strcmp(said, schema) != 0) return bad(from, PREFIX, "%s must hold \"schema\": \"%s\"", metadata_key, schema);
    if (!model || strlen(model) >= sizeof set->model)
        return bad(from, PREFIX, "%s must hold \"model\", a text of at most %zu bytes", metadata_key, sizeof set->model - 1);
    if (!graph || strlen(graph) >= sizeof set->graph)
        return bad(from, PREFIX, "\"graph\" in %s must be a text of at most %zu bytes", metadata_key, sizeof set->graph - 1);
    if (!hash || strlen(hash) >= sizeof stated) return bad(from, PREFIX, "%s must hold \"hash\"", metadata_key);
    strcpy(set->model, model);
    strcpy(set->graph, graph);
    strcpy(stated, hash);
    json_object_del(metadata, "hash");
    QS_TRY(hash_of(from->header, from->data, from->data_bytes, actual));
    if (strcmp(stated, actual) == 0) return QS_OK;
    return bad(from, PREFIX, "the hash of header and data is %s, the header says %s: the file is damaged", actual, stated);
}

/* One entry; its data must start at `begin`. */
static qs_status tensor_read(const reader *from, const char *name, const json_t *entry, size_t begin, qs_tensor *out) {
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    qs_tensor tensor = {.shape = {.axes = (int)json_array_size(shape)}};
    for (size_t i = 0; dtype && i < DTYPES; i++)
        if (strcmp(dtypes[i].dtype, dtype) == 0) tensor.format = qs_format_of(dtypes[i].format);
    if (!tensor.format) return bad(from, PREFIX, "%s: \"dtype\" must be F32, BF16, F16 or I8", name);
    if (!json_is_array(shape) || json_array_size(shape) > QS_MAX_AXES)
        return bad(from, PREFIX, "%s: \"shape\" must be an array of at most %d extents", name, QS_MAX_AXES);
    for (int i = 0; i < tensor.shape.axes; i++) /* 0, hence refused, when no integer */
        tensor.shape.dim[i] = (int64_t)json_integer_value(json_array_get(shape, (size_t)i));
    if (qs_shape_check(&tensor.shape, name) != QS_OK) return qs_fail_within(QS_BAD_FILE, "%s: offset %d", from->path, PREFIX);
    const size_t needed = qs_tensor_bytes(&tensor.shape, tensor.format);
    const json_int_t first = json_integer_value(json_array_get(offsets, 0)), last = json_integer_value(json_array_get(offsets, 1));
    if (json_array_size(offsets) != 2 || first < 0 || (size_t)first != begin || last < first || (size_t)(last - first) != needed)
        return bad(from, PREFIX, "%s: \"data_offsets\" must be [%zu, %zu]", name, begin, begin + needed);
    if (needed > from->data_bytes - begin)
        return bad(from, from->bytes, "the file ends within %s, which needs %zu bytes from data offset %zu", name, needed, begin);
    *out = tensor;
    return QS_OK;
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Fills the list; data pointers stay NULL. *memory receives the size of the aligned copy. */
static qs_status list_read(const reader *from, qs_tensor_set *set, size_t *memory) {
    const char *name;
    json_t *entry;
    size_t begin = 0;
    *memory = ALIGN;
    json_object_foreach(from->header, name, entry) {
        qs_named_tensor *one = &set->tensors[set->count];
        if (strcmp(name, metadata_key) == 0) continue;
        if (!*name || strlen(name) >= sizeof one->name)
            return bad(from, PREFIX, "the name \"%.100s\" must have 1 to %zu bytes", name, sizeof one->name - 1);
        QS_TRY(tensor_read(from, name, entry, begin, &one->tensor));
        strcpy(one->name, name);
        set->count++;
        const size_t bytes = qs_tensor_bytes(&one->tensor.shape, one->tensor.format);
        begin += bytes;
        *memory += aligned(bytes);
    }
    if (begin == from->data_bytes) return QS_OK;
    return bad(from, PREFIX + from->header_length + begin, "%zu bytes behind the last tensor", from->data_bytes - begin);
}

qs_status qs_tensor_set_read(const char *path, qs_tensor_set *out) {
    reader from = {.path = path};
    qs_tensor_set set = {0};
    size_t memory;
    qs_status status;
    QS_GOTO(qs_file_read(path, largest_file, &from.file, &from.bytes));
    QS_GOTO(header_read(&from));
    QS_GOTO(qs_allocate(json_object_size(from.header), sizeof *set.tensors, &set.tensors));
    QS_GOTO(list_read(&from, &set, &memory));
    QS_GOTO(metadata_read(&from, &set));
    QS_GOTO(qs_allocate(memory, 1, &set.memory));
    char *to = set.memory + (ALIGN - (uintptr_t)set.memory % ALIGN) % ALIGN;
    for (size_t i = 0; i < set.count; i++) {
        qs_tensor *tensor = &set.tensors[i].tensor;
        const size_t bytes = qs_tensor_bytes(&tensor->shape, tensor->format);
        memcpy(to, from.data, bytes);
        tensor->data = to;
        from.data += bytes;
        to += aligned(bytes);
    }
    *out = set;
    set = (qs_tensor_set){0};
done:
    free(set.tensors);
    json_decref(from.header);
    free(from.file);
    return status;
}
