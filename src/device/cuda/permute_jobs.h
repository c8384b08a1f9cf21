// SPDX-License-Identifier: Apache-2.0
/* Jobs of permute (permute.cu). */
#ifndef QSYNC_DEVICE_CUDA_PERMUTE_JOBS_H
#define QSYNC_DEVICE_CUDA_PERMUTE_JOBS_H

#include "cuda/jobs.h"
#include "views.h"

enum {
    QS__PERMUTE_THREADS = 256,
    QS__PERMUTE_WORDS = 5120 /* of shared memory, that a tile may fill */
};

/* Codes or, where the last axis stays the last, units of it that are as many bytes as the kernel's name says. */
typedef struct qs__permute_job {
    qs__cuda_values from, to;
    qs__permuted axes;
    int64_t count; /* codes or units; tiles */
    /* Tiles: of rows along the input's fastest axis (axes.fast) and columns along the result's. In shared memory a column's codes lie
     * behind each other, columns so many words apart: an odd number of them, so that neither side has all lanes at one bank. */
    int rows, columns, pitch;
    int64_t row_tiles, column_tiles;
    int packed_from, packed_to; /* they are read, or written, by 16 bytes */
} qs__permute_job;

#endif
