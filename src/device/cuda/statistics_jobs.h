// SPDX-License-Identifier: Apache-2.0
/* The statistics of a tensor (qs_statistics_head). Extremes are sought as integers that order like the values, raised from 0: the largest,
 * and of the complements, for the smallest. */
#ifndef QSYNC_DEVICE_CUDA_STATISTICS_JOBS_H
#define QSYNC_DEVICE_CUDA_STATISTICS_JOBS_H

#include "cuda/sums_jobs.h"

typedef struct qs__cuda_statistics_job {
    qs__cuda_values src;
    int64_t channels;
    int rows;                /* channels are rows, else columns */
    qs__cuda_format integer; /* int8 */
    /* Addresses, of zeros before: */
    uint64_t extremes;  /* two 32-bit numbers: of the smallest, of the largest */
    uint64_t channel;   /* (channels) pairs of them */
    uint64_t exponents; /* (256) 64-bit numbers, by the exponent field of fp32 */
    /* Others: */
    uint64_t step; /* fp32: of all, then (channels) of rows */
    uint64_t sums; /* fp64: squares, variances of bf16, fp16 and int8, then (channels) of rows */
    uint64_t out;  /* the operand */
} qs__cuda_statistics_job;

#endif
