// SPDX-License-Identifier: Apache-2.0
/* All-reduces on a compressed wire by the library's calls, which cannot add packed values up: they move bytes, and ranks add. All send all
 * where that moves less; otherwise every rank receives its part of all messages, adds it up, and the sums are gathered in fp32.
 *
 * One after the other, as rounds are: the memory is that of the longest, and all ranks start these calls in the same order. They have a
 * communicator of their own, since a rank may start others between them, and another rank not yet. */
#include "mpi_internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct qs__compressed {
    MPI_Comm ranks;
    qs__mpi_request *first, *last; /* the first one has a call under way */
    MPI_Request moving;
    char *packed; /* what was received; sent from here too */
    size_t packed_capacity;
    qs__wire_term *term; /* (ranks) */
    int *layout;         /* (4 x ranks) counts and places of what is sent, then of what is received, while the call reads them */
} qs__compressed;

static qs_status compressed_fill(const qs__mpi_comm *comm, qs__compressed *compressed) {
    const size_t ranks = (size_t)comm->base.size;
    compressed->ranks = MPI_COMM_NULL;
    compressed->moving = MPI_REQUEST_NULL;
    QS_TRY(qs_allocate(ranks, sizeof *compressed->term, &compressed->term));
    QS_TRY(qs_allocate(4 * ranks, sizeof *compressed->layout, &compressed->layout));
    QS_TRY(qs__mpi_check(MPI_Comm_dup(comm->ranks, &compressed->ranks), "communicator"));
    return qs__mpi_check(MPI_Comm_set_errhandler(compressed->ranks, MPI_ERRORS_RETURN), "error handler");
}

static qs_status compressed_make(qs__mpi_comm *comm, const qs__mpi_request *beginning) {
    QS_TRY(qs__mpi_others_end(comm, beginning));
    QS_TRY(qs_allocate(1, sizeof *comm->compressed, &comm->compressed));
    const qs_status status = compressed_fill(comm, comm->compressed);
    if (status != QS_OK) qs__mpi_compressed_release(comm);
    return status;
}

void qs__mpi_compressed_release(qs__mpi_comm *comm) {
    if (!comm->compressed) return;
    if (comm->compressed->ranks != MPI_COMM_NULL) MPI_Comm_free(&comm->compressed->ranks);
    free(comm->compressed->packed);
    free(comm->compressed->term);
    free(comm->compressed->layout);
    free(comm->compressed);
    comm->compressed = NULL;
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

static qs_status room_for(qs__compressed *compressed, int64_t bytes) {
    return qs_grow(&compressed->packed, &compressed->packed_capacity, (size_t)bytes, 1);
}

static void pack(const qs__mpi_request *request, int64_t piece, char *to) {
    qs__wire_pack(request->base.wire, request->values, request->base.residual, request->base.unit, piece, to);
}

/* ---- All send all -------------------------------------------------------------------------------------------------------------- */

static qs_status gather_start(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__compressed *compressed = comm->compressed;
    const int64_t bytes = request->base.wire->bytes(piece);
    QS_TRY(room_for(compressed, comm->base.size * bytes));
    pack(request, piece, compressed->packed + comm->base.rank * bytes);
    return qs__mpi_check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, compressed->packed, (int)bytes, MPI_BYTE, compressed->ranks,
                                        &compressed->moving),
                         "all-reduce");
}

/* Every rank's message of `bytes` lies behind that of the rank before. */
static void terms_add(const qs__mpi_comm *comm, const char *packed, int64_t bytes, int64_t count, float *into) {
    const qs__compressed *compressed = comm->compressed;
    for (int rank = 0; rank < comm->base.size; rank++)
        compressed->term[rank] = (qs__wire_term){packed + rank * bytes, false};
    qs__wire_add(compressed->first->base.wire, comm->base.size, compressed->term, count, into);
}

/* ---- Each adds up a part -------------------------------------------------------------------------------------------------------- */

static qs_status parts_start(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__compressed *compressed = comm->compressed;
    const qs__wire *wire = request->base.wire;
    const int size = comm->base.size, rank = comm->base.rank;
    const int64_t own = part_begin(piece, size, rank + 1) - part_begin(piece, size, rank), whole = wire->bytes(piece);
    int *sends = compressed->layout, *send_at = sends + size, *receives = send_at + size, *receive_at = receives + size;
    QS_TRY(room_for(compressed, whole + size * wire->bytes(own)));
    pack(request, piece, compressed->packed);
    for (int r = 0; r < size; r++) {
        const int64_t first = part_begin(piece, size, r), end = part_begin(piece, size, r + 1);
        sends[r] = (int)wire->bytes(end - first);
        send_at[r] = (int)wire->bytes(first);
        receives[r] = (int)wire->bytes(own);
        receive_at[r] = (int)(r * wire->bytes(own));
    }
    return qs__mpi_check(MPI_Ialltoallv(compressed->packed, sends, send_at, MPI_BYTE, compressed->packed + whole, receives, receive_at,
                                        MPI_BYTE, compressed->ranks, &compressed->moving),
                         "all-reduce");
}

