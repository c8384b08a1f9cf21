// SPDX-License-Identifier: Apache-2.0
/* Tiles on AArch64 with dot products (Armv8.2): 12 × 8 sums at a time, 4 × 4 products an instruction. The instruction multiplies signed by
 * signed bytes, so 128 is taken off the left operand again and 128 times the sum of a column put back: modulo 2^32, as all sums are. */
#include <arm_neon.h>

#include "cpu/integer/products.h"

enum { LANES = 4, VECTORS = 2, BLOCK = LANES * VECTORS, LEFT = QS__TILE_ROWS / LANES };

static void sums_double(int32x4_t sum[QS__TILE_ROWS][VECTORS], int32x4_t column[VECTORS]) {
    for (int v = 0; v < VECTORS; v++) {
        column[v] = vaddq_s32(column[v], column[v]);
        for (int i = 0; i < QS__TILE_ROWS; i++)
            sum[i][v] = vaddq_s32(sum[i][v], sum[i][v]);
    }
}

/* Quadruples of four rows; in panels they lie together. */
static inline __attribute__((always_inline)) uint8x16_t four_rows(const uint8_t *const *left, int64_t k, bool panel) {
    if (panel) return vld1q_u8(left[0] + k);
    uint32_t quad[LANES];
    for (int i = 0; i < LANES; i++)
        __builtin_memcpy(&quad[i], left[i] + k, sizeof quad[i]);
    return vreinterpretq_u8_u32(vld1q_u32(quad));
}

static inline __attribute__((always_inline)) void add_quad(const uint8_t *const *left, int64_t k, bool panel, const int8_t *right,
                                                           int32x4_t sum[QS__TILE_ROWS][VECTORS], int32x4_t column[VECTORS]) {
    int8x16_t a[LEFT];
    for (int r = 0; r < LEFT; r++)
        a[r] = vreinterpretq_s8_u8(veorq_u8(four_rows(left + LANES * r, k, panel), vdupq_n_u8(0x80)));
    for (int v = 0; v < VECTORS; v++) {
        const int8x16_t b = vld1q_s8(right + 4 * LANES * v);
        column[v] = vdotq_s32(column[v], b, vdupq_n_s8(1));
        for (int r = 0; r < LEFT; r++) {
            sum[LANES * r][v] = vdotq_laneq_s32(sum[LANES * r][v], b, a[r], 0);
            sum[LANES * r + 1][v] = vdotq_laneq_s32(sum[LANES * r + 1][v], b, a[r], 1);
            sum[LANES * r + 2][v] = vdotq_laneq_s32(sum[LANES * r + 2][v], b, a[r], 2);
            sum[LANES * r + 3][v] = vdotq_laneq_s32(sum[LANES * r + 3][v], b, a[r], 3);
        }
    }
}

static void block_run(const qs__tile *tile, int first, uint32_t out[QS__TILE_ROWS][QS__TILE_COLUMNS]) {
    int32x4_t sum[QS__TILE_ROWS][VECTORS] = {{vdupq_n_s32(0)}}, column[VECTORS] = {vdupq_n_s32(0)};
    const int8_t *right = tile->right + 4 * first;
    for (int s = 0; s < tile->stretches; s++) {
        const qs__stretch *at = &tile->stretch[s];
        if (at->twice) sums_double(sum, column);
        for (int64_t quad = 0; quad < at->quads; quad++, right += 4 * tile->width)
            add_quad(tile->left, at->offset + quad * tile->step, tile->step == QS__STEP_PANEL, right, sum, column);
    }
    for (int i = 0; i < tile->rows; i++)
        for (int v = 0; v < VECTORS; v++) {
            const uint32x4_t whole = vreinterpretq_u32_s32(vaddq_s32(sum[i][v], vshlq_n_s32(column[v], 7)));
            vst1q_u32(out[i] + first + LANES * v, whole);
        }
}

static void tile_run(const qs__tile *tile) {
    uint32_t sum[QS__TILE_ROWS][QS__TILE_COLUMNS];
    for (int first = 0; first < tile->width; first += BLOCK)
        block_run(tile, first, sum);
    for (int i = 0; i < tile->rows; i++)
        qs__tile_put_row(tile, i, sum[i]);
}

#define TABLE qs__products_neon_dot
#define TABLE_NAME "neon_dot"
#include "cpu/integer/products.inc"
