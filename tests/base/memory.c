// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Heap and arena memory: zeroed, aligned, sizes that overflow or exceed the system refused with the figure, nothing written on failure;
 * arenas grow and shrink in place, and what is given back is gone from the process. */
#include "kit/kit.h"

#include <sys/resource.h>
#include <unistd.h>

TEST(allocate_zeroes) {
    int64_t *values = NULL;
    assert_ok(qs_allocate(100, sizeof *values, &values));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(values[i], 0);
    }
    free(values);
    assert_ok(qs_allocate(0, sizeof *values, &values));
    values[0] = 1;
    free(values);
}

TEST(allocate_refuses) {
    char *untouched = (char *)state;
    assert_int_equal(qs_allocate(SIZE_MAX / 2, 4, &untouched), QS_OUT_OF_MEMORY);
    assert_ptr_equal(untouched, state);
    assert_message("9223372036854775807 elements of 4 bytes");
}

TEST(grow_keeps_and_zeroes) {
    uint32_t *values = NULL;
    size_t capacity = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_ok(qs_grow(&values, &capacity, i + 1, sizeof *values));
        assert_true(capacity > i);
        assert_int_equal(values[i], 0);
        values[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(values[i], i);
    }
    size_t before = capacity;
    assert_int_equal(qs_grow(&values, &capacity, SIZE_MAX / 2, sizeof *values), QS_OUT_OF_MEMORY);
    assert_int_equal(capacity, before);
    assert_int_equal(values[999], 999);
    free(values);
}

TEST(arena_is_aligned_and_zeroed) {
    const size_t sizes[] = {1, 4096, 5000, (size_t)3 << 20};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        qs_arena arena;
        assert_ok(qs_arena_reserve(sizes[i], &arena));
        assert_int_equal((uintptr_t)arena.memory % ((size_t)2 << 20), 0);
        assert_int_equal(arena.bytes, sizes[i]);
        assert_true(arena.mapped >= sizes[i] && arena.mapped < sizes[i] + 65536);
        const unsigned char *bytes = arena.memory;
        unsigned any = 0;
        for (size_t at = 0; at < arena.bytes; at++) {
            any |= bytes[at];
        }
        assert_int_equal(any, 0);
        memset(arena.memory, 255, arena.bytes);
        qs_arena_release(&arena);
        assert_null(arena.memory);
        qs_arena_release(&arena);
    }
}

TEST(arena_of_nothing) {
    qs_arena arena = {.bytes = 7};
    assert_ok(qs_arena_reserve(0, &arena));
    assert_int_equal(arena.bytes, 0);
    assert_int_equal(arena.mapped, 0);
    qs_arena_release(&arena);
}

TEST(arena_refuses_what_the_system_lacks) {
    const size_t sizes[] = {SIZE_MAX, SIZE_MAX / 4, (size_t)1 << 46};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        qs_arena arena = {.bytes = 7};
        assert_int_equal(qs_arena_reserve(sizes[i], &arena), QS_OUT_OF_MEMORY);
        assert_int_equal(arena.bytes, 7);
        char figure[32];
        snprintf(figure, sizeof figure, "%zu bytes", sizes[i]);
        assert_message(figure);
    }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(QS_EMULATED)
static const bool watched = true; /* sanitizers keep books of every page that comes or goes; an emulator's pages are not the program's */
#else
static const bool watched = false;
#endif

/* Figures of /proc/self/smaps_rollup in bytes: Rss, exactly. 0 where the system does not say. */
static int64_t resident(void) {
    char line[128];
    long long kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (!file) return 0;
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %lld kB", &kib) == 1) break;
    fclose(file);
    return (int64_t)kib * 1024;
}

/* Between two readings nothing else happens but the readings: a stack page, the stream's buffer, code seen for the first time. */
static void assert_resident_changed(int64_t before, int64_t wanted) {
    const int64_t other = 64 * 4096, changed = resident() - before;
    if (before > 0 && !watched && llabs(changed - wanted) > other)
        fail_msg("resident memory changed by %lld bytes, not by %lld", (long long)changed, (long long)wanted);
}

static bool holds(const qs_arena *arena, size_t from, size_t to, int value) {
    const unsigned char *bytes = arena->memory;
    for (size_t at = from; at < to; at++)
        if (bytes[at] != value) return false;
    return true;
}

TEST(arena_grows_and_shrinks_in_place) {
    const size_t large = (size_t)48 << 20, small = ((size_t)5 << 20) + 4096, kept = small - 100;
    qs_arena arena;
    assert_ok(qs_arena_reserve(large, &arena));
    const void *memory = arena.memory;
    memset(arena.memory, 7, large);
    int64_t before = resident();
    assert_ok(qs_arena_resize(&arena, kept));
    assert_resident_changed(before, (int64_t)small - (int64_t)large);
    assert_ptr_equal(arena.memory, memory);
    assert_int_equal(arena.bytes, kept);
    assert_int_equal(arena.mapped, small);
    assert_true(holds(&arena, 0, kept, 7));
    before = resident();
    assert_ok(qs_arena_resize(&arena, 2 * large));
    assert_resident_changed(before, 2 * (int64_t)large - (int64_t)small);
    assert_ptr_equal(arena.memory, memory);
    assert_int_equal(arena.bytes, 2 * large);
    assert_true(holds(&arena, 0, kept, 7) && holds(&arena, small, 2 * large, 0));
    memset(arena.memory, 9, 2 * large);
    qs_arena_release(&arena);
    assert_null(arena.memory);
}

/* Where addresses are scarce an arena gets what it needs now, shrinks as ever, and grows back no further. */
TEST(arena_with_few_addresses) {
    const size_t first = (size_t)8 << 20, scarce = (size_t)32 << 20;
    struct rlimit before, tight;
    qs_arena arena;
    long long pages = 0;
    FILE *file = watched ? NULL : fopen("/proc/self/statm", "re");
    if (!file) skip();
    assert_int_equal(fscanf(file, "%lld", &pages), 1);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + scarce;
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    const qs_status reserved = qs_arena_reserve(first, &arena);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_ok(reserved);
    assert_int_equal(arena.span, first);
    assert_refused(qs_arena_resize(&arena, first + 1), QS_OUT_OF_MEMORY, "8388608 bytes of address space");
    assert_ok(qs_arena_resize(&arena, first / 2));
    assert_ok(qs_arena_resize(&arena, first));
    qs_arena_release(&arena);
}

TEST(arena_stays_when_growth_is_refused) {
    qs_arena arena = {0};
    assert_ok(qs_arena_resize(&arena, 5000));
    memset(arena.memory, 7, 5000);
    assert_int_equal(qs_arena_resize(&arena, SIZE_MAX), QS_OUT_OF_MEMORY);
    assert_refused(qs_arena_resize(&arena, (size_t)1 << 46), QS_OUT_OF_MEMORY, "70368744177664 bytes");
    assert_int_equal(arena.bytes, 5000);
    assert_true(holds(&arena, 0, 5000, 7));
    assert_ok(qs_arena_resize(&arena, 0));
    assert_int_equal(arena.mapped, 0);
    qs_arena_release(&arena);
}

TEST_MAIN(allocate_zeroes, allocate_refuses, grow_keeps_and_zeroes, arena_is_aligned_and_zeroed, arena_of_nothing,
          arena_refuses_what_the_system_lacks, arena_grows_and_shrinks_in_place, arena_stays_when_growth_is_refused,
          arena_with_few_addresses)
