// SPDX-License-Identifier: Apache-2.0
/* Jobs of gradients that are sums of rows, in fp32 and in the order of positions (table.cu). */
#ifndef QSYNC_DEVICE_CUDA_TABLE_JOBS_H
#define QSYNC_DEVICE_CUDA_TABLE_JOBS_H

#include "cuda/jobs.h"

enum {
    QS__SUM_COLUMNS = 16,                                 /* that a block sums */
    QS__SUM_TILE = 128,                                   /* rows of them that it has in shared memory at a time */
    QS__SUM_LOADERS = QS__SUM_TILE * QS__SUM_COLUMNS / 8, /* threads that load the next ones, by eights, while a warp adds up */
    QS__SUM_THREADS = QS__SUM_LOADERS + 32,
    QS__READERS = 32, /* positions that a row's list holds; rows with more are long */
    QS__PIECE_IDS = 8 /* ids that a thread looks at, at a time, for the readers of a long row */
};

/* The gradient of an embedding. Scratch: counts of readers, one a row and 0 at first, and behind them how many rows are long; lists of
 * QS__READERS positions, one a row, in any order; the long rows, in any order. */
typedef struct qs__table_job {
    qs__cuda_values diff; /* [positions][columns] */
    uint64_t ids;         /* int32 [positions] */
    uint64_t sums;        /* fp32 [rows][columns] */
    uint64_t count, list, longs;
    int64_t positions, rows, columns;
    int64_t long_blocks; /* the first blocks of the grid, which take long rows */
    int accumulate;      /* to what stands in sums */
    int each;            /* columns that a thread takes: 8 or 1 */
    uint64_t complaint;
    int number;
} qs__table_job;

/* Σ of rows r = 0 ... rows - 1, which begin at element r · step, of `columns` elements. The sums go to fp32 at `sums`, from the place's row
 * of `channels` elements on. */
typedef struct qs__row_sum_job {
    qs__cuda_values diff;
    uint64_t sums;
    int64_t rows, step, columns;
    uint64_t place; /* int32, from 0 to `last`; 0: there is none, and it counts as 0 */
    int64_t channels;
    int last;
    int each;
    uint64_t complaint;
    int number;
} qs__row_sum_job;

/* The gradient of what was gathered: position l of sample n has the sum of the rows k of diff, [samples][taken][channels], with ids[n][k] =
 * l. */
typedef struct qs__scatter_job {
    qs__cuda_values diff, to;
    uint64_t ids;
    int64_t samples, positions, taken, channels;
    int each;
    uint64_t complaint;
    int number;
} qs__scatter_job;

#endif
