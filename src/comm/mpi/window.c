// SPDX-License-Identifier: Apache-2.0
/* "shared": sums through memory that the ranks of a host share (an MPI-3 shared window). A message is cut into chunks; each rank has a ring
 * of slots in the window, one chunk each, which its neighbours read. So who comes first leaves its values there and goes on, who comes last
 * adds up at once, and nothing is allocated or sent for a message.
 *
 * All ranks walk through the same sequence of chunks with three cursors: WRITE puts values into slots, SUM adds up this rank's part of a
 * chunk where additions are shared out, TAKE brings sums into the values. Each cursor publishes how far it is in a counter in the window.
 *
 * On several hosts a message passes twice: first the sums of a host go to its leader, the leaders add them up by the ring, then the leader
 * spreads the result.
 *
 * On a compressed wire slots hold packed values, more of them; what is spread, and the parts that ranks add up for others, are fp32.
 *
 * Memory order. A counter is written by one rank alone: released after the reads and writes of slots that it tells of, acquired by others
 * before they touch the same slots. WRITE and SUM counters so publish what a slot holds; the TAKE counter publishes that its reads are over
 * before the owner writes there again. The window is one piece of coherent memory and the counters are free of locks, therefore good
 * between processes too. */
#include "mpi_internal.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "counters in shared memory must be free of locks");

enum { WRITE, SUM, TAKE, CURSORS };
enum { LINE = 128 };                  /* bytes; counters that different ranks write lie apart, also from the line that is fetched along */
enum { PART = LINE / sizeof(float) }; /* parts of a chunk end at such multiples, so that no two ranks write to one line */
enum { PAGE = 4096 };
enum { CHUNK = QS__WINDOW_CHUNK / sizeof(float) };
enum { PARTS_AT = CHUNK / 2 }; /* on a compressed wire: where a slot has sums of parts, behind the half chunk that was sent */
enum { SPINS = 200, ROUND_OF_YIELDS = 16, NO_TAG = 2 /* of messages that nobody sends */ };

typedef struct segment {
    struct {
        _Alignas(LINE) atomic_ullong passed; /* chunks, since the window was made */
    } counter[CURSORS];
    _Alignas(LINE) float slot[];
} segment;

/* The next chunk: `first` elements into the request's pass `pass`; request NULL: there is none yet. */
typedef struct cursor {
    uint64_t index;
    qs__mpi_request *request;
    int pass;
    int64_t first;
} cursor;

typedef struct qs__window {
    MPI_Comm host;
    MPI_Win memory;
    bool locked;
    int ranks, rank; /* of the host */
    int slots;
    segment **segment;   /* (ranks) */
    const float **term;  /* (ranks) of a sum at hand */
    qs__wire_term *sent; /* (ranks) the same on a compressed wire */
    int passes;          /* 1, or 2 on several hosts */
    qs_comm *leaders;    /* the first rank of every host; NULL: one host, or not a leader */
    cursor cursor[CURSORS];
    qs__mpi_request *last;
} qs__window;

/* ---- Making and releasing ---------------------------------------------------------------------------------------------------- */

/* So that no all-reduce takes page faults, and the process is as large from the start as it will be. */
static void neighbours_touch(const qs__window *window) {
    for (int rank = 0; rank < window->ranks; rank++)
        for (size_t i = 0; i < (size_t)window->slots * CHUNK; i += PAGE / sizeof(float))
            (void)*(const volatile float *)&window->segment[rank]->slot[i];
}

/* Segments apart from one another, so that each lies in memory near its rank. Mappings begin with pages, so all ranks find the same line
 * at the same place. */
static qs_status memory_make(qs__window *window) {
    const MPI_Aint bytes = (MPI_Aint)sizeof(segment) + LINE + (MPI_Aint)window->slots * CHUNK * (MPI_Aint)sizeof(float);
    MPI_Info info;
    void *own;
    QS_TRY(qs__mpi_check(MPI_Info_create(&info), "window"));
    MPI_Info_set(info, "alloc_shared_noncontig", "true");
    const int code = MPI_Win_allocate_shared(bytes, 1, info, window->host, (void *)&own, &window->memory);
    MPI_Info_free(&info);
    QS_TRY(qs__mpi_check(code, "window"));
    QS_TRY(qs__mpi_check(MPI_Win_set_errhandler(window->memory, MPI_ERRORS_RETURN), "window"));
    QS_TRY(qs__mpi_check(MPI_Win_lock_all(MPI_MODE_NOCHECK, window->memory), "window"));
    window->locked = true;
    for (int rank = 0; rank < window->ranks; rank++) {
        MPI_Aint size;
        int unit;
        char *base;
        QS_TRY(qs__mpi_check(MPI_Win_shared_query(window->memory, rank, &size, &unit, (void *)&base), "window"));
        window->segment[rank] = (segment *)(base + (LINE - (uintptr_t)base % LINE) % LINE);
    }
    for (int c = 0; c < CURSORS; c++)
        atomic_init(&window->segment[window->rank]->counter[c].passed, 0);
    memset(window->segment[window->rank]->slot, 0, (size_t)window->slots * CHUNK * sizeof(float));
    QS_TRY(qs__mpi_check(MPI_Barrier(window->host), "window"));
    neighbours_touch(window);
    return QS_OK;
}

