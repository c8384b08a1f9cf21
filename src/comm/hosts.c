// SPDX-License-Identifier: Apache-2.0
/* Which ranks share a host: derived from comm->host, which the communicator fills when it opens (NULL: all on one). */
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
