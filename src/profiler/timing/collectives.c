// SPDX-License-Identifier: Apache-2.0
/* All-reduces: α + β bytes over messages of 1 KiB to 8 MiB, or to the model's longest, that all ranks start together, by algorithm and
 * link: over all ranks, and over a pair on one host and a pair on two, from which other numbers of ranks and hosts follow. And what part of
 * that time is taken from kernels that run meanwhile: messages move on the thread that asks for them. All on the job's wire, and the job's
 * algorithm on the others that are asked for: packing is part of the time. Sums that devices make by themselves (`devices`) are measured
 * where the job asks for them, over all ranks. */
#include "timing/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_BITS = 10, USUAL_BITS = 23, LAST_BITS = 28, SIZES = LAST_BITS - FIRST_BITS + 1, RUNS = 9 };
/* A size is repeated until its median is known within `known` (half the notch of a box plot, about 95 % of the time), for `enough_us` at
 * most; a batch of runs whose median is more than `disturbed` times that of the quietest one does not count. */
static const double known = 0.05, disturbed = 1.25, enough_us = 40e3;
/* Sizes that take longer are left out: lines continue. The other algorithms are measured as well when the job's own took no longer. */
static const double longest_us = 150e3, cheap_s = 1.0;
static const double least_us = 0.01;                   /* where clocks of hosts agree no better than the time they measure */
static const int64_t least_region = (int64_t)64 << 20; /* bytes */
static const double poll_every_us = 200;               /* about one kernel of a small model between two polls, as in a step */

/* ---- One clock ---------------------------------------------------------------------------------------------------------------- */

/* How far the clock of rank 1 is ahead of rank 0's, told to both: the quickest of a few round trips, halved. */
static qs_status pair_offset(qs_comm *pair, double *ahead) {
    double quickest = HUGE_VAL;
    for (int i = 0; i < 10; i++) {
        double there = 0;
        const double begin = qs_clock();
        QS_TRY(qs_comm_broadcast(pair, &there, sizeof there, 0));
        there = qs_clock();
        QS_TRY(qs_comm_broadcast(pair, &there, sizeof there, 1));
        const double end = qs_clock();
        if (end - begin < quickest) *ahead = there - (begin + end) / 2;
        quickest = fmin(quickest, end - begin);
    }
    return qs_comm_broadcast(pair, ahead, sizeof *ahead, 0);
}

static int first_rank_on(const qs_comm *comm, int host) {
    int rank = 0;
    while (qs_comm_host_of(comm, rank) != host)
        rank++;
    return rank;
}

/* How far this host's clock is ahead of that of rank 0's host. Barriers do not make ranks start together where messages take long: whoever
 * comes last leaves first, and so on. */
static qs_status clock_offset(qs_comm *comm, double *ahead) {
    double mine = -HUGE_VAL;
    *ahead = 0;
    for (int host = 1; host < qs_comm_hosts(comm); host++) {
        qs_comm *pair;
        const int first = first_rank_on(comm, host), rank = qs_comm_rank(comm);
        double offset = -HUGE_VAL;
        QS_TRY(qs_comm_split(comm, rank == 0 || rank == first ? 0 : -1, &pair));
        const qs_status status = pair ? pair_offset(pair, &offset) : QS_OK;
        qs_comm_close(pair);
        QS_TRY(status);
        QS_TRY(qs_comm_max(comm, &offset, 1));
        if (qs_comm_host_of(comm, rank) == host) mine = offset;
    }
    if (mine > -HUGE_VAL) *ahead = mine;
    return QS_OK;
}

/* ---- One size ---------------------------------------------------------------------------------------------------------------- */

/* Ranks that measure together. */
typedef struct group {
    qs_comm *comm;
    double ahead;  /* of rank 0's clock, in seconds */
    float *region; /* messages lie behind one another in it, round and round: as in training, none has just been in the caches */
    int64_t room;  /* floats in it */
    const char *wire;
    float *residuals;  /* as large; NULL: no wire to be measured is compressed */
    qs_memory *memory; /* as large as the region, of devices that add up by themselves; NULL: of others */
    qs_queue *queue;
    int sizes; /* powers of two to be measured */
    int64_t next;
    qs__samples quiet;
} group;

static bool is_compressed(const char *wire) {
    return strcmp(wire, "fp32") != 0;
}

static float *message_at(group *one, int64_t count) {
    if (one->next + count > one->room) one->next = 0;
    float *at = one->region + one->next;
    one->next += count;
    return at;
}

