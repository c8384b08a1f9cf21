// SPDX-License-Identifier: Apache-2.0
/* Tensor sets: dtypes, hash, look-up, writing. */
#include "set_room.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *format, *dtype; } dtypes[] = {{"fp32", "F32"}, {"bf16", "BF16"}, {"fp16", "F16"}, {"int8", "I8"}};
enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const char *qs__dtype_of(const qs_format *format) {
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].format, format->name) == 0) return dtypes[i].dtype;
    }
    return NULL;
}

const qs_format *qs__format_of_dtype(const char *dtype) {
    for (size_t i = 0; i < DTYPES; i++) {
        if (strcmp(dtypes[i].dtype, dtype) == 0) return qs_format_of(dtypes[i].format);
    }
    return NULL;
}

static qs_status out_of_memory(void) {
    return qs_fail(QS_OUT_OF_MEMORY, "cannot allocate the header of a tensor set");
}

qs_status qs__set_hash(const json_t *header, const void *data, size_t bytes, char *text) {
    char *compact = json_dumps(header, JSON_COMPACT);
    if (!compact) return out_of_memory();
    uint64_t hash = qs_hash(data, bytes, qs_hash(compact, strlen(compact), 0));
    snprintf(text, 32, "xxh64:%016" PRIx64, hash);
    free(compact);
    return QS_OK;
}

const qs_tensor *qs_tensor_set_find(const qs_tensor_set *set, const char *name) {
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->tensors[i].name, name) == 0) return &set->tensors[i].tensor;
    }
    return NULL;
}

void qs_tensor_set_release(qs_tensor_set *set) {
    if (set->memory) {
        free(set->memory);
        free(set->tensors);
    }
    *set = (qs_tensor_set){0};
}

/* ---- Writing ---- */

static bool terminated(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

static qs_status check_set(const qs_tensor_set *set) {
    if (!terminated(set->model, sizeof set->model)) return qs_fail(QS_USAGE, "tensor set: the model name has no end");
    for (size_t i = 0; i < set->count; i++) {
        const qs_named_tensor *one = &set->tensors[i];
        if (!terminated(one->name, sizeof one->name) || one->name[0] == '\0' || strcmp(one->name, QS__SET_METADATA) == 0) {
            return qs_fail(QS_USAGE, "tensor set: tensor %zu needs a name of 1 to %zu characters that is not %s", i, sizeof one->name - 1,
                           QS__SET_METADATA);
        }
        if (qs_tensor_set_find(set, one->name) != &one->tensor) return qs_fail(QS_USAGE, "tensor set: two tensors named %s", one->name);
        QS_TRY(qs_shape_check(&one->tensor.shape, one->name));
        if (!one->tensor.format || !qs__dtype_of(one->tensor.format)) {
            return qs_fail(QS_UNSUPPORTED, "tensor set: %s is %s: only fp32, bf16, fp16 and int8 can be saved", one->name,
                           one->tensor.format ? one->tensor.format->name : "without a format");
        }
    }
    return QS_OK;
}

static size_t bytes_of(const qs_tensor *tensor) {
    return qs_tensor_bytes(&tensor->shape, tensor->format);
}

static json_t *entry_of(const qs_tensor *tensor, size_t begin) {
    json_t *shape = json_array();
    for (int i = 0; i < tensor->shape.axes; i++) {
        json_array_append_new(shape, json_integer((json_int_t)tensor->shape.dim[i]));
    }
    json_t *offsets = json_pack("[II]", (json_int_t)begin, (json_int_t)(begin + bytes_of(tensor)));
    return json_pack("{sssoso}", "dtype", qs__dtype_of(tensor->format), "shape", shape, "data_offsets", offsets);
}

/* Header without hash; *bytes receives the size of the data. */
static json_t *header_of(const qs_tensor_set *set, size_t *bytes) {
    json_t *header = json_pack("{s{ssss}}", QS__SET_METADATA, "schema", QS__SET_SCHEMA, "model", set->model);
    size_t begin = 0;
    for (size_t i = 0; header && i < set->count; i++) {
        json_t *entry = entry_of(&set->tensors[i].tensor, begin);
        if (json_object_set_new(header, set->tensors[i].name, entry) != 0) {
            json_decref(header);
            header = NULL;
        }
        begin += bytes_of(&set->tensors[i].tensor);
    }
    *bytes = begin;
    return header;
}

static void copy_data(const qs_tensor_set *set, char *to) {
    for (size_t i = 0; i < set->count; i++) {
        size_t bytes = bytes_of(&set->tensors[i].tensor);
        memcpy(to, set->tensors[i].tensor.data, bytes);
        to += bytes;
    }
}

/* "xxh64:" and 16 digits never change the header's length, so the file is laid out with a placeholder and hashed in place. */
static qs_status write_with(const char *path, const qs_tensor_set *set, json_t *header, size_t bytes) {
    json_t *metadata = json_object_get(header, QS__SET_METADATA);
    char hash[32] = "xxh64:0000000000000000", *text = NULL, *file = NULL;
    qs_status status;
    json_object_set_new(metadata, "hash", json_string(hash));
    size_t needed = json_dumpb(header, NULL, 0, JSON_COMPACT);
    if (needed == 0) return out_of_memory();
    uint64_t length = (needed + QS__SET_PREFIX + QS__SET_ALIGN - 1) / QS__SET_ALIGN * QS__SET_ALIGN - QS__SET_PREFIX;
    QS_GOTO(qs_allocate(QS__SET_PREFIX + (size_t)length + bytes, 1, &file));
    copy_data(set, file + QS__SET_PREFIX + length);
    json_object_del(metadata, "hash");
    QS_GOTO(qs__set_hash(header, file + QS__SET_PREFIX + length, bytes, hash));
    json_object_set_new(metadata, "hash", json_string(hash));
    text = json_dumps(header, JSON_COMPACT);
    if (!text || strlen(text) != needed) QS_GOTO(out_of_memory());
    memcpy(file, &length, sizeof length);
    memset(file + QS__SET_PREFIX, ' ', (size_t)length);
    memcpy(file + QS__SET_PREFIX, text, needed);
    QS_GOTO(qs_file_write(path, file, QS__SET_PREFIX + (size_t)length + bytes));
done:
    free(text);
    free(file);
    return status;
}

qs_status qs_tensor_set_write(const char *path, const qs_tensor_set *set) {
    QS_TRY(check_set(set));
    size_t bytes;
    json_t *header = header_of(set, &bytes);
    if (!header) return out_of_memory();
    qs_status status = write_with(path, set, header, bytes);
    json_decref(header);
    return status;
}
