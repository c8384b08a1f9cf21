// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The rounds of all-reduces without messages: simulated for any number of ranks, each round's messages meeting one another. */
#include "kit/kit.h"
#include "../../src/comm/comm_internal.h"

#include "comm_test.h"

enum { MOST = 17, LONGEST = 40 };

static float values[MOST][LONGEST], sent[MOST][LONGEST];

static void fill(int size, int64_t count) {
    for (int rank = 0; rank < size; rank++)
        for (int64_t i = 0; i < count; i++)
            values[rank][i] = value_of(rank, i);
}

/* What a rank receives is what its peer sends to it in that round. */
static void round_run(const qs__algorithm *algorithm, int size, int64_t count, int index) {
    memcpy(sent, values, sizeof sent);
    for (int rank = 0; rank < size; rank++) {
        const qs__round mine = algorithm->at(size, rank, count, index);
        if (mine.send_count > 0) assert_int_equal(algorithm->at(size, mine.send_to, count, index).receive_from, rank);
        if (mine.receive_count == 0) continue;
        const qs__round theirs = algorithm->at(size, mine.receive_from, count, index);
        assert_int_equal(theirs.send_to, rank);
        assert_int_equal(theirs.send_first, mine.receive_first);
        assert_int_equal(theirs.send_count, mine.receive_count);
        assert_true(mine.receive_first >= 0 && mine.receive_first + mine.receive_count <= count);
        for (int64_t i = mine.receive_first; i < mine.receive_first + mine.receive_count; i++)
            values[rank][i] = mine.adds ? values[rank][i] + sent[mine.receive_from][i] : sent[mine.receive_from][i];
    }
}

static void sums_are_equal_everywhere(const char *name) {
    static const int64_t counts[] = {1, 2, 3, 16, 17, 40};
    const qs__algorithm *algorithm = qs__algorithm_named(name);
    for (int size = 2; size <= MOST; size++) {
        for (size_t c = 0; c < COUNT_OF(counts); c++) {
            fill(size, counts[c]);
            for (int index = 0; index < algorithm->rounds(size); index++)
                round_run(algorithm, size, counts[c], index);
            for (int64_t i = 0; i < counts[c]; i++) {
                double sum = 0;
                for (int rank = 0; rank < size; rank++)
                    sum += (double)value_of(rank, i);
                /* Terms below 1: each of size - 1 additions errs by at most eps/2 of a partial sum below `size`. */
                assert_true(fabs((double)values[0][i] - sum) <= size * size * 0x1p-24);
            }
            for (int rank = 1; rank < size; rank++)
                assert_memory_equal(values[0], values[rank], (size_t)counts[c] * sizeof(float));
        }
    }
}

TEST(ring) {
    sums_are_equal_everywhere("ring");
}

TEST(recursive_doubling) {
    sums_are_equal_everywhere("recursive-doubling");
}

/* The formulas of the cost model: messages in series, and their lengths. */
TEST(numbers_of_messages) {
    const qs__algorithm *one = qs__algorithm_named("ring"), *two = qs__algorithm_named("recursive-doubling");
    static const int doubling[] = {[2] = 1, [3] = 3, [4] = 2, [5] = 4, [7] = 4, [8] = 3, [9] = 5, [16] = 4, [17] = 6};
    for (int size = 2; size <= MOST; size++) {
        assert_int_equal(one->rounds(size), 2 * (size - 1));
        if (doubling[size]) assert_int_equal(two->rounds(size), doubling[size]);
        for (int index = 0; index < one->rounds(size); index++)
            assert_int_equal(one->at(size, size / 2, 3 * (int64_t)size, index).send_count, 3);
    }
    assert_int_equal(two->at(6, 5, 1000, 1).send_count, 1000);
    /* Chunks of messages near 2^63 elements do not overflow. */
    const qs__round last = one->at(7, 0, INT64_MAX, 5);
    assert_true(last.send_first >= 0 && last.send_count >= INT64_MAX / 7 && last.send_first <= INT64_MAX - last.send_count);
}

TEST(names) {
    assert_null(qs__algorithm_named("tree"));
    assert_string_equal(qs_comm_algorithm_at(0), "shared");
    assert_string_equal(qs_comm_algorithm_at(3), "recursive-doubling");
    assert_string_equal(qs_comm_algorithm_at(4), "devices");
    assert_true(qs_comm_by_devices("devices") && !qs_comm_by_devices("shared") && !qs_comm_by_devices("unknown"));
    assert_null(qs_comm_algorithm_at(5));
}

/* Ranks dealt out to hosts in turn are taken host by host. */
TEST(order_of_hosts) {
    int host[] = {0, 1, 0, 1, 2};
    qs_comm one = {.rank = 2, .size = 5, .host = host};
    assert_ok(qs__comm_order(&one));
    static const int order[] = {0, 2, 1, 3, 4};
    for (int position = 0; position < 5; position++)
        assert_int_equal(qs__comm_rank_at(&one, position), order[position]);
    assert_int_equal(one.position, 1);
    assert_int_equal(qs_comm_hosts(&one), 3);
    assert_int_equal(qs_comm_local_rank(&one), 1);
    assert_int_equal(qs_comm_local_size(&one), 2);
    free(one.order);
}

/* What predictions are told is what is sent: as many rounds, to these ranks, of so large a share. */
TEST(facts_are_those_of_the_rounds) {
    static const char *const names[] = {"ring", "recursive-doubling"};
    for (int n = 0; n < 2; n++)
        for (int size = 2; size <= MOST; size++) {
            const qs__algorithm *algorithm = qs__algorithm_named(names[n]);
            const qs_comm_facts facts = qs_comm_all_reduce_facts(names[n], "fp32", size);
            const int64_t count = 16 * (int64_t)size;
            assert_int_equal(facts.messages, algorithm->rounds(size));
            assert_true(facts.by_host && !facts.shared && facts.alike == (n == 0));
            for (int index = 0; index < facts.messages; index++)
                for (int position = 0; position < size; position++) {
                    const qs__round round = algorithm->at(size, position, count, index);
                    assert_int_equal(qs_comm_all_reduce_peer(names[n], size, position, index), round.send_to);
                    if (round.send_count > 0) assert_true((double)round.send_count == (double)count / facts.share);
                }
        }
}

/* A rank receives (n - 1) w bytes a value where all send all, else (w + 4) (n - 1) / n (comm.h), where fp32 takes 8 (n - 1) / n. */
TEST(facts_of_compressed_wires) {
    for (int size = 2; size <= MOST; size++) {
        const qs_comm_facts plain = qs_comm_all_reduce_facts("library", "fp32", size),
                            bf16 = qs_comm_all_reduce_facts("library", "bf16", size);
        assert_true(!plain.by_host && plain.messages / plain.share * 4 == 8.0 * (size - 1) / size);
        const double bytes = bf16.messages / bf16.share * 4, all = 2.0 * (size - 1), parts = 6.0 * (size - 1) / size;
        assert_true(fabs(bytes - (size < 4 ? all : parts)) < 1e-12 * bytes);
        assert_true(qs_comm_all_reduce_facts("shared", "int8", size).shared);
    }
}

TEST_MAIN(ring, recursive_doubling, numbers_of_messages, names, order_of_hosts, facts_are_those_of_the_rounds, facts_of_compressed_wires)
