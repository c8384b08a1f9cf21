// SPDX-License-Identifier: Apache-2.0
/* Tiles on AVX-512 VNNI: 12 × 2 registers of sums, 4 × 16 products an instruction. */
#include <immintrin.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/integer/products.h"
#include "cpu/vector/sums_avx512.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, BYTES = 64, WIDEST = QS__TILE_COLUMNS / LANES };

typedef __m512i sums[QS__TILE_ROWS][WIDEST];

INLINE void sums_double(int rows, int vectors, sums sum) {
    QS__EACH(i, rows) {
        QS__EACH(v, vectors) {
            sum[i][v] = _mm512_add_epi32(sum[i][v], sum[i][v]);
        }
    }
}

INLINE __m512i quad_of(const uint8_t *left) {
    int32_t quad;
    __builtin_memcpy(&quad, left, sizeof quad);
    return _mm512_set1_epi32(quad);
}

/* The sum stays in its register: left to themselves, compilers copy it before every such instruction and keep some in memory, which takes
 * half of the speed. */
INLINE __m512i dot(__m512i sum, __m512i a, __m512i b) {
    sum = _mm512_dpbusd_epi32(sum, a, b);
    QS__PINNED(sum);
    return sum;
}

/* Twelve rows, the panel and a count, towards 0, are all the registers that addresses have. */
INLINE void add_stretch(const qs__tile *tile, const qs__stretch *at, const int8_t *right, int64_t step, int rows, int vectors, sums sum) {
    const int64_t bytes = at->quads * step;
    const uint8_t *end[QS__TILE_ROWS];
    QS__EACH(i, rows) {
        end[i] = tile->left[i] + at->offset + bytes;
        __asm__("" : "+r"(end[i])); /* nothing that is worked out anew in the loop */
    }
    for (int64_t k = -bytes; k < 0; k += step, right += 64 * vectors) {
        __m512i b[WIDEST];
        QS__EACH(v, vectors) {
            b[v] = _mm512_loadu_si512(right + 64 * v);
        }
        QS__EACH(i, rows) {
            const __m512i a = quad_of(end[i] + k);
            QS__EACH(v, vectors) {
                sum[i][v] = dot(sum[i][v], a, b[v]);
            }
        }
    }
}

INLINE void multiply(const qs__tile *tile, int64_t step, int rows, int vectors, sums sum) {
    const int8_t *right = tile->right;
    QS__EACH(i, rows) {
        QS__EACH(v, vectors) {
            sum[i][v] = _mm512_setzero_si512();
        }
    }
    for (int s = 0; s < tile->stretches; s++) {
        if (tile->stretch[s].twice) sums_double(rows, vectors, sum);
        add_stretch(tile, &tile->stretch[s], right, step, rows, vectors, sum);
        right += 64 * vectors * tile->stretch[s].quads;
    }
}

/* ---- Results ---- */

/* The upper halves of the lanes of both, in order. */
INLINE __m512i halves_of(__m512i low, __m512i high) {
    static const uint16_t upper[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                       33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_permutex2var_epi16(low, _mm512_loadu_si512(upper), high);
}

INLINE __mmask32 columns_mask(const qs__tile *tile) {
    return tile->columns >= 32 ? 0xFFFFFFFF : ((__mmask32)1 << tile->columns) - 1;
}

INLINE void put_sums(const qs__tile *tile, int rows, int vectors, sums sum) {
    const __mmask32 mask = columns_mask(tile);
    QS__EACH(i, rows) {
        if (i >= tile->rows) return;
        QS__EACH(v, vectors) {
            int32_t *at = (int32_t *)tile->row[i] + LANES * v;
            const __mmask16 here = (__mmask16)(mask >> LANES * v);
            __m512i value = _mm512_sub_epi32(sum[i][v], _mm512_loadu_si512(tile->correction + LANES * v));
            if (tile->add) value = _mm512_add_epi32(value, _mm512_maskz_loadu_epi32(here, at));
            _mm512_mask_storeu_epi32(at, here, value);
        }
    }
}

INLINE __m512 value_of(const qs__tile *tile, int i, int v, __m512i sum) {
    const __m512 value = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_loadu_si512(tile->correction + LANES * v)));
    const __m512 x =
        _mm512_mul_ps(_mm512_mul_ps(value, _mm512_loadu_ps(tile->column_factor + LANES * v)), _mm512_set1_ps(tile->row_factor[i]));
    return tile->bias ? _mm512_add_ps(x, _mm512_loadu_ps(tile->bias + LANES * v)) : x;
}

