// SPDX-License-Identifier: Apache-2.0
/* Inside the mpi communicator: its structs, and the all-reduces (all_reduce.c, compressed.c, window.c). */
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
    /* Of rounds of messages, and of the library's on a compressed wire: */
    struct qs__mpi_request *later; /* started after this one */
    float *values;
    int64_t left; /* elements from values on, the piece at hand among them */
    int round;    /* at hand, of the piece at hand */
    /* Of the window, `later` and `values` too: */
    int64_t count, chunk; /* elements in all, and of a slot */
    bool scattered;       /* additions are shared out */
    qs_request *between;  /* hosts, on a leader; NULL before and after */
    bool met;             /* that has ended */
    int cursors;          /* that have passed it */
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
    struct qs__window *window;         /* NULL: not used yet */
    struct qs__compressed *compressed; /* likewise */
} qs__mpi_comm;

static inline MPI_Comm qs__mpi_ranks(const qs_comm *comm) {
    return ((const qs__mpi_comm *)comm)->ranks;
}

/* ---- common.c ---- */

/* QS_PEER_LOST with MPI's text. */
qs_status qs__mpi_check(int code, const char *what);
/* The ranks of comm's host, in their order; caller frees. Collective. */
qs_status qs__mpi_host_split(const qs__mpi_comm *comm, MPI_Comm *out);
/* Before ranks meet to make what an algorithm needs: what they wait for from one another elsewhere is brought to its end. */
qs_status qs__mpi_others_end(qs__mpi_comm *comm, const qs__mpi_request *beginning);
/* into[i] = term[0][i] + term[1][i] + ... in this order; `into` may be one of the terms. */
void qs__mpi_terms_add(int terms, const float *const *term, int64_t count, float *into);

/* ---- The ways of all-reducing; mpi.c chooses ---- */

/* all_reduce.c: the library's own, and rounds of messages between pairs. */
qs_status qs__mpi_library_start(qs_comm *comm, float *values, int64_t count, qs__mpi_request *request);
qs_status qs__mpi_library_test(qs__mpi_request *request);
qs_status qs__mpi_library_wait(qs__mpi_request *request);
qs_status qs__mpi_rounds_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request);
qs_status qs__mpi_rounds_test(qs__mpi_comm *comm);
qs_status qs__mpi_rounds_wait(qs__mpi_comm *comm, const qs__mpi_request *request);

/* compressed.c: the library moves packed bytes. The first start is collective. */
qs_status qs__mpi_compressed_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request);
qs_status qs__mpi_compressed_test(qs__mpi_comm *comm);
qs_status qs__mpi_compressed_wait(qs__mpi_comm *comm, qs__mpi_request *request);
void qs__mpi_compressed_release(qs__mpi_comm *comm);

/* window.c. The first start makes the window: collective. */
qs_status qs__mpi_window_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request);
qs_status qs__mpi_window_test(qs__mpi_comm *comm);
qs_status qs__mpi_window_wait(qs__mpi_comm *comm, qs__mpi_request *request);
/* Collective where there is one. */
void qs__mpi_window_release(qs__mpi_comm *comm);

#endif
