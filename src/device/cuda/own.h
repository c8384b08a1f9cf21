// SPDX-License-Identifier: Apache-2.0
/* What families of our own kernels share. */
#ifndef QSYNC_DEVICE_CUDA_OWN_H
#define QSYNC_DEVICE_CUDA_OWN_H

#include "cuda/cuda.h"
#include "cuda/draws_jobs.h"
#include "cuda/sums_jobs.h"

enum { QS__CUDA_THREADS = 256, QS__CUDA_WARP = 32 }; /* of a block, where nothing speaks for another number; of a warp */

/* The draws of a pass, as qs_op_random_rows has them. */
qs__cuda_draws qs__cuda_draws_of(const qs_case *one, const qs_run *run);
/* Puts a filling with zeros into the queue of kernels. */
qs_status qs__cuda_clear(const qs__cuda_kernel *kernel, CUdeviceptr at, size_t bytes);
/* The same of a copy. */
qs_status qs__cuda_copy(const qs__cuda_kernel *kernel, CUdeviceptr from, CUdeviceptr to, size_t bytes);
/* Pieces of `count` elements. */
int64_t qs__cuda_pieces(int64_t count);
/* Puts sums of pieces into the queue; `index`: of a kernel of sums.cu. */
qs_status qs__cuda_pieces_run(const qs__cuda_kernel *kernel, int index, const qs__cuda_pieces_job *job);

#endif
