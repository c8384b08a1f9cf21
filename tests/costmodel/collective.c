// SPDX-License-Identifier: Apache-2.0
/* Costs of all-reduces: rows as they were measured, the algorithms' formulas for other ranks and hosts, and what is missing. Rows are made
 * from a latency and a pace of one message, so what the formulas must give is known. */
#include "kit/kit.h"
#include "qsync/costmodel.h"

/* One message of x bytes: within a host, between hosts. */
static double local_message(double x) {
    return 3 + 1e-4 * x;
}
static double network_message(double x) {
    return 500 + 8e-3 * x;
}

static int doubling_messages(int ranks) {
    const int rounds = (int)ceil(log2(ranks));
    return exp2(rounds) == ranks ? rounds : rounds + 1;
}

/* A row over one kind of link. */
static qs_collective_cost row(const char *algorithm, int ranks, int hosts) {
    const bool doubling = strcmp(algorithm, "recursive-doubling") == 0;
    const double count = doubling ? doubling_messages(ranks) : 2 * (ranks - 1), share = doubling ? 1 : ranks;
    const double at_0 = hosts > 1 ? network_message(0) : local_message(0), slope = hosts > 1 ? 8e-3 : 1e-4;
    qs_collective_cost one = {.ranks = ranks, .hosts = hosts, .alpha_us = count * at_0, .us_per_byte = count * slope / share};
    one.cpu_share = hosts > 1 ? 0.2 : 0.6;
    snprintf(one.algorithm, sizeof one.algorithm, "%s", algorithm);
    snprintf(one.link, sizeof one.link, "%s", hosts > 1 ? "network" : "shared-memory");
    return one;
}

/* Ranks dealt to hosts, `each` of them to one. */
static const int *deal(int ranks, int each) {
    static int host[64];
    for (int rank = 0; rank < ranks; rank++)
        host[rank] = rank / each;
    return host;
}

static qs_all_reduce_cost cost(const qs_profile *profile, const char *algorithm, int ranks, const int *host, int64_t bytes) {
    qs_all_reduce_cost out;
    assert_ok(qs_cost_all_reduce_on(profile, &(qs_all_reduce){algorithm, ranks, host, NULL, NULL}, bytes, &out));
    return out;
}

/* Sums of products in another order: a few roundings. */
static void close_to(double got, double expected) {
    if (!(fabs(got - expected) <= 1e-12 * expected)) fail_msg("%.17g, expected %.17g", got, expected);
}

static qs_collective_cost measured[] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}};
static const qs_profile pairs = {.collectives = 6, .collective = measured};

static int setup(void **state) {
    (void)state;
    measured[0] = row("ring", 2, 1);
    measured[1] = row("ring", 2, 2);
    measured[2] = row("recursive-doubling", 2, 1);
    measured[3] = row("recursive-doubling", 2, 2);
    measured[4] = row("library", 2, 1);
    measured[5] = row("library", 2, 2);
    return 0;
}

TEST(rows_are_taken_as_they_are) {
    for (int64_t bytes = 0; bytes < 1 << 24; bytes = bytes * 3 + 1000) {
        const qs_all_reduce_cost local = cost(&pairs, "ring", 2, NULL, bytes);
        close_to(local.us, 2 * local_message((double)bytes / 2));
        assert_true(!local.extrapolated && local.from_ranks == 2 && local.from_hosts == 1 && local.cpu_share == 0.6);
        const qs_all_reduce_cost apart = cost(&pairs, "recursive-doubling", 2, deal(2, 1), bytes);
        close_to(apart.us, network_message((double)bytes));
        assert_true(!apart.extrapolated && apart.from_ranks == 2 && apart.from_hosts == 2 && apart.cpu_share == 0.2);
    }
}

TEST(one_rank_costs_nothing) {
    const qs_profile none = {0};
    const qs_all_reduce_cost got = cost(&none, "ring", 1, NULL, 1 << 20);
    assert_true(got.us == 0 && got.cpu_share == 0 && !got.extrapolated);
}