static qs_status message_start(group *one, int64_t count, qs_request **out) {
    float *at = message_at(one, count);
    float *residuals = one->residuals && is_compressed(one->wire) ? one->residuals + (at - one->region) : NULL;
    return qs_comm_all_reduce_wire_start(one->comm, one->wire, at, residuals, 1, count, out);
}

/* From its start to the sums; of devices by themselves, to where kernels go on. */
static qs_status message_run(group *one, int64_t count) {
    qs_request *request;
    if (one->memory) {
        const size_t at = (size_t)(message_at(one, count) - one->region) * sizeof(float);
        QS_TRY(qs_memory_sum(one->queue, qs_location_of(one->memory, at), count));
        return qs_queue_wait(one->queue);
    }
    QS_TRY(message_start(one, count, &request));
    return qs_comm_wait(one->comm, request);
}

/* Each run from the start of the last rank to the end of the last: so a replay counts it. */
static qs_status runs_time(group *one, int64_t count, int runs, double *us) {
    double stamp[2 * RUNS];
    for (int i = 0; i < runs; i++) {
        QS_TRY(qs_comm_barrier(one->comm));
        stamp[2 * i] = qs_clock() - one->ahead;
        QS_TRY(message_run(one, count));
        stamp[2 * i + 1] = qs_clock() - one->ahead;
    }
    QS_TRY(qs_comm_max(one->comm, stamp, 2 * runs));
    for (int i = 0; i < runs; i++)
        us[i] = fmax((stamp[2 * i + 1] - stamp[2 * i]) * 1e6, least_us);
    return QS_OK;
}

typedef struct size_time {
    double us, spread;
    int runs;
} size_time;

/* Takes a batch in, leaves it out, or leaves out all before it. */
static qs_status batch_take(qs__samples *quiet, double *best, int runs, double *us) {
    const double median = qs__quartiles_of(runs, us).median;
    if (median > *best * disturbed) return QS_OK;
    if (median * disturbed < *best) quiet->count = 0;
    if (median < *best) *best = median;
    for (int i = 0; i < runs; i++)
        QS_TRY(qs__samples_add(quiet, us[i]));
    return QS_OK;
}

/* All ranks hold the same times, so they repeat alike. `guess_us`: of the size before; long ones are run less often. */
static qs_status size_measure(group *one, int64_t count, double guess_us, size_time *out) {
    double us[RUNS], best = HUGE_VAL, spent = 0;
    const int batch = guess_us > 5e3 ? 3 : RUNS;
    qs__samples *quiet = &one->quiet;
    quiet->count = out->runs = 0;
    QS_TRY(runs_time(one, count, 1, us));
    do {
        QS_TRY(runs_time(one, count, batch, us));
        for (int i = 0; i < batch; i++)
            spent += us[i];
        out->runs += batch;
        QS_TRY(batch_take(quiet, &best, batch, us));
        const qs__quartiles quartiles = qs__quartiles_of(quiet->count, quiet->value);
        out->us = quartiles.median;
        out->spread = 1.57 * (quartiles.high - quartiles.low) / sqrt(quiet->count) / quartiles.median;
    } while (spent < enough_us && out->spread > known);
    return QS_OK;
}

/* ---- Beside kernels ------------------------------------------------------------------------------------------------------------ */

/* Work on the core for a while that touches no memory. */
static void compute(double us) {
    const double until = qs_clock() + us * 1e-6;
    while (qs_clock() < until) {
        for (volatile int i = 0; i < 64; i++) {
        }
    }
}

/* Pieces of work with polls between them, then the wait: what that took beyond the work, on the slowest rank. */
static qs_status beside_work(group *one, int64_t count, int pieces, int runs, double *us) {
    double beyond[RUNS];
    for (int i = 0; i < runs; i++) {
        qs_request *request;
        QS_TRY(qs_comm_barrier(one->comm));
        beyond[i] = -qs_clock();
        QS_TRY(message_start(one, count, &request));
        for (int p = 0; p < pieces; p++) {
            const double begin = qs_clock();
            compute(poll_every_us);
            beyond[i] -= qs_clock() - begin;
            QS_TRY(qs_comm_test(one->comm, request, NULL));
        }
        QS_TRY(qs_comm_wait(one->comm, request));
        beyond[i] = (beyond[i] + qs_clock()) * 1e6;
    }
    QS_TRY(qs_comm_max(one->comm, beyond, runs));
    *us = qs__quartiles_of(runs, beyond).median;
    return QS_OK;
}

