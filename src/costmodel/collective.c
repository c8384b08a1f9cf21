// SPDX-License-Identifier: Apache-2.0
/* Microseconds of all-reduces: α-β of the measured rows, other rank counts by the algorithm's formula. */
#include "qsync/costmodel.h"

/* The row measured with the nearest number of ranks. */
static const qs_collective_cost *collective_find(const qs_profile *profile, int ranks) {
    const qs_collective_cost *best = NULL;
    for (int i = 0; i < profile->collectives; i++) {
        const qs_collective_cost *row = &profile->collective[i];
        const int distance = row->ranks > ranks ? row->ranks - ranks : ranks - row->ranks;
        const int best_distance = !best ? 0 : best->ranks > ranks ? best->ranks - ranks : ranks - best->ranks;
        if (row->ranks > 1 && (!best || distance < best_distance)) best = row;
    }
    return best;
}

qs_status qs_cost_all_reduce(const qs_profile *profile, int ranks, int64_t bytes, double *us, double *cpu_share) {
    *us = *cpu_share = 0;
    if (ranks < 2) return QS_OK;
    const qs_collective_cost *row = collective_find(profile, ranks);
    if (!row)
        return qs_fail(QS_MISMATCH,
                       "the profile has no all-reduce of 2 ranks or more: profile under the launcher with the cluster's ranks");
    const double n = ranks, m = row->ranks;
    const double alpha = row->alpha_us * (n - 1) / (m - 1), beta = row->us_per_byte * ((n - 1) / n) / ((m - 1) / m);
    *us = alpha + beta * (double)bytes;
    *cpu_share = row->cpu_share;
    return QS_OK;
}
