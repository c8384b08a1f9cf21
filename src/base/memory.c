// SPDX-License-Identifier: Apache-2.0
/* Checked heap memory: sizes that overflow are refused like sizes that the system refuses, with the figure.
 *
 * Outputs are addresses of pointers of any type, handed over as void *; they are read and written with memcpy because a T ** is not a
 * void ** in C. */
#include "qsync/base.h"

#include <stdlib.h>
#include <string.h>

static qs_status refuse(size_t count, size_t size) {
    return qs_fail(QS_OUT_OF_MEMORY, "cannot allocate %zu elements of %zu bytes", count, size);
}

qs_status qs_allocate(size_t count, size_t size, void *out) {
    void *block = calloc(count ? count : 1, size ? size : 1); /* calloc checks the product */
    if (!block) return refuse(count, size);
    memcpy(out, &block, sizeof block);
    return QS_OK;
}

qs_status qs_grow(void *array, size_t *capacity, size_t needed, size_t size) {
    if (needed <= *capacity) return QS_OK;
    size_t grown = *capacity < 8 ? 8 : *capacity + *capacity / 2;
    if (grown < needed) grown = needed;
    if (size == 0 || grown > SIZE_MAX / size) return refuse(needed, size);
    char *block;
    memcpy(&block, array, sizeof block);
    block = realloc(block, grown * size);
    if (!block) return refuse(needed, size);
    memset(block + *capacity * size, 0, (grown - *capacity) * size);
    memcpy(array, &block, sizeof block);
    *capacity = grown;
    return QS_OK;
}
