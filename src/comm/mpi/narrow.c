// SPDX-License-Identifier: Apache-2.0
/* All-reduces on a narrow wire by the library's calls, which cannot add packed values up: they move bytes, and ranks add. All send all
 * where that moves less; otherwise every rank receives its part of all messages, adds it up, and the sums are gathered in fp32.
 *
 * One after the other, as rounds are: the memory is that of the longest, and all ranks start these calls in the same order. They have a
 * communicator of their own, since a rank may start others between them, and another rank not yet. */
#include "mpi_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct qs__narrow {
    MPI_Comm ranks;
    qs__mpi_request *first, *last; /* the first one has a call under way */
    MPI_Request moving;
    char *packed; /* what was received; sent from here too */
    size_t packed_capacity;
    qs__wire_term *term; /* (ranks) */
    int *layout;         /* (4 x ranks) counts and places of what is sent, then of what is received, while the call reads them */
} qs__narrow;

static qs_status narrow_fill(const qs__mpi_comm *comm, qs__narrow *narrow) {
    const size_t ranks = (size_t)comm->base.size;
    narrow->ranks = MPI_COMM_NULL;
    narrow->moving = MPI_REQUEST_NULL;
    QS_TRY(qs_allocate(ranks, sizeof *narrow->term, &narrow->term));
    QS_TRY(qs_allocate(4 * ranks, sizeof *narrow->layout, &narrow->layout));
    QS_TRY(qs__mpi_check(MPI_Comm_dup(comm->ranks, &narrow->ranks), "communicator"));
    return qs__mpi_check(MPI_Comm_set_errhandler(narrow->ranks, MPI_ERRORS_RETURN), "error handler");
}

static qs_status narrow_make(qs__mpi_comm *comm, const qs__mpi_request *beginning) {
    QS_TRY(qs__mpi_others_end(comm, beginning));
    QS_TRY(qs_allocate(1, sizeof *comm->narrow, &comm->narrow));
    const qs_status status = narrow_fill(comm, comm->narrow);
    if (status != QS_OK) qs__mpi_narrow_release(comm);
    return status;
}

void qs__mpi_narrow_release(qs__mpi_comm *comm) {
    if (!comm->narrow) return;
    if (comm->narrow->ranks != MPI_COMM_NULL) MPI_Comm_free(&comm->narrow->ranks);
    free(comm->narrow->packed);
    free(comm->narrow->term);
    free(comm->narrow->layout);
    free(comm->narrow);
    comm->narrow = NULL;
}

/* ---- The piece at hand -------------------------------------------------------------------------------------------------------- */

static int64_t piece_of(const qs__mpi_request *request) {
    const int64_t most = qs__wire_blocks(qs__comm_piece);
    return request->left < most ? request->left : most;
}

/* Parts are whole blocks; the last ones may be short, or have nothing. */
static int64_t part_begin(int64_t piece, int size, int rank) {
    const int64_t blocks = (piece + QS__WIRE_BLOCK - 1) / QS__WIRE_BLOCK, each = (blocks + size - 1) / size * QS__WIRE_BLOCK;
    return rank * each < piece ? rank * each : piece;
}

static qs_status room_for(qs__narrow *narrow, int64_t bytes) {
    return qs_grow(&narrow->packed, &narrow->packed_capacity, (size_t)bytes, 1);
}

static void pack(const qs__mpi_request *request, int64_t piece, char *to) {
    qs__wire_pack(request->base.wire, request->values, request->base.residual, request->base.unit, piece, to);
}

/* ---- All send all -------------------------------------------------------------------------------------------------------------- */

static qs_status gather_start(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__narrow *narrow = comm->narrow;
    const int64_t bytes = request->base.wire->bytes(piece);
    QS_TRY(room_for(narrow, comm->base.size * bytes));
    pack(request, piece, narrow->packed + comm->base.rank * bytes);
    return qs__mpi_check(
        MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, narrow->packed, (int)bytes, MPI_BYTE, narrow->ranks, &narrow->moving),
        "all-reduce");
}

/* Every rank's message of `bytes` lies behind that of the rank before. */
static void terms_add(const qs__mpi_comm *comm, const char *packed, int64_t bytes, int64_t count, float *into) {
    const qs__narrow *narrow = comm->narrow;
    for (int rank = 0; rank < comm->base.size; rank++)
        narrow->term[rank] = (qs__wire_term){packed + rank * bytes, false};
    qs__wire_add(narrow->first->base.wire, comm->base.size, narrow->term, count, into);
}

/* ---- Each adds up a part -------------------------------------------------------------------------------------------------------- */

