// SPDX-License-Identifier: Apache-2.0
/* What the ways of all-reducing share: MPI's errors as statuses, the ranks of a host, additions in rank order. */
#include "mpi_internal.h"

enum { BLOCK = 1024 };

qs_status qs__mpi_check(int code, const char *what) {
    if (code == MPI_SUCCESS) return QS_OK;
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return qs_fail(QS_PEER_LOST, "MPI %s: %s", what, text);
}

qs_status qs__mpi_host_split(const qs__mpi_comm *comm, MPI_Comm *out) {
    const int rank = comm->base.rank;
    if (qs__comm_ranks_per_host > 0) return qs__mpi_check(MPI_Comm_split(comm->ranks, rank / qs__comm_ranks_per_host, rank, out), "hosts");
    return qs__mpi_check(MPI_Comm_split_type(comm->ranks, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, out), "hosts");
}

qs_status qs__mpi_others_end(qs__mpi_comm *comm, const qs__mpi_request *beginning) {
    for (qs_request *other = comm->base.under_way; other; other = other->next) {
        if (other != &beginning->base && !other->done) QS_TRY(comm->base.kind->wait(&comm->base, other));
    }
    return QS_OK;
}

/* ---- Additions ----------------------------------------------------------------------------------------------------------------------- */

/* Plain loops over one kind of access each: compilers make vector code of them, also where `into` is one of the others. */
static void pair_add(const float *left, const float *right, int64_t count, float *into) {
    for (int64_t i = 0; i < count; i++)
        into[i] = left[i] + right[i];
}

/* Block by block: partial sums stay in the first cache, every term is read and the result written once. */
void qs__mpi_terms_add(int terms, const float *const *term, int64_t count, float *into) {
    float partial[BLOCK];
    for (int64_t at = 0; at < count; at += BLOCK) {
        const int64_t length = count - at < BLOCK ? count - at : BLOCK;
        const float *sum = term[0] + at;
        for (int t = 1; t < terms; t++) {
            float *next = t == terms - 1 ? into + at : partial;
            pair_add(sum, term[t] + at, length, next);
            sum = next;
        }
    }
}
