// SPDX-License-Identifier: Apache-2.0
/* The door of the room: finds the communicator, keeps its requests, and what is the same for all of them: gathering and agreement. */
#include "comm_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 2048 };

int64_t qs__comm_piece = (int64_t)1 << 28;
int qs__comm_direct_most = QS__DIRECT_MOST;
int qs__comm_ranks_per_host = 0;

static const qs__comm_kind *const kinds[] = {
#define QS_COMM(identifier) &qs__comm_##identifier,
#include "comms.def"
#undef QS_COMM
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- Opening --------------------------------------------------------------------------------------------------------------- */

const char *qs_comm_name_at(size_t index) {
    return index < KINDS ? kinds[index]->name : NULL;
}

static const qs__comm_kind *kind_named(const char *name) {
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    }
    return NULL;
}

/* Variables that launchers give each rank: Open MPI, PMIx, MPICH and Intel (PMI), MVAPICH. */
static bool is_launched(void) {
    static const char *const variables[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"};
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        if (getenv(variables[i])) return true;
    }
    /* Slurm sets SLURM_PROCID in batch scripts as well; only a step of several tasks is a launch. */
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    return getenv("SLURM_PROCID") && tasks && atoi(tasks) > 1;
}

static qs_status choose(const char *name, const qs__comm_kind **out) {
    bool chosen = name != NULL;
    if (!chosen) name = is_launched() ? "mpi" : "self";
    *out = kind_named(name);
    if (*out) return QS_OK;
    if (!chosen || strcmp(name, "mpi") == 0) {
        return qs_fail(QS_UNSUPPORTED, "this build has no MPI: run one process without a launcher, or build with QS_WITH_MPI=ON");
    }
    return qs_fail(QS_USAGE, "no communicator \"%s\"; communicators: %s", name, qs_names_join(KINDS, qs_comm_name_at));
}

static void release(qs_comm *comm) {
    free(comm->host);
    free(comm->order);
    free(comm);
}

static qs_status create(const qs__comm_kind *kind, const qs__algorithm *algorithm, qs_comm **out) {
    QS_TRY(qs_allocate(1, kind->comm_bytes, out));
    (*out)->kind = kind;
    (*out)->algorithm = algorithm;
    return QS_OK;
}

qs_status qs_comm_open(const char *name, qs_comm **out) {
    const qs__comm_kind *kind;
    qs_comm *comm;
    QS_TRY(choose(name, &kind));
    QS_TRY(create(kind, qs__algorithm_named("library"), &comm));
    qs_status status = kind->open(comm);
    if (status == QS_OK) status = qs__comm_order(comm);
    if (status == QS_OK) {
        *out = comm;
    } else {
        release(comm);
    }
    return status;
}

qs_status qs_comm_split(qs_comm *comm, int group, qs_comm **out) {
    qs_comm *part;
    *out = NULL;
    QS_TRY(create(comm->kind, comm->algorithm, &part));
    qs_status status = comm->kind->split(comm, group, part);
    if (status == QS_OK && group >= 0) status = qs__comm_order(part);
    if (status == QS_OK && group >= 0) {
        *out = part;
    } else {
        release(part);
    }
    return status;
}

static void free_requests(qs_request *request) {
    while (request) {
        qs_request *next = request->next;
        free(request);
        request = next;
    }
}

void qs_comm_close(qs_comm *comm) {
    if (!comm) return;
    /* MPI must not end while messages are under way; every rank started the same ones. */
    for (qs_request *request = comm->under_way; request; request = request->next) {
        if (!request->done) (void)comm->kind->wait(comm, request);
    }
    comm->kind->close(comm);
    free(comm->host);
    free_requests(comm->under_way);
    free_requests(comm->spare);
    free(comm);
}

int qs_comm_rank(const qs_comm *comm) {
    return comm->rank;
}

int qs_comm_size(const qs_comm *comm) {
    return comm->size;
}

const char *qs_comm_name(const qs_comm *comm) {
    return comm->kind->name;
}

const char *qs_comm_library(const qs_comm *comm) {
    return comm->kind->library ? comm->kind->library() : comm->kind->name;
}

/* ---- All-reduce ------------------------------------------------------------------------------------------------------------ */

