// SPDX-License-Identifier: Apache-2.0
/* Panels of the right factor of products of codes (products.h) from codes as they lie, QS__TILE_COLUMNS columns at most. */
#ifndef QSYNC_DEVICE_CPU_PANELS_H
#define QSYNC_DEVICE_CPU_PANELS_H

#include "cpu/integer/products.h"

#include <string.h>

/* Columns that lie side by side, `pitch` from one of the `inner` rows to the next; `zeros` has a whole panel's row.
 * sum[c] grows by the column. */
static inline void qs__panel_of_rows(const qs__products *kernels, int64_t inner, int64_t pitch, const int8_t *from, int columns,
                                     const int8_t *zeros, int32_t *sum, int8_t *to) {
    for (int64_t k = 0; k < inner; k += 4, to += 4 * QS__TILE_COLUMNS) {
        const int8_t *row[4];
        for (int q = 0; q < 4; q++)
            row[q] = k + q < inner ? from + (k + q) * pitch : zeros;
        kernels->interleave(columns, QS__TILE_COLUMNS, false, row, sum, to);
    }
}

/* Columns of which each lies in one piece, `pitch` from one to the next; what is left of whole quadruples is copied. */
static inline void qs__panel_of_columns(const qs__products *kernels, int64_t inner, int64_t pitch, const int8_t *from, int columns,
                                        int32_t *sum, int8_t *to) {
    const int64_t whole = inner / 4 * 4, rest = inner - whole;
    const int8_t *row[QS__TILE_COLUMNS];
    int8_t last[QS__TILE_COLUMNS][4] = {{0}};
    if (columns < QS__TILE_COLUMNS) memset(to, 0, (size_t)((inner + 3) / 4 * 4 * QS__TILE_COLUMNS));
    for (int c = 0; c < columns; c++)
        row[c] = from + c * pitch;
    kernels->transpose(whole, columns, QS__TILE_COLUMNS, row, sum, to);
    if (rest == 0) return;
    for (int c = 0; c < columns; c++) {
        memcpy(last[c], row[c] + whole, (size_t)rest);
        row[c] = last[c];
    }
    kernels->transpose(4, columns, QS__TILE_COLUMNS, row, sum, to + whole * QS__TILE_COLUMNS);
}

#endif
