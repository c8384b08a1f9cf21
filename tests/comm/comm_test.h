// SPDX-License-Identifier: Apache-2.0
/* What the tests of ranks share. Every rank runs the same tests; a rank that fails ends the run, or the others would wait for it for ever.
 */
#ifndef QSYNC_TESTS_COMM_TEST_H
#define QSYNC_TESTS_COMM_TEST_H

#include "kit/kit.h"

#include <unistd.h>

#include "qsync/comm.h"

/* Elements a message may have; see comm_internal.h. */
extern int64_t qs__comm_piece;
extern int qs__comm_direct_most, qs__comm_ranks_per_host;

static qs_comm *comm;

/* Element i of rank r's vector: values whose sum depends on the order of the additions. */
static inline float value_of(int rank, int64_t i) {
    return qs_random_uniform(qs_random_key(7, (uint64_t)rank, 0, 0), (uint64_t)i) - 0.3f;
}

static inline float *vector_of(int rank, int64_t count) {
    float *values = malloc((size_t)(count ? count : 1) * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = value_of(rank, i);
    return values;
}

/* All ranks hold the same bits: each compares with rank 0's. */
static inline void expect_equal_everywhere(const float *values, int64_t count) {
    float *first = malloc((size_t)(count ? count : 1) * sizeof *first);
    assert_non_null(first);
    memcpy(first, values, (size_t)count * sizeof *first);
    assert_ok(qs_comm_broadcast(comm, first, count * (int64_t)sizeof *first, 0));
    assert_memory_equal(first, values, (size_t)count * sizeof *first);
    free(first);
}

/* The sum of `size` terms below 1 in fp32, in any order: each addition errs by at most eps/2 of a partial sum below `size`. */
static inline void expect_sums(const float *values, int64_t count) {
    int size = qs_comm_size(comm);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < size; rank++)
            sum += (double)value_of(rank, i);
        assert_true(values[i] - sum <= size * size * 0x1p-24 && sum - values[i] <= size * size * 0x1p-24);
    }
}

static inline int run_ranks(const char *name, const struct CMUnitTest *tests, size_t count) {
    alarm(120); /* a rank that waits for a dead one fails instead of hanging */
    if (qs_comm_open(name, &comm) != QS_OK) {
        fprintf(stderr, "%s\n", qs_message());
        return 1;
    }
    int failed = _cmocka_run_group_tests("ranks", tests, count, NULL, NULL);
    if (failed) qs_comm_abort(comm, 1);
    qs_comm_close(comm);
    return failed;
}

#endif
