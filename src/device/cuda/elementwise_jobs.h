// SPDX-License-Identifier: Apache-2.0
/* Jobs of elementwise kernels: elementwise.cu, activation.cu. */
#ifndef QSYNC_DEVICE_CUDA_ELEMENTWISE_JOBS_H
#define QSYNC_DEVICE_CUDA_ELEMENTWISE_JOBS_H

#include "cuda/jobs.h"

/* What a kernel does not read or write is absent. */
typedef struct qs__elementwise_job {
    qs__cuda_values src, src2, diff; /* read: all of one count */
    qs__cuda_values dst, dst2;       /* written */
    uint64_t mask;                   /* of relu: one bit an element; 0: absent */
    uint64_t absmax;                 /* of dst: fp32, 0 when the kernel begins; 0: not wanted */
    float ceiling;                   /* of relu; 0: none */
} qs__elementwise_job;

/* Element i is kept, times scale, where its draw, number first + i of the key, is at least the threshold. */
typedef struct qs__dropout_job {
    qs__cuda_values src, dst;
    uint64_t key, first;
    double scale;
    float threshold;
} qs__dropout_job;

#endif
