// SPDX-License-Identifier: Apache-2.0
/* Casts, and rounding that is simulated. */
#ifndef QSYNC_DEVICE_CUDA_CONVERT_JOBS_H
#define QSYNC_DEVICE_CUDA_CONVERT_JOBS_H

#include "cuda/draws_jobs.h"

typedef struct qs__cuda_cast_job {
    qs__cuda_values src, dst;
    qs__cuda_draws draws;
    int rounding, overflow;
} qs__cuda_cast_job;

typedef struct qs__cuda_round_job {
    qs__cuda_values src, dst, packed; /* the latter may be absent */
    qs__cuda_format to;
    qs__cuda_draws draws;
    int rounding, overflow;
    uint64_t counts; /* address of two 64-bit numbers, zeros before: overflows, underflows; 0: absent */
} qs__cuda_round_job;

#endif