INLINE void put_floats(const qs__tile *tile, int rows, int vectors, sums sum) {
    const __mmask32 mask = columns_mask(tile);
    QS__EACH(i, rows) {
        if (i >= tile->rows) return;
        QS__EACH(v, vectors) {
            _mm512_mask_storeu_ps((float *)tile->row[i] + LANES * v, (__mmask16)(mask >> LANES * v), value_of(tile, i, v, sum[i][v]));
        }
    }
}

INLINE void put_bfloats(const qs__tile *tile, int rows, int vectors, sums sum) {
    const __mmask32 mask = columns_mask(tile);
    QS__EACH(i, rows) {
        if (i >= tile->rows) return;
        const __m512i low = qs__bfloat_upper(value_of(tile, i, 0, sum[i][0]));
        const __m512i high = vectors > 1 ? qs__bfloat_upper(value_of(tile, i, vectors - 1, sum[i][vectors - 1])) : low;
        _mm512_mask_storeu_epi16(tile->row[i], mask, halves_of(low, high));
    }
}

INLINE void run(const qs__tile *tile, int64_t step, int rows, int vectors) {
    sums sum;
    multiply(tile, step, rows, vectors, sum);
    switch (tile->result) {
    case QS__TILE_INT32:
        put_sums(tile, rows, vectors, sum);
        return;
    case QS__TILE_FP32:
        put_floats(tile, rows, vectors, sum);
        return;
    case QS__TILE_BF16:
        put_bfloats(tile, rows, vectors, sum);
    }
}

/* ---- Tiles ---- */

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

/* ---- Gathering, where the processor permutes bytes: no ceiling names that ---- */

enum { MOST_WINDOWS = 255 };

/* 64 bytes of the result: where each stands within its window, 64 bytes of the source, and which window that is (MOST_WINDOWS: none). */
typedef struct permutation {
    int8_t place[BYTES];
    uint8_t window[BYTES];
    int first, last; /* of the windows */
    int64_t bytes;
} permutation;

static permutation permutation_of(const qs__gather *gather, int64_t begin) {
    permutation p = {.first = MOST_WINDOWS, .last = -1, .bytes = gather->packed - begin};
    for (int k = 0; k < BYTES; k++) {
        const int32_t channel = k < p.bytes ? gather->channel[begin + k] : -1;
        const int window = channel < 0 ? MOST_WINDOWS : channel / BYTES;
        p.place[k] = (int8_t)(channel < 0 ? 0 : channel % BYTES);
        p.window[k] = (uint8_t)window;
        if (window < p.first) p.first = window;
        if (window != MOST_WINDOWS && window > p.last) p.last = window;
    }
    return p;
}

INLINE __mmask64 first_bytes(int64_t count) {
    return count >= BYTES ? ~(__mmask64)0 : ((__mmask64)1 << count) - 1;
}

__attribute__((target("avx512vbmi"))) static void permute_rows(const qs__gather *gather, const permutation *p, int64_t rows,
                                                               const int8_t *src, uint8_t *dst) {
    const __m512i place = _mm512_loadu_si512(p->place), window = _mm512_loadu_si512(p->window);
    const __m512i sign = _mm512_set1_epi8(gather->flip ? -128 : 0);
    const __mmask64 written = first_bytes(p->bytes);
    for (int64_t row = 0; row < rows; row++, src += gather->stride, dst += gather->packed) {
        __m512i sum = sign;
        for (int w = p->first; w <= p->last; w++) {
            const __m512i bytes = _mm512_maskz_loadu_epi8(first_bytes(gather->channels - (int64_t)w * BYTES), src + (int64_t)w * BYTES);
            const __mmask64 here = _mm512_cmpeq_epi8_mask(window, _mm512_set1_epi8((char)w));
            sum = _mm512_xor_si512(sum, _mm512_maskz_permutexvar_epi8(here, place, bytes));
        }
        _mm512_mask_storeu_epi8(dst, written, sum);
    }
}