/* On one host: 2 (n - 1) messages of bytes / n; ceil(log2 n) of bytes, one more where n is no power of two. */
TEST(formulas_on_one_host) {
    static const int64_t bytes[] = {0, 4, 1000, 1 << 20};
    for (int ranks = 3; ranks <= 33; ranks++) {
        for (size_t i = 0; i < COUNT_OF(bytes); i++) {
            const double b = (double)bytes[i];
            const qs_all_reduce_cost ring = cost(&pairs, "ring", ranks, NULL, bytes[i]);
            close_to(ring.us, 2 * (ranks - 1) * local_message(b / ranks));
            close_to(cost(&pairs, "recursive-doubling", ranks, NULL, bytes[i]).us, doubling_messages(ranks) * local_message(b));
            close_to(cost(&pairs, "library", ranks, NULL, bytes[i]).us, ring.us);
            assert_true(ring.extrapolated && ring.from_ranks == 2 && ring.from_hosts == 1);
        }
    }
}

/* Profiled with pairs, wanted with 16 ranks on each of two hosts: the network sets the ring's pace; of doubling's five rounds four stay on
 * the host, and in the fifth 16 messages share the network. */
TEST(sixteen_on_each_of_two_hosts) {
    const int64_t bytes = 1 << 22;
    const double b = (double)bytes;
    const qs_all_reduce_cost ring = cost(&pairs, "ring", 32, deal(32, 16), bytes);
    close_to(ring.us, 62 * network_message(b / 32));
    assert_true(ring.extrapolated && ring.from_ranks == 2 && ring.from_hosts == 2 && ring.cpu_share == 0.2);
    const qs_all_reduce_cost doubling = cost(&pairs, "recursive-doubling", 32, deal(32, 16), bytes);
    close_to(doubling.us, 4 * local_message(b) + network_message(16 * b));
    assert_true(doubling.extrapolated && doubling.cpu_share == 0.2);
    /* One rank a host: no message shares anything. */
    close_to(cost(&pairs, "recursive-doubling", 32, deal(32, 1), bytes).us, 5 * network_message(b));
    /* 3 + 3: of the odd positions 1 and 3, the latter folds into the other host, before and after; 0 2 4 5 first meet within their hosts,
     * then two pairs across. */
    const double mixed = cost(&pairs, "recursive-doubling", 6, deal(6, 3), bytes).us;
    close_to(mixed, 2 * network_message(b) + local_message(b) + network_message(2 * b));
}

/* qsync's own algorithms go host by host, so it does not matter how ranks are dealt; a library goes in order of ranks. */
TEST(ranks_dealt_in_turn) {
    static const int turns[] = {0, 1, 0, 1, 0, 1, 0, 1};
    const int64_t bytes = 80000;
    for (int i = 0; i < 2; i++) {
        const char *algorithm = measured[2 * i].algorithm;
        close_to(cost(&pairs, algorithm, 8, turns, bytes).us, cost(&pairs, algorithm, 8, deal(8, 4), bytes).us);
    }
    close_to(cost(&pairs, "library", 8, turns, bytes).us, 14 * network_message(4 * 10000.0));
    close_to(cost(&pairs, "library", 8, deal(8, 4), bytes).us, 14 * network_message(10000.0));
}

