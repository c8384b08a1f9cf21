// SPDX-License-Identifier: Apache-2.0
/* bf16 from fp32 on AVX-512 without its bf16 instructions (which flush denormal numbers). */
#ifndef QSYNC_DEVICE_CPU_BFLOAT_AVX512_H
#define QSYNC_DEVICE_CPU_BFLOAT_AVX512_H

#include <immintrin.h>

/* Nearest-even, in the upper half of each lane; NaN stays one. */
static inline __attribute__((always_inline)) __m512i qs__bfloat_upper(__m512 x) {
    const __m512i bits = _mm512_castps_si512(x), odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    return _mm512_mask_mov_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7FC00000));
}

static inline __attribute__((always_inline)) __m256i qs__bfloat_of(__m512 x) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(qs__bfloat_upper(x), 16));
}

#endif
