// SPDX-License-Identifier: Apache-2.0
/* Forward and input gradient at work: what the product by rows (product_rows.c) shares with the way that gathers (product_gather.c). */
#ifndef QSYNC_DEVICE_CPU_PRODUCT_ROWS_H
#define QSYNC_DEVICE_CPU_PRODUCT_ROWS_H

#include "product.h"

/* Result pixels first + step × (0 ... count - 1) in each axis; with tap (kh, kw) the i-th reads source position source × i + offset[kh]. */
typedef struct qs__phase {
    int64_t first[2], step[2], count[2], source[2];
} qs__phase;

/* Where a row of the result lies, and where its window begins in the source. */
typedef struct qs__place {
    int64_t image, corner[2], result; /* first pixel of the source image; pixel of the result */
} qs__place;

/* One group of the convolution at work. */
typedef struct qs__rows_job {
    const qs__product *product;
    const qs__product_run *run;
    int64_t group, inner, columns; /* channels of the factor and of the result in the group */
    int64_t extent[2];             /* of the source images */
    qs__phase phase;
    int taps;
    int64_t rows, quads; /* of a phase; quadruples of a packed row */
    qs__shift_order order;
    uint8_t *staged, *zeros, *blocks; /* zeros: a row of the byte that stands for 0 */
    int8_t *right;
    int64_t *correction; /* exact */
    int32_t *correction32;
    float *factor, *bias, ones[QS__TILE_ROWS];
    int64_t threads, block_rows;
    bool wide;
    int32_t *sums; /* gathered: a block for each thread */
} qs__rows_job;

/* Memory of one thread. */
typedef struct qs__share {
    uint8_t *block;
    int32_t *sums;
} qs__share;

/* Columns of the panel that begins where so many are left. */
static inline int64_t qs__panel_width(int64_t columns_left) {
    return columns_left > QS__TILE_COLUMNS / 2 ? QS__TILE_COLUMNS : QS__TILE_COLUMNS / 2;
}
/* Quadruples that a part of the order has in a packed row. */
static inline int64_t qs__part_quads(const qs__rows_job *job, int part) {
    return job->order.length[part] / 4 * job->taps;
}

char *qs__result_row(const qs__rows_job *job, const qs__place *at, int64_t column);

/* Scratch of the way that gathers, nothing otherwise. */
void qs__gathered_lay_out(qs__rows_job *job, qs__pieces *pieces);
void qs__gathered_share(const qs__rows_job *job, int64_t share, qs__share *out);
/* A block of rows that are packed. */
void qs__gathered_block(const qs__rows_job *job, int64_t count, const qs__place *places, const qs__share *share);

#endif