static qs_status window_fill(qs__mpi_comm *comm, qs__window *window) {
    QS_TRY(qs__mpi_host_split(comm, &window->host));
    QS_TRY(qs__mpi_check(MPI_Comm_set_errhandler(window->host, MPI_ERRORS_RETURN), "error handler"));
    QS_TRY(qs__mpi_check(MPI_Comm_rank(window->host, &window->rank), "rank"));
    QS_TRY(qs__mpi_check(MPI_Comm_size(window->host, &window->ranks), "size"));
    QS_TRY(qs_allocate((size_t)window->ranks, sizeof(segment *), &window->segment));
    QS_TRY(qs_allocate((size_t)window->ranks, sizeof(float *), &window->term));
    QS_TRY(qs_allocate((size_t)window->ranks, sizeof *window->sent, &window->sent));
    window->slots = qs__window_slots(window->ranks);
    window->passes = qs_comm_hosts(&comm->base) > 1 ? 2 : 1;
    QS_TRY(memory_make(window));
    if (window->passes == 1) return QS_OK;
    return qs_comm_split(&comm->base, window->rank == 0 ? 0 : -1, &window->leaders);
}

static qs_status window_make(qs__mpi_comm *comm, const qs__mpi_request *beginning) {
    QS_TRY(qs__mpi_others_end(comm, beginning));
    QS_TRY(qs_allocate(1, sizeof *comm->window, &comm->window));
    comm->window->host = MPI_COMM_NULL;
    comm->window->memory = MPI_WIN_NULL;
    const qs_status status = window_fill(comm, comm->window);
    if (status != QS_OK) qs__mpi_window_release(comm);
    return status;
}

void qs__mpi_window_release(qs__mpi_comm *comm) {
    qs__window *window = comm->window;
    if (!window) return;
    qs_comm_close(window->leaders);
    if (window->locked) MPI_Win_unlock_all(window->memory);
    if (window->memory != MPI_WIN_NULL) MPI_Win_free(&window->memory);
    if (window->host != MPI_COMM_NULL) MPI_Comm_free(&window->host);
    free(window->segment);
    free(window->term);
    free(window->sent);
    free(window);
    comm->window = NULL;
}

/* ---- One chunk ---------------------------------------------------------------------------------------------------------------- */

static bool is_leader(const qs__window *window) {
    return window->rank == 0;
}

/* Whether ranks from `first` to before `end` have all passed a chunk. */
static bool have_passed(const qs__window *window, int which, int first, int end, uint64_t index) {
    for (int rank = first; rank < end; rank++)
        if (atomic_load_explicit(&window->segment[rank]->counter[which].passed, memory_order_acquire) <= index) return false;
    return true;
}

static float *slot_of(const qs__window *window, int rank, uint64_t index) {
    return window->segment[rank]->slot + index % (uint64_t)window->slots * CHUNK;
}

/* What is spread is fp32 on any wire. */
static int64_t length_of(const cursor *at) {
    const int64_t left = at->request->count - at->first, chunk = at->request->chunk;
    const int64_t most = at->pass == 1 && chunk > CHUNK ? CHUNK : chunk;
    return left < most ? left : most;
}

static int64_t part_begin(const qs__window *window, const cursor *at, int rank) {
    const int64_t length = length_of(at), unit = at->request->base.wire ? QS__WIRE_BLOCK : PART;
    const int64_t part = (length + window->ranks * unit - 1) / (window->ranks * unit) * unit;
    return part * rank < length ? part * rank : length;
}

/* Where a rank leaves the sums of its part, in the slot of a chunk. */
static float *part_sums(const qs__window *window, const cursor *at, int rank) {
    float *slot = slot_of(window, rank, at->index);
    return at->request->base.wire ? slot + PARTS_AT : slot + part_begin(window, at, rank);
}

/* On a leader of several hosts, spreading begins when the hosts have met. */
static qs_status hosts_met(qs__window *window, qs__mpi_request *request, bool *met) {
    if (request->between && !request->met) QS_TRY(qs_comm_test(window->leaders, request->between, &request->met));
    *met = request->met;
    if (!request->met || !request->between) return QS_OK;
    qs_request *between = request->between;
    request->between = NULL;
    return qs_comm_wait(window->leaders, between);
}

