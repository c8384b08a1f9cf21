// SPDX-License-Identifier: Apache-2.0
/* How rows × channels are cut (columns_jobs.h). */
#ifndef QSYNC_DEVICE_CUDA_COLUMNS_H
#define QSYNC_DEVICE_CUDA_COLUMNS_H

#include "cuda/columns_jobs.h"
#include "cuda/cuda.h"

/* Rows and channels of the operand of a role: positions of all samples, and extent 1. */
int64_t qs__cuda_rows(const qs_case *one, qs_role role);
int64_t qs__cuda_channels(const qs_case *one, qs_role role);
/* Cut for a GPU, the same whatever the values: at most `slabs` slabs (0: any number) that lie one behind the other, */
qs__columns qs__columns_cut(const qs__cuda *cuda, int64_t rows, int64_t channels, int64_t slabs);
/* or `parts` times `rows` whose slabs take turns, in about so many blocks for each multiprocessor. */
qs__columns qs__columns_cut_parts(const qs__cuda *cuda, int64_t parts, int64_t rows, int64_t channels, int blocks);
int64_t qs__columns_blocks(const qs__columns *cut);
/* Blocks of QS__TOTAL_THREADS that add up what slabs found. */
int64_t qs__columns_total_blocks(const qs__columns *cut);

#endif
