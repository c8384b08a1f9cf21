// SPDX-License-Identifier: Apache-2.0
/* Tensor sets as safetensors files: look-up, writing, strict reading. Everything a header says is checked before it is believed: the data
 * must be covered without gaps and overlaps, and where the header states a hash it must agree. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "qsync/tensor.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensor sets are written from memory: a big-endian machine needs a byte swap here"
#endif

static const char metadata_key[] = "__metadata__";
/* Data start at a multiple of this in files, so that a mapped file has aligned tensors; 8 bytes of header length come first. */
enum { ALIGN = 64, PREFIX = 8 };
/* The format's own limit of the header. */
static const uint64_t largest_header = 100000000;
/* Files above this are no weights of ours; the bound keeps sizes far from overflow. */
static const size_t largest_file = (size_t)1 << 36;

/* Types of the safetensors format with whole bytes an element, and our formats that hold the same values in the same bits. */
static const struct dtype {
    const char *name, *format;
    int bytes;
} dtypes[] = {{"F32", "fp32", 4},   {"BF16", "bf16", 2},  {"F16", "fp16", 2},       {"I8", "int8", 1},       {"F64", NULL, 8},
              {"I64", NULL, 8},     {"U64", NULL, 8},     {"C64", NULL, 8},         {"I32", NULL, 4},        {"U32", NULL, 4},
              {"I16", NULL, 2},     {"U16", NULL, 2},     {"U8", NULL, 1},          {"BOOL", NULL, 1},       {"F8_E4M3", NULL, 1},
              {"F8_E5M2", NULL, 1}, {"F8_E8M0", NULL, 1}, {"F8_E4M3FNUZ", NULL, 1}, {"F8_E5M2FNUZ", NULL, 1}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

static const struct dtype *dtype_of(const qs_format *format) {
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].format && strcmp(dtypes[i].format, format->name) == 0) return &dtypes[i];
    return NULL;
}