static void gather_bytes(const qs__gather *gather, int64_t rows, const int8_t *src, uint8_t *dst);

static void gather_permuting(const qs__gather *gather, int64_t rows, const int8_t *src, uint8_t *dst) {
    if (!__builtin_cpu_supports("avx512vbmi") || gather->channels > (int64_t)MOST_WINDOWS * BYTES) {
        gather_bytes(gather, rows, src, dst);
        return;
    }
    for (int64_t begin = 0; begin < gather->packed; begin += BYTES) {
        const permutation p = permutation_of(gather, begin);
        permute_rows(gather, &p, rows, src, dst + begin);
    }
}

/* ---- Transposing: 16 rows of 16 quadruples in registers ---- */

/* Of four rows each, quadruple 4 i + c of all four into lane i of vector c. */
INLINE void transpose_fours(const __m512i *row, __m512i *out) {
    for (int g = 0; g < LANES; g += 4) {
        const __m512i low01 = _mm512_unpacklo_epi32(row[g], row[g + 1]), high01 = _mm512_unpackhi_epi32(row[g], row[g + 1]);
        const __m512i low23 = _mm512_unpacklo_epi32(row[g + 2], row[g + 3]), high23 = _mm512_unpackhi_epi32(row[g + 2], row[g + 3]);
        out[g] = _mm512_unpacklo_epi64(low01, low23);
        out[g + 1] = _mm512_unpackhi_epi64(low01, low23);
        out[g + 2] = _mm512_unpacklo_epi64(high01, high23);
        out[g + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
}

INLINE void transpose_lanes(const __m512i *four, __m512i *out) {
    for (int c = 0; c < 4; c++) {
        const __m512i even0 = _mm512_shuffle_i32x4(four[c], four[4 + c], 0x88), odd0 = _mm512_shuffle_i32x4(four[c], four[4 + c], 0xdd);
        const __m512i even1 = _mm512_shuffle_i32x4(four[8 + c], four[12 + c], 0x88),
                      odd1 = _mm512_shuffle_i32x4(four[8 + c], four[12 + c], 0xdd);
        out[c] = _mm512_shuffle_i32x4(even0, even1, 0x88);
        out[4 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
        out[8 + c] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
        out[12 + c] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
    }
}

/* 64 bytes of 16 rows, at byte k. */
INLINE __m512i transpose_block(const int8_t *const *rows, int64_t k, int width, __m512i sum, int8_t *dst) {
    __m512i row[LANES], four[LANES];
    for (int r = 0; r < LANES; r++)
        row[r] = _mm512_loadu_si512(rows[r] + k);
    transpose_fours(row, four);
    transpose_lanes(four, row);
    for (int q = 0; q < LANES; q++) {
        _mm512_storeu_si512(dst + (k + 4 * q) * width, row[q]);
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), row[q]);
    }
    return sum;
}

static void transpose_rows(int64_t count, int columns, int width, const int8_t *const *row, int32_t *sum, int8_t *dst);

static void transpose_registers(int64_t count, int columns, int width, const int8_t *const *row, int32_t *sum, int8_t *dst) {
    const int64_t whole = count / BYTES * BYTES;
    int done = 0;
    for (; done + LANES <= columns && whole > 0; done += LANES) {
        __m512i total = _mm512_loadu_si512(sum + done);
        for (int64_t k = 0; k < whole; k += BYTES)
            total = transpose_block(row + done, k, width, total, dst + 4 * done);
        _mm512_storeu_si512(sum + done, total);
    }
    if (done < columns) transpose_rows(count, columns - done, width, row + done, sum + done, dst + 4 * done);
    if (whole == count || done == 0) return;
    const int8_t *rest[QS__TILE_COLUMNS];
    for (int j = 0; j < done; j++)
        rest[j] = row[j] + whole;
    transpose_rows(count - whole, done, width, rest, sum, dst + whole * width);
}

#define TRANSPOSE transpose_registers
#define GATHER gather_permuting
#define TABLE qs__products_avx512_vnni
#define TABLE_NAME "avx512_vnni"
#include "cpu/integer/products.inc"
