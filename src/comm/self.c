// SPDX-License-Identifier: Apache-2.0
/* self: one process; every collective is the identity. */
#include "comm_internal.h"

#include <string.h>

static qs_status open_self(qs_comm *comm) {
    comm->rank = 0;
    comm->size = 1;
    return QS_OK;
}

static qs_status split_self(qs_comm *comm, int group, qs_comm *part) {
    (void)comm;
    return group < 0 ? QS_OK : open_self(part);
}

static void close_self(qs_comm *comm) {
    (void)comm;
}

static qs_status start(qs_comm *comm, float *values, int64_t count, qs_request *request) {
    (void)comm, (void)values, (void)count;
    request->done = true;
    return QS_OK;
}

static qs_status finish(qs_comm *comm, qs_request *request) {
    (void)comm;
    request->done = true;
    return QS_OK;
}

static qs_status fold_values(qs_comm *comm, qs__fold fold, double *values, int64_t count) {
    (void)comm, (void)fold, (void)values, (void)count;
    return QS_OK;
}

static qs_status broadcast(qs_comm *comm, void *data, int64_t bytes, int root) {
    (void)comm, (void)data, (void)bytes, (void)root;
    return QS_OK;
}

static qs_status gather_sizes(qs_comm *comm, int64_t mine, int64_t *sizes) {
    (void)comm;
    sizes[0] = mine;
    return QS_OK;
}

static qs_status gather_bytes(qs_comm *comm, const void *mine, const int64_t *sizes, int64_t bytes, char *data) {
    (void)comm, (void)sizes;
    if (bytes > 0) memcpy(data, mine, (size_t)bytes);
    return QS_OK;
}

static qs_status barrier(qs_comm *comm) {
    (void)comm;
    return QS_OK;
}

static void abort_self(qs_comm *comm, int exit_code) {
    (void)comm, (void)exit_code;
}

const qs__comm_kind qs__comm_self = {
    .name = "self",
    .comm_bytes = sizeof(qs_comm),
    .request_bytes = sizeof(qs_request),
    .open = open_self,
    .split = split_self,
    .close = close_self,
    .start = start,
    .test = finish,
    .wait = finish,
    .fold = fold_values,
    .broadcast = broadcast,
    .gather_sizes = gather_sizes,
    .gather_bytes = gather_bytes,
    .barrier = barrier,
    .abort = abort_self,
};
