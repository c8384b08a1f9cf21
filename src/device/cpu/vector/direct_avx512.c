// SPDX-License-Identifier: Apache-2.0
/* Tiles of direct convolutions on AVX-512: 8 × 3 registers of sums. Kernels of bf16 and of codes are run only where the processor has their
 * instructions. */
#include <immintrin.h>
#include <string.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/vector/direct.h"

#define INLINE static inline __attribute__((always_inline))

enum { PLACES = QS__DIRECT_PLACES, VECTORS = QS__DIRECT_VECTORS, LANES = QS__DIRECT_LANES, BYTES = QS__DIRECT_BYTES };

/* Loops over sums: whole, as only then sums are registers. */
#define EACH(i, count) _Pragma("GCC unroll 8") for (int i = 0; i < (count); i++)

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

typedef __m512i sums[PLACES][VECTORS];

/* The sum stays in its register: left to themselves, compilers copy it before every such instruction and keep some in memory. */
INLINE __m512i added(product times, __m512i sum, __m512i word, __m512i weights) {
    sum = times(sum, word, weights);
    __asm__("" : "+v"(sum));
    return sum;
}

/* The word `at` bytes before the ends, into the sums from vector `first` on. */
INLINE void add_word(const char *const *end, const char *weights, int64_t panel, int64_t at, int vectors, int first, product times,
                     sums sum) {
    __m512i w[VECTORS];
    EACH(v, vectors) {
        w[v] = _mm512_loadu_si512(weights + v * panel);
    }
    EACH(p, PLACES) {
        const __m512i word = word_of(end[p] + at);
        EACH(v, vectors) {
            sum[p][v + first] = added(times, sum[p][v + first], word, w[v]);
        }
    }
}

/* One vector alone would wait for its own sums: of its words the odd ones have sums of their own. */
INLINE void multiply(const qs__direct_tile *tile, int vectors, product times, sums sum) {
    const int sets = vectors == 1 ? 2 : 1;
    const char *weights = tile->weights;
    EACH(p, PLACES) {
        EACH(v, vectors * sets) {
            sum[p][v] = _mm512_setzero_si512();
        }
    }
    for (int r = 0; r < tile->runs; r++) {
        const int64_t bytes = tile->run[r].words * 4;
        const char *end[PLACES];
        EACH(p, PLACES) {
            end[p] = tile->window[p] + tile->run[r].offset + bytes;
            __asm__("" : "+r"(end[p])); /* nothing that is worked out anew in the loop */
        }
        int64_t at = -bytes;
        for (; at <= -4 * sets; at += 4 * sets)
            EACH(set, sets) {
                add_word(end, weights, tile->panel, at + 4 * set, vectors, set, times, sum);
                weights += BYTES;
            }
        if (at < 0) {
            add_word(end, weights, tile->panel, at, vectors, 0, times, sum);
            weights += BYTES;
        }
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
    sums sum;
    multiply(tile, vectors, times, sum);
    EACH(p, PLACES) {
        EACH(v, vectors) {
            put(tile, p, v, value_of(tile, v, codes, vectors == 1 ? both(codes, sum[p][0], sum[p][1]) : sum[p][v]));
        }
    }
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