static const struct dtype *dtype_named(const char *name) {
    for (size_t i = 0; name && i < DTYPES; i++)
        if (strcmp(dtypes[i].name, name) == 0) return &dtypes[i];
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

/* Without hash, NULL when memory ran out; *bytes receives the size of the data. "format" is what Hugging Face's readers ask for: that
 * tensors are laid out as PyTorch's. */
static json_t *header_of(const qs_tensor_set *set, const size_t *order, size_t *bytes) {
    json_t *header = json_pack("{s{ssssss}}", metadata_key, "format", "pt", "schema", QS_SCHEMA("weights"), "model", set->model);
    if (header && set->graph[0]) json_object_set_new(json_object_get(header, metadata_key), "graph", json_string(set->graph));
    *bytes = 0;
    for (size_t i = 0; header && i < set->count; i++) {
        const qs_tensor *tensor = &set->tensors[order[i]].tensor;
        const size_t begin = *bytes;
        json_t *shape = json_array();
        for (int axis = 0; axis < tensor->shape.axes; axis++)
            json_array_append_new(shape, json_integer((json_int_t)tensor->shape.dim[axis]));
        *bytes += qs_tensor_bytes(&tensor->shape, tensor->format);
        json_t *offsets = json_pack("[II]", (json_int_t)begin, (json_int_t)*bytes);
        json_t *entry = json_pack("{sssoso}", "dtype", dtype_of(tensor->format)->name, "shape", shape, "data_offsets", offsets);
        if (json_object_set_new(header, set->tensors[order[i]].name, entry) == 0) continue;
        json_decref(header);
        header = NULL;
    }
    return header;
}

/* Where each tensor goes: types of more bytes first, so that each lies at a multiple of its own; else in the set's order. */
static void order_fill(const qs_tensor_set *set, size_t *order) {
    size_t done = 0;
    for (int bytes = 8; bytes > 0; bytes /= 2)
        for (size_t i = 0; i < set->count; i++)
            if (dtype_of(set->tensors[i].tensor.format)->bytes == bytes) order[done++] = i;
}

/* "xxh64:" and 16 digits never change the header's length, so the file is laid out with a placeholder and hashed in place. */
qs_status qs_tensor_set_write(const char *path, const qs_tensor_set *set) {
    char hash[32] = "xxh64:0000000000000000", *text = NULL, *file = NULL;
    size_t bytes, *order = NULL;
    QS_TRY(set_check(set));
    QS_TRY(qs_allocate(set->count, sizeof *order, &order));
    order_fill(set, order);
    json_t *header = header_of(set, order, &bytes), *metadata = json_object_get(header, metadata_key);
    qs_status status;
    if (!header) QS_GOTO(out_of_memory());
    json_object_set_new(metadata, "hash", json_string(hash));
    const size_t needed = json_dumpb(header, NULL, 0, JSON_COMPACT);
    const uint64_t length = (needed + PREFIX + ALIGN - 1) / ALIGN * ALIGN - PREFIX;
    if (needed == 0) QS_GOTO(out_of_memory());
    QS_GOTO(qs_allocate(PREFIX + (size_t)length + bytes, 1, &file));
    char *const data = file + PREFIX + length, *to = data;
    for (size_t i = 0; i < set->count; i++) {
        const qs_tensor *tensor = &set->tensors[order[i]].tensor;
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
    free(order);
    json_decref(header);
    return status;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------------------------- */

/* A file in memory, as far as it has been understood. */
typedef struct reader {
    const char *path;
    char *file;
    size_t bytes, header_length;
    char *data; /* behind the header */
    size_t data_bytes;
    json_t *header;
} reader;

/* An entry of the header, checked, but for where its data lie among the others'. */
typedef struct extent {
    qs_named_tensor named;
    size_t begin, end;
} extent;

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
    if (from->bytes < PREFIX) return bad(from, from->bytes, "a safetensors file has at least 8 bytes");
    memcpy(&length, from->file, sizeof length);
    if (length > largest_header)
        return bad(from, 0, "a header of %" PRIu64 " bytes: the format allows %" PRIu64 ", or this is no safetensors file", length,
                   largest_header);
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

/* A text of the metadata into text[size]; "" when it is absent. */
static qs_status metadata_text(const reader *from, const json_t *metadata, const char *key, char *text, size_t size) {
    const char *value = json_string_value(json_object_get(metadata, key));
    if (value && strlen(value) >= size) return bad(from, PREFIX, "\"%s\" in %s: at most %zu bytes", key, metadata_key, size - 1);
    snprintf(text, size, "%s", value ? value : "");
    return QS_OK;
}

/* A file of ours says so by schema and hash: were one of them damaged, the other would tell. */
static qs_status metadata_read(reader *from, qs_tensor_set *set) {
    json_t *metadata = json_object_get(from->header, metadata_key), *value;
    const char *key, *schema = json_string_value(json_object_get(metadata, "schema"));
    char stated[32], actual[32];
    if (metadata && !json_is_object(metadata)) return bad(from, PREFIX, "%s must be an object of texts", metadata_key);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) return bad(from, PREFIX, "\"%.80s\" in %s must be a text", key, metadata_key);
    }
    if (schema && strncmp(schema, "qsync/", 6) == 0) QS_TRY(qs_schema_check(from->path, schema, "weights"));
    QS_TRY(metadata_text(from, metadata, "model", set->model, sizeof set->model));
    QS_TRY(metadata_text(from, metadata, "graph", set->graph, sizeof set->graph));
    QS_TRY(metadata_text(from, metadata, "hash", stated, sizeof stated));
    if (!schema && stated[0] == '\0') return QS_OK;
    json_object_del(metadata, "hash");
    QS_TRY(hash_of(from->header, from->data, from->data_bytes, actual));
    if (strcmp(stated, actual) == 0) return QS_OK;
    return bad(from, PREFIX, "the hash of header and data is %s, the header says \"%s\": the file is damaged, or was changed", actual,
               stated);
}

/* An extent or an offset; false where it is no whole number of at least 0. */
static bool whole(const json_t *value, int64_t *out) {
    *out = (int64_t)json_integer_value(value);
    return json_is_integer(value) && *out >= 0;
}

/* One entry by itself. */
static qs_status entry_read(const reader *from, const char *name, const json_t *entry, extent *out) {
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    const struct dtype *dtype = dtype_named(json_string_value(json_object_get(entry, "dtype")));
    qs_named_tensor *named = &out->named;
    int64_t begin, end;
    if (!*name || strlen(name) >= sizeof named->name)
        return bad(from, PREFIX, "the name \"%.100s\" must have 1 to %zu bytes", name, sizeof named->name - 1);
    if (json_object_size(entry) != 3 || !json_is_string(json_object_get(entry, "dtype")) || !json_is_array(shape) ||
        !json_is_array(offsets))
        return bad(from, PREFIX, "%s must hold \"dtype\", \"shape\" and \"data_offsets\", and nothing else", name);
    if (!dtype)
        return bad(from, PREFIX, "%s: \"dtype\" %.40s is none that can be read", name, json_string_value(json_object_get(entry, "dtype")));
    if (json_array_size(shape) > QS_MAX_AXES)
        return bad(from, PREFIX, "%s: a \"shape\" of %zu axes, at most %d", name, json_array_size(shape), QS_MAX_AXES);
    *named = (qs_named_tensor){.tensor = {.shape = {.axes = (int)json_array_size(shape)}}};
    for (int i = 0; i < named->tensor.shape.axes; i++)
        if (!whole(json_array_get(shape, (size_t)i), &named->tensor.shape.dim[i]))
            return bad(from, PREFIX, "%s: \"shape\" must hold whole numbers", name);
    if (qs_shape_check(&named->tensor.shape, name) != QS_OK) return qs_fail_within(QS_BAD_FILE, "%s: offset %d", from->path, PREFIX);
    if (json_array_size(offsets) != 2 || !whole(json_array_get(offsets, 0), &begin) || !whole(json_array_get(offsets, 1), &end))
        return bad(from, PREFIX, "%s: \"data_offsets\" must be two whole numbers", name);
    const int64_t needed = qs_shape_count(&named->tensor.shape) * dtype->bytes;
    if (end < begin || end - begin != needed)
        return bad(from, PREFIX, "%s: \"data_offsets\" [%" PRId64 ", %" PRId64 "] for %" PRId64 " bytes of its type and shape", name, begin,
                   end, needed);
    if (begin % dtype->bytes != 0)
        return bad(from, PREFIX, "%s: \"data_offsets\" [%" PRId64 ", %" PRId64 "] are no multiples of the %d bytes of %s", name, begin, end,
                   dtype->bytes, dtype->name);
    if ((uint64_t)end > from->data_bytes)
        return bad(from, from->bytes, "the file ends within %s, whose data end %" PRId64 " bytes behind the header", name, end);
    strcpy(named->name, name);
    snprintf(named->dtype, sizeof named->dtype, "%s", dtype->name);
    named->tensor.format = dtype->format ? qs_format_of(dtype->format) : NULL;
    out->begin = (size_t)begin;
    out->end = (size_t)end;
    return QS_OK;
}

static int by_begin(const void *left, const void *right) {
    const extent *a = left, *b = right;
    return a->begin != b->begin ? (a->begin < b->begin ? -1 : 1) : (a->end > b->end) - (a->end < b->end);
}

/* All entries in the order of their data, which they must cover; tensor.data receives the offset alone. */
static qs_status entries_read(const reader *from, extent *entry, size_t *count) {
    const char *name;
    json_t *value;
    size_t end = 0;
    *count = 0;
    json_object_foreach(from->header, name, value) {
        if (strcmp(name, metadata_key) == 0) continue;
        QS_TRY(entry_read(from, name, value, &entry[*count]));
        *count += 1;
    }
    qsort(entry, *count, sizeof *entry, by_begin);
    for (size_t i = 0; i < *count; i++) {
        const size_t at = PREFIX + from->header_length + end;
        if (entry[i].begin < end) return bad(from, at, "the data of %s overlap those of %s", entry[i].named.name, entry[i - 1].named.name);
        if (entry[i].begin > end) return bad(from, at, "%zu bytes before %s are no tensor's", entry[i].begin - end, entry[i].named.name);
        end = entry[i].end;
    }
    if (end == from->data_bytes) return QS_OK;
    return bad(from, PREFIX + from->header_length + end, "%zu bytes behind the last tensor", from->data_bytes - end);
}

qs_status qs_tensor_set_read(const char *path, qs_tensor_set *out) {
    reader from = {.path = path};
    qs_tensor_set set = {0};
    extent *entry = NULL;
    qs_status status;
    QS_GOTO(qs_file_read(path, largest_file, &from.file, &from.bytes));
    QS_GOTO(header_read(&from));
    QS_GOTO(qs_allocate(json_object_size(from.header), sizeof *entry, &entry));
    QS_GOTO(qs_allocate(json_object_size(from.header), sizeof *set.tensors, &set.tensors));
    QS_GOTO(entries_read(&from, entry, &set.count));
    QS_GOTO(metadata_read(&from, &set));
    set.hash = qs_hash(from.file, from.bytes, 0);
    memmove(from.file, from.data, from.data_bytes); /* to where allocated memory is aligned */
    for (size_t i = 0; i < set.count; i++) {
        set.tensors[i] = entry[i].named;
        set.tensors[i].tensor.data = from.file + entry[i].begin;
    }
    set.memory = from.file;
    from.file = NULL;
    *out = set;
    set.tensors = NULL;
done:
    free(set.tensors);
    free(entry);
    json_decref(from.header);
    free(from.file);
    return status;
}
