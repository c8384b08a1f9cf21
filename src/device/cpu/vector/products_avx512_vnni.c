// SPDX-License-Identifier: Apache-2.0
/* Tiles on AVX-512 VNNI: 12 × 2 registers of sums, 4 × 16 products an instruction. */
#include <immintrin.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/vector/products.h"

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, WIDEST = QS__TILE_COLUMNS / LANES };

INLINE void sums_double(int rows, int vectors, __m512i sum[QS__TILE_ROWS][WIDEST]) {
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = _mm512_add_epi32(sum[i][v], sum[i][v]);
}

INLINE __m512i quad_of(const uint8_t *left) {
    int32_t quad;
    __builtin_memcpy(&quad, left, sizeof quad);
    return _mm512_set1_epi32(quad);
}

INLINE void multiply(const qs__tile *tile, int rows, int vectors, __m512i sum[QS__TILE_ROWS][WIDEST]) {
    const uint8_t *left = tile->left;
    const int8_t *right = tile->right;
    for (int i = 0; i < rows; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] = _mm512_setzero_si512();
    for (int part = 0; part < tile->parts; part++) {
        if (part) sums_double(rows, vectors, sum);
        for (int64_t quad = tile->quads[part]; quad > 0; quad--) {
            __m512i b[WIDEST];
            for (int v = 0; v < vectors; v++)
                b[v] = _mm512_loadu_si512(right + 64 * v);
            for (int i = 0; i < rows; i++) {
                __m512i a = quad_of(left + 4 * i);
                for (int v = 0; v < vectors; v++)
                    sum[i][v] = _mm512_dpbusd_epi32(sum[i][v], a, b[v]);
            }
            left += 4 * QS__TILE_ROWS;
            right += 64 * vectors;
        }
    }
}

INLINE void put(const qs__tile *tile, int i, int v, __m512i sum, __m512 factor, __m512 bias, __mmask16 mask) {
    char *row = tile->row[i];
    if (tile->result == QS__TILE_INT32) {
        int32_t *at = (int32_t *)(void *)row + LANES * v;
        if (tile->add) sum = _mm512_add_epi32(sum, _mm512_maskz_loadu_epi32(mask, at));
        _mm512_mask_storeu_epi32(at, mask, sum);
        return;
    }
    __m512 x = _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), factor), _mm512_set1_ps(tile->row_factor[i]));
    if (tile->bias) x = _mm512_add_ps(x, bias);
    if (tile->result == QS__TILE_FP32) {
        _mm512_mask_storeu_ps((float *)(void *)row + LANES * v, mask, x);
    } else {
        _mm256_mask_storeu_epi16((uint16_t *)(void *)row + LANES * v, mask, qs__bfloat_of(x));
    }
}

INLINE void finish(const qs__tile *tile, int rows, int vectors, __m512i sum[QS__TILE_ROWS][WIDEST]) {
    for (int v = 0; v < vectors; v++) {
        int left = tile->columns - LANES * v;
        __mmask16 mask = left >= LANES ? 0xFFFF : left <= 0 ? 0 : (__mmask16)((1u << left) - 1);
        __m512i correction = _mm512_loadu_si512(tile->correction + LANES * v);
        bool floats = tile->result != QS__TILE_INT32;
        __m512 factor = floats ? _mm512_loadu_ps(tile->column_factor + LANES * v) : _mm512_setzero_ps();
        __m512 bias = floats && tile->bias ? _mm512_loadu_ps(tile->bias + LANES * v) : _mm512_setzero_ps();
        for (int i = 0; i < rows; i++)
            if (i < tile->rows) put(tile, i, v, _mm512_sub_epi32(sum[i][v], correction), factor, bias, mask);
    }
}

INLINE void run(const qs__tile *tile, int rows, int vectors) {
    __m512i sum[QS__TILE_ROWS][WIDEST];
    multiply(tile, rows, vectors, sum);
    finish(tile, rows, vectors, sum);
}

INLINE void run_rows(const qs__tile *tile, int vectors) {
    if (tile->rows > 8) {
        run(tile, 12, vectors);
    } else if (tile->rows > 4) {
        run(tile, 8, vectors);
    } else {
        run(tile, 4, vectors);
    }
}

static void tile_run(const qs__tile *tile) {
    if (tile->width == QS__TILE_COLUMNS) {
        run_rows(tile, 2);
    } else {
        run_rows(tile, 1);
    }
}

/* ---- Gathering, where the processor permutes bytes: no ceiling names that ---- */

enum { BYTES = 64, MOST_WINDOWS = 255 };

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

#define GATHER gather_permuting
#define TABLE qs__products_avx512_vnni
#define TABLE_NAME "avx512_vnni"
#include "cpu/vector/products.inc"
