// SPDX-License-Identifier: Apache-2.0
/* Tiles of direct convolutions on AVX-512: 8 × 3 registers of sums. Those of bf16 are run only where the processor has the
 * instructions. */
#include <immintrin.h>
#include <string.h>

#include "cpu/vector/bfloat_avx512.h"
#include "cpu/convolution/direct.h"
#include "cpu/vector/sums_avx512.h"

#define INLINE static inline __attribute__((always_inline))

enum { PLACES = QS__DIRECT_PLACES, VECTORS = QS__DIRECT_VECTORS, LANES = QS__DIRECT_LANES, BYTES = QS__DIRECT_BYTES };

/* ---- Tiles ---- */

typedef __m512 (*product)(__m512 sum, __m512 word, __m512 weights);

INLINE __m512 product_fp32(__m512 sum, __m512 word, __m512 weights) {
    return _mm512_fmadd_ps(word, weights, sum);
}

QS__NEEDS("avx512bf16") INLINE __m512 product_bf16(__m512 sum, __m512 word, __m512 weights) {
    return _mm512_dpbf16_ps(sum, (__m512bh)word, (__m512bh)weights);
}

INLINE __m512 word_of(const char *window) {
    int32_t bits;
    memcpy(&bits, window, sizeof bits);
    return _mm512_castsi512_ps(_mm512_set1_epi32(bits));
}

typedef __m512 sums[PLACES][VECTORS];

INLINE __m512 added(product times, __m512 sum, __m512 word, __m512 weights) {
    sum = times(sum, word, weights);
    QS__PINNED(sum);
    return sum;
}

/* The word `at` bytes before the ends, into the sums from vector `first` on. */
INLINE void add_word(const char *const *end, const char *weights, int64_t panel, int64_t at, int vectors, int first, product times,
                     sums sum) {
    __m512 w[VECTORS];
    QS__EACH(v, vectors) {
        w[v] = _mm512_loadu_ps(weights + v * panel);
    }
    QS__EACH(p, PLACES) {
        const __m512 word = word_of(end[p] + at);
        QS__EACH(v, vectors) {
            sum[p][v + first] = added(times, sum[p][v + first], word, w[v]);
        }
    }
}

/* One vector alone would wait for its own sums: of its words the odd ones have sums of their own. */
INLINE void multiply(const qs__direct_tile *tile, int vectors, product times, sums sum) {
    const int sets = vectors == 1 ? 2 : 1;
    const char *weights = tile->weights;
    QS__EACH(p, PLACES) {
        QS__EACH(v, vectors * sets) {
            sum[p][v] = _mm512_setzero_ps();
        }
    }
    for (int r = 0; r < tile->runs; r++) {
        const int64_t bytes = tile->run[r].words * 4;
        const char *end[PLACES];
        QS__EACH(p, PLACES) {
            end[p] = tile->window[p] + tile->run[r].offset + bytes;
            __asm__("" : "+r"(end[p])); /* nothing that is worked out anew in the loop */
        }
        int64_t at = -bytes;
        for (; at <= -4 * sets; at += 4 * sets)
            QS__EACH(set, sets) {
                add_word(end, weights, tile->panel, at + 4 * set, vectors, set, times, sum);
                weights += BYTES;
            }
        if (at < 0) {
            add_word(end, weights, tile->panel, at, vectors, 0, times, sum);
            weights += BYTES;
        }
    }
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

INLINE void run_tile(const qs__direct_tile *tile, int vectors, product times) {
    sums sum;
    multiply(tile, vectors, times, sum);
    QS__EACH(p, PLACES) {
        QS__EACH(v, vectors) {
            const __m512 value = vectors == 1 ? _mm512_add_ps(sum[p][0], sum[p][1]) : sum[p][v];
            put(tile, p, v, tile->bias ? _mm512_add_ps(value, _mm512_loadu_ps(tile->bias + v * LANES)) : value);
        }
    }
}

INLINE void run_any(const qs__direct_tile *tile, product times) {
    if (tile->vectors == 3) run_tile(tile, 3, times);
    if (tile->vectors == 2) run_tile(tile, 2, times);
    if (tile->vectors == 1) run_tile(tile, 1, times);
}

static void tile_fp32(const qs__direct_tile *tile) {
    run_any(tile, product_fp32);
}

QS__NEEDS("avx512bf16") static void tile_bf16(const qs__direct_tile *tile) {
    run_any(tile, product_bf16);
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
            word[i] = row[i] ? _mm512_maskz_loadu_epi8(inside, row[i] + at) : _mm512_setzero_si512();
        turn_words(word);
        for (int i = 0; i < words; i++)
            _mm512_storeu_si512(dst + (at / 4 + i) * BYTES, word[i]);
    }
}

const qs__direct qs__direct_avx512 = {
    .name = "avx512",
    .tile = {tile_fp32, tile_bf16},
    .turn = turn,
};
