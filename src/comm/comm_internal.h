// SPDX-License-Identifier: Apache-2.0
/* Inside the room: what a communicator provides (comms.def lists them). Arguments are checked by comm.c before they come here. */
#ifndef QSYNC_COMM_INTERNAL_H
#define QSYNC_COMM_INTERNAL_H

#include "qsync/comm.h"
#include "qsync/number.h"

typedef enum qs__fold { QS__SUM, QS__MAXIMUM } qs__fold;

/* wire.c: a compressed wire packs values in blocks, each for itself. */
enum { QS__WIRE_BLOCK = 1024 };
typedef struct qs__wire {
    const char *name;
    int64_t (*bytes)(int64_t count); /* of so many values from the start of a block on */
    /* Up to a block; format: of the wire's name. */
    void (*encode)(const qs_format *format, const float *values, int64_t count, void *packed);
    void (*decode)(const qs_format *format, const void *packed, int64_t count, float *values);
} qs__wire;
/* What one rank adds to a sum: what it sent, or, where `plain`, values. */
typedef struct qs__wire_term {
    const void *data;
    bool plain;
} qs__wire_term;
/* NULL for fp32, and when there is none. */
const qs__wire *qs__wire_named(const char *name);
/* Sends values + unit residual: packs it and keeps what that leaves out. `values` stay. */
void qs__wire_pack(const qs__wire *wire, const float *values, float *residual, float unit, int64_t count, void *packed);
/* into[i] = term[0][i] + term[1][i] + ... in this order; `into` may be a plain term. */
void qs__wire_add(const qs__wire *wire, int terms, const qs__wire_term *term, int64_t count, float *into);
/* Up to `most` values in whole blocks, at least one. */
int64_t qs__wire_blocks(int64_t most);
/* Whether few enough ranks for all to send all (comm.h). */
bool qs__wire_gathers(const qs__wire *wire, int ranks);

/* Kinds put their own requests behind this head. */
struct qs_request {
    qs_request *next; /* among the spare ones, or among those under way */
    bool done;
    const qs__wire *wire; /* NULL: fp32 */
    float *residual, unit;
};

/* One round of an all-reduce: a message to one rank, a message from one rank, both at once. Ranks are positions in the order of hosts. */
typedef struct qs__round {
    int send_to, receive_from; /* -1: none */
    int64_t send_first, send_count, receive_first, receive_count;
    bool adds; /* what is received is added to what is there; otherwise it takes its place */
} qs__round;

typedef struct qs__algorithm {
    const char *name;
    enum { QS__LIBRARY, QS__WINDOW, QS__ROUNDS, QS__DEVICES } way; /* DEVICES: what the host still adds up goes the library's way */
    int (*rounds)(int size);                                       /* of rounds of messages; NULL for other ways, as `at` */
    qs__round (*at)(int size, int position, int64_t count, int index);
} qs__algorithm;
/* NULL when there is none. */
const qs__algorithm *qs__algorithm_named(const char *name);

typedef struct qs__comm_kind {
    const char *name;
    size_t comm_bytes, request_bytes; /* sizes of the kind's structs, which begin with qs_comm and qs_request */
    const char *(*library)(void);     /* what moves the data, with its version; NULL: nothing */
    qs_status (*open)(qs_comm *comm); /* fills rank, size and host */
    /* Fills another communicator over the ranks of a group; below 0: this rank is in none, and nothing is filled. */
    qs_status (*split)(qs_comm *comm, int group, qs_comm *part);
    void (*close)(qs_comm *comm);
    qs_status (*start)(qs_comm *comm, float *values, int64_t count, qs_request *request);
    qs_status (*test)(qs_comm *comm, qs_request *request); /* sets request->done */
    qs_status (*wait)(qs_comm *comm, qs_request *request);
    qs_status (*fold)(qs_comm *comm, qs__fold fold, double *values, int64_t count);
    qs_status (*broadcast)(qs_comm *comm, void *data, int64_t bytes, int root);
    /* Bytes from every other rank to rank 0: sizes first, then the data, which rank 0 has room for. */
    qs_status (*gather_sizes)(qs_comm *comm, int64_t mine, int64_t *sizes);
    qs_status (*gather_bytes)(qs_comm *comm, const void *mine, const int64_t *sizes, int64_t bytes, char *data);
    qs_status (*barrier)(qs_comm *comm);
    void (*abort)(qs_comm *comm, int exit_code);
} qs__comm_kind;

struct qs_comm {
    const qs__comm_kind *kind;
    int rank, size;
    int *host;  /* (size) index of every rank's host, in order of its lowest rank; heap; NULL: all on one */
    int *order; /* (size) rank at each position: host by host; heap; NULL: as they are */
    int position;
    const qs__algorithm *algorithm;
    qs_request *spare, *under_way;
};

#define QS_COMM(identifier) extern const qs__comm_kind qs__comm_##identifier;
#include "comms.def"
#undef QS_COMM

/* Rank at a position. */
static inline int qs__comm_rank_at(const qs_comm *comm, int position) {
    return comm->order ? comm->order[position] : position;
}
/* Fills order and position from host: neighbours share a host, so only one message goes from host to host in a round of the ring. */
qs_status qs__comm_order(qs_comm *comm);

/* Longest message in elements or bytes; longer ones go in pieces, because MPI counts in int. Tests make it small. */
extern int64_t qs__comm_piece;
/* hosts.c: chunks of a rank's share of the window of `shared` (mpi/window.c). */
enum { QS__WINDOW_CHUNK = 64 << 10 /* bytes */, QS__DIRECT_MOST = 4 };
int qs__window_slots(int ranks);
/* Up to so many ranks of a host each add up whole messages; more share the additions out (mpi/window.c). Tests make it small. */
extern int qs__comm_direct_most;
/* Ranks of a machine that count as a host of their own, for tests; 0: all of them. */
extern int qs__comm_ranks_per_host;

#endif
