// SPDX-License-Identifier: Apache-2.0
/* Jobs of kernels that move values (layout.cu). They go through what they write, row by row; a row is made of parts of the rows of sources,
 * and of zeros where there is none. */
#ifndef QSYNC_DEVICE_CUDA_LAYOUT_JOBS_H
#define QSYNC_DEVICE_CUDA_LAYOUT_JOBS_H

#include "cuda/jobs.h"

enum { QS__MOVE_PARTS = 2 };

/* Row r of the result has in [begin, begin + run) what its source has from at + n · row on, n being r, or by ids (int32, one a row of the
 * result) r / group · rows + ids[r]: rows 0 ... rows - 1 of a source for each `group` rows of the result. Extents count units. */
typedef struct qs__move_part {
    qs__cuda_values from;
    uint64_t ids; /* address; 0: none */
    int64_t begin, run, at, row;
    int64_t group, rows;
} qs__move_part;

/* A unit is so many bytes as the kernel's name says, or of values `each` elements: 8, of extents that are all made of eights, or 1. */
typedef struct qs__move_job {
    qs__cuda_values to;
    int64_t count, width; /* units of all rows, and of a row */
    int each;
    int parts;
    qs__move_part part[QS__MOVE_PARTS];
    uint64_t complaint;
    int number;
} qs__move_job;

/* Channels in `groups` groups of `members`: the result takes the first of every group, then the second of every group. */
typedef struct qs__shuffle_job {
    uint64_t from, to;
    int64_t count, channels; /* elements */
    int64_t groups, members;
    int each; /* elements of 16 bytes, where rows are made of them; else 1 */
} qs__shuffle_job;

#endif