/* More rows of one link: every one has its say; equal messages are found again, and the row with most of them weighs most. */
TEST(several_rows) {
    qs_collective_cost rows[] = {row("ring", 2, 1), row("ring", 4, 1)};
    const qs_profile profile = {.collectives = 2, .collective = rows};
    const qs_all_reduce_cost even = cost(&profile, "ring", 8, NULL, 1 << 20);
    close_to(even.us, 14 * local_message((1 << 20) / 8.0));
    assert_true(even.from_ranks == 4);
    rows[1].alpha_us *= 2;
    rows[1].us_per_byte *= 2;
    /* Messages of m and 2 m behind 2 and 6 of them: (2·2 + 6·12) / (4 + 36) = 1.9. */
    close_to(cost(&profile, "ring", 8, NULL, 1 << 20).us, 1.9 * even.us);
    /* A mixture of rounds is no one message's time, but it is the time of its own ranks and hosts. */
    qs_collective_cost mixed[] = {row("recursive-doubling", 2, 1), row("recursive-doubling", 2, 2), row("recursive-doubling", 4, 2)};
    const qs_profile with = {.collectives = 3, .collective = mixed};
    mixed[2].alpha_us = 12345;
    close_to(cost(&with, "recursive-doubling", 4, deal(4, 2), 0).us, 12345);
    close_to(cost(&with, "recursive-doubling", 4, deal(4, 1), 0).us, 2 * network_message(0));
}

/* Where the lines of a row bend, messages of the row are compared with messages of the same size. */
TEST(bends_follow_the_message) {
    qs_collective_cost one = row("ring", 2, 1);
    one.pieces = 2;
    one.piece[0] = (qs_message_piece){2 * 65536, 0, 2 * 10};
    one.piece[1] = (qs_message_piece){1 << 24, 0, 2 * 30};
    const qs_profile profile = {.collectives = 1, .collective = &one};
    close_to(cost(&profile, "ring", 2, NULL, 2 * 65536).us, 20);
    close_to(cost(&profile, "ring", 2, NULL, 2 * 65536 + 1).us, 60);
    close_to(cost(&profile, "ring", 8, NULL, 8 * 65536).us, 14 * 10);
    close_to(cost(&profile, "ring", 8, NULL, 8 * 65536 + 8).us, 14 * 30);
}

TEST(what_is_not_known_is_an_error) {
    const qs_profile none = {0}, local = {.collectives = 1, .collective = measured}, apart = {.collectives = 1, .collective = &measured[1]};
    qs_all_reduce_cost out;
    assert_refused(qs_cost_all_reduce_on(&none, &(qs_all_reduce){.ranks = 2}, 1, &out), QS_MISMATCH, "it has no all-reduce");
    assert_refused(qs_cost_all_reduce_on(&local, &(qs_all_reduce){"ring", 4, deal(4, 2), NULL, NULL}, 1, &out), QS_MISMATCH,
                   "\"ring\" over network");
    assert_message("it has ring of 2 ranks on 1 host)");
    assert_refused(qs_cost_all_reduce_on(&apart, &(qs_all_reduce){"ring", 4, deal(4, 2), NULL, NULL}, 1, &out), QS_MISMATCH,
                   "\"ring\" over shared-memory");
    assert_refused(qs_cost_all_reduce_on(&local, &(qs_all_reduce){"recursive-doubling", 2, NULL, NULL, NULL}, 1, &out), QS_MISMATCH,
                   "\"recursive-doubling\" over shared-memory");
    assert_ok(qs_cost_all_reduce_on(&pairs, &(qs_all_reduce){"ring", 4, deal(4, 1), "carrier-pigeon", NULL}, 1, &out));
    snprintf(measured[1].link, sizeof measured[1].link, "infiniband");
    assert_refused(qs_cost_all_reduce_on(&pairs, &(qs_all_reduce){"ring", 4, deal(4, 1), "carrier-pigeon", NULL}, 1, &out), QS_MISMATCH,
                   "over carrier-pigeon");
    snprintf(measured[1].link, sizeof measured[1].link, "network");
}

