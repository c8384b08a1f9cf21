// SPDX-License-Identifier: Apache-2.0
/* What families of our own kernels share. */
#include "cuda/own.h"

qs__cuda_draws qs__cuda_draws_of(const qs_case *one, const qs_run *run) {
    const qs_random_rows rows = qs_op_random_rows(one, run);
    return (qs__cuda_draws){.key = rows.key,
                            .first = rows.first,
                            .per_row = rows.per_row,
                            .gap = rows.rows > 1 ? (int)(rows.stride - (uint64_t)rows.per_row) : 0};
}

qs_status qs__cuda_clear(const qs__cuda_kernel *kernel, CUdeviceptr at, size_t bytes) {
    const qs__cuda *cuda = kernel->cuda;
    return qs__cuda_check(cuda, cuda->driver->fill(at, 0, bytes, cuda->stream[QS_QUEUE_KERNELS]), "filling memory");
}
