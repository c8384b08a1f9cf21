// SPDX-License-Identifier: Apache-2.0
/* Inside the mpi communicator: its structs, and the all-reduces (all_reduce.c). */
#ifndef QSYNC_COMM_MPI_INTERNAL_H
#define QSYNC_COMM_MPI_INTERNAL_H

#include "../comm_internal.h"

#include <mpi.h>

typedef struct qs__mpi_request {
    qs_request base;
    const qs__algorithm *algorithm;
    /* The library's own: */
    int pieces;
    size_t capacity;
    MPI_Request *piece;
    MPI_Request one; /* the usual case: one piece, nothing to allocate */
    /* Of rounds of messages: */
    struct qs__mpi_request *later; /* started after this one */
    float *values;
    int64_t left; /* elements from values on, the piece at hand among them */
    int round;    /* at hand, of the piece at hand */
} qs__mpi_request;

typedef struct qs__mpi_comm {
    qs_comm base;
    MPI_Comm ranks;
    bool started; /* by us, so we end it */
    /* All-reduces made of rounds run one after the other, in the order in which they were started; the first one has messages under way. */
    qs__mpi_request *first, *last;
    MPI_Request sending, receiving;
    float *incoming; /* what is to be added */
    size_t incoming_capacity;
} qs__mpi_comm;

static inline MPI_Comm qs__mpi_ranks(const qs_comm *comm) {
    return ((const qs__mpi_comm *)comm)->ranks;
}

/* QS_PEER_LOST with MPI's text. */
qs_status qs__mpi_check(int code, const char *what);

qs_status qs__mpi_all_reduce_start(qs_comm *comm, float *values, int64_t count, qs_request *request);
qs_status qs__mpi_all_reduce_test(qs_comm *comm, qs_request *request);
qs_status qs__mpi_all_reduce_wait(qs_comm *comm, qs_request *request);

#endif
