// SPDX-License-Identifier: Apache-2.0
/* comm: collectives between the ranks of a run (comms.def: `self`, `mpi`).
 *
 * All-reduce sums fp32 in place and delivers equal bits to every rank; what travels may be rounded. Collectives are started in the same
 * order on all ranks. `self` is one process without a launcher; `mpi` starts MPI at open and ends it at close. Buffers stay the caller's
 * and must not move while in use. */
#ifndef QSYNC_COMM_H
#define QSYNC_COMM_H

#include "qsync/base.h"

typedef struct qs_comm qs_comm;
typedef struct qs_request qs_request; /* an all-reduce under way; one per started call, recycled by the communicator */

/* Names of the communicators of this build, NULL past the end. */
QS_API const char *qs_comm_name_at(size_t index);
/* "self", "mpi", or NULL: mpi when started by an MPI launcher (environment), else self. QS_USAGE lists the names; QS_UNSUPPORTED when a
 * launcher started us but this build has no MPI, or when MPI has already ended in this process (it can be opened once). */
QS_API qs_status qs_comm_open(const char *name, qs_comm **out);
/* Waits for what is under way; NULL is fine. All ranks close; after a failure that the others cannot see use qs_comm_abort. */
QS_API void qs_comm_close(qs_comm *comm);
QS_API int qs_comm_rank(const qs_comm *comm);
QS_API int qs_comm_size(const qs_comm *comm);
QS_API const char *qs_comm_name(const qs_comm *comm);
/* What moves the data, with its version ("Open MPI v4.1.4"); the communicator's name where nothing does. */
QS_API const char *qs_comm_library(const qs_comm *comm);
/* Which ranks share a host (its memory): hosts are counted in order of their lowest rank; local ranks count from 0 on each host. */
QS_API int qs_comm_hosts(const qs_comm *comm);
QS_API int qs_comm_host_of(const qs_comm *comm, int rank);
QS_API int qs_comm_local_rank(const qs_comm *comm);
QS_API int qs_comm_local_size(const qs_comm *comm);

/* Communicators of parts: ranks that pass the same group, 0 or above, in their old order; below 0: none, *out is NULL. Collective over
 * comm; inherits its algorithm; close the parts first. */
QS_API qs_status qs_comm_split(qs_comm *comm, int group, qs_comm **out);

/* How all-reduces started from now on are done, by names of the job record; all ranks choose alike. NULL past the end.
 *   shared              ranks of a host add up through memory that they share: each leaves its values there in chunks and goes on, and adds
 *                       up as soon as it finds those of all; hosts meet by the ring, one rank of each (job records' first choice)
 *   library             the MPI library's own way (a communicator's first choice; Open MPI is asked for its ring)
 *   ring                2 (n - 1) messages of bytes/n in series: n chunks are passed round, summed and passed round again
 *   recursive-doubling  log2 n messages of all bytes in series, between pairs 1, 2, 4, ... apart; where n is no power of two, rounded down
 *                       and two more
 *   devices             gradients are added up where they lie, by what devices have among themselves (qs_memory_sum: GPUs by NCCL), in
 *                       fp32; what the host adds up all the same, the library's way
 * All but the library's run one after the other and go on only while one of them is tested or waited for: end them before another
 * collective that waits. Rings and recursive doubling are messages between pairs over any MPI library; host by host, so neighbours share
 * memory where they can, and take bytes/n (ring) or bytes (recursive-doubling) of memory, once. `shared` takes qs_comm_window_bytes, made
 * when the first one starts, for which all ranks wait. Up to 4 ranks of a host each add up whole messages; of more, each adds up a part of
 * every chunk and copies the others'. Both add in order of ranks, so they give equal bits. One process has nothing to choose. */
QS_API const char *qs_comm_algorithm_at(size_t index);
/* Bytes that `shared` takes of the memory that so many ranks of a host share; a process counts all of them as its own. Every rank has room
 * for 2 MiB; beyond 8 ranks for 16 MiB over their number, at least 256 KiB. One rank needs none. */
QS_API int64_t qs_comm_window_bytes(int ranks);
/* QS_UNSUPPORTED lists the names. */
QS_API qs_status qs_comm_algorithm_set(qs_comm *comm, const char *name);
QS_API const char *qs_comm_algorithm(const qs_comm *comm);
/* Whether an algorithm of this name leaves gradients to the devices. */
QS_API bool qs_comm_by_devices(const char *algorithm);

/* Wires: what stands for a value on its way, by names of the job record. NULL past the end.
 *   fp32   the value itself
 *   bf16   rounded to nearest even
 *   int8   in blocks of 1024 values from the message's start: a code each, to nearest even, and a step a block, the largest magnitude / 127
 * Compressed wires (all but fp32) keep what they leave out (error feedback: Seide et al., 1-Bit SGD, 2014; Karimireddy et al., 2019). Rank
 * k adds its residual r_k to its values g_k, sends Q(v_k) of v_k = g_k + r_k and keeps r_k = v_k - Q(v_k), which fp32 holds exactly: all
 * that was ever sent, and the residuals, make up all gradients, up to the rounding of the addition. All ranks get the sum of what was sent,
 * added up in fp32 in order of ranks: the same bits, by every algorithm on one host. On several hosts `shared` adds up what ranks of a host
 * sent (a leader's own values as they are), and leaders send these sums in the same way, with their residuals. A value that is not finite
 * makes all sums of its block so, on all ranks, and leaves the block's residuals as they were. `shared` carries compressed wires through
 * its window, in no memory beyond it; `library` by MPI calls on bytes: to few ranks all send all (a rank receives (n - 1) w bytes a value,
 * w on the wire), from 5 on in int8 and 4 in bf16 each adds up a part and the fp32 sums are gathered ((w + 4) (n - 1) / n, where fp32 takes
 * 8 (n - 1) / n); these run one after the other, as rings do, and all ranks wait when the first starts. Rings and recursive doubling, which
 * pass on partial sums, would round at every rank: they take fp32 alone. In the list the more exact one comes first. */
