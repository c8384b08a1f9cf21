// SPDX-License-Identifier: Apache-2.0
/* Jobs of pools (pool.cu). */
#ifndef QSYNC_DEVICE_CUDA_POOL_JOBS_H
#define QSYNC_DEVICE_CUDA_POOL_JOBS_H

#include "cuda/jobs.h"

/* Extents are those of forward, whatever the pass: of the image, and of what it becomes. Pairs are of height and width. */
typedef struct qs__pool_job {
    qs__cuda_values from, to; /* src and dst, or diff_dst and diff_src */
    uint64_t mask;            /* 0: absent */
    int64_t batch, channels;
    int height, width, out_height, out_width;
    int kernel[2], stride[2], dilation[2], padding[2];
    int count_padding; /* means are over whole windows */
    int each;          /* channels that a thread takes: 8 or 1 */
    int lanes; /* global, forward: threads of a block side by side on the channels, a power of two; the others share the positions */
} qs__pool_job;

enum { QS__POOL_THREADS = 256 };

#endif