/* With twice the all-reduce's time of work beside it, what comes on top of the work was taken from it. */
static qs_status cpu_share_measure(group *one, double guess_us, double *share) {
    const int64_t count = ((int64_t)1 << 20) / (int64_t)sizeof *one->region;
    const int runs = guess_us > 5e3 ? 3 : RUNS;
    double sample[RUNS], beyond = 0;
    QS_TRY(runs_time(one, count, runs, sample));
    const double plain = qs__quartiles_of(runs, sample).median;
    QS_TRY(beside_work(one, count, (int)ceil(2 * plain / poll_every_us), runs, &beyond));
    *share = fmin(beyond / plain, 1);
    return QS_OK;
}

/* ---- One row -------------------------------------------------------------------------------------------------------------------- */

static qs_status row_fit(int sizes, const double *bytes, const double *us, qs_collective_cost *row) {
    qs_fit_piece line;
    qs_fit fit;
    QS_TRY(qs_fit_line(sizes, bytes, us, &line));
    QS_TRY(qs_fit_make(sizes, bytes, us, &fit));
    row->alpha_us = line.us;
    row->us_per_byte = line.us_per_element;
    row->r2 = line.r2;
    row->worst_residual = line.worst_residual;
    row->pieces = fit.pieces;
    for (int p = 0; p < fit.pieces; p++)
        row->piece[p] = (qs_message_piece){fit.piece[p].to_elements, fit.piece[p].us_per_element, fit.piece[p].us};
    return QS_OK;
}

static int64_t size_count(int size) {
    return ((int64_t)1 << (FIRST_BITS + size)) / (int64_t)sizeof(float);
}

/* Less does not take longer: a size that took longer than a larger one was disturbed all the while. */
static bool is_disturbed(int sizes, const size_time *one, int size) {
    for (int larger = size + 1; larger < sizes; larger++) {
        if (one[size].us > disturbed * one[larger].us) return true;
    }
    return false;
}

/* Measures the disturbed sizes again, a few times over; the quieter time holds. */
static qs_status sizes_repair(group *one, int sizes, size_time *time) {
    for (int sweep = 0; sweep < 3; sweep++) {
        for (int size = 0; size < sizes; size++) {
            size_time again;
            if (!is_disturbed(sizes, time, size)) continue;
            QS_TRY(size_measure(one, size_count(size), time[size].us, &again));
            again.runs += time[size].runs;
            if (again.us > time[size].us) {
                time[size].runs = again.runs;
            } else {
                time[size] = again;
            }
        }
    }
    return QS_OK;
}

static qs_status row_measure(group *one, qs_collective_cost *row) {
    double bytes[SIZES], us[SIZES];
    size_time time[SIZES] = {{0}};
    int sizes = 0;
    QS_TRY(clock_offset(one->comm, &one->ahead));
    for (double last = 0; sizes < one->sizes && (sizes < 3 || last < longest_us); last = time[sizes++].us)
        QS_TRY(size_measure(one, size_count(sizes), last, &time[sizes]));
    QS_TRY(sizes_repair(one, sizes, time));
    for (int size = 0; size < sizes; size++) {
        bytes[size] = (double)(size_count(size) * (int64_t)sizeof *one->region);
        us[size] = time[size].us;
        row->samples += time[size].runs;
        row->spread = fmax(row->spread, time[size].spread);
    }
    QS_TRY(row_fit(sizes, bytes, us, row));
    if (row->window_bytes > 0 && row->hosts == 1) return QS_OK; /* nobody but this thread moves anything */
    if (one->memory) return QS_OK;                              /* nor this one */
    return cpu_share_measure(one, time[sizes > 10 ? 10 : sizes - 1].us, &row->cpu_share);
}

/* Packed messages of `library`, and of the leaders of `shared`: one rank of each host. */
static void narrow_describe(const char *wire, const char *algorithm, qs_collective_cost *row) {
    const int64_t count = (int64_t)1 << 20;
    if (!is_compressed(wire)) return;
    snprintf(row->wire, sizeof row->wire, "%s", wire);
    const int ranks = strcmp(algorithm, "shared") == 0 ? row->hosts : row->ranks;
    row->temporary_per_byte = (double)qs_comm_wire_memory(wire, ranks, count) / (double)(count * (int64_t)sizeof(float));
}

/* What the row's ranks are, and the memory of its algorithm (comm.h); of libraries Open MPI's takes up to one message (0.5 to 1 measured).
 * */