/* Two ranks on a host make 5 accesses to memory a byte, four 7; from five on 5 + 1/n. */
TEST(shared_memory) {
    const double pace = 1e-4;
    qs_collective_cost rows[4] = {{.ranks = 2, .algorithm = "shared", .alpha_us = 3, .us_per_byte = 5 * pace, .cpu_share = 1},
                                  row("ring", 2, 2)};
    qs_profile profile = {.collectives = 2, .collective = rows};
    const int64_t bytes = 1 << 22;
    const double b = (double)bytes;
    close_to(cost(&profile, "shared", 2, NULL, bytes).us, 3 + 5 * pace * b);
    for (int ranks = 3; ranks < 40; ranks++) {
        const qs_all_reduce_cost got = cost(&profile, "shared", ranks, NULL, bytes);
        close_to(got.us, 3 + (ranks <= 4 ? ranks + 3 : 5 + 1.0 / ranks) * pace * b);
        assert_true(got.cpu_share == 1 && got.extrapolated && got.from_ranks == 2 && got.from_hosts == 1);
    }
    /* Three on each of two hosts, dealt in turn: three add up and spread, one of each host meets the other. */
    static const int turns[] = {0, 1, 0, 1, 0, 1};
    const qs_all_reduce_cost apart = cost(&profile, "shared", 6, turns, bytes);
    const double local = 3 + 10 * pace * b, network = 2 * network_message(b / 2);
    close_to(apart.us, local + network);
    close_to(apart.cpu_share, (local + 0.2 * network) / (local + network));
    assert_true(apart.from_hosts == 2);
    /* One rank a host: the ring alone; by its own rows where there are some. */
    close_to(cost(&profile, "shared", 4, deal(4, 1), bytes).us, 6 * network_message(b / 4));
    rows[2] = row("ring", 2, 2);
    strcpy(rows[2].algorithm, "shared");
    rows[2].alpha_us *= 2;
    profile.collectives = 3;
    close_to(cost(&profile, "shared", 4, deal(4, 1), 0).us, 6 * 2 * network_message(0));
    /* Two rows of one host that agree, and then one of 4 ranks at twice the pace: (5·5 + 7·14) / (25 + 49). */
    rows[3] = (qs_collective_cost){.ranks = 4, .algorithm = "shared", .alpha_us = 5, .us_per_byte = 7 * pace, .cpu_share = 1};
    profile.collectives = 4;
    close_to(cost(&profile, "shared", 3, NULL, bytes).us, 4 + 6 * pace * b);
    rows[3].us_per_byte *= 2;
    close_to(cost(&profile, "shared", 3, NULL, bytes).us, 4 + 6 * pace * b * 123 / 74);
}

TEST(what_shared_memory_lacks) {
    qs_collective_cost rows[] = {{.ranks = 2, .algorithm = "shared", .us_per_byte = 1}, row("ring", 2, 2)};
    const qs_profile local = {.collectives = 1, .collective = rows}, apart = {.collectives = 1, .collective = &rows[1]};
    qs_all_reduce_cost out;
    assert_refused(qs_cost_all_reduce_on(&local, &(qs_all_reduce){"shared", 4, deal(4, 2), NULL, NULL}, 1, &out), QS_MISMATCH,
                   "\"shared\" over network");
    assert_refused(qs_cost_all_reduce_on(&apart, &(qs_all_reduce){"shared", 4, deal(4, 2), NULL, NULL}, 1, &out), QS_MISMATCH,
                   "\"shared\" over shared-memory");
}

/* Narrow wires have rows of their own; of `library` a message is all packed bytes to each of few ranks, else half the packed and half the
 * fp32 bytes of a part, which is two rounds of n - 1 messages on average. */
