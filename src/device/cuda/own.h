// SPDX-License-Identifier: Apache-2.0
/* What families of our own kernels share. */
#ifndef QSYNC_DEVICE_CUDA_OWN_H
#define QSYNC_DEVICE_CUDA_OWN_H

#include "cuda/cuda.h"
#include "cuda/draws_jobs.h"

enum { QS__CUDA_THREADS = 256, QS__CUDA_WARP = 32 }; /* of a block, where nothing speaks for another number; of a warp */

/* The draws of a pass, as qs_op_random_rows has them. */
qs__cuda_draws qs__cuda_draws_of(const qs_case *one, const qs_run *run);
/* Puts a filling with zeros into the queue of kernels. */
qs_status qs__cuda_clear(const qs__cuda_kernel *kernel, CUdeviceptr at, size_t bytes);

#endif