static qs_status parts_start(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__narrow *narrow = comm->narrow;
    const qs__wire *wire = request->base.wire;
    const int size = comm->base.size, rank = comm->base.rank;
    const int64_t own = part_begin(piece, size, rank + 1) - part_begin(piece, size, rank), whole = wire->bytes(piece);
    int *sends = narrow->layout, *send_at = sends + size, *receives = send_at + size, *receive_at = receives + size;
    QS_TRY(room_for(narrow, whole + size * wire->bytes(own)));
    pack(request, piece, narrow->packed);
    for (int r = 0; r < size; r++) {
        const int64_t first = part_begin(piece, size, r), end = part_begin(piece, size, r + 1);
        sends[r] = (int)wire->bytes(end - first);
        send_at[r] = (int)wire->bytes(first);
        receives[r] = (int)wire->bytes(own);
        receive_at[r] = (int)(r * wire->bytes(own));
    }
    return qs__mpi_check(MPI_Ialltoallv(narrow->packed, sends, send_at, MPI_BYTE, narrow->packed + whole, receives, receive_at, MPI_BYTE,
                                        narrow->ranks, &narrow->moving),
                         "all-reduce");
}

static qs_status sums_gather(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__narrow *narrow = comm->narrow;
    const qs__wire *wire = request->base.wire;
    const int size = comm->base.size, rank = comm->base.rank;
    const int64_t first = part_begin(piece, size, rank), own = part_begin(piece, size, rank + 1) - first;
    int *counts = narrow->layout, *at = counts + size;
    terms_add(comm, narrow->packed + wire->bytes(piece), wire->bytes(own), own, request->values + first);
    for (int r = 0; r < size; r++) {
        at[r] = (int)part_begin(piece, size, r);
        counts[r] = (int)(part_begin(piece, size, r + 1) - at[r]);
    }
    return qs__mpi_check(
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, request->values, counts, at, MPI_FLOAT, narrow->ranks, &narrow->moving),
        "all-reduce");
}

/* ---- One after the other --------------------------------------------------------------------------------------------------------- */

static bool gathers(const qs__mpi_comm *comm, const qs__mpi_request *request) {
    return qs__wire_gathers(request->base.wire, comm->base.size);
}

static qs_status piece_start(qs__mpi_comm *comm) {
    const qs__mpi_request *request = comm->narrow->first;
    const int64_t piece = piece_of(request);
    return gathers(comm, request) ? gather_start(comm, request, piece) : parts_start(comm, request, piece);
}

static void first_done(qs__narrow *narrow) {
    narrow->first->base.done = true;
    narrow->first = narrow->first->later;
    if (!narrow->first) narrow->last = NULL;
}

/* The call at hand has ended: sums, then the next call of the piece, of the next piece, of the next all-reduce. */
static qs_status narrow_next(qs__mpi_comm *comm) {
    qs__narrow *narrow = comm->narrow;
    qs__mpi_request *request = narrow->first;
    const int64_t piece = piece_of(request);
    if (gathers(comm, request)) {
        terms_add(comm, narrow->packed, request->base.wire->bytes(piece), piece, request->values);
    } else if (request->round++ == 0) {
        return sums_gather(comm, request, piece);
    }
    request->round = 0;
    request->values += piece;
    request->base.residual += piece;
    request->left -= piece;
    if (request->left == 0) first_done(narrow);
    return narrow->first ? piece_start(comm) : QS_OK;
}

/* Goes on while calls have ended; with `until`, also waits for them up to its end. */
static qs_status narrow_run(qs__mpi_comm *comm, const qs__mpi_request *until) {
    qs__narrow *narrow = comm->narrow;
    while (narrow->first && !(until && until->base.done)) {
        int done = 1;
        const int code = until ? MPI_Wait(&narrow->moving, MPI_STATUS_IGNORE) : MPI_Test(&narrow->moving, &done, MPI_STATUS_IGNORE);
        QS_TRY(qs__mpi_check(code, "all-reduce"));
        if (!done) break;
        QS_TRY(narrow_next(comm));
    }
    return QS_OK;
}

/* After a failure there is nothing more to wait for. */
static qs_status narrow_progress(qs__mpi_comm *comm, const qs__mpi_request *until) {
    const qs_status status = narrow_run(comm, until);
    while (status != QS_OK && comm->narrow->first)
        first_done(comm->narrow);
    return status;
}

qs_status qs__mpi_narrow_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request) {
    request->base.done = count == 0 || comm->base.size == 1;
    if (request->base.done) return QS_OK;
    if (!comm->narrow) QS_TRY(narrow_make(comm, request));
    request->values = values;
    request->left = count;
    request->round = 0;
    request->later = NULL;
    qs__narrow *narrow = comm->narrow;
    if (narrow->last) {
        narrow->last->later = request;
        narrow->last = request;
        return QS_OK;
    }
    narrow->first = narrow->last = request;
    const qs_status status = piece_start(comm);
    if (status != QS_OK) first_done(narrow);
    return status;
}

qs_status qs__mpi_narrow_test(qs__mpi_comm *comm) {
    return comm->narrow ? narrow_progress(comm, NULL) : QS_OK;
}

qs_status qs__mpi_narrow_wait(qs__mpi_comm *comm, qs__mpi_request *request) {
    return narrow_progress(comm, request);
}
