// SPDX-License-Identifier: Apache-2.0
/* What families of our own kernels ask of their operands. */
#ifndef QSYNC_DEVICE_CUDA_OPERANDS_H
#define QSYNC_DEVICE_CUDA_OPERANDS_H

#include "cuda/cuda.h"

/* Names the kernel "own:<operator>" and finds the function that runs it. */
qs_status qs__cuda_own(qs__cuda_kernel *kernel, const char *function);
/* Whether the case's pass is forward. */
bool qs__cuda_is_forward(const qs__cuda_kernel *kernel);
/* Where the absmax beside a result goes (0: the case has none), set to 0 in the queue: kernels raise it (beside.cuh). */
qs_status qs__cuda_absmax_clear(const qs__cuda_kernel *kernel, uint64_t *at);
/* How many elements of a row of `channels` a thread takes: 8 where rows are made of eights, else 1; QS_UNSUPPORTED where single ones of an
 * operand are no whole bytes, which no two threads may write. */
qs_status qs__cuda_each(const qs__cuda_kernel *kernel, int64_t channels, int *each);
/* Complaints about QS_IDS: the reference's own message. */
qs_status qs__cuda_ids_complain(const qs__cuda_kernel *kernel, const qs__cuda_complaint *complaint);

#endif
