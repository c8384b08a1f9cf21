// SPDX-License-Identifier: Apache-2.0
/* mpi: collectives of the MPI library on a communicator of our own. All calls come from the thread that opened it (MPI_THREAD_FUNNELED).
 * MPI's errors are returned, not fatal: most mean that another process is gone. */
#include "mpi_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- Opening --------------------------------------------------------------------------------------------------------------- */

/* For "library": Open MPI's own choice for a non-blocking all-reduce in place is a binomial tree: 770 us for 4 MB between two processes of
 * one machine, where its ring takes 320 us (and blocking calls the same), bits equal on all ranks in both. A setting of the site goes
 * before ours; other MPI libraries do not read it. */
static void prefer_ring(void) {
    setenv("OMPI_MCA_coll_libnbc_iallreduce_algorithm", "ring", 0);
}

static qs_status start_library(bool *started) {
    int there = 0, ended = 0, provided = 0;
    MPI_Initialized(&there);
    MPI_Finalized(&ended);
    if (ended) return qs_fail(QS_UNSUPPORTED, "MPI has ended in this process and cannot start again; open the communicator once");
    *started = !there;
    if (there) return QS_OK;
    prefer_ring();
    QS_TRY(qs__mpi_check(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "start"));
    /* Waiting for several requests reports to the world, not to our communicator. */
    QS_TRY(qs__mpi_check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "error handler"));
    if (provided >= MPI_THREAD_FUNNELED) return QS_OK;
    MPI_Finalize();
    return qs_fail(QS_UNSUPPORTED, "this MPI library does not allow threads beside it (MPI_THREAD_FUNNELED)");
}

/* Every rank tells the lowest rank with which it shares memory; hosts are counted in that order. */
static qs_status find_hosts(qs__mpi_comm *comm) {
    MPI_Comm local;
    int lowest = comm->base.rank, hosts = 0;
    QS_TRY(qs_allocate((size_t)comm->base.size, sizeof(int), &comm->base.host));
    int *host = comm->base.host;
    QS_TRY(qs__mpi_host_split(comm, &local));
    QS_TRY(qs__mpi_check(MPI_Bcast(&lowest, 1, MPI_INT, 0, local), "hosts"));
    QS_TRY(qs__mpi_check(MPI_Comm_free(&local), "hosts"));
    QS_TRY(qs__mpi_check(MPI_Allgather(&lowest, 1, MPI_INT, host, 1, MPI_INT, comm->ranks), "hosts"));
    for (int rank = 0; rank < comm->base.size; rank++)
        host[rank] = host[rank] == rank ? hosts++ : host[host[rank]];
    return QS_OK;
}

/* comm->ranks is there: what all others need to know of it. */
static qs_status ranks_describe(qs__mpi_comm *comm) {
    QS_TRY(qs__mpi_check(MPI_Comm_set_errhandler(comm->ranks, MPI_ERRORS_RETURN), "error handler"));
    QS_TRY(qs__mpi_check(MPI_Comm_rank(comm->ranks, &comm->base.rank), "rank"));
    QS_TRY(qs__mpi_check(MPI_Comm_size(comm->ranks, &comm->base.size), "size"));
    return find_hosts(comm);
}

static qs_status open_ranks(qs__mpi_comm *comm) {
    QS_TRY(qs__mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &comm->ranks), "communicator"));
    return ranks_describe(comm);
}

static qs_status open_mpi(qs_comm *base) {
    qs__mpi_comm *comm = (qs__mpi_comm *)base;
    QS_TRY(start_library(&comm->started));
    qs_status status = open_ranks(comm);
    if (status != QS_OK && comm->started) MPI_Finalize();
    return status;
}

static qs_status split_mpi(qs_comm *base, int group, qs_comm *part_base) {
    qs__mpi_comm *part = (qs__mpi_comm *)part_base;
    const int color = group < 0 ? MPI_UNDEFINED : group;
    QS_TRY(qs__mpi_check(MPI_Comm_split(qs__mpi_ranks(base), color, base->rank, &part->ranks), "split"));
    return group < 0 ? QS_OK : ranks_describe(part);
}

static void close_mpi(qs_comm *base) {
    qs__mpi_comm *comm = (qs__mpi_comm *)base;
    for (qs_request *request = base->spare; request; request = request->next)
        free(((qs__mpi_request *)request)->piece);
    for (qs_request *request = base->under_way; request; request = request->next)
        free(((qs__mpi_request *)request)->piece);
    free(comm->incoming);
    qs__mpi_window_release(comm);
    qs__mpi_compressed_release(comm);
    MPI_Comm_free(&comm->ranks);
    if (comm->started) MPI_Finalize();
}

/* ---- Blocking collectives -------------------------------------------------------------------------------------------------- */

static int piece_at(int64_t first, int64_t count) {
    return (int)(count - first < qs__comm_piece ? count - first : qs__comm_piece);
}

static qs_status fold_values(qs_comm *comm, qs__fold fold, double *values, int64_t count) {
    MPI_Op operation = fold == QS__SUM ? MPI_SUM : MPI_MAX;
    for (int64_t at = 0; at < count; at += qs__comm_piece) {
        QS_TRY(qs__mpi_check(MPI_Allreduce(MPI_IN_PLACE, values + at, piece_at(at, count), MPI_DOUBLE, operation, qs__mpi_ranks(comm)),
                             "all-reduce"));
    }
    return QS_OK;
}

