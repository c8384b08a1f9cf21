// SPDX-License-Identifier: Apache-2.0
/* Jobs of resample.cu. */
#ifndef QSYNC_DEVICE_CUDA_RESAMPLE_JOBS_H
#define QSYNC_DEVICE_CUDA_RESAMPLE_JOBS_H

#include "cuda/jobs.h"

/* A table of resample.h: addresses of its arrays. */
typedef struct qs__resample_axis {
    uint64_t begin, place, weight;
    int written, read;
} qs__resample_axis;

typedef struct qs__resample_job {
    qs__cuda_values from, to;
    qs__resample_axis axis[2]; /* lines, columns */
    int64_t channels;
    int each;    /* channels that a thread takes: 8 or 1 */
    float value; /* of what no place is a term of: constant padding */
} qs__resample_job;

enum { QS__RESAMPLE_THREADS = 256 };

#endif
