// SPDX-License-Identifier: Apache-2.0
/* qsync-bench wires: what all-reduces on compressed wires take beside fp32, by turns, so that a machine that drifts drifts under all of
 * them alike; and what a profile says that they take. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "qsync/comm.h"
#include "qsync/costmodel.h"

enum { CACHES = 64 << 20, WIRES = 3, ALGORITHMS = 2 }; /* CACHES: bytes whose writing turns others out of the caches of most machines */
static const char *const algorithms[ALGORITHMS] = {"shared", "library"};

typedef struct wires {
    qs_comm *comm;
    int64_t count;                      /* values of a message */
    qs_arena values, residuals, others; /* others: CACHES bytes */
    int first, past;                    /* algorithms */
    int rounds;
    double *us[ALGORITHMS][WIRES]; /* (rounds) */
    const qs_profile *profile;     /* NULL: none is asked */
} wires;

/* The same values each time, whatever the sums before made of them. */
static void values_fill(float *values, int64_t count, int rank) {
    const uint64_t key = qs_random_key(1, (uint64_t)rank, 0, 0);
    for (int64_t i = 0; i < count; i++)
        values[i] = i < 4096 ? qs_random_normal(key, (uint64_t)i) : values[i - 4096];
}

static qs_status one_run(wires *one, int algorithm, int wire, double *us) {
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
    *us = (stamp[1] - stamp[0]) * 1e6;
    return QS_OK;
}

static qs_status rounds_run(wires *one) {
    for (int a = one->first; a < one->past; a++)
        for (int w = 0; w < WIRES; w++)
            QS_TRY(qs_allocate((size_t)one->rounds, sizeof *one->us[a][w], &one->us[a][w]));
    for (int round = 0; round < one->rounds; round++)
        for (int a = one->first; a < one->past; a++)
            for (int w = 0; w < WIRES; w++)
                QS_TRY(one_run(one, a, w, &one->us[a][w][round]));
    return QS_OK;
}

/* What the profile says of these ranks; 0: it does not know. */
static qs_status predicted(const wires *one, int algorithm, int wire, double *us) {
    const int ranks = qs_comm_size(one->comm);
    qs_all_reduce what = {.algorithm = algorithms[algorithm], .ranks = ranks, .wire = qs_comm_wire_at((size_t)wire)};
    qs_all_reduce_cost cost = {0};
    int *host = NULL;
    *us = 0;
    if (!one->profile) return QS_OK;
    QS_TRY(qs_allocate((size_t)ranks, sizeof *host, &host));
    for (int rank = 0; rank < ranks; rank++)
        host[rank] = qs_comm_host_of(one->comm, rank);
    what.host = host;
    const qs_status status = qs_cost_all_reduce_on(one->profile, &what, 4 * one->count, &cost);
    free(host);
    if (status == QS_OK) *us = cost.us;
    return status == QS_MISMATCH ? QS_OK : status;
}

static qs_status wires_tell(const wires *one, bool json) {
    const json_int_t bytes = 4 * one->count;
    json_t *all = json_object();
    qs_status status = QS_OK;
    for (int a = one->first; a < one->past; a++) {
        json_t *of = json_object();
        double fp32_us = 0;
        json_object_set_new(all, algorithms[a], of);
        for (int w = 0; w < WIRES; w++) {
            const double middle = median(one->us[a][w], one->rounds); /* it sorts them */
            const double us = one->us[a][w][0];
            const char *wire = qs_comm_wire_at((size_t)w);
            double expected;
            if (w == 0) fp32_us = us;
            QS_GOTO(predicted(one, a, w, &expected));
            json_t *row = json_pack("{s:f,s:f,s:f}", "us", us, "of_fp32", us / fp32_us, "median_us", middle);
            if (expected > 0)
                json_object_update_new(row, json_pack("{s:f,s:f}", "predicted_us", expected, "predicted_of_measured", expected / middle));
            json_object_set_new(of, wire, row);
            if (json) continue;
            printf("%-8s %-5s %10s   %.2f of fp32, median %s", algorithms[a], wire, time_text(us), us / fp32_us, time_text(middle));
            if (expected > 0) printf(", predicted %s", time_text(expected));
            printf("\n");
        }
    }
    if (json)
        return json_print(json_pack("{s:I,s:i,s:i,s:o}", "bytes", bytes, "ranks", qs_comm_size(one->comm), "hosts",
                                    qs_comm_hosts(one->comm), "algorithms", all));
done:
    json_decref(all);
    return status;
}