/* A leader's values need not pass through the window to itself. */
static bool writes(const qs__window *window, const cursor *at) {
    if (at->pass == 1) return is_leader(window);
    return window->passes == 1 || at->request->scattered || !is_leader(window);
}

static void slot_write(const cursor *at, float *slot) {
    const qs_request *request = &at->request->base;
    const float *values = at->request->values + at->first;
    if (request->wire && at->pass == 0)
        qs__wire_pack(request->wire, values, request->residual + at->first, request->unit, length_of(at), slot);
    else
        memcpy(slot, values, (size_t)length_of(at) * sizeof(float));
}

static qs_status write_step(qs__window *window, cursor *at, bool *moved) {
    const uint64_t slots = (uint64_t)window->slots;
    if (at->index >= slots && !have_passed(window, TAKE, 0, window->ranks, at->index - slots)) return QS_OK;
    if (!writes(window, at)) {
        *moved = true;
        return QS_OK;
    }
    if (at->pass == 1) {
        QS_TRY(hosts_met(window, at->request, moved));
        if (!*moved) return QS_OK;
    }
    slot_write(at, slot_of(window, window->rank, at->index));
    *moved = true;
    return QS_OK;
}

/* From slots, from element `first` of the chunk on; own: this rank's values where it wrote none. */
static void sent_add(qs__window *window, const cursor *at, int64_t first, int64_t count, const float *own, float *into) {
    const qs__wire *wire = at->request->base.wire;
    for (int rank = 0; rank < window->ranks; rank++)
        window->sent[rank] = (qs__wire_term){(const char *)slot_of(window, rank, at->index) + wire->bytes(first), false};
    if (own) window->sent[window->rank] = (qs__wire_term){own, true};
    qs__wire_add(wire, window->ranks, window->sent, count, into);
}

static bool sum_step(qs__window *window, const cursor *at) {
    if (!at->request->scattered || at->pass == 1) return true;
    if (!have_passed(window, WRITE, 0, window->ranks, at->index)) return false;
    const int64_t first = part_begin(window, at, window->rank), count = part_begin(window, at, window->rank + 1) - first;
    float *sums = part_sums(window, at, window->rank);
    if (at->request->base.wire) {
        sent_add(window, at, first, count, NULL, sums);
        return true;
    }
    for (int rank = 0; rank < window->ranks; rank++)
        window->term[rank] = slot_of(window, rank, at->index) + first;
    qs__mpi_terms_add(window->ranks, window->term, count, sums);
    return true;
}

/* Everyone adds up everything: in the same order, so with equal bits. On a compressed wire what was sent counts, also one's own, unless it
 * never left: a leader's. */
static bool direct_take(qs__window *window, const cursor *at) {
    if (!have_passed(window, WRITE, 0, window->ranks, at->index)) return false;
    float *values = at->request->values + at->first;
    if (at->request->base.wire) {
        sent_add(window, at, 0, length_of(at), writes(window, at) ? NULL : values, values);
        return true;
    }
    for (int rank = 0; rank < window->ranks; rank++)
        window->term[rank] = rank == window->rank ? values : slot_of(window, rank, at->index);
    qs__mpi_terms_add(window->ranks, window->term, length_of(at), values);
    return true;
}

static bool scattered_take(qs__window *window, const cursor *at) {
    if (!have_passed(window, SUM, 0, window->ranks, at->index)) return false;
    for (int rank = 0; rank < window->ranks; rank++) {
        const int64_t first = part_begin(window, at, rank), end = part_begin(window, at, rank + 1);
        memcpy(at->request->values + at->first + first, part_sums(window, at, rank), (size_t)(end - first) * sizeof(float));
    }
    return true;
}

/* What the leader spreads. */
static bool spread_take(const qs__window *window, const cursor *at) {
    if (!have_passed(window, WRITE, 0, 1, at->index)) return false;
    memcpy(at->request->values + at->first, slot_of(window, 0, at->index), (size_t)length_of(at) * sizeof(float));
    return true;
}

static bool take_step(qs__window *window, const cursor *at) {
    const bool takes = window->passes == 1 || is_leader(window) == (at->pass == 0);
    if (!takes) return true;
    if (at->pass == 1) return spread_take(window, at);
    return at->request->scattered ? scattered_take(window, at) : direct_take(window, at);
}

/* ---- Cursors ------------------------------------------------------------------------------------------------------------------ */

/* A host's sums are complete: its leader meets the others; what they leave out joins what it left out before. */
static qs_status pass_end(qs__window *window, cursor *at) {
    qs__mpi_request *request = at->request;
    const qs__wire *wire = request->base.wire;
    if (at != &window->cursor[TAKE] || at->pass > 0 || !window->leaders) return QS_OK;
    QS_TRY(qs_comm_algorithm_set(window->leaders, wire ? "library" : "ring"));
    return qs_comm_all_reduce_wire_start(window->leaders, wire ? wire->name : "fp32", request->values, request->base.residual,
                                         request->base.unit, request->count, &request->between);
}

