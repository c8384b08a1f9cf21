// SPDX-License-Identifier: Apache-2.0
/* Checked heap memory: sizes that overflow are refused like sizes that the system refuses, with the figure. And arenas. */
#include "qsync/base.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- The heap ----
 *
 * Outputs are addresses of pointers of any type, handed over as void *; they are read and written with memcpy because a T ** is not a
 * void ** in C. */

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

/* ---- Arenas ----
 *
 * Memory straight from the system, 2 MiB aligned with huge pages advised, and touched at once.
 *
 * First touch of fresh small pages runs an order of magnitude below memory speed, so it is paid at reservation. Because Linux hands out
 * more address space than it has memory and kills whoever touches it, what is available is asked before.
 *
 * An arena grows and shrinks in place: addresses for all memory of the machine are kept behind it, which costs no memory. Moving it
 * (mremap) would leave whoever is bound to it nowhere to return to when a change is given up half way. */

static const size_t huge_page = (size_t)2 << 20;

/* Bytes the system could still give without swapping; SIZE_MAX when it does not say. */
static size_t available_bytes(void) {
    FILE *file = fopen("/proc/meminfo", "re");
    if (!file) return SIZE_MAX;
    char line[128];
    unsigned long long kib = SIZE_MAX >> 10;
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
    }
    fclose(file);
    return (size_t)kib << 10;
}

/* The one number of a control-group file; SIZE_MAX when there is none ("max", or no such file). */
static size_t read_figure(const char *path) {
    FILE *file = fopen(path, "re");
    if (!file) return SIZE_MAX;
    unsigned long long figure;
    size_t result = fscanf(file, "%llu", &figure) == 1 ? (size_t)figure : SIZE_MAX;
    fclose(file);
    return result;
}

/* Bytes left under the memory limit of a container, page cache counted as used: so only a limit below the request refuses. */
static size_t container_bytes(void) {
    return read_figure("/sys/fs/cgroup/memory.max");
}

static size_t pages_of(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page;
}

static void touch(char *memory, size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
    for (size_t at = 0; at < bytes; at += page) {
        *(volatile char *)(memory + at) = 0;
    }
}

/* `added`: what of `bytes` the arena does not have yet. */
static qs_status check_available(size_t bytes, size_t added) {
    if (bytes <= SIZE_MAX / 2 && added <= available_bytes() && bytes <= container_bytes()) return QS_OK;
    return qs_fail(QS_OUT_OF_MEMORY, "cannot reserve an arena of %zu bytes: more than the system has available", bytes);
}

static char *addresses_map(size_t bytes) {
    void *start = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

/* Aligned addresses without memory: all that an arena could ever need; where address space is limited (ulimit -v), what it needs now. */
static qs_status addresses_reserve(size_t bytes, qs_arena *out) {
    const size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE), wanted = pages_of(bytes);
    size_t span = all > wanted ? all : wanted;
    char *start = addresses_map(span + huge_page);
    if (!start && span > wanted) start = addresses_map((span = wanted) + huge_page);
    if (!start) return qs_fail(QS_OUT_OF_MEMORY, "cannot reserve an arena of %zu bytes: the system refuses", bytes);
    const size_t before = (huge_page - (uintptr_t)start % huge_page) % huge_page;
    if (before) munmap(start, before);
    munmap(start + before + span, huge_page - before);
    *out = (qs_arena){.memory = start + before, .span = span};
    return QS_OK;
}

static qs_status grow(qs_arena *arena, size_t bytes) {
    char *memory = arena->memory;
    const size_t mapped = pages_of(bytes), added = mapped - arena->mapped;
    if (mapped > arena->span) {
        return qs_fail(QS_OUT_OF_MEMORY, "cannot grow an arena to %zu bytes: %zu bytes of address space were to be had; raise ulimit -v",
                       bytes, arena->span);
    }
    if (mprotect(memory + arena->mapped, added, PROT_READ | PROT_WRITE) != 0)
        return qs_fail(QS_OUT_OF_MEMORY, "cannot reserve an arena of %zu bytes: the system refuses", bytes);
    (void)madvise(memory, mapped, MADV_HUGEPAGE); /* advice only: without huge pages everything works, slower */
    touch(memory + arena->mapped, added);
    arena->mapped = mapped;
    return QS_OK;
}

/* Fresh addresses over the tail: its pages and its part of what the system has promised go back at once. Where the system has no room to
 * describe the cut, the pages go back alone. */
static void give_back(qs_arena *arena, size_t mapped) {
    char *tail = (char *)arena->memory + mapped;
    const size_t bytes = arena->mapped - mapped;
    if (mmap(tail, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        (void)madvise(tail, bytes, MADV_DONTNEED);
    arena->mapped = mapped;
}

qs_status qs_arena_reserve(size_t bytes, qs_arena *out) {
    qs_arena arena = {0};
    if (bytes > 0) {
        QS_TRY(check_available(bytes, bytes));
        QS_TRY(addresses_reserve(bytes, &arena));
        qs_status status = grow(&arena, bytes);
        if (status != QS_OK) {
            qs_arena_release(&arena);
            return status;
        }
    }
    arena.bytes = bytes;
    *out = arena;
    return QS_OK;
}

qs_status qs_arena_resize(qs_arena *arena, size_t bytes) {
    if (!arena->memory) return qs_arena_reserve(bytes, arena);
    if (bytes > arena->mapped) {
        QS_TRY(check_available(bytes, bytes - arena->mapped));
        QS_TRY(grow(arena, bytes));
    } else if (pages_of(bytes) < arena->mapped) {
        give_back(arena, pages_of(bytes));
    }
    arena->bytes = bytes;
    return QS_OK;
}

void qs_arena_release(qs_arena *arena) {
    if (arena->memory) munmap(arena->memory, arena->span);
    *arena = (qs_arena){0};
}