static void row_describe(const qs__setting *setting, qs_comm *comm, const char *algorithm, const char *wire, qs_collective_cost *row) {
    *row = (qs_collective_cost){.ranks = qs_comm_size(comm), .hosts = qs_comm_hosts(comm), .temporary_per_byte = 1, .cpu_share = 1};
    if (strcmp(algorithm, "ring") == 0) row->temporary_per_byte = 1.0 / row->ranks;
    if (qs_comm_by_devices(algorithm)) row->temporary_per_byte = row->cpu_share = 0;
    if (strcmp(algorithm, "shared") == 0) {
        row->temporary_per_byte = row->hosts > 1 ? 1.0 / row->hosts : 0;
        row->window_bytes = qs_comm_window_bytes((row->ranks + row->hosts - 1) / row->hosts);
    }
    narrow_describe(wire, algorithm, row);
    snprintf(row->algorithm, sizeof row->algorithm, "%s", algorithm);
    snprintf(row->link, sizeof row->link, "%s", row->hosts > 1 ? qs_cluster_network(setting->options->cluster) : "shared-memory");
}

/* ---- Parts of the ranks -------------------------------------------------------------------------------------------------------------- */

/* Parts of the ranks: all of them; the first two of the first host that has two; the first of each of the first two hosts. */
enum { ALL, NEIGHBOURS, APART, PARTS };

static int local_rank_of(const qs_comm *comm, int rank) {
    int before = 0;
    for (int other = 0; other < rank; other++)
        before += qs_comm_host_of(comm, other) == qs_comm_host_of(comm, rank);
    return before;
}

static int first_shared_host(const qs_comm *comm) {
    for (int rank = 0; rank < qs_comm_size(comm); rank++) {
        if (local_rank_of(comm, rank) == 1) return qs_comm_host_of(comm, rank);
    }
    return -1;
}

static bool is_member(const qs_comm *comm, int part, int rank) {
    const int host = qs_comm_host_of(comm, rank), local = local_rank_of(comm, rank);
    if (part == ALL) return true;
    return part == NEIGHBOURS ? host == first_shared_host(comm) && local < 2 : host < 2 && local == 0;
}

/* Pairs are left out where there is none, or where it is all ranks. */
static bool has_part(const qs_comm *comm, int part) {
    if (part == ALL) return true;
    return qs_comm_size(comm) > 2 && (part == NEIGHBOURS ? first_shared_host(comm) >= 0 : qs_comm_hosts(comm) > 1);
}

/* Who is not in the part sleeps while it measures: waiting MPI libraries keep their core busy. */
static qs_status others_wait(qs_comm *comm, bool member) {
    float nothing = 0;
    qs_request *request;
    bool done = member;
    QS_TRY(qs_comm_all_reduce_start(comm, &nothing, 1, &request));
    while (!done) {
        usleep(2000);
        QS_TRY(qs_comm_test(comm, request, &done));
    }
    return qs_comm_wait(comm, request);
}

typedef struct collectives {
    const qs__setting *setting;
    group group; /* at hand */
    qs_profile *out;
} collectives;

/* Rank 0 keeps all rows; a pair that it is not in tells it through all ranks. */
static qs_status row_share(collectives *one, bool first, qs_collective_cost *row) {
    int teller = first ? one->setting->rank : one->setting->ranks;
    double least = -teller;
    QS_TRY(qs_comm_max(one->setting->comm, &least, 1));
    return qs_comm_broadcast(one->setting->comm, row, sizeof *row, (int)-least);
}

/* Of devices that add up by themselves. */
static qs_status memory_make(collectives *one) {
    qs_device *device = one->setting->device;
    group *at = &one->group;
    if (!qs_comm_by_devices(qs_comm_algorithm(at->comm))) return QS_OK;
    QS_TRY(qs_devices_join(device, at->comm));
    at->queue = qs_device_queue(device, QS_QUEUE_KERNELS);
    return qs_comm_agree(at->comm, qs_memory_reserve(device, (size_t)at->room * sizeof(float), &at->memory));
}

static qs_status part_measure(collectives *one, int part_index, const char *algorithm) {
    qs_comm *comm = one->setting->comm, *part;
    const bool member = is_member(comm, part_index, one->setting->rank);
    qs_collective_cost row = {0};
    QS_TRY(qs_comm_split(comm, member ? 0 : -1, &part));
    qs_status status = QS_OK;
    if (member) {
        one->group.comm = part;
        row_describe(one->setting, part, algorithm, one->group.wire, &row);
        status = qs_comm_algorithm_set(part, algorithm);
        if (status == QS_OK) status = memory_make(one);
        if (status == QS_OK) status = row_measure(&one->group, &row);
        qs_memory_release(one->group.memory);
        one->group.memory = NULL;
    }
    const bool first = part && qs_comm_rank(part) == 0;
    qs_comm_close(part);
    if (status == QS_OK && part_index != ALL) status = others_wait(comm, member);
    if (status == QS_OK) status = row_share(one, first, &row);
    if (status == QS_OK) one->out->collective[one->out->collectives++] = row;
    return status;
}

