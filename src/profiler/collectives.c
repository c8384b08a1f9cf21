// SPDX-License-Identifier: Apache-2.0
/* All-reduces: α + β bytes over messages of 1 KiB to 8 MiB that all ranks start together, and what part of that time is taken from kernels
 * that run meanwhile: MPI libraries move data on the thread that asks them to. */
#include "profiler_internal.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_BITS = 10, LAST_BITS = 23, SIZES = LAST_BITS - FIRST_BITS + 1, RUNS = 9, WARM_UP = 2 };
static const double poll_every_us = 200; /* about one kernel of a small model between two polls, as in a step */

/* Median of this rank, then the slowest rank: an all-reduce ends when it ends everywhere. */
static qs_status all_reduce_time(qs_comm *comm, float *values, int64_t count, double *us) {
    double sample[RUNS];
    for (int i = -WARM_UP; i < RUNS; i++) {
        qs_request *request;
        QS_TRY(qs_comm_barrier(comm));
        const double begin = qs_clock();
        QS_TRY(qs_comm_all_reduce_start(comm, values, count, &request));
        QS_TRY(qs_comm_wait(comm, request));
        if (i >= 0) sample[i] = (qs_clock() - begin) * 1e6;
    }
    *us = qs__quartiles_of(RUNS, sample).median;
    return qs_comm_max(comm, us, 1);
}

/* Work on the core for a while that touches no memory. */
static void compute(double us) {
    const double until = qs_clock() + us * 1e-6;
    while (qs_clock() < until) {
        for (volatile int i = 0; i < 64; i++) {
        }
    }
}

/* Pieces of work with polls between them, as long as the all-reduce itself takes; then the wait. */
static qs_status overlapped_time(qs_comm *comm, float *values, int64_t count, int pieces, double *us) {
    double sample[RUNS];
    for (int i = 0; i < RUNS; i++) {
        qs_request *request;
        QS_TRY(qs_comm_barrier(comm));
        const double begin = qs_clock();
        QS_TRY(qs_comm_all_reduce_start(comm, values, count, &request));
        for (int p = 0; p < pieces; p++) {
            compute(poll_every_us);
            QS_TRY(qs_comm_test(comm, request, NULL));
        }
        QS_TRY(qs_comm_wait(comm, request));
        sample[i] = (qs_clock() - begin) * 1e6;
    }
    *us = qs__quartiles_of(RUNS, sample).median;
    return qs_comm_max(comm, us, 1);
}

/* With twice the all-reduce's time of work beside it, what comes on top of the work was taken from it. */
static qs_status cpu_share_measure(qs_comm *comm, float *values, double *share) {
    const int64_t count = ((int64_t)1 << 20) / (int64_t)sizeof *values;
    double plain = 0, both = 0;
    QS_TRY(all_reduce_time(comm, values, count, &plain));
    const int pieces = (int)ceil(2 * plain / poll_every_us);
    QS_TRY(overlapped_time(comm, values, count, pieces, &both));
    *share = fmin(fmax((both - pieces * poll_every_us) / plain, 0), 1);
    return QS_OK;
}

static qs_status rows_measure(qs__profiler *profiler, float *values, qs_collective_cost *row) {
    double bytes[SIZES], us[SIZES];
    for (int i = 0; i < SIZES; i++) {
        bytes[i] = ldexp(1, FIRST_BITS + i);
        QS_TRY(all_reduce_time(profiler->comm, values, (int64_t)bytes[i] / (int64_t)sizeof *values, &us[i]));
    }
    qs_fit_piece line;
    QS_TRY(qs_fit_line(SIZES, bytes, us, &line));
    row->alpha_us = line.us;
    row->us_per_byte = line.us_per_element;
    row->r2 = line.r2;
    return cpu_share_measure(profiler->comm, values, &row->cpu_share);
}

qs_status qs__collectives_measure(qs__profiler *profiler, qs_profile *out) {
    float *values = NULL;
    if (profiler->ranks < 2) return QS_OK;
    qs__progress(profiler, 0.65, "all-reduce");
    qs_status status = qs_allocate((size_t)1 << (LAST_BITS - 2), sizeof *values, &values);
    if (status == QS_OK) status = qs_allocate(1, sizeof *out->collective, &out->collective);
    status = qs_comm_agree(profiler->comm, status);
    if (status == QS_OK) {
        /* Open MPI's all-reduces take up to one message of temporary memory (0.5 to 1 measured). */
        *out->collective = (qs_collective_cost){.ranks = profiler->ranks, .temporary_per_byte = 1.0};
        snprintf(out->collective->algorithm, sizeof out->collective->algorithm, "%s", profiler->job->algorithm);
        out->collectives = 1;
        status = rows_measure(profiler, values, out->collective);
    }
    free(values);
    return status;
}
