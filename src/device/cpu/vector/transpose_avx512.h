// SPDX-License-Identifier: Apache-2.0
/* 16 rows of 16 words of 32 bits, turned in registers. */
#ifndef QSYNC_DEVICE_CPU_TRANSPOSE_AVX512_H
#define QSYNC_DEVICE_CPU_TRANSPOSE_AVX512_H

#include <immintrin.h>

/* Of four rows each, quadruple 4 i + c of all four into lane i of vector c. */
static inline void qs__transpose_fours(const __m512i *row, __m512i *out) {
    for (int g = 0; g < 16; g += 4) {
        const __m512i low01 = _mm512_unpacklo_epi32(row[g], row[g + 1]), high01 = _mm512_unpackhi_epi32(row[g], row[g + 1]);
        const __m512i low23 = _mm512_unpacklo_epi32(row[g + 2], row[g + 3]), high23 = _mm512_unpackhi_epi32(row[g + 2], row[g + 3]);
        out[g] = _mm512_unpacklo_epi64(low01, low23);
        out[g + 1] = _mm512_unpackhi_epi64(low01, low23);
        out[g + 2] = _mm512_unpacklo_epi64(high01, high23);
        out[g + 3] = _mm512_unpackhi_epi64(high01, high23);
    }
}

static inline void qs__transpose_lanes(const __m512i *four, __m512i *out) {
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

/* row[i] becomes word i of all 16, in order. */
static inline void qs__transpose_words(__m512i row[16]) {
    __m512i four[16];
    qs__transpose_fours(row, four);
    qs__transpose_lanes(four, row);
}

#endif
