// SPDX-License-Identifier: Apache-2.0
/* Tiles in portable C: the meaning of all of them. */
#include <string.h>

#include "qsync/number.h"

#include "cpu/integer/products.h"

typedef uint32_t sums[QS__TILE_ROWS][QS__TILE_COLUMNS];

static void add_quad(int rows, int width, const uint8_t *const *left, int64_t k, const int8_t *right, sums sum) {
    for (int i = 0; i < rows; i++) {
        const int32_t a[4] = {left[i][k], left[i][k + 1], left[i][k + 2], left[i][k + 3]};
        for (int j = 0; j < width; j++) {
            const int8_t *b = right + 4 * j;
            sum[i][j] += (uint32_t)(a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3]);
        }
    }
}

static void multiply(const qs__tile *tile, sums sum) {
    const int8_t *right = tile->right;
    for (int s = 0; s < tile->stretches; s++) {
        const qs__stretch *at = &tile->stretch[s];
        for (int i = 0; at->twice && i < tile->rows; i++)
            for (int j = 0; j < tile->width; j++)
                sum[i][j] *= 2;
        for (int64_t quad = 0; quad < at->quads; quad++, right += 4 * tile->width)
            add_quad(tile->rows, tile->width, tile->left, at->offset + quad * tile->step, right, sum);
    }
}

void qs__tile_put_row(const qs__tile *tile, int i, const uint32_t *sum) {
    float values[QS__TILE_COLUMNS];
    for (int j = 0; j < tile->columns; j++) {
        uint32_t value = sum[j] - (uint32_t)tile->correction[j];
        int32_t *at = (int32_t *)tile->row[i] + j;
        if (tile->result == QS__TILE_INT32) {
            *at = (int32_t)(tile->add ? (uint32_t)*at + value : value);
            continue;
        }
        values[j] = (float)(int32_t)value * tile->column_factor[j];
        values[j] *= tile->row_factor[i];
        if (tile->bias) values[j] += tile->bias[j];
    }
    if (tile->result == QS__TILE_FP32) memcpy(tile->row[i], values, (size_t)tile->columns * sizeof *values);
    if (tile->result == QS__TILE_BF16) {
        qs_convert_from_fp32(qs_format_of("bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, tile->columns, values,
                             tile->row[i]);
    }
}

static void tile_run(const qs__tile *tile) {
    sums sum = {{0}};
    multiply(tile, sum);
    for (int i = 0; i < tile->rows; i++)
        qs__tile_put_row(tile, i, sum[i]);
}

#define TABLE qs__products_portable
#define TABLE_NAME "portable"
#include "cpu/integer/products.inc"
