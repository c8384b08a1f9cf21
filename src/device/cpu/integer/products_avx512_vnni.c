// SPDX-License-Identifier: Apache-2.0
/* Tiles on AVX-512 VNNI. */
#include "cpu/integer/products_avx512.inc"

INLINE void run(const qs__tile *tile, int64_t step, int rows, int vectors) {
    sums sum;
    multiply(tile, step, rows, vectors, sum);
    put(tile, rows, vectors, sum);
}

INLINE void run_rows(const qs__tile *tile, int64_t step, int vectors) {
    if (tile->rows > 8) {
        run(tile, step, 12, vectors);
    } else if (tile->rows > 4) {
        run(tile, step, 8, vectors);
    } else {
        run(tile, step, 4, vectors);
    }
}

INLINE void run_width(const qs__tile *tile, int64_t step) {
    if (tile->width == QS__TILE_COLUMNS) {
        run_rows(tile, step, 2);
    } else {
        run_rows(tile, step, 1);
    }
}

static void tile_run(const qs__tile *tile) {
    if (tile->step == QS__STEP_ROWS) {
        run_width(tile, QS__STEP_ROWS);
    } else {
        run_width(tile, QS__STEP_PANEL);
    }
}

#define TABLE qs__products_avx512_vnni
#define TABLE_NAME "avx512_vnni"
#include "cpu/integer/products.inc"