static qs_status take_request(qs_comm *comm, qs_request **out) {
    if (comm->spare) {
        *out = comm->spare;
        comm->spare = (*out)->next;
    } else {
        QS_TRY(qs_allocate(1, comm->kind->request_bytes, out));
    }
    (*out)->done = false;
    (*out)->next = comm->under_way;
    comm->under_way = *out;
    return QS_OK;
}

static void recycle(qs_comm *comm, qs_request *request) {
    qs_request **at = &comm->under_way;
    while (*at && *at != request)
        at = &(*at)->next;
    if (*at) *at = request->next;
    request->next = comm->spare;
    comm->spare = request;
}

static qs_status check_count(const char *what, int64_t count) {
    return count >= 0 ? QS_OK : qs_fail(QS_USAGE, "%s: count %lld must be at least 0", what, (long long)count);
}

qs_status qs_comm_all_reduce_start(qs_comm *comm, float *values, int64_t count, qs_request **out) {
    return qs_comm_all_reduce_wire_start(comm, "fp32", values, NULL, 1, count, out);
}

qs_status qs_comm_all_reduce_wire_start(qs_comm *comm, const char *wire, float *values, float *residual, float unit, int64_t count,
                                        qs_request **out) {
    qs_request *request;
    QS_TRY(check_count("all-reduce", count));
    QS_TRY(qs_comm_wire_check(wire, comm->algorithm->name));
    if (!(unit > 0)) return qs_fail(QS_USAGE, "all-reduce: unit %g must be above 0", (double)unit);
    QS_TRY(take_request(comm, &request));
    request->wire = qs__wire_named(wire);
    request->residual = residual;
    request->unit = unit;
    qs_status status = comm->kind->start(comm, values, count, request);
    if (status == QS_OK) {
        *out = request;
    } else {
        recycle(comm, request);
    }
    return status;
}

qs_status qs_comm_test(qs_comm *comm, qs_request *request, bool *done) {
    if (!request->done) QS_TRY(comm->kind->test(comm, request));
    if (done) *done = request->done;
    return QS_OK;
}

qs_status qs_comm_wait(qs_comm *comm, qs_request *request) {
    qs_status status = request->done ? QS_OK : comm->kind->wait(comm, request);
    recycle(comm, request);
    return status;
}

/* The non-blocking form and nothing else: both give the same bits. */
qs_status qs_comm_wire_check(const char *wire, const char *algorithm) {
    size_t wires = 0;
    if (strcmp(wire, "fp32") == 0) return QS_OK;
    while (qs_comm_wire_at(wires))
        wires++;
    if (!qs__wire_named(wire)) return qs_fail(QS_UNSUPPORTED, "wire %s: there are %s", wire, qs_names_join(wires, qs_comm_wire_at));
    const qs__algorithm *one = qs__algorithm_named(algorithm);
    if (!one || one->way == QS__LIBRARY || one->way == QS__WINDOW) return QS_OK;
    if (one->way == QS__DEVICES)
        return qs_fail(QS_UNSUPPORTED, "wire %s: devices add up fp32 alone; choose all-reduce shared or library, or wire fp32", wire);
    return qs_fail(QS_UNSUPPORTED, "wire %s: all-reduce %s passes on partial sums, in fp32 only; choose shared or library, or wire fp32",
                   wire, algorithm);
}

qs_status qs_comm_all_reduce(qs_comm *comm, float *values, int64_t count) {
    qs_request *request;
    QS_TRY(qs_comm_all_reduce_start(comm, values, count, &request));
    return qs_comm_wait(comm, request);
}

/* ---- Small collectives ----------------------------------------------------------------------------------------------------- */

qs_status qs_comm_sum(qs_comm *comm, double *values, int64_t count) {
    QS_TRY(check_count("sum", count));
    return comm->kind->fold(comm, QS__SUM, values, count);
}

qs_status qs_comm_max(qs_comm *comm, double *values, int64_t count) {
    QS_TRY(check_count("maximum", count));
    return comm->kind->fold(comm, QS__MAXIMUM, values, count);
}

qs_status qs_comm_broadcast(qs_comm *comm, void *data, int64_t bytes, int root) {
    QS_TRY(check_count("broadcast", bytes));
    if (root < 0 || root >= comm->size) return qs_fail(QS_USAGE, "broadcast: root %d is outside 0 .. %d", root, comm->size - 1);
    return comm->kind->broadcast(comm, data, bytes, root);
}

