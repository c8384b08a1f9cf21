// SPDX-License-Identifier: Apache-2.0
/* The tests that hold for any number of ranks; run by self.c (1), mpi.c (2), three_ranks.c and four_ranks.c. Those of all-reduces
 * run with every algorithm. */
#ifndef QSYNC_TESTS_COMM_COLLECTIVES_H
#define QSYNC_TESTS_COMM_COLLECTIVES_H

#include "comm_test.h"

static void all_reduce_lengths(size_t lengths, const int64_t *counts) {
    for (size_t i = 0; i < lengths; i++) {
        float *values = vector_of(qs_comm_rank(comm), counts[i]);
        assert_ok(qs_comm_all_reduce(comm, values, counts[i]));
        expect_sums(values, counts[i]);
        expect_equal_everywhere(values, counts[i]);
        free(values);
    }
}

static void all_reduce(void) {
    static const int64_t counts[] = {0, 1, 2, 3, 1000, 16384, 300001};
    all_reduce_lengths(COUNT_OF(counts), counts);
}

/* Blocking, polled and waited for: the same bits, whatever else is under way; repeated, so that requests are recycled. */
static void several_under_way(void) {
    enum { MESSAGES = 5, ROUNDS = 3 };
    static const int64_t counts[MESSAGES] = {70000, 10, 0, 4097, 200000};
    for (int round = 0; round < ROUNDS; round++) {
        float *values[MESSAGES];
        qs_request *request[MESSAGES];
        for (int i = 0; i < MESSAGES; i++) {
            values[i] = vector_of(qs_comm_rank(comm), counts[i]);
            assert_ok(qs_comm_all_reduce_start(comm, values[i], counts[i], &request[i]));
            assert_ok(qs_comm_test(comm, request[0], NULL));
        }
        for (bool done = false; !done;)
            assert_ok(qs_comm_test(comm, request[3], &done));
        for (int i = 0; i < MESSAGES; i++)
            assert_ok(qs_comm_wait(comm, request[(i + round) % MESSAGES]));
        for (int i = 0; i < MESSAGES; i++) {
            float *blocking = vector_of(qs_comm_rank(comm), counts[i]);
            assert_ok(qs_comm_all_reduce(comm, blocking, counts[i]));
            assert_memory_equal(values[i], blocking, (size_t)counts[i] * sizeof(float));
            expect_equal_everywhere(values[i], counts[i]);
            free(blocking);
            free(values[i]);
        }
    }
}

/* Messages longer than a piece: a piece of 1000 stands for the 2^28 of real runs. */
static void pieces(void) {
    int64_t usual = qs__comm_piece;
    qs__comm_piece = 1000;
    static const int64_t counts[] = {999, 1000, 1001, 2000, 5500};
    all_reduce_lengths(COUNT_OF(counts), counts);
    qs__comm_piece = usual;
}

/* Ranks wait for different ones first: what a rank does not wait for goes on all the same. */
static void waits_cross(void) {
    enum { COUNT = 50000 };
    float *values[2];
    qs_request *request[2];
    for (int i = 0; i < 2; i++) {
        values[i] = vector_of(qs_comm_rank(comm), COUNT);
        assert_ok(qs_comm_all_reduce_start(comm, values[i], COUNT, &request[i]));
    }
    for (int i = 0; i < 2; i++)
        assert_ok(qs_comm_wait(comm, request[(i + qs_comm_rank(comm)) % 2]));
    for (int i = 0; i < 2; i++) {
        expect_sums(values[i], COUNT);
        free(values[i]);
    }
}

static void with_every_algorithm(void (*test)(void)) {
    for (size_t i = 0; qs_comm_algorithm_at(i); i++) {
        assert_ok(qs_comm_algorithm_set(comm, qs_comm_algorithm_at(i)));
        assert_string_equal(qs_comm_algorithm(comm), qs_comm_algorithm_at(i));
        test();
    }
    assert_ok(qs_comm_algorithm_set(comm, "library"));
}

