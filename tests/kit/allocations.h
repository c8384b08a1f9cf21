// SPDX-License-Identifier: Apache-2.0
/* Counts what the process allocates: the entry points of glibc, under the names that a program may replace. For one file of a program.
 * COUNTING 0: another C library, or an allocator that a sanitizer has replaced; nothing is counted there. */
#ifndef QSYNC_TESTS_KIT_ALLOCATIONS
#define QSYNC_TESTS_KIT_ALLOCATIONS

#include <stdbool.h>
#include <stdlib.h>

#include <stdatomic.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define COUNTING 0
#endif
#endif
#if !defined(COUNTING) && defined(__GLIBC__)
#define COUNTING 1
#endif

#if COUNTING

static atomic_bool count_armed;
static atomic_size_t counted_bytes;

static inline void count_begin(void) {
    atomic_store(&counted_bytes, 0);
    atomic_store(&count_armed, true);
}

/* Bytes since count_begin. */
static inline size_t count_end(void) {
    atomic_store(&count_armed, false);
    return atomic_load(&counted_bytes);
}

static void count_bytes(size_t bytes) {
    if (atomic_load(&count_armed)) atomic_fetch_add(&counted_bytes, bytes);
}

/* Hidden ones would stand for the program's own calls alone, not for those of libraries. */
#pragma GCC visibility push(default)

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    count_bytes(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes) {
    count_bytes(count * bytes);
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    count_bytes(bytes);
    return __libc_realloc(block, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count_bytes(bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    count_bytes(bytes);
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : 12;
}

#pragma GCC visibility pop

#endif
#endif