static qs_status broadcast(qs_comm *comm, void *data, int64_t bytes, int root) {
    for (int64_t at = 0; at < bytes; at += qs__comm_piece) {
        QS_TRY(qs__mpi_check(MPI_Bcast((char *)data + at, piece_at(at, bytes), MPI_BYTE, root, qs__mpi_ranks(comm)), "broadcast"));
    }
    return QS_OK;
}

static qs_status gather_sizes(qs_comm *comm, int64_t mine, int64_t *sizes) {
    return qs__mpi_check(MPI_Gather(&mine, 1, MPI_INT64_T, sizes, 1, MPI_INT64_T, 0, qs__mpi_ranks(comm)), "gather");
}

static qs_status send_bytes(qs_comm *comm, const char *data, int64_t bytes) {
    for (int64_t at = 0; at < bytes; at += qs__comm_piece) {
        QS_TRY(qs__mpi_check(MPI_Send(data + at, piece_at(at, bytes), MPI_BYTE, 0, 0, qs__mpi_ranks(comm)), "gather"));
    }
    return QS_OK;
}

static qs_status receive_bytes(qs_comm *comm, char *data, int64_t bytes, int rank) {
    for (int64_t at = 0; at < bytes; at += qs__comm_piece) {
        int length = piece_at(at, bytes);
        QS_TRY(qs__mpi_check(MPI_Recv(data + at, length, MPI_BYTE, rank, 0, qs__mpi_ranks(comm), MPI_STATUS_IGNORE), "gather"));
    }
    return QS_OK;
}

static qs_status gather_bytes(qs_comm *comm, const void *mine, const int64_t *sizes, int64_t bytes, char *data) {
    if (comm->rank != 0) return send_bytes(comm, mine, bytes);
    if (bytes > 0) memcpy(data, mine, (size_t)bytes);
    data += bytes;
    for (int rank = 1; rank < comm->size; rank++) {
        QS_TRY(receive_bytes(comm, data, sizes[rank], rank));
        data += sizes[rank];
    }
    return QS_OK;
}

static qs_status barrier(qs_comm *comm) {
    return qs__mpi_check(MPI_Barrier(qs__mpi_ranks(comm)), "barrier");
}

static void abort_mpi(qs_comm *comm, int exit_code) {
    (void)comm;
    MPI_Abort(MPI_COMM_WORLD, exit_code);
}

/* Libraries go on about their build behind a comma or in further lines. */
static const char *library(void) {
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!text[0] && MPI_Get_library_version(text, &length) != MPI_SUCCESS) snprintf(text, sizeof text, "MPI");
    text[strcspn(text, ",\n")] = 0;
    return text;
}

/* ---- All-reduces, by algorithm ------------------------------------------------------------------------------------------------------- */

static qs_status all_reduce_start(qs_comm *base, float *values, int64_t count, qs_request *base_request) {
    qs__mpi_comm *comm = (qs__mpi_comm *)base;
    qs__mpi_request *request = (qs__mpi_request *)base_request;
    request->algorithm = base->algorithm;
    switch (request->algorithm->way) {
    case QS__LIBRARY:
    case QS__DEVICES:
        return request->base.wire ? qs__mpi_compressed_start(comm, values, count, request)
                                  : qs__mpi_library_start(base, values, count, request);
    case QS__WINDOW:
        return qs__mpi_window_start(comm, values, count, request);
    default:
        return qs__mpi_rounds_start(comm, values, count, request);
    }
}

static qs_status all_reduce_test(qs_comm *comm, qs_request *base) {
    qs__mpi_request *request = (qs__mpi_request *)base;
    switch (request->algorithm->way) {
    case QS__LIBRARY:
    case QS__DEVICES:
        return request->base.wire ? qs__mpi_compressed_test((qs__mpi_comm *)comm) : qs__mpi_library_test(request);
    case QS__WINDOW:
        return qs__mpi_window_test((qs__mpi_comm *)comm);
    default:
        return qs__mpi_rounds_test((qs__mpi_comm *)comm);
    }
}

static qs_status all_reduce_wait(qs_comm *comm, qs_request *base) {
    qs__mpi_request *request = (qs__mpi_request *)base;
    switch (request->algorithm->way) {
    case QS__LIBRARY:
    case QS__DEVICES:
        return request->base.wire ? qs__mpi_compressed_wait((qs__mpi_comm *)comm, request) : qs__mpi_library_wait(request);
    case QS__WINDOW:
        return qs__mpi_window_wait((qs__mpi_comm *)comm, request);
    default:
        return qs__mpi_rounds_wait((qs__mpi_comm *)comm, request);
    }
}

const qs__comm_kind qs__comm_mpi = {
    .name = "mpi",
    .library = library,
    .comm_bytes = sizeof(qs__mpi_comm),
    .request_bytes = sizeof(qs__mpi_request),
    .open = open_mpi,
    .close = close_mpi,
    .split = split_mpi,
    .start = all_reduce_start,
    .test = all_reduce_test,
    .wait = all_reduce_wait,
    .fold = fold_values,
    .broadcast = broadcast,
    .gather_sizes = gather_sizes,
    .gather_bytes = gather_bytes,
    .barrier = barrier,
    .abort = abort_mpi,
};
