// SPDX-License-Identifier: Apache-2.0
/* Compressed wires among any number of ranks; run by wire.c (2), wire_four_ranks.c and wire_six_ranks.c: as few as send all to all, and as
 * many as take parts. */
#ifndef QSYNC_TESTS_COMM_WIRE_H
#define QSYNC_TESTS_COMM_WIRE_H

#include "comm_test.h"

enum { BLOCK = 1024 };
static const char *const compressed_wires[] = {"bf16", "int8"};
static const char *wire; /* under test */

/* ---- What is promised, value by value ---------------------------------------------------------------------------------------------- */

static float bf16_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static void int8_of(const float *values, int64_t count, float *sent) {
    float absmax = 0;
    for (int64_t i = 0; i < count; i++)
        absmax = fmaxf(absmax, fabsf(values[i]));
    const float step = absmax > 0 ? absmax / 127 : 1, inverse = 1 / step;
    for (int64_t i = 0; i < count; i++)
        sent[i] = (float)(int)rintf(fminf(fmaxf(values[i] * inverse, -127), 127)) * step; /* codes have no -0 */
}

static void sent_of(const float *values, int64_t count, float *sent) {
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t length = count - at < BLOCK ? count - at : BLOCK;
        if (strcmp(wire, "int8") == 0) int8_of(values + at, length, sent + at);
        for (int64_t i = at; i < at + length && strcmp(wire, "bf16") == 0; i++)
            sent[i] = bf16_of(values[i]);
    }
}

/* Sums of `steps` messages of the same values, all ranks played here, into the last sums and this rank's last residuals. */
static void sums_of(int64_t count, int steps, float *sums, float *residual) {
    const int size = qs_comm_size(comm);
    float *wanted = calloc((size_t)count, sizeof *wanted), *sent = calloc((size_t)count, sizeof *sent);
    float *residuals = calloc((size_t)(count * size), sizeof *residuals);
    for (int step = 0; step < steps; step++) {
        for (int rank = 0; rank < size; rank++) {
            float *own = residuals + rank * count;
            for (int64_t i = 0; i < count; i++)
                wanted[i] = value_of(rank, i) + own[i];
            sent_of(wanted, count, sent);
            for (int64_t i = 0; i < count; i++) {
                own[i] = wanted[i] - sent[i];
                sums[i] = rank == 0 ? sent[i] : sums[i] + sent[i];
            }
        }
    }
    memcpy(residual, residuals + qs_comm_rank(comm) * count, (size_t)count * sizeof *residual);
    free(wanted);
    free(sent);
    free(residuals);
}

static qs_status reduce(float *values, float *residual, float unit, int64_t count) {
    qs_request *request;
    const qs_status status = qs_comm_all_reduce_wire_start(comm, wire, values, residual, unit, count, &request);
    return status == QS_OK ? qs_comm_wait(comm, request) : status;
}

/* ---- Sums
 * ------------------------------------------------------------------------------------------------------------------------------ */

/* Every bit, of sums and of what is left for the next time, after three messages. */
static void as_defined(void) {
    static const int64_t counts[] = {1, 1000, 1025, 20000, 150001};
    for (size_t c = 0; c < COUNT_OF(counts); c++) {
        if (qs__comm_piece < counts[c] && counts[c] > 30000) continue; /* short pieces of short messages tell as much */
        const int64_t count = counts[c];
        const size_t bytes = (size_t)count * sizeof(float);
        float *sums = calloc(1, bytes), *left = calloc(1, bytes), *residual = calloc(1, bytes);
        sums_of(count, 3, sums, left);
        for (int step = 0; step < 3; step++) {
            float *values = vector_of(qs_comm_rank(comm), count);
            assert_ok(reduce(values, residual, 1, count));
            expect_equal_everywhere(values, count);
            if (step == 2) assert_memory_equal(values, sums, bytes);
            free(values);
        }
        assert_memory_equal(residual, left, bytes);
        free(sums);
        free(left);
        free(residual);
    }
    assert_ok(reduce(NULL, NULL, 1, 0));
}

/* Messages longer than a piece are cut between blocks, so that they have the same bits. */
static void in_pieces(void) {
    const int64_t usual = qs__comm_piece;
    for (int64_t piece = 1000; piece <= 3000; piece += 2000) {
        qs__comm_piece = piece;
        as_defined();
    }
    qs__comm_piece = usual;
}

/* Polled and waited for crosswise beside others, among them fp32: the bits of one alone. */
static void beside_others(void) {
    enum { MESSAGES = 4, COUNT = 40000 };
    const size_t bytes = COUNT * sizeof(float);
    float *values[MESSAGES], *residual[MESSAGES], *alone = vector_of(qs_comm_rank(comm), COUNT), *left = calloc(1, bytes);
    qs_request *request[MESSAGES];
    assert_ok(reduce(alone, left, 1, COUNT));
    for (int i = 0; i < MESSAGES; i++) {
        values[i] = vector_of(qs_comm_rank(comm), COUNT);
        residual[i] = calloc(1, bytes);
        const char *here = i == 1 ? "fp32" : wire;
        assert_ok(qs_comm_all_reduce_wire_start(comm, here, values[i], residual[i], 1, COUNT, &request[i]));
        assert_ok(qs_comm_test(comm, request[0], NULL));
    }
    for (int i = 0; i < MESSAGES; i++)
        assert_ok(qs_comm_wait(comm, request[(i + qs_comm_rank(comm)) % MESSAGES]));
    for (int i = 0; i < MESSAGES; i++) {
        if (i == 1) {
            expect_sums(values[i], COUNT);
        } else {
            assert_memory_equal(values[i], alone, bytes);
            assert_memory_equal(residual[i], left, bytes);
        }
        free(values[i]);
        free(residual[i]);
    }
    free(alone);
    free(left);
}

