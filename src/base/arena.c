// SPDX-License-Identifier: Apache-2.0
/* Arenas: memory straight from the system, 2 MiB aligned with huge pages advised, and touched at once.
 *
 * First touch of fresh small pages runs an order of magnitude below memory speed, so it is paid at reservation. Because Linux hands out
 * more address space than it has memory and kills whoever touches it, what is available is asked before. */
#include "qsync/base.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void touch(char *memory, size_t bytes, size_t page) {
#ifdef MADV_POPULATE_WRITE
    if (madvise(memory, bytes, MADV_POPULATE_WRITE) == 0) return;
#endif
    for (size_t at = 0; at < bytes; at += page) {
        *(volatile char *)(memory + at) = 0;
    }
}

qs_status qs_arena_reserve(size_t bytes, qs_arena *out) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0) {
        *out = (qs_arena){0};
        return QS_OK;
    }
    if (bytes > SIZE_MAX / 2 || bytes > available_bytes() || bytes > container_bytes()) {
        return qs_fail(QS_OUT_OF_MEMORY, "cannot reserve an arena of %zu bytes: more than the system has available", bytes);
    }
    size_t mapped = (bytes + page - 1) / page * page;
    size_t asked = mapped + huge_page;
    char *start = mmap(NULL, asked, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return qs_fail(QS_OUT_OF_MEMORY, "cannot reserve an arena of %zu bytes: the system refuses", bytes);
    size_t before = (huge_page - (uintptr_t)start % huge_page) % huge_page;
    char *memory = start + before;
    if (before) munmap(start, before);
    munmap(memory + mapped, asked - before - mapped);
    (void)madvise(memory, mapped, MADV_HUGEPAGE); /* advice only: without huge pages everything works, slower */
    touch(memory, mapped, page);
    *out = (qs_arena){.memory = memory, .bytes = bytes, .mapped = mapped};
    return QS_OK;
}

void qs_arena_release(qs_arena *arena) {
    if (arena->memory) munmap(arena->memory, arena->mapped);
    *arena = (qs_arena){0};
}