qs_status qs_comm_broadcast_text(qs_comm *comm, char **text, int root) {
    int64_t bytes = *text ? (int64_t)strlen(*text) + 1 : 0;
    QS_TRY(qs_comm_broadcast(comm, &bytes, sizeof bytes, root));
    if (bytes == 0) return QS_OK;
    QS_TRY(qs_comm_agree(comm, *text ? QS_OK : qs_allocate((size_t)bytes, 1, text)));
    return qs_comm_broadcast(comm, *text, bytes, root);
}

qs_status qs_comm_barrier(qs_comm *comm) {
    return comm->kind->barrier(comm);
}

void qs_comm_abort(qs_comm *comm, int exit_code) {
    comm->kind->abort(comm, exit_code);
}

/* ---- Gathering ------------------------------------------------------------------------------------------------------------- */

static qs_status room_for(const qs_comm *comm, const int64_t *sizes, char **data) {
    int64_t total = 0;
    for (int rank = 0; rank < comm->size; rank++) {
        if (sizes[rank] > INT64_MAX - total) return qs_fail(QS_OUT_OF_MEMORY, "gather: the ranks' data exceed 2^63 bytes");
        total += sizes[rank];
    }
    return qs_allocate((size_t)total + 1, 1, data); /* one more: text is ended */
}

/* Rank 0 alone allocates, so whether it could is agreed on before the others send. */
qs_status qs_comm_gather(qs_comm *comm, const void *mine, int64_t bytes, char **data, int64_t **sizes) {
    char *block = NULL;
    int64_t *lengths = NULL;
    qs_status status = check_count("gather", bytes);
    if (status == QS_OK) status = qs_allocate((size_t)comm->size, sizeof *lengths, &lengths);
    QS_GOTO(qs_comm_agree(comm, status));
    QS_GOTO(comm->kind->gather_sizes(comm, bytes, lengths));
    if (comm->rank == 0) status = room_for(comm, lengths, &block);
    QS_GOTO(qs_comm_agree(comm, status));
    QS_GOTO(comm->kind->gather_bytes(comm, mine, lengths, bytes, block));
done:
    if (status != QS_OK || comm->rank != 0) {
        free(block);
        free(lengths);
        block = NULL;
        lengths = NULL;
    }
    if (status == QS_OK) {
        *data = block;
        *sizes = lengths;
    }
    return status;
}

/* ---- Agreement ------------------------------------------------------------------------------------------------------------- */

/* How bad a status is: a lost peer is often the echo of another rank's failure, and a pre-empted run may only be called so when nothing
 * failed. */
static int severity(qs_status status) {
    switch (status) {
    case QS_OK:
        return 0;
    case QS_PREEMPTED:
        return 1;
    case QS_PEER_LOST:
        return 2;
    default:
        return 2 + (int)status;
    }
}

static qs_status status_of(int level) {
    switch (level) {
    case 0:
        return QS_OK;
    case 1:
        return QS_PREEMPTED;
    case 2:
        return QS_PEER_LOST;
    default:
        return (qs_status)(level - 2);
    }
}

qs_status qs_comm_agree(qs_comm *comm, qs_status mine) {
    if (comm->size == 1) return mine;
    char text[MESSAGE_BYTES] = "";
    snprintf(text, sizeof text, "%s", qs_message());
    /* The largest of (severity, lowest rank): exact in a double for any number of ranks. */
    double worst = (double)severity(mine) * comm->size + (comm->size - 1 - comm->rank);
    QS_TRY(qs_comm_max(comm, &worst, 1));
    int64_t code = (int64_t)worst;
    qs_status agreed = status_of((int)(code / comm->size));
    if (agreed == QS_OK) return QS_OK;
    int rank = comm->size - 1 - (int)(code % comm->size);
    QS_TRY(qs_comm_broadcast(comm, text, sizeof text, rank));
    text[sizeof text - 1] = '\0';
    return qs_fail(agreed, "rank %d: %s", rank, text);
}

qs_status qs_comm_compare(qs_comm *comm, const char *what, uint64_t value) {
    uint64_t first = value;
    QS_TRY(qs_comm_broadcast(comm, &first, sizeof first, 0));
    const bool same = value == first;
    return qs_comm_agree(comm, same ? QS_OK : qs_fail(QS_MISMATCH, "its %s is not that of rank 0; start all ranks alike", what));
}