static qs_status sums_gather(qs__mpi_comm *comm, const qs__mpi_request *request, int64_t piece) {
    qs__compressed *compressed = comm->compressed;
    const qs__wire *wire = request->base.wire;
    const int size = comm->base.size, rank = comm->base.rank;
    const int64_t first = part_begin(piece, size, rank), own = part_begin(piece, size, rank + 1) - first;
    int *counts = compressed->layout, *at = counts + size;
    terms_add(comm, compressed->packed + wire->bytes(piece), wire->bytes(own), own, request->values + first);
    for (int r = 0; r < size; r++) {
        at[r] = (int)part_begin(piece, size, r);
        counts[r] = (int)(part_begin(piece, size, r + 1) - at[r]);
    }
    return qs__mpi_check(
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, request->values, counts, at, MPI_FLOAT, compressed->ranks, &compressed->moving),
        "all-reduce");
}

/* ---- One after the other --------------------------------------------------------------------------------------------------------- */

static bool gathers(const qs__mpi_comm *comm, const qs__mpi_request *request) {
    return qs__wire_gathers(request->base.wire, comm->base.size);
}

static qs_status piece_start(qs__mpi_comm *comm) {
    const qs__mpi_request *request = comm->compressed->first;
    const int64_t piece = piece_of(request);
    return gathers(comm, request) ? gather_start(comm, request, piece) : parts_start(comm, request, piece);
}

static void first_done(qs__compressed *compressed) {
    compressed->first->base.done = true;
    compressed->first = compressed->first->later;
    if (!compressed->first) compressed->last = NULL;
}

/* The call at hand has ended: sums, then the next call of the piece, of the next piece, of the next all-reduce. */
static qs_status compressed_next(qs__mpi_comm *comm) {
    qs__compressed *compressed = comm->compressed;
    qs__mpi_request *request = compressed->first;
    const int64_t piece = piece_of(request);
    if (gathers(comm, request)) {
        terms_add(comm, compressed->packed, request->base.wire->bytes(piece), piece, request->values);
    } else if (request->round++ == 0) {
        return sums_gather(comm, request, piece);
    }
    request->round = 0;
    request->values += piece;
    request->base.residual += piece;
    request->left -= piece;
    if (request->left == 0) first_done(compressed);
    return compressed->first ? piece_start(comm) : QS_OK;
}

/* Goes on while calls have ended; with `until`, also waits for them up to its end. */
static qs_status compressed_run(qs__mpi_comm *comm, const qs__mpi_request *until) {
    qs__compressed *compressed = comm->compressed;
    while (compressed->first && !(until && until->base.done)) {
        int done = 1;
        const int code = until ? MPI_Wait(&compressed->moving, MPI_STATUS_IGNORE) : MPI_Test(&compressed->moving, &done, MPI_STATUS_IGNORE);
        QS_TRY(qs__mpi_check(code, "all-reduce"));
        if (!done) break;
        QS_TRY(compressed_next(comm));
    }
    return QS_OK;
}

/* After a failure there is nothing more to wait for. */
static qs_status compressed_progress(qs__mpi_comm *comm, const qs__mpi_request *until) {
    const qs_status status = compressed_run(comm, until);
    while (status != QS_OK && comm->compressed->first)
        first_done(comm->compressed);
    return status;
}

qs_status qs__mpi_compressed_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request) {
    request->base.done = count == 0 || comm->base.size == 1;
    if (request->base.done) return QS_OK;
    if (!comm->compressed) QS_TRY(compressed_make(comm, request));
    request->values = values;
    request->left = count;
    request->round = 0;
    request->later = NULL;
    qs__compressed *compressed = comm->compressed;
    if (compressed->last) {
        compressed->last->later = request;
        compressed->last = request;
        return QS_OK;
    }
    compressed->first = compressed->last = request;
    const qs_status status = piece_start(comm);
    if (status != QS_OK) first_done(compressed);
    return status;
}

qs_status qs__mpi_compressed_test(qs__mpi_comm *comm) {
    return comm->compressed ? compressed_progress(comm, NULL) : QS_OK;
}

qs_status qs__mpi_compressed_wait(qs__mpi_comm *comm, qs__mpi_request *request) {
    return compressed_progress(comm, request);
}
