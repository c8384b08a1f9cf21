// SPDX-License-Identifier: Apache-2.0
/* comm: collectives between the ranks of a run (comms.def: `self`, `mpi`).
 *
 * All-reduce sums fp32 in place and delivers equal bits to every rank. Collectives are started in the same order on all ranks. `self` is one
 * process without a launcher; `mpi` starts MPI at open and ends it at close. Buffers stay the caller's and must not move while in use. */
#ifndef QSYNC_COMM_H
#define QSYNC_COMM_H

#include "qsync/base.h"

typedef struct qs_comm qs_comm;
typedef struct qs_request qs_request; /* an all-reduce under way; one per started call, recycled by the communicator */

/* "self", "mpi", or NULL: mpi when started by an MPI launcher (environment), else self. QS_USAGE lists the names. */
QS_API qs_status qs_comm_open(const char *name, qs_comm **out);
QS_API void qs_comm_close(qs_comm *comm);
QS_API int qs_comm_rank(const qs_comm *comm);
QS_API int qs_comm_size(const qs_comm *comm);
QS_API const char *qs_comm_name(const qs_comm *comm);

QS_API qs_status qs_comm_all_reduce(qs_comm *comm, float *values, int64_t count);
/* Non-blocking form. */
QS_API qs_status qs_comm_all_reduce_start(qs_comm *comm, float *values, int64_t count, qs_request **out);
/* Lets the library move data; call it between kernels. *done may be NULL. */
QS_API qs_status qs_comm_test(qs_comm *comm, qs_request *request, bool *done);
QS_API qs_status qs_comm_wait(qs_comm *comm, qs_request *request); /* recycles the request */

/* Doubles: sum or maximum over ranks, delivered to all. */
QS_API qs_status qs_comm_sum(qs_comm *comm, double *values, int64_t count);
QS_API qs_status qs_comm_max(qs_comm *comm, double *values, int64_t count);
QS_API qs_status qs_comm_broadcast(qs_comm *comm, void *data, int64_t bytes, int root);
/* Gathers byte strings of different lengths at rank 0: *data (heap, caller frees, NULL elsewhere) holds them one after the other, *sizes
 * (heap, one per rank) their lengths. */
QS_API qs_status qs_comm_gather(qs_comm *comm, const void *mine, int64_t bytes, char **data, int64_t **sizes);
QS_API qs_status qs_comm_barrier(qs_comm *comm);
/* Collective agreement on a status: every rank passes its own; all get the worst one, and the message of the lowest failing rank with
 * "rank N: " before it. Call it where a failure of one rank must stop all. */
QS_API qs_status qs_comm_agree(qs_comm *comm, qs_status mine);
/* Ends the whole run at once after a failure that the others cannot see: prints nothing, kills the peers. Does not return for mpi. */
QS_API void qs_comm_abort(qs_comm *comm, int exit_code);

#endif
