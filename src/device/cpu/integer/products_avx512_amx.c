// SPDX-License-Identifier: Apache-2.0
/* Tiles on AMX: 12 × 16 sums of 64 products each an instruction. What is left of a stretch behind its last whole block goes through
 * vectors, and so do tiles that have no whole block. Blocks are summed apart and added to the vectors, modulo 2^32: the same bits. */
#include "cpu/integer/products_avx512.inc"
#include "cpu/vector/tiles_amx.h"

/* A block is what a tile register holds of a row: 16 quadruples. Registers 0 and 1 have the sums of even blocks, 2 and 3 those of odd
 * ones, since an instruction takes 52 cycles to its result and 16 to the next one's start; 4 and 5 have rows of the left operand, 6 and 7
 * of the right one. */
enum { BLOCK = 16 };

static const qs__tile_registers registers = {
    .palette = 1,
    .row_bytes = {BYTES, BYTES, BYTES, BYTES, BYTES, BYTES, BYTES, BYTES},
    .rows = {QS__TILE_ROWS, QS__TILE_ROWS, QS__TILE_ROWS, QS__TILE_ROWS, QS__TILE_ROWS, QS__TILE_ROWS, BLOCK, BLOCK}};

/* Bytes from one row of the left operand to the next; 0: they lie as they like, or all in one place. */
static int64_t pitch_of(const qs__tile *tile) {
    const int64_t pitch = tile->left[1] - tile->left[0];
    for (int i = 2; i < QS__TILE_ROWS; i++)
        if (tile->left[i] - tile->left[i - 1] != pitch) return 0;
    return pitch;
}

/* A block of the left operand, row by row, at the beginning of `rows`: from rows that lie anywhere, or from a panel. */
INLINE void collect(const qs__tile *tile, int64_t step, int64_t offset, uint8_t *rows) {
    if (step == QS__STEP_ROWS) {
        for (int i = 0; i < QS__TILE_ROWS; i++)
            _mm512_store_si512(rows + BYTES * i, _mm512_loadu_si512(tile->left[i] + offset));
        return;
    }
    __m512i quads[LANES];
    for (int q = 0; q < BLOCK; q++)
        quads[q] = _mm512_maskz_loadu_epi32((1 << QS__TILE_ROWS) - 1, tile->left[0] + offset + q * QS__STEP_PANEL);
    qs__transpose_words(quads);
    for (int i = 0; i < QS__TILE_ROWS; i++)
        _mm512_store_si512(rows + BYTES * i, quads[i]);
}

/* Adds one block of the left operand times one of the right one. Tiles are literals: compilers write them into the instructions' text. */
#define MULTIPLY_BLOCK(LEFT, SUMS, NEXT_SUMS, AT, PITCH, RIGHT_AT, VECTORS) \
    _tile_loadd(LEFT, AT, PITCH);                                           \
    _tile_loadd(6, RIGHT_AT, BYTES *(VECTORS));                             \
    _tile_dpbusd(SUMS, LEFT, 6);                                            \
    if ((VECTORS) > 1) {                                                    \
        _tile_loadd(7, (RIGHT_AT) + BYTES, BYTES * (VECTORS));              \
        _tile_dpbusd(NEXT_SUMS, LEFT, 7);                                   \
    }

INLINE void add_tile(int vector, const int32_t *block, sums sum) {
    QS__EACH(i, QS__TILE_ROWS) {
        sum[i][vector] = _mm512_add_epi32(sum[i][vector], _mm512_load_si512(block + LANES * i));
    }
}

/* Adds the first `blocks` of a stretch. `pitch` as pitch_of says. */
INLINE void add_blocks(const qs__tile *tile, int64_t offset, int64_t blocks, const int8_t *right, int64_t step, int64_t pitch, int vectors,
                       sums sum) {
    _Alignas(BYTES) uint8_t rows[2][QS__TILE_ROWS * BYTES];
    _Alignas(BYTES) int32_t block[4][QS__TILE_ROWS * LANES];
    const int64_t whole = BLOCK * step;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t b = 0; b < blocks; b += 2, offset += 2 * whole, right += 2 * BLOCK * BYTES * vectors) {
        const bool both = b + 1 < blocks;
        const uint8_t *even = tile->left[0] + offset, *odd = even + whole;
        if (!pitch) {
            collect(tile, step, offset, rows[0]);
            if (both) collect(tile, step, offset + whole, rows[1]);
            even = rows[0];
            odd = rows[1];
            __asm__ volatile("" ::: "memory"); /* compilers do not know what loading a tile reads */
        }
        MULTIPLY_BLOCK(4, 0, 1, even, pitch ? pitch : BYTES, right, vectors)
        if (!both) break;
        MULTIPLY_BLOCK(5, 2, 3, odd, pitch ? pitch : BYTES, right + BLOCK * BYTES * vectors, vectors)
    }
    _tile_stored(0, block[0], BYTES);
    _tile_stored(2, block[1], BYTES);
    _tile_stored(1, block[2], BYTES);
    _tile_stored(3, block[3], BYTES);
    for (int v = 0; v < vectors; v++) {
        add_tile(v, block[2 * v], sum);
        add_tile(v, block[2 * v + 1], sum);
    }
}

INLINE void run(const qs__tile *tile, int64_t step, int vectors) {
    const int64_t pitch = step == QS__STEP_ROWS ? pitch_of(tile) : 0;
    const int8_t *right = tile->right;
    sums sum;
    QS__EACH(i, QS__TILE_ROWS) {
        QS__EACH(v, vectors) {
            sum[i][v] = _mm512_setzero_si512();
        }
    }
    QS__TILES_CONFIGURE(&registers);
    for (int s = 0; s < tile->stretches; s++) {
        const qs__stretch *all = &tile->stretch[s];
        const int64_t blocks = all->quads / BLOCK, done = blocks * BLOCK;
        const qs__stretch rest = {.offset = all->offset + done * step, .quads = all->quads - done};
        if (all->twice) sums_double(QS__TILE_ROWS, vectors, sum);
        if (blocks > 0) add_blocks(tile, all->offset, blocks, right, step, pitch, vectors, sum);
        if (rest.quads > 0) add_stretch(tile, &rest, right + BYTES * vectors * done, step, QS__TILE_ROWS, vectors, sum);
        right += BYTES * vectors * all->quads;
    }
    _tile_release();
    put(tile, QS__TILE_ROWS, vectors, sum);
}

/* A panel is transposed as a whole: its rows lie side by side. */
static bool has_block(const qs__tile *tile) {
    bool found = false;
    for (int s = 0; s < tile->stretches; s++)
        found = found || tile->stretch[s].quads >= BLOCK;
    for (int i = 1; i < QS__TILE_ROWS && tile->step == QS__STEP_PANEL; i++)
        found = found && tile->left[i] - tile->left[0] == 4 * i;
    return found;
}

static void tile_run(const qs__tile *tile) {
    if (!has_block(tile)) {
        qs__products_avx512_vnni.tile(tile);
    } else if (tile->step == QS__STEP_ROWS) {
        tile->width == QS__TILE_COLUMNS ? run(tile, QS__STEP_ROWS, 2) : run(tile, QS__STEP_ROWS, 1);
    } else {
        tile->width == QS__TILE_COLUMNS ? run(tile, QS__STEP_PANEL, 2) : run(tile, QS__STEP_PANEL, 1);
    }
}

#define TABLE qs__products_avx512_amx
#define TABLE_NAME "avx512_amx"
#include "cpu/integer/products.inc"
