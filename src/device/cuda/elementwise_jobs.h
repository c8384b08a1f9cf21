// SPDX-License-Identifier: Apache-2.0
/* Jobs of elementwise kernels: elementwise.cu, activation.cu. */
#ifndef QSYNC_DEVICE_CUDA_ELEMENTWISE_JOBS_H
#define QSYNC_DEVICE_CUDA_ELEMENTWISE_JOBS_H

#include "cuda/jobs.h"

/* What a kernel does not read or write is absent. */
typedef struct qs__elementwise_job {
    qs__cuda_values src, src2, diff, diff2; /* read: all of one count */
    qs__cuda_values dst, dst2;              /* written */
    uint64_t mask;                          /* of relu: one bit an element; 0: absent */
    uint64_t absmax;                        /* of dst: fp32, 0 when the kernel begins; 0: not wanted */
    float ceiling;                          /* of relu; 0: none */
    float constant[2];                      /* of functions of one number */
} qs__elementwise_job;

/* Element i is kept, times scale, where the 32 bits of draw first + i of the key are at least so many. */
typedef struct qs__dropout_job {
    qs__cuda_values src, dst;
    uint64_t key, first;
    double scale;
    uint32_t least;
} qs__dropout_job;

#endif
