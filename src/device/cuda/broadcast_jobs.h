// SPDX-License-Identifier: Apache-2.0
/* Jobs of operators of which one operand, the part, has one element for several of the value: what is done with it element by element
 * (broadcast.cu), and what is found over the elements that one of its own stands for (reduce.cu). */
#ifndef QSYNC_DEVICE_CUDA_BROADCAST_JOBS_H
#define QSYNC_DEVICE_CUDA_BROADCAST_JOBS_H

#include "cuda/columns_jobs.h"
#include "views.h"

enum { QS__REDUCE_THREADS = QS__COLUMN_THREADS };

/* What goes with eight neighbours of the value, of which the first is a multiple of eight. */
typedef enum qs__beside { QS__BESIDE_EIGHT, QS__BESIDE_ONE, QS__BESIDE_ANY } qs__beside;

/* dst = f(src, part); each without the other where f is of one. */
typedef struct qs__broadcast_job {
    qs__view view;
    int beside;          /* qs__beside */
    qs__cuda_values src; /* as large as dst */
    qs__cuda_values part;
    qs__cuda_values dst;
    uint64_t place;           /* uint32 [part]: where the gradient of a largest value goes, counted along what is repeated */
    int64_t repeated, inside; /* that axis, and how many elements its neighbours are apart */
    double divisor;           /* of part */
    uint64_t absmax;          /* 0: not wanted */
} qs__broadcast_job;

/* Over rows of a value [batches][rows][channels], by slabs of rows. First reads values, and has either [batches][slabs][channels] in
 * scratch or what is asked for at once; finish reads such: with it rows are slabs.
 *
 * Sums are of a, or of a b; beside them a may go on to its place, times the part: diff = a part. Their type is double. Largest values are
 * keys, 64 bits: the order of the value above, and where it stands below, the first one the largest. */
typedef struct qs__reduce_job {
    qs__columns cut; /* of a batch; without channels: rows and slabs only */
    int64_t batches;
    int groups; /* batches that a block has at a time; rows: */
    int lanes;  /* threads that have a slab together: a power of two up to a warp, or all */
    qs__cuda_values a, b;
    int bent;       /* a and b of prelu: only where b is not positive */
    qs__view outer; /* where the part's first element of a batch lies, and then its channels */
    qs__cuda_values part, diff;
    uint64_t partial; /* 0: what is asked for is written at once */
    qs__cuda_values to;
    uint64_t place; /* uint32, of largest values, instead of `to` */
    double divisor;
} qs__reduce_job;

#endif
