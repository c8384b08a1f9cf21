// SPDX-License-Identifier: Apache-2.0
/* Sums in double with the bits of the room `number`: pieces of 4096 elements, each added up by lanes and a tree over them; pieces into at
 * most 256 slots; slots in order. Of each of many rows by itself, or of one. */
#ifndef QSYNC_DEVICE_CUDA_SUMS_JOBS_H
#define QSYNC_DEVICE_CUDA_SUMS_JOBS_H

#include "cuda/jobs.h"

enum { QS__CUDA_PIECE = 4096, QS__CUDA_SLOTS = 256 };

/* What is summed up: squares, or variances of stochastic rounding. */
typedef enum qs__cuda_summand { QS__CUDA_SQUARES, QS__CUDA_VARIANCE_FIXED, QS__CUDA_VARIANCE_FLOAT } qs__cuda_summand;

/* Pieces of rows: piece p of row r goes to sums[r · pieces + p]. Block b of a grid takes those from b on. */
typedef struct qs__cuda_pieces_job {
    qs__cuda_values src;
    int64_t rows, per_row, pieces; /* (pieces of a row) */
    uint64_t sums;                 /* fp64 */
    uint64_t step;                 /* address of the steps of rows, of QS__CUDA_VARIANCE_FIXED */
    qs__cuda_format format;        /* of the variance */
} qs__cuda_pieces_job;

/* Sums of rows from those of their pieces, one block each. */
typedef struct qs__cuda_slots_job {
    int64_t pieces;
    uint64_t sums, out; /* fp64: (rows · pieces), (rows) */
} qs__cuda_slots_job;

#endif
