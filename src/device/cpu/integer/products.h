// SPDX-License-Identifier: Apache-2.0
/* Sums of products of 8-bit integers, one tile of the result at a time; one table per instruction set, equal bits in all of them.
 *
 * k goes in quadruples. The right operand is packed into panels of QS__TILE_COLUMNS (or half as many) columns, [k/4][columns][4] of int8;
 * the left one is read where it lies, QS__TILE_ROWS rows of uint8 wherever each begins: rows of memory, or panels [k/4][rows][4]. The
 * left one is unsigned because the instructions multiply unsigned by signed bytes: signed codes are stored with 128 added (their sign
 * bit flipped), and 128 times the sum of a column is taken off at the end (`correction`). All sums are modulo 2^32, so that only the
 * result must fit.
 *
 * What lies together in all rows is a stretch of k. Shift groups that the operands' bytes cannot hold are stretches of their own: sums are
 * doubled before such ones, so that what was added first weighs most. */
#ifndef QSYNC_DEVICE_CPU_PRODUCTS_H
#define QSYNC_DEVICE_CPU_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QS__TILE_ROWS = 12, QS__TILE_COLUMNS = 32, QS__TILE_PARTS = 8 };

typedef enum qs__tile_result {
    QS__TILE_INT32, /* the sums */
    QS__TILE_FP32,  /* sum × column_factor[j] × row_factor[i] + bias[j], each operation rounded to fp32 */
    QS__TILE_BF16   /* the same, rounded to bf16 nearest-even */
} qs__tile_result;

typedef struct qs__stretch {
    int64_t offset, quads; /* bytes behind the beginning of every row; k/4, none is allowed */
    bool twice;            /* what was summed before it counts twice */
} qs__stretch;

enum { QS__STEP_ROWS = 4, QS__STEP_PANEL = 4 * QS__TILE_ROWS };

typedef struct qs__tile {
    const uint8_t *left[QS__TILE_ROWS]; /* where rows begin; those beyond `rows` somewhere that can be read */
    int64_t step;                       /* from one quadruple of a row to the next: one of the two above */
    const int8_t *right;                /* all stretches, one after the other */
    const qs__stretch *stretch;
    int stretches;
    int rows, columns;         /* of the result: what panels have beyond is not written */
    int width;                 /* columns of the right panel: QS__TILE_COLUMNS or half of it */
    const int32_t *correction; /* [width]: subtracted */
    qs__tile_result result;
    bool add; /* QS__TILE_INT32: to what is there */
    /* Float results: [width], rows in the order of the panel; bias NULL: none. */
    const float *column_factor, *bias, *row_factor;
    void *row[QS__TILE_ROWS]; /* where each row of the result begins */
} qs__tile;

/* Rows of bytes in another order: dst[row][k] = src[row][channel[k]], where channel is -1 anything; sign bits flipped or not. */
typedef struct qs__gather {
    const int32_t *channel;
    int64_t channels, packed, stride; /* bytes of a row of src, of dst; from one row of src to the next */
    bool flip;
} qs__gather;

typedef struct qs__products {
    const char *name;
    void (*tile)(const qs__tile *tile);
    /* dst[i] = src[i] × power[i] (a shift, as the power of two that it is), with the sign bit flipped or not. */
    void (*lift)(int64_t count, bool flip, const uint8_t *power, const int8_t *src, uint8_t *dst);
    void (*gather)(const qs__gather *gather, int64_t rows, const int8_t *src, uint8_t *dst);
    /* One quadruple of a panel of `width` columns from four rows, sign bits flipped or not: what is beyond `columns` becomes 0. sum[j]
     * (NULL: not wanted) grows by the four. */
    void (*interleave)(int columns, int width, bool flip, const int8_t *const *row, int32_t *sum, int8_t *dst);
    /* The same from `columns` rows that are columns of the panel, `count` bytes of each, a multiple of 4; nothing is written beyond
     * `columns`. */
    void (*transpose)(int64_t count, int columns, int width, const int8_t *const *row, int32_t *sum, int8_t *dst);
    /* Sums shifted left, modulo 2^32. */
    void (*shift)(int64_t count, int by, int32_t *sum);
    /* result[i] = (sum[i] - correction[i]) × factor[i] (+ bias[i]; NULL: none) as bf16 or fp32, as tiles have it. */
    void (*settle)(int64_t count, const int32_t *sum, const int32_t *correction, const float *factor, const float *bias, bool bf16,
                   void *result);
} qs__products;

extern const qs__products qs__products_portable, qs__products_avx2, qs__products_avx2_vnni, qs__products_avx512_vnni,
    qs__products_avx512_amx, qs__products_neon_dot;

/* Row i of a tile's result from its sums: what every table does, in portable C. */
void qs__tile_put_row(const qs__tile *tile, int i, const uint32_t *sum);

#endif
