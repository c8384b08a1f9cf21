// SPDX-License-Identifier: Apache-2.0
/* Kernels whose warps hold rows in registers, and those whose blocks go through rows (rows.cuh): how many threads. */
#ifndef QSYNC_DEVICE_CUDA_ROWS_H
#define QSYNC_DEVICE_CUDA_ROWS_H

#include "cuda/cuda.h"

enum { QS__ROW_THREADS = 128, QS__ORDER_THREADS = 256 };

/* Operands of these roles (QS_ROLE_COUNT: none) have one format that such kernels are compiled for, and rows of so many channels fit. */
bool qs__rows_fit(const qs_case *one, int64_t channels, qs_role first, qs_role second, qs_role third);
/* Lanes of a warp that hold a row together, and vectors of eight that each of them has. */
int qs__row_lanes(int64_t channels);
int qs__row_vectors(int64_t channels);
/* Blocks of QS__ROW_THREADS that all rows need at most one after the other. */
int64_t qs__row_blocks_most(int64_t rows, int64_t channels);
/* Threads of a block that goes through one row at a time, and blocks for all rows. */
int qs__row_block_threads(int64_t channels);
qs_status qs__rows_launch(const qs__cuda_kernel *kernel, int index, int64_t rows, int64_t channels, const void *job);
/* A kernel in which every thread takes eight values in memory order. */
qs_status qs__order_launch(const qs__cuda_kernel *kernel, int index, int64_t count, const void *job);

#endif
