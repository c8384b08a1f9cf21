// SPDX-License-Identifier: Apache-2.0
/* NCCL: sums of what lies in several GPUs, one a rank, without the host. It is found when a group is first asked for. */
#include "cuda/cuda.h"

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

static const char file[] = "libnccl.so.2";

/* Functions of the library: X(member, symbol, result, parameters). */
#define NCCL_LIST(X)                                                                                    \
    X(error_string, ncclGetErrorString, const char *, (ncclResult_t result))                            \
    X(unique_id, ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id))                                    \
    X(join, ncclCommInitRank, ncclResult_t, (ncclComm_t * group, int ranks, ncclUniqueId id, int rank)) \
    X(leave, ncclCommDestroy, ncclResult_t, (ncclComm_t group))                                         \
    X(sum, ncclAllReduce, ncclResult_t,                                                                 \
      (const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t group, cudaStream_t stream))

typedef struct nccl_functions {
#define NCCL_MEMBER(member, symbol, result, parameters) result(*member) parameters;
    NCCL_LIST(NCCL_MEMBER)
#undef NCCL_MEMBER
} nccl_functions;

struct qs__nccl {
    const nccl_functions *call;
    ncclComm_t group;
};

static qs_status functions_find(const nccl_functions **out) {
    static const char *const symbols[] = {
#define NCCL_SYMBOL(member, symbol, result, parameters) #symbol,
        NCCL_LIST(NCCL_SYMBOL)
#undef NCCL_SYMBOL
    };
    static nccl_functions functions;
    static bool found;
    *out = &functions;
    if (found) return QS_OK;
    QS_TRY(qs__functions_find(file, sizeof symbols / sizeof symbols[0], symbols, &functions));
    found = true;
    return QS_OK;
}

static qs_status result_check(const nccl_functions *call, ncclResult_t result, const char *what) {
    if (result == ncclSuccess) return QS_OK;
    return qs_fail(QS_FAILED,
                   "%s: NCCL says %s (%d; NCCL_DEBUG=INFO tells more); ranks that share a GPU add up through the host: choose another "
                   "all-reduce",
                   what, call->error_string(result), (int)result);
}

static qs_status nccl_key(void *state, void *key) {
    const nccl_functions *call;
    const qs__cuda *cuda = state;
    if (cuda->part) return qs_fail(QS_UNSUPPORTED, "a part of a GPU adds up with no other: NCCL takes multiprocessors of the whole");
    _Static_assert(sizeof(ncclUniqueId) == QS_DEVICE_KEY, "a key is NCCL's id");
    QS_TRY(functions_find(&call));
    return key ? result_check(call, call->unique_id(key), "the key of a group of GPUs") : QS_OK;
}

void qs__nccl_close(qs__cuda *cuda) {
    if (!cuda->nccl) return;
    (void)cuda->nccl->call->leave(cuda->nccl->group);
    free(cuda->nccl);
    cuda->nccl = NULL;
}

static qs_status nccl_join(void *state, const void *key, int rank, int ranks) {
    qs__cuda *cuda = state;
    struct qs__nccl *nccl = NULL;
    ncclUniqueId id;
    qs_status status = QS_OK;
    qs__nccl_close(cuda);
    memcpy(&id, key, sizeof id);
    QS_TRY(qs_allocate(1, sizeof *nccl, &nccl));
    QS_GOTO(functions_find(&nccl->call));
    QS_GOTO(result_check(nccl->call, nccl->call->join(&nccl->group, ranks, id, rank), "joining a group of GPUs"));
    cuda->nccl = nccl;
    return QS_OK;
done:
    free(nccl);
    return status;
}

static qs_status nccl_sum(void *state, int queue, const qs_location *at, int64_t count) {
    const qs__cuda *cuda = state;
    void *values = (void *)(uintptr_t)qs__cuda_address(*at);
    const ncclResult_t result =
        cuda->nccl->call->sum(values, values, (size_t)count, ncclFloat32, ncclSum, cuda->nccl->group, cuda->stream[queue]);
    return result_check(cuda->nccl->call, result, "a sum of GPUs");
}

const qs__group qs__cuda_group = {.key = nccl_key, .join = nccl_join, .sum = nccl_sum};
