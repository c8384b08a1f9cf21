// SPDX-License-Identifier: Apache-2.0
/* Optimisers, and clipping before them. */
#ifndef QSYNC_DEVICE_CUDA_UPDATE_JOBS_H
#define QSYNC_DEVICE_CUDA_UPDATE_JOBS_H

#include "cuda/sums_jobs.h"

enum { QS__CUDA_TERMS = 12, QS__CUDA_STATES = 2 };

/* Addresses of fp32 values; of one flag, or 0: nothing is updated where it is 0. The terms are those of the operator (op/sgd.c, ...). */
typedef struct qs__cuda_update_job {
    uint64_t gradient, weights, state[QS__CUDA_STATES], flag;
    int64_t count;
    float term[QS__CUDA_TERMS];
} qs__cuda_update_job;

/* The factor from the sum of squares, then the scaling. */
typedef struct qs__cuda_clip_job {
    uint64_t values, flag;
    int64_t count;
    double bound, loss_scale;
    uint64_t squares; /* address of the sum, fp64 */
} qs__cuda_clip_job;

#endif
