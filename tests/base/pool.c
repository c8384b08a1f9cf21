// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The pool covers every index once, in ranges that begin at multiples of the grain, and hands memory over to its threads and back: under
 * the thread sanitizer the plain reads and writes below are the test. */
#include "kit/kit.h"

#include <stdatomic.h>

enum { LARGEST = 1000 };

typedef struct coverage {
    int64_t grain, count;
    const int *src;   /* (count) written by the caller before, read by the threads */
    int *dst;         /* (count) written by the threads, read by the caller after */
    atomic_int wrong; /* ranges that break the rules */
    atomic_int ranges;
} coverage;

static void cover(void *context, int64_t begin, int64_t end) {
    coverage *job = context;
    atomic_fetch_add(&job->ranges, 1);
    bool right = begin % job->grain == 0 && begin < end && end <= job->count && (end == job->count || end % job->grain == 0);
    if (!right) atomic_fetch_add(&job->wrong, 1);
    for (int64_t i = begin; i < end; i++) {
        job->dst[i] += job->src[i] + 1;
    }
}

static void check_coverage(int64_t count, int64_t grain) {
    static int src[LARGEST], dst[LARGEST];
    for (int i = 0; i < LARGEST; i++) {
        src[i] = i;
        dst[i] = 0;
    }
    coverage job = {.grain = grain, .count = count, .src = src, .dst = dst};
    qs_parallel(count, grain, cover, &job);
    assert_int_equal(job.wrong, 0);
    assert_true(job.ranges <= qs_threads());
    for (int i = 0; i < LARGEST; i++) {
        assert_int_equal(dst[i], i < count ? i + 1 : 0);
    }
}

TEST(covers_every_index_once) {
    const int64_t counts[] = {0, 1, 2, 7, 16, 17, 100, LARGEST};
    const int64_t grains[] = {1, 3, 16, 64, 5000};
    const int threads[] = {1, 2, 3, 8};
    for (size_t t = 0; t < 4; t++) {
        assert_ok(qs_threads_set(threads[t]));
        assert_int_equal(qs_threads(), threads[t]);
        for (size_t c = 0; c < 8; c++) {
            for (size_t g = 0; g < 5; g++) {
                check_coverage(counts[c], grains[g]);
            }
        }
    }
}

/* Counts beyond 32 bits are dealt without overflow; nothing is touched. */
static void add_length(void *context, int64_t begin, int64_t end) {
    atomic_fetch_add((_Atomic int64_t *)context, end - begin);
}

TEST(huge_counts) {
    assert_ok(qs_threads_set(7));
    _Atomic int64_t total = 0;
    qs_parallel(INT64_MAX, 1, add_length, &total);
    assert_true(total == INT64_MAX);
    total = 0;
    qs_parallel(INT64_MAX, INT64_MAX - 1, add_length, &total);
    assert_true(total == INT64_MAX);
}

static void call_again(void *context, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
        qs_parallel(10, 1, add_length, context);
    }
}

TEST(nested_calls_are_serial) {
    assert_ok(qs_threads_set(4));
    _Atomic int64_t total = 0;
    qs_parallel(50, 1, call_again, &total);
    assert_int_equal(total, 500);
}

TEST(repeated_steps_hand_over) {
    assert_ok(qs_threads_set(4));
    static int values[LARGEST];
    memset(values, 0, sizeof values);
    for (int step = 0; step < 200; step++) {
        coverage job = {.grain = 16, .count = LARGEST, .src = values, .dst = values};
        qs_parallel(LARGEST, 16, cover, &job);
        assert_int_equal(values[LARGEST - 1], 1);
        for (int i = 0; i < LARGEST; i++) {
            assert_int_equal(values[i], 1);
            values[i] = 0;
        }
    }
}

TEST(wrong_thread_counts) {
    assert_ok(qs_threads_set(2));
    assert_int_equal(qs_threads_set(0), QS_USAGE);
    assert_refused(qs_threads_set(-3), QS_USAGE, "-3");
    assert_int_equal(qs_threads_set(1000000), QS_USAGE);
    assert_int_equal(qs_threads(), 2);
}

TEST_MAIN(covers_every_index_once, huge_counts, nested_calls_are_serial, repeated_steps_hand_over, wrong_thread_counts)
