// SPDX-License-Identifier: Apache-2.0
/* The moves of a pass of which they are not all: rows of a table or of a sequence by their numbers, what follows a class token. */
#ifndef QSYNC_DEVICE_CUDA_LAYOUT_H
#define QSYNC_DEVICE_CUDA_LAYOUT_H

#include "cuda/cuda.h"

/* Names the kernel "own:<operator>" and finds the functions of its moves, its first ones. */
qs_status qs__cuda_moves_build(qs__cuda_kernel *kernel);
qs_status qs__cuda_moves_run(qs__cuda_kernel *kernel, const qs_run *run);

#endif
