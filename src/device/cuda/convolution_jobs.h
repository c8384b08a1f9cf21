// SPDX-License-Identifier: Apache-2.0
/* Jobs of the kernels beside convolutions of cuDNN (convolution.cu). */
#ifndef QSYNC_DEVICE_CUDA_CONVOLUTION_JOBS_H
#define QSYNC_DEVICE_CUDA_CONVOLUTION_JOBS_H

#include "cuda/jobs.h"

/* Values in another format: to = from + bias, by columns of rows that lie side by side. */
typedef struct qs__cuda_convolution_job {
    qs__cuda_values from, to; /* of as many values */
    int64_t columns;
    uint64_t bias; /* fp32 [columns]; 0: none */
} qs__cuda_convolution_job;

/* Rows of channels of one byte, zeros behind them up to whole words. */
typedef struct qs__cuda_pad_job {
    uint64_t from, to;
    int64_t rows, channels;
    int64_t words; /* of a row that is written, four channels each */
} qs__cuda_pad_job;

#endif
