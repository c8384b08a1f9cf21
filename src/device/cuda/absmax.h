// SPDX-License-Identifier: Apache-2.0
/* What quantizing asks of largest magnitudes. */
#ifndef QSYNC_DEVICE_CUDA_ABSMAX_H
#define QSYNC_DEVICE_CUDA_ABSMAX_H

#include "cuda/absmax_jobs.h"
#include "cuda/own.h"

/* The transform of what absmax and quantize see; block 0: none. */
qs__cuda_hadamard qs__cuda_hadamard_of(const qs_case *one);
/* Puts the maxima of each of `columns` columns, the fast axis of src, into the queue. `index`: of the kernel absmax_columns. */
qs_status qs__cuda_columns_absmax(qs__cuda_kernel *kernel, int index, qs__cuda_values src, CUdeviceptr absmax, int64_t columns);

#endif