static qs_status cursor_next(qs__window *window, cursor *at) {
    qs__mpi_request *request = at->request;
    at->first += length_of(at);
    at->index++;
    if (at->first < request->count) return QS_OK;
    at->first = 0;
    QS_TRY(pass_end(window, at));
    if (++at->pass < window->passes) return QS_OK;
    at->pass = 0;
    at->request = request->later;
    request->base.done = ++request->cursors == CURSORS;
    return QS_OK;
}

/* As far as it goes now. */
static qs_status cursor_run(qs__window *window, int which, bool *any) {
    cursor *at = &window->cursor[which];
    while (at->request) {
        bool moved = false;
        if (which == WRITE)
            QS_TRY(write_step(window, at, &moved));
        else
            moved = which == SUM ? sum_step(window, at) : take_step(window, at);
        if (!moved) break;
        *any = true;
        QS_TRY(cursor_next(window, at));
        atomic_store_explicit(&window->segment[window->rank]->counter[which].passed, at->index, memory_order_release);
    }
    return QS_OK;
}

static qs_status window_run(qs__window *window, bool *any) {
    for (bool moved = true; moved; *any = *any || moved) {
        moved = false;
        for (int which = 0; which < CURSORS; which++)
            QS_TRY(cursor_run(window, which, &moved));
    }
    return QS_OK;
}

/* After a failure there is nothing more to wait for. */
static qs_status window_progress(qs__window *window, bool *any) {
    const qs_status status = window_run(window, any);
    for (int which = 0; which < CURSORS && status != QS_OK; which++) {
        for (; window->cursor[which].request; window->cursor[which].request = window->cursor[which].request->later)
            window->cursor[which].request->base.done = true;
    }
    return status;
}

/* ---- For all_reduce.c ----------------------------------------------------------------------------------------------------------- */

static void append(qs__window *window, qs__mpi_request *request) {
    bool under_way = false;
    for (int which = 0; which < CURSORS; which++)
        under_way = under_way || window->cursor[which].request;
    if (under_way) window->last->later = request;
    window->last = request;
    for (int which = 0; which < CURSORS; which++)
        if (!window->cursor[which].request) window->cursor[which].request = request;
}

/* On a compressed wire whole blocks, and so few that packed values, and behind them sums where these are shared out, fit a slot. */
static int64_t chunk_of(const qs__mpi_request *request) {
    const qs__wire *wire = request->base.wire;
    int64_t most = CHUNK;
    if (wire && !request->scattered) most = QS__WINDOW_CHUNK / wire->bytes(QS__WIRE_BLOCK) * QS__WIRE_BLOCK;
    if (qs__comm_piece < most) most = qs__comm_piece;
    return wire ? qs__wire_blocks(most) : most;
}

qs_status qs__mpi_window_start(qs__mpi_comm *comm, float *values, int64_t count, qs__mpi_request *request) {
    request->base.done = count == 0 || comm->base.size == 1;
    if (request->base.done) return QS_OK;
    if (!comm->window) QS_TRY(window_make(comm, request));
    request->values = values;
    request->count = count;
    request->scattered = comm->window->ranks > qs__comm_direct_most;
    request->chunk = chunk_of(request);
    request->between = NULL;
    request->met = false;
    request->cursors = 0;
    request->later = NULL;
    append(comm->window, request);
    return qs__mpi_window_test(comm);
}

qs_status qs__mpi_window_test(qs__mpi_comm *comm) {
    bool moved = false;
    return window_progress(comm->window, &moved);
}

/* A few looks at memory cost nothing; then the core is offered to others, which may be the very ranks that are waited for, and MPI and the
 * rounds of other all-reduces get their turn. */
static qs_status rest(qs__mpi_comm *comm, int64_t idle) {
    int there;
    if (idle < SPINS) return QS_OK;
    sched_yield();
    if (idle % ROUND_OF_YIELDS != 0) return QS_OK;
    QS_TRY(qs__mpi_check(MPI_Iprobe(MPI_ANY_SOURCE, NO_TAG, comm->ranks, &there, MPI_STATUS_IGNORE), "all-reduce"));
    QS_TRY(qs__mpi_compressed_test(comm));
    return qs__mpi_rounds_test(comm);
}

qs_status qs__mpi_window_wait(qs__mpi_comm *comm, qs__mpi_request *request) {
    qs_status status = QS_OK;
    for (int64_t idle = 0; !request->base.done && status == QS_OK; idle++) {
        bool moved = false;
        status = window_progress(comm->window, &moved);
        if (moved) idle = 0;
        if (status == QS_OK && !request->base.done) status = rest(comm, idle);
    }
    return status;
}
