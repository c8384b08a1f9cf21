// SPDX-License-Identifier: Apache-2.0
/* Job of the kernels of softmax (softmax.cu). */
#ifndef QSYNC_DEVICE_CUDA_SOFTMAX_JOBS_H
#define QSYNC_DEVICE_CUDA_SOFTMAX_JOBS_H

#include "cuda/jobs.h"

/* Rows are positions of all samples, `of_sample` in each; what a row keeps goes by its place among the `positions` of the last axis. */
typedef struct qs__softmax_job {
    int64_t rows, of_sample, positions, channels;
    int64_t window; /* 0: none */
    int causal;
    int masked; /* keep is of each position */
    int lanes;  /* of a warp that have a row together */
    float scale;
    qs__cuda_values src, diff_dst, dst; /* dst: of the pass; diff_dst absent forward */
    uint64_t keep;                      /* int32; 0: all are kept */
    uint64_t maxima, inverses, dots;    /* fp32 [rows], from one kernel to the next: of scaled values; 1 / sum; Σ y diff_dst */
} qs__softmax_job;

#endif
