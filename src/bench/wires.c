// SPDX-License-Identifier: Apache-2.0
/* qsync-bench wires: what all-reduces on compressed wires take beside fp32: by turns, so that a machine that drifts drifts under all of
 * them alike. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>

#include "qsync/comm.h"

enum { CACHES = 64 << 20, WIRES = 3, ALGORITHMS = 2 }; /* CACHES: bytes whose writing turns others out of the caches of most machines */
static const char *const algorithms[ALGORITHMS] = {"shared", "library"};

typedef struct wires {
    qs_comm *comm;
    int64_t count;                      /* values of a message */
    qs_arena values, residuals, others; /* others: CACHES bytes */
    double us[ALGORITHMS][WIRES];       /* the least of all rounds */
} wires;

/* The same values each time, whatever the sums before made of them. */
static void values_fill(float *values, int64_t count, int rank) {
    const uint64_t key = qs_random_key(1, (uint64_t)rank, 0, 0);
    for (int64_t i = 0; i < count; i++)
        values[i] = i < 4096 ? qs_random_normal(key, (uint64_t)i) : values[i - 4096];
}

static qs_status one_run(wires *one, int algorithm, int wire) {
    const char *name = qs_comm_wire_at((size_t)wire);
    float *values = one->values.memory;
    double stamp[2];
    qs_request *request;
    values_fill(values, one->count, qs_comm_rank(one->comm));
    values_fill(one->others.memory, CACHES / 4, 0); /* the message and its residuals leave the caches */
    QS_TRY(qs_comm_algorithm_set(one->comm, algorithms[algorithm]));
    QS_TRY(qs_comm_barrier(one->comm));
    stamp[0] = qs_clock();
    QS_TRY(qs_comm_all_reduce_wire_start(one->comm, name, values, one->residuals.memory, 1, one->count, &request));
    QS_TRY(qs_comm_wait(one->comm, request));
    stamp[1] = qs_clock();
    QS_TRY(qs_comm_max(one->comm, stamp, 2));
    one->us[algorithm][wire] = fmin(one->us[algorithm][wire], (stamp[1] - stamp[0]) * 1e6);
    return QS_OK;
}

static qs_status rounds_run(wires *one, int rounds) {
    for (int a = 0; a < ALGORITHMS; a++)
        for (int w = 0; w < WIRES; w++)
            one->us[a][w] = INFINITY;
    for (int round = 0; round < rounds; round++)
        for (int a = 0; a < ALGORITHMS; a++)
            for (int w = 0; w < WIRES; w++)
                QS_TRY(one_run(one, a, w));
    return QS_OK;
}

static qs_status wires_tell(const wires *one, bool json) {
    const json_int_t bytes = 4 * one->count;
    json_t *all = json_object();
    for (int a = 0; a < ALGORITHMS; a++) {
        json_t *of = json_object();
        json_object_set_new(all, algorithms[a], of);
        for (int w = 0; w < WIRES; w++) {
            const double us = one->us[a][w], share = us / one->us[a][0];
            const char *wire = qs_comm_wire_at((size_t)w);
            json_object_set_new(of, wire, json_pack("{s:f,s:f}", "us", us, "of_fp32", share));
            if (!json) printf("%-8s %-5s %10s   %.2f of fp32\n", algorithms[a], wire, time_text(us), share);
        }
    }
    if (json) return json_print(json_pack("{s:I,s:i,s:o}", "bytes", bytes, "ranks", qs_comm_size(one->comm), "algorithms", all));
    json_decref(all);
    return QS_OK;
}

static qs_status wires_bench(wires *one, int rounds, bool json) {
    if (qs_comm_size(one->comm) == 1) return qs_fail(QS_USAGE, "one rank moves nothing: start it with mpirun -n 2");
    QS_TRY(qs_arena_reserve((size_t)one->count * 4, &one->values));
    QS_TRY(qs_arena_reserve((size_t)one->count * 4, &one->residuals));
    QS_TRY(qs_arena_reserve(CACHES, &one->others));
    QS_TRY(rounds_run(one, rounds));
    return qs_comm_rank(one->comm) == 0 ? wires_tell(one, json) : QS_OK;
}

typedef struct request {
    int64_t bytes;
    int rounds;
    bool json;
} request;

static const option_row option_rows[] = {
    {OPTION(request, bytes, "message-bytes", "N", "gradients summed, in fp32"), .standard = "11534336", .minimum = 4},
    {OPTION_ROUNDS(request, 12, "sums on each wire")},
    {OPTION_JSON(request)},
};

qs_status bench_wires(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "wires",
        .arguments = "",
        .purpose =
            "Sums of gradients among the ranks of mpirun, on every wire, through shared memory and by the library, by turns, from values "
            "and\n"
            "residuals that have left the caches. From the start of the last rank to the end of the last; of each the least time counts.",
        .examples = "  mpirun -n 2 qsync-bench wires --message-bytes 1048576 --rounds 40\n"};
    request asked = {0};
    bool done = false;
    option_table table = {0};
    wires *one = NULL;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    if (asked.bytes % 4)
        return qs_fail(QS_USAGE, "--message-bytes %lld: no whole number of fp32 values; give a multiple of 4", (long long)asked.bytes);
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    one->count = asked.bytes / 4;
    qs_status status = qs_comm_open(NULL, &one->comm);
    if (status == QS_OK) status = wires_bench(one, asked.rounds, asked.json);
    qs_arena_release(&one->values);
    qs_arena_release(&one->residuals);
    qs_arena_release(&one->others);
    qs_comm_close(one->comm);
    free(one);
    return status;
}