static qs_status wires_bench(wires *one, bool json) {
    if (qs_comm_size(one->comm) == 1) return qs_fail(QS_USAGE, "one rank moves nothing: start it with mpirun -n 2");
    QS_TRY(qs_arena_reserve((size_t)one->count * 4, &one->values));
    QS_TRY(qs_arena_reserve((size_t)one->count * 4, &one->residuals));
    QS_TRY(qs_arena_reserve(CACHES, &one->others));
    QS_TRY(rounds_run(one));
    return qs_comm_rank(one->comm) == 0 ? wires_tell(one, json) : QS_OK;
}

typedef struct request {
    int64_t bytes;
    int rounds;
    const char *all_reduce, *profile;
    bool json;
} request;

static const option_row option_rows[] = {
    {OPTION(request, bytes, "message-bytes", "N", "gradients summed, in fp32"), .standard = "11534336", .minimum = 4},
    {OPTION_ROUNDS(request, 12, "sums on each wire")},
    {OPTION(request, all_reduce, "all-reduce", "NAME", "shared or library alone"), .usual = "both"},
    {OPTION(request, profile, "profile", "FILE", "what this profile says of these ranks stands beside it")},
    {OPTION_JSON(request)},
};

qs_status bench_wires(int argc, char **argv) {
    const verb_usage usage = {
        .verb = "wires",
        .arguments = "",
        .purpose =
            "Sums of gradients among the ranks of mpirun, on every wire, through shared memory and by the library, by turns, from values "
            "and\n"
            "residuals that have left the caches. From the start of the last rank to the end of the last; the least time and the median.",
        .examples = "  mpirun -n 2 qsync-bench wires --message-bytes 1048576 --rounds 40\n"};
    request asked = {0};
    bool done = false;
    option_table table = {0};
    wires *one = NULL;
    qs_profile profile = {0};
    int first = 0, past = ALGORITHMS;
    OPTIONS_ADD(&table, option_rows, &asked);
    QS_TRY(bench_options(&table, &usage, argc, argv, &done));
    if (done) return QS_OK;
    if (asked.bytes % 4)
        return qs_fail(QS_USAGE, "--message-bytes %lld: no whole number of fp32 values; give a multiple of 4", (long long)asked.bytes);
    if (asked.all_reduce) {
        while (first < ALGORITHMS && strcmp(asked.all_reduce, algorithms[first]) != 0)
            first++;
        if (first == ALGORITHMS) return qs_fail(QS_USAGE, "--all-reduce %s: wires are carried by shared and library", asked.all_reduce);
        past = first + 1;
    }
    if (asked.profile) QS_TRY(qs_profile_read(asked.profile, &profile));
    QS_TRY(qs_allocate(1, sizeof *one, &one));
    *one =
        (wires){.count = asked.bytes / 4, .first = first, .past = past, .rounds = asked.rounds, .profile = asked.profile ? &profile : NULL};
    qs_status status = qs_comm_open(NULL, &one->comm);
    if (status == QS_OK) status = wires_bench(one, asked.json);
    for (int a = 0; a < ALGORITHMS; a++)
        for (int w = 0; w < WIRES; w++)
            free(one->us[a][w]);
    qs_profile_release(&profile);
    qs_arena_release(&one->values);
    qs_arena_release(&one->residuals);
    qs_arena_release(&one->others);
    qs_comm_close(one->comm);
    free(one);
    return status;
}
