// SPDX-License-Identifier: Apache-2.0
/* Tiles of direct convolutions on AVX-512: 8 × 3 registers of sums. Kernels of bf16 and of codes are run only where the processor has their
 * instructions. */
#include <immintrin.h>
#include <string.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/vector/direct.h"

#define INLINE static inline __attribute__((always_inline))

enum { PLACES = QS__DIRECT_PLACES, VECTORS = QS__DIRECT_VECTORS, LANES = QS__DIRECT_LANES, BYTES = QS__DIRECT_BYTES };

/* ---- Tiles ---- */

/* Registers are kept as bits: each kind of number reads them in its own way. */
typedef __m512i (*product)(__m512i sum, __m512i word, __m512i weights);

INLINE __m512i product_fp32(__m512i sum, __m512i word, __m512i weights) {
    return _mm512_castps_si512(_mm512_fmadd_ps(_mm512_castsi512_ps(word), _mm512_castsi512_ps(weights), _mm512_castsi512_ps(sum)));
}

INLINE __m512i product_bf16(__m512i sum, __m512i word, __m512i weights) {
    return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)word, (__m512bh)weights));
}

INLINE __m512i product_int8(__m512i sum, __m512i word, __m512i weights) {
    return _mm512_dpbusd_epi32(sum, word, weights);
}

INLINE __m512i word_of(const char *window) {
    int32_t bits;
    memcpy(&bits, window, sizeof bits);
    return _mm512_set1_epi32(bits);
}

/* One vector alone would wait for its own sums: of its words the odd ones have sums of their own. */
INLINE void multiply(const qs__direct_tile *tile, int vectors, product times, __m512i sum[PLACES][VECTORS]) {
    const int sets = vectors == 1 ? 2 : 1;
    for (int p = 0; p < PLACES; p++)
        for (int v = 0; v < vectors * sets; v++)
            sum[p][v] = _mm512_setzero_si512();
    int64_t at = 0;
    for (int r = 0; r < tile->runs; r++) {
        const int64_t offset = tile->run[r].offset, words = tile->run[r].words;
        const char *window[PLACES], *weights[VECTORS];
        for (int p = 0; p < PLACES; p++)
            window[p] = tile->window[p] + offset;
        for (int v = 0; v < vectors; v++)
            weights[v] = tile->weights[v] + at * BYTES;
        int64_t k = 0;
        for (; k + sets <= words; k += sets)
            for (int set = 0; set < sets; set++) {
                __m512i w[VECTORS];
                for (int v = 0; v < vectors; v++)
                    w[v] = _mm512_loadu_si512(weights[v] + (k + set) * BYTES);
                for (int p = 0; p < PLACES; p++) {
                    const __m512i word = word_of(window[p] + 4 * (k + set));
                    for (int v = 0; v < vectors; v++)
                        sum[p][v + set] = times(sum[p][v + set], word, w[v]);
                }
            }
        if (k < words)
            for (int p = 0; p < PLACES; p++)
                sum[p][0] = times(sum[p][0], word_of(window[p] + 4 * k), _mm512_loadu_si512(weights[0] + k * BYTES));
        at += words;
    }
}

/* Sixteen channels of a place, from its sums: fp32 as they are. */
INLINE __m512 value_of(const qs__direct_tile *tile, int v, bool codes, __m512i sum) {
    __m512 value = _mm512_castsi512_ps(sum);
    if (codes) {
        const __m512i exact = _mm512_sub_epi32(sum, _mm512_loadu_si512(tile->excess + v * LANES));
        value = _mm512_mul_ps(_mm512_cvtepi32_ps(exact), _mm512_loadu_ps(tile->factor + v * LANES));
    }
    return tile->bias ? _mm512_add_ps(value, _mm512_loadu_ps(tile->bias + v * LANES)) : value;
}

/* Masked stores are slower, and rare. */
INLINE void put(const qs__direct_tile *tile, int p, int v, __m512 value) {
    const int left = tile->channels - v * LANES;
    const __mmask16 mask = (__mmask16)(left < LANES ? (1U << left) - 1 : 0xFFFF);
    char *at = tile->result[p] + (int64_t)v * LANES * (tile->type == QS__FP32 ? 4 : 2);
    if (tile->type == QS__FP32 && left >= LANES)
        _mm512_storeu_ps(at, value);
    else if (tile->type == QS__FP32)
        _mm512_mask_storeu_ps(at, mask, value);
    else if (left >= LANES)
        _mm256_storeu_si256((void *)at, qs__bfloat_of(value));
    else
        _mm256_mask_storeu_epi16(at, mask, qs__bfloat_of(value));
}

