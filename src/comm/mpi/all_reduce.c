// SPDX-License-Identifier: Apache-2.0
/* All-reduces over MPI: the library's own, or the rounds of rounds.c as messages between pairs. The latter work alike over every MPI
 * library, cost what their formula says, and can be chosen for each communicator; libraries let their algorithm be chosen per process at
 * best, each by other means. Rounds go on only inside calls, as the library's do: when a request is tested or waited for. */
#include "mpi_internal.h"

enum { TAG = 1 };

/* ---- The library's own ------------------------------------------------------------------------------------------------------- */

static int64_t piece_of(int64_t count) {
    return count < qs__comm_piece ? count : qs__comm_piece;
}

static MPI_Request *pieces_of(qs__mpi_request *request) {
    return request->pieces > 1 ? request->piece : &request->one;
}

qs_status qs__mpi_library_start(qs_comm *comm, float *values, int64_t count, qs__mpi_request *request) {
    int64_t pieces = count / qs__comm_piece + (count % qs__comm_piece != 0);
    if (pieces > 1) QS_TRY(qs_grow(&request->piece, &request->capacity, (size_t)pieces, sizeof(MPI_Request)));
    request->pieces = (int)pieces;
    MPI_Request *piece = pieces_of(request);
    for (int64_t i = 0; i < pieces; i++)
        piece[i] = MPI_REQUEST_NULL;
    for (int64_t i = 0; i < pieces; i++) {
        const int64_t first = i * qs__comm_piece;
        const int length = (int)piece_of(count - first);
        QS_TRY(qs__mpi_check(MPI_Iallreduce(MPI_IN_PLACE, values + first, length, MPI_FLOAT, MPI_SUM, qs__mpi_ranks(comm), &piece[i]),
                             "all-reduce"));
    }
    request->base.done = pieces == 0;
    return QS_OK;
}

qs_status qs__mpi_library_test(qs__mpi_request *request) {
    int done = 0;
    QS_TRY(qs__mpi_check(MPI_Testall(request->pieces, pieces_of(request), &done, MPI_STATUSES_IGNORE), "all-reduce"));
    request->base.done = done;
    return QS_OK;
}

qs_status qs__mpi_library_wait(qs__mpi_request *request) {
    request->base.done = true; /* after a failure as well: there is nothing more to wait for */
    return qs__mpi_check(MPI_Waitall(request->pieces, pieces_of(request), MPI_STATUSES_IGNORE), "all-reduce");
}

/* ---- Rounds ------------------------------------------------------------------------------------------------------------------ */

static qs__round round_of(const qs__mpi_comm *comm, const qs__mpi_request *request) {
    return request->algorithm->at(comm->base.size, comm->base.position, piece_of(request->left), request->round);
}

/* Sums arrive beside the values, everything else in its place. */
static qs_status round_start(qs__mpi_comm *comm) {
    const qs__mpi_request *request = comm->first;
    const qs__round round = round_of(comm, request);
    float *target = request->values + round.receive_first;
    if (round.receive_count > 0 && round.adds) {
        QS_TRY(qs_grow(&comm->incoming, &comm->incoming_capacity, (size_t)round.receive_count, sizeof *comm->incoming));
        target = comm->incoming;
    }
    if (round.receive_count > 0) {
        const int from = qs__comm_rank_at(&comm->base, round.receive_from);
        QS_TRY(
            qs__mpi_check(MPI_Irecv(target, (int)round.receive_count, MPI_FLOAT, from, TAG, comm->ranks, &comm->receiving), "all-reduce"));
    }
    if (round.send_count == 0) return QS_OK;
    const float *source = request->values + round.send_first;
    const int to = qs__comm_rank_at(&comm->base, round.send_to);
    return qs__mpi_check(MPI_Isend(source, (int)round.send_count, MPI_FLOAT, to, TAG, comm->ranks, &comm->sending), "all-reduce");
}

static void round_add(const qs__mpi_comm *comm) {
    const qs__round round = round_of(comm, comm->first);
    float *restrict values = comm->first->values + round.receive_first;
    const float *restrict incoming = comm->incoming;
    for (int64_t i = 0; round.adds && i < round.receive_count; i++)
        values[i] += incoming[i];
}

static void first_done(qs__mpi_comm *comm) {
    comm->first->base.done = true;
    comm->first = comm->first->later;
    if (!comm->first) comm->last = NULL;
}

/* The round at hand has ended: the next one of its piece, of the next piece, of the next all-reduce. */
static qs_status round_next(qs__mpi_comm *comm) {
    qs__mpi_request *request = comm->first;
    round_add(comm);
    if (++request->round == request->algorithm->rounds(comm->base.size)) {
        const int64_t piece = piece_of(request->left);
        request->round = 0;
        request->values += piece;
        request->left -= piece;
        if (request->left == 0) first_done(comm);
    }
    return comm->first ? round_start(comm) : QS_OK;
}

/* Goes on while messages have arrived; with `until`, also waits for them up to its end. */
static qs_status rounds_run(qs__mpi_comm *comm, const qs__mpi_request *until) {
    while (comm->first && !(until && until->base.done)) {
        MPI_Request both[] = {comm->receiving, comm->sending};
        int done = 1;
        const int code = until ? MPI_Waitall(2, both, MPI_STATUSES_IGNORE) : MPI_Testall(2, both, &done, MPI_STATUSES_IGNORE);
        comm->receiving = both[0];
        comm->sending = both[1];
        QS_TRY(qs__mpi_check(code, "all-reduce"));
        if (!done) break;
        QS_TRY(round_next(comm));
    }
    return QS_OK;
}

/* After a failure there is nothing more to wait for. */
static qs_status rounds_progress(qs__mpi_comm *comm, const qs__mpi_request *until) {
    const qs_status status = rounds_run(comm, until);
    while (status != QS_OK && comm->first)
        first_done(comm);
    return status;
}

qs_status qs__mpi_rounds_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request) {
    request->values = values;
    request->left = count;
    request->round = 0;
    request->later = NULL;
    request->base.done = count == 0 || comm->base.size == 1;
    if (request->base.done) return QS_OK;
    if (comm->last) {
        comm->last->later = request;
        comm->last = request;
        return QS_OK;
    }
    comm->first = comm->last = request;
    comm->receiving = comm->sending = MPI_REQUEST_NULL;
    const qs_status status = round_start(comm);
    if (status != QS_OK) first_done(comm);
    return status;
}

qs_status qs__mpi_rounds_test(qs__mpi_comm *comm) {
    return rounds_progress(comm, NULL);
}

qs_status qs__mpi_rounds_wait(qs__mpi_comm *comm, const qs__mpi_request *request) {
    return rounds_progress(comm, request);
}