TEST(narrow_wires) {
    const double w = 0.25 + 1 / 1024.0, at = 1 << 20; /* int8: a code, and four bytes of step in 1024 values */
    qs_collective_cost rows[] = {row("library", 2, 1),
                                 row("library", 2, 1),
                                 row("library", 2, 2),
                                 {.ranks = 2, .algorithm = "shared", .wire = "bf16", .alpha_us = 3, .us_per_byte = 5e-5, .cpu_share = 1}};
    const qs_profile profile = {.collectives = 4, .collective = rows};
    rows[0].us_per_byte = 1;
    for (int i = 1; i < 3; i++) { /* two ranks: one message each way */
        snprintf(rows[i].wire, sizeof rows[i].wire, "int8");
        rows[i].alpha_us /= 2;
        rows[i].us_per_byte = i == 1 ? 1e-4 * w : 8e-3 * w;
    }
    qs_all_reduce what = {"library", 2, NULL, NULL, "int8"};
    qs_all_reduce_cost got;
    for (int ranks = 2; ranks <= 16; ranks++) {
        what.ranks = ranks;
        assert_ok(qs_cost_all_reduce_on(&profile, &what, (int64_t)at, &got));
        const bool all = ranks <= 4; /* n w <= w + 1 */
        close_to(got.us, all ? (ranks - 1) * local_message(at * w) : 2 * (ranks - 1) * local_message(at * (w + 1) / 2 / ranks));
        assert_true(got.extrapolated == (ranks > 2));
    }
    /* One packed message between the leaders of two hosts; in bf16 nothing is known of the network. */
    what = (qs_all_reduce){"shared", 2, deal(2, 1), NULL, "int8"};
    assert_ok(qs_cost_all_reduce_on(&profile, &what, (int64_t)at, &got));
    close_to(got.us, network_message(at * w));
    what.wire = "bf16";
    assert_refused(qs_cost_all_reduce_on(&profile, &what, 1, &got), QS_MISMATCH, "\"shared\" in bf16 over network");
    assert_message("--all-reduce shared --wire bf16");
    what.host = NULL;
    assert_ok(qs_cost_all_reduce_on(&profile, &what, (int64_t)at, &got));
    close_to(got.us, 3 + 5e-5 * at);
    what.wire = "fp32";
    assert_refused(qs_cost_all_reduce_on(&profile, &what, 1, &got), QS_MISMATCH, "shared in bf16 of 2 ranks");
}

/* By the row of the same ranks; windows grow with the ranks of a host, what is allocated for a message with the message. */
TEST(memory) {
    qs_collective_cost rows[] = {{.ranks = 2, .algorithm = "shared", .window_bytes = 4000},
                                 {.ranks = 4, .hosts = 2, .algorithm = "shared", .window_bytes = 4000, .temporary_per_byte = 0.5},
                                 {.ranks = 2, .algorithm = "library", .temporary_per_byte = 1}};
    const qs_profile profile = {.collectives = 3, .collective = rows};
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){.ranks = 1}, 100), 0);
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){.ranks = 2}, 100), 4000);
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){.ranks = 6}, 100), 12000);
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){"shared", 4, deal(4, 2), NULL, NULL}, 100), 4050);
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){"library", 3, NULL, NULL, NULL}, 100), 100);
    assert_int_equal(qs_cost_all_reduce_memory(&profile, &(qs_all_reduce){"ring", 3, NULL, NULL, NULL}, 100), 0);
}

/* Without a word on algorithm and hosts: the first row's, one host; rows that say nothing of hosts are of one. */
TEST(one_host_in_short) {
    qs_collective_cost rows[] = {{.ranks = 1, .alpha_us = 99}, {.ranks = 4, .alpha_us = 30, .us_per_byte = 1e-3, .cpu_share = 0.25}};
    const qs_profile one = {.collectives = 2, .collective = rows};
    double us = -1, share = -1;
    assert_ok(qs_cost_all_reduce(&one, 1, 1 << 20, &us, &share));
    assert_true(us == 0 && share == 0);
    assert_ok(qs_cost_all_reduce(&one, 4, 1000, &us, &share));
    close_to(us, 31);
    assert_true(share == 0.25);
    /* From 4 ranks to 7: latency times 6/3, bytes times (6/7)/(3/4). */
    assert_ok(qs_cost_all_reduce(&one, 7, 2000, &us, &share));
    close_to(us, 60 + 2 * (6.0 / 7) / 0.75);
}

TEST_MAIN_WITH(setup, NULL, rows_are_taken_as_they_are, one_rank_costs_nothing, formulas_on_one_host, sixteen_on_each_of_two_hosts,
               ranks_dealt_in_turn, several_rows, bends_follow_the_message, what_is_not_known_is_an_error, shared_memory,
               what_shared_memory_lacks, narrow_wires, memory, one_host_in_short)