INLINE __m512i both(bool codes, __m512i a, __m512i b) {
    return codes ? _mm512_add_epi32(a, b) : _mm512_castps_si512(_mm512_add_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)));
}

INLINE void run_tile(const qs__direct_tile *tile, int vectors, product times, bool codes) {
    __m512i sum[PLACES][VECTORS];
    multiply(tile, vectors, times, sum);
#pragma GCC unroll 8 /* or all sums would go through memory */
    for (int p = 0; p < PLACES; p++)
#pragma GCC unroll 3
        for (int v = 0; v < vectors; v++)
            put(tile, p, v, value_of(tile, v, codes, vectors == 1 ? both(codes, sum[p][0], sum[p][1]) : sum[p][v]));
}

INLINE void run_any(const qs__direct_tile *tile, product times, bool codes) {
    if (tile->vectors == 3) run_tile(tile, 3, times, codes);
    if (tile->vectors == 2) run_tile(tile, 2, times, codes);
    if (tile->vectors == 1) run_tile(tile, 1, times, codes);
}

static void tile_fp32(const qs__direct_tile *tile) {
    run_any(tile, product_fp32, false);
}

static void tile_bf16(const qs__direct_tile *tile) {
    run_any(tile, product_bf16, false);
}

static void tile_int8(const qs__direct_tile *tile) {
    run_any(tile, product_int8, true);
}

/* ---- Packing ---- */

/* Rows and columns of sixteen registers change places: of pairs, then pairs of pairs, then quarters of registers. */
INLINE void turn_words(__m512i row[LANES]) {
    __m512i pair[LANES];
    for (int i = 0; i < LANES; i += 2) {
        pair[i] = _mm512_unpacklo_epi32(row[i], row[i + 1]);
        pair[i + 1] = _mm512_unpackhi_epi32(row[i], row[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) {
        row[i] = _mm512_unpacklo_epi64(pair[i], pair[i + 2]);
        row[i + 1] = _mm512_unpackhi_epi64(pair[i], pair[i + 2]);
        row[i + 2] = _mm512_unpacklo_epi64(pair[i + 1], pair[i + 3]);
        row[i + 3] = _mm512_unpackhi_epi64(pair[i + 1], pair[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        const __m512i even = _mm512_shuffle_i32x4(row[i], row[i + 4], 0x88), odd = _mm512_shuffle_i32x4(row[i], row[i + 4], 0xDD);
        const __m512i even2 = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0x88),
                      odd2 = _mm512_shuffle_i32x4(row[i + 8], row[i + 12], 0xDD);
        pair[i] = _mm512_shuffle_i32x4(even, even2, 0x88);
        pair[i + 4] = _mm512_shuffle_i32x4(odd, odd2, 0x88);
        pair[i + 8] = _mm512_shuffle_i32x4(even, even2, 0xDD);
        pair[i + 12] = _mm512_shuffle_i32x4(odd, odd2, 0xDD);
    }
    for (int i = 0; i < LANES; i++)
        row[i] = pair[i];
}

static void turn(int64_t bytes, const char *const *row, char *dst) {
    for (int64_t at = 0; at < bytes; at += BYTES) {
        const int64_t left = bytes - at;
        const __mmask64 inside = left < BYTES ? ((__mmask64)1 << left) - 1 : ~(__mmask64)0;
        const int words = left < BYTES ? (int)(left + 3) / 4 : LANES;
        __m512i word[LANES];
        for (int i = 0; i < LANES; i++)
            word[i] = _mm512_maskz_loadu_epi8(row[i] ? inside : 0, row[i] + at);
        turn_words(word);
        for (int i = 0; i < words; i++)
            _mm512_storeu_si512(dst + (at / 4 + i) * BYTES, word[i]);
    }
}

static void copy(int64_t bytes, bool flip, const char *src, char *dst) {
    const __m512i signs = _mm512_set1_epi8(flip ? (char)0x80 : 0);
    int64_t at = 0;
    for (; at + BYTES <= bytes; at += BYTES)
        _mm512_storeu_si512(dst + at, _mm512_xor_si512(_mm512_loadu_si512(src + at), signs));
    const __mmask64 rest = ((__mmask64)1 << (bytes - at)) - 1;
    _mm512_mask_storeu_epi8(dst + at, rest, _mm512_xor_si512(_mm512_maskz_loadu_epi8(rest, src + at), signs));
}

const qs__direct qs__direct_avx512 = {
    .name = "avx512",
    .tile = {tile_fp32, tile_bf16, tile_int8},
    .turn = turn,
    .copy = copy,
};
