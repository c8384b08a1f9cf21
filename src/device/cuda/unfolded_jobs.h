// SPDX-License-Identifier: Apache-2.0
/* Job of the kernel that writes windows of images as rows of a matrix (unfolded.cu). */
#ifndef QSYNC_DEVICE_CUDA_UNFOLDED_JOBS_H
#define QSYNC_DEVICE_CUDA_UNFOLDED_JOBS_H

#include "cuda/jobs.h"

/* Row (n, y, x) of the matrix holds, for each group and kernel position (kh, kw), the group's channels of one place of image n, or zeros
 * where there is none. Forward that is the place (y · stride - padding + kh · dilation, ...), and rows are results; `spread`, of an input
 * gradient, rows are places of the input, and it is the result (oh, ow) whose window has the row at (kh, kw). */
typedef struct qs__cuda_unfold_job {
    uint64_t from, to;
    int bytes;                    /* of a value: 1, 2, 4; or of what is moved at a time: 16 */
    int64_t images, down, across; /* rows */
    int64_t height, width;        /* of images */
    int64_t groups, channels;     /* of a group, counted in what is moved at a time */
    int64_t kernel[2], stride[2], dilation[2], padding[2];
    int spread;
    int turned; /* kernel positions lie one behind another, not channels: row by channel, which weights have it in input gradients */
} qs__cuda_unfold_job;

#endif
