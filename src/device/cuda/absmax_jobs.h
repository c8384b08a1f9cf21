// SPDX-License-Identifier: Apache-2.0
/* Largest magnitudes, and the check for what is not finite. */
#ifndef QSYNC_DEVICE_CUDA_ABSMAX_JOBS_H
#define QSYNC_DEVICE_CUDA_ABSMAX_JOBS_H

#include "cuda/jobs.h"

enum { QS__CUDA_EIGHTS = 4 }; /* that a thread loads at a time where one of narrow values is little */

/* Blocks of a Hadamard transform: value j of block b of the operand is element (b / run) · run · block + b mod run + j · run. Along the
 * fast axis run is 1, along axis 0 what one index of it holds. */
typedef struct qs__cuda_hadamard {
    int block; /* 0: no transform */
    float scale;
    int64_t run;
} qs__cuda_hadamard;

/* Writes `absmax`, one number. Kernels of columns and rows raise one for each, which were 0 before. */
typedef struct qs__cuda_absmax_job {
    qs__cuda_values src;
    uint64_t absmax;
    int64_t columns, per_row; /* of those kernels */
    qs__cuda_hadamard transform;
} qs__cuda_absmax_job;

typedef struct qs__cuda_finite_job {
    qs__cuda_values src;
    uint64_t flag;
} qs__cuda_finite_job;

#endif