QS_API const char *qs_comm_wire_at(size_t index);
/* QS_UNSUPPORTED when there is no such wire or the algorithm does not carry it; lists what can be had. */
QS_API qs_status qs_comm_wire_check(const char *wire, const char *algorithm);
/* Bytes that a compressed message of `count` values takes of a process in `library` among so many ranks, once, for the longest. */
QS_API int64_t qs_comm_wire_memory(const char *wire, int ranks, int64_t count);

/* ---- What an all-reduce takes, for predictions: no communicator is asked ------------------------------------------------------------- */

typedef struct qs_comm_facts {
    bool shared;  /* ranks of a host add up through memory that they share; the rest is said of one rank of each host */
    bool by_host; /* ranks are taken host by host, else in their own order: a library knows nothing of hosts */
    bool alike;   /* the messages of all rounds go between the same neighbours */
    int messages; /* in series */
    double share; /* bytes of values for each byte of a message */
} qs_comm_facts;
/* Of an algorithm on a wire between 2 and more ranks; algorithms that have no name here count as `library`, and that as a ring: Open MPI is
 * asked for one, of other libraries nobody knows. */
QS_API qs_comm_facts qs_comm_all_reduce_facts(const char *algorithm, const char *wire, int ranks);
/* The position to which a position sends in a round (0 .. messages - 1); -1: to none. */
QS_API int qs_comm_all_reduce_peer(const char *algorithm, int ranks, int position, int round);
/* Floats that a rank of a host reads and writes in `shared` for each float of the message; with `hosts` the result of several hosts goes
 * through the memory as well. */
QS_API double qs_comm_shared_accesses(int ranks, bool hosts);

/* Sum over ranks; the same bits as the non-blocking form. Failures of MPI are QS_PEER_LOST with its text. */
QS_API qs_status qs_comm_all_reduce(qs_comm *comm, float *values, int64_t count);
/* Non-blocking form; any number may be under way, all ranks start them in the same order. */
QS_API qs_status qs_comm_all_reduce_start(qs_comm *comm, float *values, int64_t count, qs_request **out);
/* The same on a wire that the communicator's algorithm carries (qs_comm_wire_check). Compressed ones read and write residual[count], zeros
 * at first, which is the caller's to keep from one message of the same values to the next and must not move meanwhile. Values come
 * multiplied by `unit` (loss scale), above 0; residuals are kept without it. One rank sends nothing: its values and residuals stay. */
QS_API qs_status qs_comm_all_reduce_wire_start(qs_comm *comm, const char *wire, float *values, float *residual, float unit, int64_t count,
                                               qs_request **out);
/* Lets the library move data: call it between kernels. Nothing moves by itself; polled between kernels that leave the memory idle, a
 * quarter of a 4 MB sum between two processes of one machine is hidden, between kernels that stream through memory nothing is. *done may be
 * NULL. */
QS_API qs_status qs_comm_test(qs_comm *comm, qs_request *request, bool *done);
QS_API qs_status qs_comm_wait(qs_comm *comm, qs_request *request); /* recycles the request */

/* Doubles: sum or maximum over ranks, delivered to all. */
QS_API qs_status qs_comm_sum(qs_comm *comm, double *values, int64_t count);
QS_API qs_status qs_comm_max(qs_comm *comm, double *values, int64_t count);
QS_API qs_status qs_comm_broadcast(qs_comm *comm, void *data, int64_t bytes, int root);
/* A text of the root to all, on the heap of each: *text is NULL elsewhere before, and stays NULL everywhere when the root has none. */
QS_API qs_status qs_comm_broadcast_text(qs_comm *comm, char **text, int root);
/* Gathers byte strings of different lengths at rank 0: *data (heap, caller frees, NULL elsewhere) holds them one after the other, *sizes
 * (heap, one per rank) their lengths. */
QS_API qs_status qs_comm_gather(qs_comm *comm, const void *mine, int64_t bytes, char **data, int64_t **sizes);
QS_API qs_status qs_comm_barrier(qs_comm *comm);
/* Collective agreement on a status: every rank passes its own; all get the worst one, and the message of the lowest rank that has it with
 * "rank N: " before it. A lost peer and a pre-emption count as less bad than any other failure: a lost peer is often only the echo of the
 * failure, and only a run in which nothing failed may be resumed as it is. One rank alone keeps its message. Call it where a failure of one
 * rank must stop all. */
QS_API qs_status qs_comm_agree(qs_comm *comm, qs_status mine);
/* QS_MISMATCH on all ranks, naming `what` and the lowest rank whose value is not that of rank 0. Collective. */
QS_API qs_status qs_comm_compare(qs_comm *comm, const char *what, uint64_t value);
/* Ends the whole run at once after a failure that the others cannot see: prints nothing, kills the peers. Does not return for mpi; returns
 * for self, which has no peers. */
QS_API void qs_comm_abort(qs_comm *comm, int exit_code);

#endif