static void all_reduces(void **state) {
    (void)state;
    with_every_algorithm(all_reduce);
    with_every_algorithm(several_under_way);
    with_every_algorithm(pieces);
    with_every_algorithm(waits_cross);
}

/* Through memory that ranks share: added up in order of ranks, whoever adds, also where the message is far longer than the window. */
static void in_order_of_ranks(void) {
    enum { COUNT = 20011 };
    const int64_t usual = qs__comm_piece;
    float *values = vector_of(qs_comm_rank(comm), COUNT);
    qs__comm_piece = 100;
    assert_ok(qs_comm_all_reduce(comm, values, COUNT));
    qs__comm_piece = usual;
    for (int64_t i = 0; i < COUNT; i++) {
        float sum = value_of(0, i);
        for (int rank = 1; rank < qs_comm_size(comm); rank++)
            sum += value_of(rank, i);
        assert_true(values[i] == sum);
    }
    free(values);
}

/* Ranks come late by turns, one of them after the others have filled the window. */
static void late_ranks(void) {
    enum { COUNT = 1 << 20 };
    for (int late = 0; late < qs_comm_size(comm); late++) {
        float *values = vector_of(qs_comm_rank(comm), COUNT);
        qs_request *request;
        if (qs_comm_rank(comm) == late) usleep(3000);
        assert_ok(qs_comm_all_reduce_start(comm, values, COUNT, &request));
        if (qs_comm_rank(comm) != late) usleep(2000);
        assert_ok(qs_comm_wait(comm, request));
        expect_equal_everywhere(values, COUNT);
        free(values);
    }
}

static void every_sum(void) {
    all_reduce();
    several_under_way();
    pieces();
    waits_cross();
    late_ranks();
}

/* Additions of each rank for itself, and shared out, with an algorithm that is set. */
static void both_ways(void (*test)(void)) {
    const int usual = qs__comm_direct_most;
    for (int most = 1; most <= 100; most += 99) {
        qs__comm_direct_most = most;
        test();
    }
    qs__comm_direct_most = usual;
}

static void shared_memory(void **state) {
    (void)state;
    assert_ok(qs_comm_algorithm_set(comm, "shared"));
    both_ways(every_sum);
    both_ways(in_order_of_ranks);
    assert_ok(qs_comm_algorithm_set(comm, "library"));
    assert_true(qs_comm_window_bytes(1) == 0 && qs_comm_window_bytes(2) == 4 << 20 && qs_comm_window_bytes(100) == 25 << 20);
}

/* Hosts of one rank and of two, as if the machine were several: leaders meet by the ring. */
static void shared_memory_of_hosts(void **state) {
    (void)state;
    qs_comm *all = comm, *hosts;
    for (int ranks = 1; ranks <= 2; ranks++) {
        qs__comm_ranks_per_host = ranks;
        assert_ok(qs_comm_split(all, 0, &hosts));
        assert_ok(qs_comm_algorithm_set(hosts, "shared"));
        comm = hosts;
        both_ways(every_sum);
        comm = all;
        qs_comm_close(hosts);
        qs__comm_ranks_per_host = 0;
    }
}

static void unknown_algorithm(void **state) {
    (void)state;
    assert_refused(qs_comm_algorithm_set(comm, "tree"), QS_UNSUPPORTED, "shared, library, ring, recursive-doubling");
    assert_string_equal(qs_comm_algorithm(comm), "library");
}

/* Parts: the even ranks, which go on among themselves, while the others are in none. */
static void split(void **state) {
    (void)state;
    qs_comm *part;
    const int rank = qs_comm_rank(comm), even = rank % 2 == 0;
    assert_ok(qs_comm_split(comm, even ? 5 : -1, &part));
    assert_true((part != NULL) == even);
    if (part) {
        double sum = rank;
        const int members = (qs_comm_size(comm) + 1) / 2;
        assert_int_equal(qs_comm_size(part), members);
        assert_int_equal(qs_comm_rank(part), rank / 2);
        assert_int_equal(qs_comm_local_size(part), members);
        assert_ok(qs_comm_sum(part, &sum, 1));
        assert_true(sum == members * (members - 1));
    }
    qs_comm_close(part);
}