/* The loss scale, a power of two, is taken off what is kept: residuals as without it, sums multiplied. */
static void with_unit(void) {
    enum { COUNT = 5000 };
    const float unit = 0x1p12f;
    float *plain = vector_of(qs_comm_rank(comm), COUNT), *scaled = vector_of(qs_comm_rank(comm), COUNT);
    float left[COUNT] = {0}, scaled_left[COUNT] = {0};
    for (int step = 0; step < 2; step++) {
        for (int64_t i = 0; i < COUNT; i++) {
            plain[i] = value_of(qs_comm_rank(comm), i);
            scaled[i] = plain[i] * unit;
        }
        assert_ok(reduce(plain, left, 1, COUNT));
        assert_ok(reduce(scaled, scaled_left, unit, COUNT));
    }
    for (int64_t i = 0; i < COUNT; i++)
        assert_true(scaled[i] == plain[i] * unit && scaled_left[i] == left[i]);
    free(plain);
    free(scaled);
}

/* A value that is not finite on the last rank: all ranks see it, none keeps anything of it, and the next message is as if nothing were. */
static void not_finite(void) {
    enum { COUNT = 3 * BLOCK, BAD = BLOCK + 77 };
    const float bad[] = {NAN, INFINITY, -INFINITY};
    const int last = qs_comm_size(comm) - 1;
    for (size_t b = 0; b < COUNT_OF(bad); b++) {
        float *values = vector_of(qs_comm_rank(comm), COUNT), residual[COUNT];
        for (int64_t i = 0; i < COUNT; i++)
            residual[i] = 0x1p-20f;
        if (qs_comm_rank(comm) == last) values[BAD] = bad[b];
        assert_ok(reduce(values, residual, 1, COUNT));
        expect_equal_everywhere(values, COUNT);
        assert_false(isfinite(values[BAD]));
        for (int64_t i = 0; i < COUNT; i++) {
            assert_true(isfinite(residual[i]));
            if (i / BLOCK != 1) assert_true(isfinite(values[i]));
        }
        if (qs_comm_rank(comm) == last) assert_true(residual[BAD] == 0x1p-20f);
        free(values);
    }
}

/* ---- Error feedback
 * --------------------------------------------------------------------------------------------------------------------- */

/* The largest |mean over `steps` of the sums - true sum| of values that stay, and the largest residual of any rank; with `forgets`
 * residuals are zeroed each time. */
static double bias_of(int64_t count, int steps, bool forgets, double *residual_most) {
    const size_t bytes = (size_t)count * sizeof(float);
    float *residual = calloc(1, bytes);
    double *mean = calloc((size_t)count, sizeof *mean), worst = 0;
    *residual_most = 0;
    for (int step = 0; step < steps; step++) {
        float *values = vector_of(qs_comm_rank(comm), count);
        if (forgets) memset(residual, 0, bytes);
        assert_ok(reduce(values, residual, 1, count));
        for (int64_t i = 0; i < count; i++)
            mean[i] += (double)values[i] / steps;
        free(values);
    }
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int rank = 0; rank < qs_comm_size(comm); rank++)
            sum += (double)value_of(rank, i);
        worst = fmax(worst, fabs(mean[i] - sum));
        *residual_most = fmax(*residual_most, fabs((double)residual[i]));
    }
    assert_ok(qs_comm_max(comm, residual_most, 1));
    free(residual);
    free(mean);
    return worst;
}

/* Sum over t of what rank k sent = T g_k - r_k(T) + the roundings of g + r, each at most 2^-24 of |g + r| < 2; n ranks, and n fp32
 * additions of partial sums below 2 n in every step (twice on several hosts, whose leaders add and send once more). Residuals stay below a
 * step of the wire: of int8 half of |g + r| / 127 < 1/127 (a leader's: of n values), of bf16 half of 2^-8 |g + r|. Without feedback all
 * steps err alike: among thousands of values one errs by nearly half a step of each rank, however many steps there are. */
static void mean_is_unbiased(void) {
    enum { COUNT = 3000, STEPS = 32 };
    const int size = qs_comm_size(comm), hosts = qs_comm_hosts(comm);
    double most, most_forgotten;
    const double bias = bias_of(COUNT, STEPS, false, &most), roundings = size * 2 * 0x1p-24 * (2.0 + 2 * size);
    if (!(bias <= size * most / STEPS + roundings)) fail_msg("%s: bias %g, residuals up to %g", wire, bias, most);
    assert_true(most <= (hosts > 1 ? 2.0 * size : 1) / 127);
    const double without = bias_of(COUNT, STEPS, true, &most_forgotten);
    if (!(without > 8 * bias)) fail_msg("%s: bias %g, without feedback %g", wire, bias, without);
}

