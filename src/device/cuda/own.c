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
    const uint64_t called[] = {at, bytes};
    if (qs__recording_repeats(cuda, called, sizeof called)) return QS_OK;
    return qs__cuda_check(cuda, cuda->driver->fill(at, 0, bytes, cuda->stream[QS_QUEUE_KERNELS]), "filling memory");
}

qs_status qs__cuda_copy(const qs__cuda_kernel *kernel, CUdeviceptr from, CUdeviceptr to, size_t bytes) {
    const qs__cuda *cuda = kernel->cuda;
    const uint64_t called[] = {from, to, bytes};
    if (qs__recording_repeats(cuda, called, sizeof called)) return QS_OK;
    return qs__cuda_check(cuda, cuda->driver->copy_within(to, from, bytes, cuda->stream[QS_QUEUE_KERNELS]), "a copy within the device");
}

int64_t qs__cuda_pieces(int64_t count) {
    return (count + QS__CUDA_PIECE - 1) / QS__CUDA_PIECE;
}

/* A warp takes one or two at a time. */
qs_status qs__cuda_pieces_run(const qs__cuda_kernel *kernel, int index, const qs__cuda_pieces_job *job) {
    const int64_t blocks = qs__cuda_blocks(kernel->cuda, job->rows * job->pieces * QS__CUDA_WARP, QS__CUDA_THREADS, 1);
    return qs__cuda_launch(kernel, index, blocks, QS__CUDA_THREADS, 0, job);
}