static qs_status algorithm_measure(collectives *one, const char *algorithm) {
    const int parts = qs_comm_by_devices(algorithm) ? ALL + 1 : PARTS;
    for (int part = 0; part < parts; part++) {
        if (has_part(one->setting->comm, part)) QS_TRY(part_measure(one, part, algorithm));
    }
    return QS_OK;
}

/* The job's own first: it is what predictions take without being told more. Then its algorithm on other wires. */
static qs_status algorithms_measure(collectives *one) {
    const char *own = one->setting->job->algorithm;
    const qs_profile_options *options = one->setting->options;
    double took = -qs_clock();
    QS_TRY(algorithm_measure(one, own));
    took += qs_clock();
    QS_TRY(qs_comm_max(one->setting->comm, &took, 1));
    for (size_t i = 0; qs_comm_algorithm_at(i) && took < cheap_s; i++) {
        const char *other = qs_comm_algorithm_at(i);
        if (strcmp(other, own) == 0 || qs_comm_by_devices(other) || qs_comm_wire_check(one->group.wire, other) != QS_OK) continue;
        QS_TRY(algorithm_measure(one, other));
    }
    for (int i = 0; i < options->wires; i++) {
        one->group.wire = options->wire[i];
        QS_TRY(algorithm_measure(one, own));
    }
    return QS_OK;
}

static size_t algorithms_count(void) {
    size_t count = 0;
    while (qs_comm_algorithm_at(count))
        count++;
    return count;
}

/* A bucket ends with the first gradient that fills it. */
static int64_t longest_bytes(const qs__setting *setting) {
    int64_t longest = 0;
    for (int p = 0; p < setting->graph->parameters; p++) {
        const int64_t count = qs_shape_count(&setting->graph->parameter[p].shape);
        if (count > longest) longest = count;
    }
    const int64_t all = setting->graph->trained_elements * (int64_t)sizeof(float), wanted = setting->job->bucket_bytes;
    return (wanted < all ? wanted : all) + longest * (int64_t)sizeof(float);
}

static qs_status region_make(collectives *one, qs_arena *arena) {
    const int64_t longest = longest_bytes(one->setting);
    int bits = USUAL_BITS;
    while (bits < LAST_BITS && (int64_t)1 << bits < longest)
        bits++;
    const int64_t bytes = (int64_t)1 << bits > least_region ? (int64_t)1 << bits : least_region;
    const qs_profile_options *options = one->setting->options;
    one->group.wire = one->setting->job->wire;
    bool narrow = is_compressed(one->group.wire);
    for (int i = 0; i < options->wires; i++)
        narrow = narrow || is_compressed(options->wire[i]);
    QS_TRY(qs_arena_reserve((size_t)bytes * (narrow ? 2 : 1), arena));
    one->group.region = arena->memory;
    one->group.room = bytes / (int64_t)sizeof *one->group.region;
    if (narrow) one->group.residuals = one->group.region + one->group.room;
    one->group.sizes = bits - FIRST_BITS + 1;
    return QS_OK;
}

qs_status qs__collectives_measure(const qs__setting *setting, qs_profile *out) {
    collectives one = {.setting = setting, .out = out};
    if (setting->ranks < 2) return QS_OK;
    QS_TRY(qs_comm_wire_check(setting->job->wire, setting->job->algorithm));
    for (int i = 0; i < setting->options->wires; i++)
        QS_TRY(qs_comm_wire_check(setting->options->wire[i], setting->job->algorithm));
    qs__progress(setting, 0.65, "all-reduce");
    qs_arena arena = {0};
    qs_status status = region_make(&one, &arena);
    if (status == QS_OK)
        status = qs_allocate(PARTS * (algorithms_count() + 1 + (size_t)setting->options->wires), sizeof *out->collective, &out->collective);
    status = qs_comm_agree(setting->comm, status);
    if (status == QS_OK) status = algorithms_measure(&one);
    qs_arena_release(&arena);
    free(one.group.quiet.value);
    return status;
}
