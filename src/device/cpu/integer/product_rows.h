// SPDX-License-Identifier: Apache-2.0
/* Forward and input gradient at work: what the product by rows (product_rows.c) shares with the way that gathers (product_gather.c). */
#ifndef QSYNC_DEVICE_CPU_PRODUCT_ROWS_H
#define QSYNC_DEVICE_CPU_PRODUCT_ROWS_H

#include "cpu/integer/product.h"

/* Rows of the result, whole tiles of them: where each one's window begins among the staged codes, and its first column. */
typedef struct qs__places {
    const uint8_t *left[QS__BLOCK_ROWS];
    char *result[QS__BLOCK_ROWS];
} qs__places;

/* One group of the convolution at work. */
typedef struct qs__rows_job {
    const qs__product *product;
    const qs__product_run *run;
    qs__geometry view;                   /* what the pass reads, and what it writes */
    int64_t group, inner, columns;       /* channels of the factor and of the result in the group */
    int64_t window;                      /* taps */
    int64_t border[2], staged_extent[2]; /* staged images have what windows reach beyond the source, as zeros: before it; in all */
    qs__phase phase[2];                  /* of height, of width */
    int64_t rows, quads;                 /* of a phase; quadruples of a row of the left factor */
    qs__shift_order order;
    uint8_t *staged;
    qs__stretch *stretch; /* of the rows of a phase: part by part, taps that lie together joined */
    int stretches;
    int8_t *right;
    int64_t *correction; /* exact */
    int32_t *correction32;
    float *factor, *bias, ones[QS__TILE_ROWS];
    int64_t threads, block_rows;
    bool wide;
    int32_t *sums; /* gathered: a block for each thread */
} qs__rows_job;

static inline bool qs__rows_forward(const qs__rows_job *job) {
    return job->product->pass == QS__FORWARD;
}

/* Number of a tap that row r and column c of the phase's taps are, by rising offset: the order in which both factors have them. */
static inline int64_t qs__rows_tap(const qs__rows_job *job, int64_t r, int64_t c) {
    const qs__phase *down = &job->phase[0], *across = &job->phase[1];
    return (down->tap + r * down->tap_step) * job->view.kernel[1] + across->tap + c * across->tap_step;
}

/* The weights of the phase's taps in panels, and what has to be taken off the sums of their columns (product_right.c). */
void qs__rows_pack_right(qs__rows_job *job);

/* Columns of the panel that begins where so many are left. */
static inline int64_t qs__panel_width(int64_t columns_left) {
    return columns_left > QS__TILE_COLUMNS / 2 ? QS__TILE_COLUMNS : QS__TILE_COLUMNS / 2;
}

/* Bytes of `columns` results. */
static inline int64_t qs__result_bytes(const qs__rows_job *job, int64_t columns) {
    return columns * (job->product->result == QS__TILE_BF16 ? 2 : 4);
}

/* Scratch of the way that gathers, nothing otherwise. */
void qs__gathered_lay_out(qs__rows_job *job, qs__pieces *pieces);
/* A block of rows, by the thread that has this share. */
void qs__gathered_block(const qs__rows_job *job, int64_t count, const qs__places *places, int64_t share);

#endif
