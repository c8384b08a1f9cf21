// SPDX-License-Identifier: Apache-2.0
/* Which ranks share a host, the order of ranks host by host, and how much memory they share: derived from comm->host, which the
 * communicator fills when it opens (NULL: all on one). */
#include "comm_internal.h"

int qs_comm_host_of(const qs_comm *comm, int rank) {
    return comm->host ? comm->host[rank] : 0;
}

int qs_comm_hosts(const qs_comm *comm) {
    int last = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        if (qs_comm_host_of(comm, rank) > last) last = qs_comm_host_of(comm, rank);
    }
    return last + 1;
}

static int count_on(const qs_comm *comm, int host, int below) {
    int count = 0;
    for (int rank = 0; rank < below; rank++)
        count += qs_comm_host_of(comm, rank) == host;
    return count;
}

int qs_comm_local_rank(const qs_comm *comm) {
    return count_on(comm, qs_comm_host_of(comm, comm->rank), comm->rank);
}

int qs_comm_local_size(const qs_comm *comm) {
    return count_on(comm, qs_comm_host_of(comm, comm->rank), comm->size);
}

qs_status qs__comm_order(qs_comm *comm) {
    int positions = 0;
    comm->position = comm->rank;
    if (qs_comm_hosts(comm) == 1) return QS_OK;
    QS_TRY(qs_allocate((size_t)comm->size, sizeof *comm->order, &comm->order));
    for (int host = 0; host < qs_comm_hosts(comm); host++) {
        for (int rank = 0; rank < comm->size; rank++) {
            if (comm->host[rank] != host) continue;
            if (rank == comm->rank) comm->position = positions;
            comm->order[positions++] = rank;
        }
    }
    return QS_OK;
}

/* ---- The window that the ranks of a host share --------------------------------------------------------------------------------- */

enum { MOST_SLOTS = 32, LEAST_SLOTS = 4, ALL_SLOTS = 256 };

int qs__window_slots(int ranks) {
    const int share = ALL_SLOTS / ranks;
    return share > MOST_SLOTS ? MOST_SLOTS : share < LEAST_SLOTS ? LEAST_SLOTS : share;
}

int64_t qs_comm_window_bytes(int ranks) {
    return ranks < 2 ? 0 : ranks * (int64_t)qs__window_slots(ranks) * QS__WINDOW_CHUNK;
}
