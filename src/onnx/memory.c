// SPDX-License-Identifier: Apache-2.0
/* Memory of a model or of results: blocks that are released together, and the files that are mapped. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "onnx_internal.h"

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

struct block {
    struct block *next;
    size_t bytes, used;
    _Alignas(ALIGNMENT) char data[];
};

struct mapping {
    struct mapping *next;
    dev_t device;
    ino_t file;
    void *data;
    size_t bytes;
};

struct qs_onnx_memory {
    struct block *blocks; /* the first one is that which has room */
    struct mapping *mappings;
    size_t taken;
};

qs_status qs_onnx_memory_make(qs_onnx_memory **out) {
    return qs_allocate(1, sizeof **out, out);
}

void qs_onnx_memory_release(qs_onnx_memory *memory) {
    if (!memory) return;
    for (struct block *block = memory->blocks, *next; block; block = next) {
        next = block->next;
        free(block);
    }
    for (struct mapping *mapping = memory->mappings, *next; mapping; mapping = next) {
        next = mapping->next;
        if (mapping->bytes > 0) munmap(mapping->data, mapping->bytes);
        free(mapping);
    }
    free(memory);
}

qs_status qs__onnx_take(qs_onnx_memory *memory, size_t count, size_t size, void *out) {
    if (size != 0 && count > QS__ONNX_MEMORY_LIMIT / size)
        return qs_fail(QS_UNSUPPORTED, "%zu elements of %zu bytes are more than the %zu bytes that may be computed or unpacked", count,
                       size, QS__ONNX_MEMORY_LIMIT);
    const size_t bytes = (count * size + ALIGNMENT) / ALIGNMENT * ALIGNMENT; /* never empty: what is taken has an address of its own */
    if (bytes > QS__ONNX_MEMORY_LIMIT - memory->taken)
        return qs_fail(QS_UNSUPPORTED, "%zu bytes more than the %zu that are taken already: at most %zu may be computed or unpacked", bytes,
                       memory->taken, QS__ONNX_MEMORY_LIMIT);
    struct block *block = memory->blocks;
    if (!block || block->bytes - block->used < bytes) {
        const bool large = bytes > BLOCK_BYTES / 4;
        const size_t room = large ? bytes : BLOCK_BYTES;
        struct block *fresh = calloc(1, sizeof *fresh + room);
        if (!fresh) return qs_fail(QS_OUT_OF_MEMORY, "out of memory: %zu bytes", room);
        fresh->bytes = room;
        if (large && block) { /* keeps the one that has room first */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            memory->blocks = fresh;
        }
        block = fresh;
    }
    *(void **)out = block->data + block->used;
    block->used += bytes;
    memory->taken += bytes;
    return QS_OK;
}

qs_status qs__onnx_copy_text(qs_onnx_memory *memory, const void *bytes, size_t count, const char **out) {
    char *text;
    QS_TRY(qs__onnx_take(memory, count + 1, 1, &text));
    if (count > 0) memcpy(text, bytes, count);
    *out = text;
    return QS_OK;
}

qs_status qs__onnx_print(qs_onnx_memory *memory, const char **out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int length = vsnprintf(NULL, 0, format, list);
    va_end(list);
    char *text;
    QS_TRY(qs__onnx_take(memory, (size_t)length + 1, 1, &text));
    va_start(list, format);
    vsnprintf(text, (size_t)length + 1, format, list);
    va_end(list);
    *out = text;
    return QS_OK;
}

static qs_status map(qs_onnx_memory *memory, int file, const char *path, const void **data, size_t *bytes) {
    struct stat facts;
    if (fstat(file, &facts) != 0) return qs_fail(QS_BAD_FILE, "%s: cannot read: %s", path, strerror(errno));
    if (!S_ISREG(facts.st_mode)) return qs_fail(QS_BAD_FILE, "%s: not a file", path);
    for (const struct mapping *known = memory->mappings; known; known = known->next)
        if (known->device == facts.st_dev && known->file == facts.st_ino) {
            *data = known->data;
            *bytes = known->bytes;
            return QS_OK;
        }
    struct mapping *mapping;
    QS_TRY(qs_allocate(1, sizeof *mapping, &mapping));
    *mapping = (struct mapping){memory->mappings, facts.st_dev, facts.st_ino, NULL, (size_t)facts.st_size};
    if (mapping->bytes > 0) {
        mapping->data = mmap(NULL, mapping->bytes, PROT_READ, MAP_PRIVATE, file, 0);
        if (mapping->data == MAP_FAILED) {
            const int error = errno;
            free(mapping);
            return qs_fail(QS_BAD_FILE, "%s: cannot map: %s", path, strerror(error));
        }
    }
    memory->mappings = mapping;
    *data = mapping->data;
    *bytes = mapping->bytes;
    return QS_OK;
}

qs_status qs__onnx_map_file(qs_onnx_memory *memory, const char *path, const void **data, size_t *bytes) {
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not make it wait: it is refused as no file */
    if (file < 0) return qs_fail(QS_BAD_FILE, "%s: cannot open: %s", path, strerror(errno));
    const qs_status status = map(memory, file, path, data, bytes);
    close(file);
    return status;
}
