// SPDX-License-Identifier: Apache-2.0
/* Rows × channels, as tensors lie in memory (channels last), cut into blocks of threads that sum or walk columns: every thread keeps
 * its channels, one or a vector of eight, and goes along the rows of its block, so that what belongs to a channel stays in registers and
 * neighbours read neighbouring bytes. Rows may be parts, samples, each cut by itself. */
#ifndef QSYNC_DEVICE_CUDA_COLUMNS_JOBS_H
#define QSYNC_DEVICE_CUDA_COLUMNS_JOBS_H

#include "cuda/jobs.h"

enum {
    QS__COLUMN_THREADS = 256, /* of a block that walks columns, */
    QS__COLUMN_BLOCKS = 3,    /* of which a multiprocessor holds so many */
    QS__COLUMN_CHUNK = 64,    /* values that a thread sums in fp32 before it goes on in double */
    QS__TOTAL_CHANNELS = 16,  /* of a block that adds up what those blocks found, and threads for each of them */
    QS__TOTAL_LANES = 32,
    QS__TOTAL_THREADS = QS__TOTAL_CHANNELS * QS__TOTAL_LANES
};

/* Block b walks slab b / tiles and the channels of tile b % tiles. The slabs of a part take turns, `down` rows each: all blocks go through
 * memory together, so that a kernel that goes back finds in the cache what the one before it read last. */
typedef struct qs__columns {
    int64_t rows, channels, slabs;
    int64_t slab_rows;             /* where slabs lie one behind the other (qs__columns_cut) */
    int64_t part_rows, part_slabs; /* of a part: slabs, of which no two parts share one */
    int width;                     /* channels of a thread: 8, or 1 where they come in no eights */
    int across, down;              /* threads side by side over the channels, and over rows */
    int tiles;
} qs__columns;

#endif