static void doubles(void **state) {
    (void)state;
    int rank = qs_comm_rank(comm), size = qs_comm_size(comm);
    double sums[] = {1, rank, 0.5 * rank}, largest[] = {-rank, rank, 3};
    assert_ok(qs_comm_sum(comm, sums, 3));
    assert_true(sums[0] == size && sums[1] == size * (size - 1) / 2 && sums[2] == size * (size - 1) / 4.0);
    assert_ok(qs_comm_max(comm, largest, 3));
    assert_true(largest[0] == 0 && largest[1] == size - 1 && largest[2] == 3);
    assert_ok(qs_comm_max(comm, NULL, 0));
}

static void broadcast(void **state) {
    (void)state;
    int size = qs_comm_size(comm);
    for (int root = 0; root < size; root++) {
        char text[16] = "";
        if (qs_comm_rank(comm) == root) snprintf(text, sizeof text, "from %d", root);
        assert_ok(qs_comm_broadcast(comm, text, sizeof text, root));
        char expected[16];
        snprintf(expected, sizeof expected, "from %d", root);
        assert_string_equal(text, expected);
    }
    assert_int_equal(qs_comm_broadcast(comm, NULL, 0, size), QS_USAGE);
    assert_ok(qs_comm_barrier(comm));
}

static int64_t length_of(int rank) {
    return rank % 2 ? 0 : 5 + 7000 * (int64_t)rank;
}

/* Strings of different lengths, empty ones among them, also in pieces. */
static void gather(void **state) {
    (void)state;
    int rank = qs_comm_rank(comm), size = qs_comm_size(comm);
    int64_t usual = qs__comm_piece, bytes = length_of(rank), *sizes = NULL;
    qs__comm_piece = 1024;
    char *mine = malloc((size_t)bytes + 1), *data = NULL;
    assert_non_null(mine);
    memset(mine, 'a' + rank, (size_t)bytes + 1);
    assert_ok(qs_comm_gather(comm, mine, bytes, &data, &sizes));
    qs__comm_piece = usual;
    if (rank == 0) {
        const char *at = data;
        for (int from = 0; from < size; from++) {
            assert_int_equal(sizes[from], length_of(from));
            for (int64_t i = 0; i < sizes[from]; i++)
                assert_int_equal(*at++, 'a' + from);
        }
    } else {
        assert_null(data);
        assert_null(sizes);
    }
    free(mine);
    free(data);
    free(sizes);
}

static void bad_counts(void **state) {
    (void)state;
    qs_request *request;
    assert_int_equal(qs_comm_all_reduce_start(comm, NULL, -1, &request), QS_USAGE);
    assert_int_equal(qs_comm_sum(comm, NULL, -1), QS_USAGE);
    assert_int_equal(qs_comm_broadcast(comm, NULL, -1, 0), QS_USAGE);
}

static void agree_on_success(void **state) {
    (void)state;
    (void)qs_fail(QS_FAILED, "an old message");
    assert_ok(qs_comm_agree(comm, QS_OK));
}

/* Still under way when the communicator closes: close waits. */
static void left_under_way(void **state) {
    (void)state;
    static float values[4][1000];
    qs_request *request;
    for (size_t i = 0; qs_comm_algorithm_at(i); i++) {
        assert_ok(qs_comm_algorithm_set(comm, qs_comm_algorithm_at(i)));
        assert_ok(qs_comm_all_reduce_start(comm, values[i], 1000, &request));
    }
}

#define COLLECTIVES                                                                                                           \
    cmocka_unit_test(all_reduces), cmocka_unit_test(shared_memory), cmocka_unit_test(shared_memory_of_hosts),                 \
        cmocka_unit_test(unknown_algorithm), cmocka_unit_test(split), cmocka_unit_test(doubles), cmocka_unit_test(broadcast), \
        cmocka_unit_test(gather), cmocka_unit_test(bad_counts), cmocka_unit_test(agree_on_success)
/* To be the last one. */
#define LEFT_UNDER_WAY cmocka_unit_test(left_under_way)

#endif