/* ---- By algorithm
 * ------------------------------------------------------------------------------------------------------------------------ */

static void with_every_wire(void (*test)(void)) {
    for (size_t w = 0; w < COUNT_OF(compressed_wires); w++) {
        wire = compressed_wires[w];
        test();
    }
}

static void every_test(void) {
    with_every_wire(as_defined);
    with_every_wire(in_pieces);
    with_every_wire(beside_others);
    with_every_wire(with_unit);
    with_every_wire(not_finite);
    with_every_wire(mean_is_unbiased);
}

static void by_library(void **state) {
    (void)state;
    assert_ok(qs_comm_algorithm_set(comm, "library"));
    every_test();
}

/* Each rank for itself, and additions shared out. */
static void through_the_window(void **state) {
    (void)state;
    const int usual = qs__comm_direct_most;
    assert_ok(qs_comm_algorithm_set(comm, "shared"));
    for (int most = 1; most <= 100; most += 99) {
        qs__comm_direct_most = most;
        every_test();
    }
    qs__comm_direct_most = usual;
    assert_ok(qs_comm_algorithm_set(comm, "library"));
}

static void of_hosts(void) {
    with_every_wire(beside_others);
    with_every_wire(with_unit);
    with_every_wire(not_finite);
    with_every_wire(mean_is_unbiased);
}

/* Hosts of one rank and of two, as if the machine were several. */
static void through_windows_of_hosts(void **state) {
    (void)state;
    qs_comm *all = comm, *hosts;
    const int usual = qs__comm_direct_most;
    for (int ranks = 1; ranks <= 2; ranks++) {
        qs__comm_ranks_per_host = ranks;
        assert_ok(qs_comm_split(all, 0, &hosts));
        assert_ok(qs_comm_algorithm_set(hosts, "shared"));
        comm = hosts;
        for (qs__comm_direct_most = 1; qs__comm_direct_most <= 100; qs__comm_direct_most += 99)
            of_hosts();
        qs__comm_direct_most = usual;
        comm = all;
        qs_comm_close(hosts);
        qs__comm_ranks_per_host = 0;
    }
}

/* fp32 by this door is fp32 by the other. */
static void fp32_is_as_ever(void **state) {
    (void)state;
    enum { COUNT = 100001 };
    for (size_t a = 0; qs_comm_algorithm_at(a); a++) {
        assert_ok(qs_comm_algorithm_set(comm, qs_comm_algorithm_at(a)));
        float *values = vector_of(qs_comm_rank(comm), COUNT), *same = vector_of(qs_comm_rank(comm), COUNT);
        wire = "fp32";
        assert_ok(qs_comm_all_reduce(comm, values, COUNT));
        assert_ok(reduce(same, NULL, 1, COUNT));
        assert_memory_equal(values, same, COUNT * sizeof *same);
        expect_sums(values, COUNT);
        free(values);
        free(same);
    }
    assert_ok(qs_comm_algorithm_set(comm, "library"));
}

static void what_is_refused(void **state) {
    (void)state;
    float value = 1, residual = 0;
    wire = "int4";
    assert_refused(reduce(&value, &residual, 1, 1), QS_UNSUPPORTED, "wire int4: there are fp32, bf16, int8");
    wire = "int8";
    assert_int_equal(reduce(&value, &residual, 0, 1), QS_USAGE);
    assert_ok(qs_comm_wire_check("int8", "shared"));
    assert_ok(qs_comm_wire_check("fp32", "ring"));
    assert_int_equal(qs_comm_wire_check("bf16", "recursive-doubling"), QS_UNSUPPORTED);
    assert_ok(qs_comm_algorithm_set(comm, "ring"));
    assert_refused(reduce(&value, &residual, 1, 1), QS_UNSUPPORTED, "ring passes on partial sums");
    assert_ok(qs_comm_algorithm_set(comm, "library"));
    assert_true(value == 1 && residual == 0);
}

/* All packed messages where all send all; else one's own, and parts of whole blocks. */
static void memory(void **state) {
    (void)state;
    assert_int_equal(qs_comm_wire_memory("fp32", 4, 1024), 0);
    assert_int_equal(qs_comm_wire_memory("int8", 1, 1024), 0);
    assert_int_equal(qs_comm_wire_memory("int8", 4, 2000), 4 * 2008);
    assert_int_equal(qs_comm_wire_memory("bf16", 3, 2000), 3 * 4000);
    assert_int_equal(qs_comm_wire_memory("bf16", 4, 2000), 4000 + 2 * (2000 + 4 * 1024));
}

#define WIRE_TESTS                                                                                                  \
    cmocka_unit_test(by_library), cmocka_unit_test(through_the_window), cmocka_unit_test(through_windows_of_hosts), \
        cmocka_unit_test(fp32_is_as_ever), cmocka_unit_test(what_is_refused), cmocka_unit_test(memory)

#endif
