// SPDX-License-Identifier: Apache-2.0
/* Sixteen lanes on AVX-512 (F, BW, DQ, VL). The operations that vector/kernels.inc is written in; see lanes_portable.h for their
 * meaning. */
#ifndef QSYNC_NUMBER_LANES_AVX512_H
#define QSYNC_NUMBER_LANES_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define LANES_NAME "avx512"
#define LANES_TABLE qs__kernels_avx512
#define LANES_HAVE_HALF 1
#define LANES_INLINE static inline __attribute__((always_inline, unused))
#define LANES_LOOP static inline __attribute__((always_inline, unused))
#define LANES_RARE static __attribute__((noinline))

typedef __m512i ints;
typedef __m512 floats;
typedef __mmask16 mask;
typedef struct doubles {
    __m512d low, high;
} doubles;

LANES_INLINE ints int_set(int32_t x) {
    return _mm512_set1_epi32(x);
}
LANES_INLINE ints int_count_from(uint32_t start) {
    return _mm512_add_epi32(_mm512_set1_epi32((int32_t)start), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}
LANES_INLINE ints int_load(const void *src) {
    return _mm512_loadu_si512(src);
}
LANES_INLINE void int_store(void *dst, ints x) {
    _mm512_storeu_si512(dst, x);
}
LANES_INLINE ints int_load_i8(const void *src) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)src));
}
LANES_INLINE ints int_load_u8(const void *src) {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)src));
}
LANES_INLINE ints int_load_u16(const void *src) {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)src));
}
LANES_INLINE void int_store_8(void *dst, ints x) {
    _mm_storeu_si128((__m128i *)dst, _mm512_cvtepi32_epi8(x));
}
LANES_INLINE void int_store_16(void *dst, ints x) {
    _mm256_storeu_si256((__m256i *)dst, _mm512_cvtepi32_epi16(x));
}
LANES_INLINE ints int_and(ints a, ints b) {
    return _mm512_and_si512(a, b);
}
LANES_INLINE ints int_or(ints a, ints b) {
    return _mm512_or_si512(a, b);
}
LANES_INLINE ints int_xor(ints a, ints b) {
    return _mm512_xor_si512(a, b);
}
LANES_INLINE ints int_add(ints a, ints b) {
    return _mm512_add_epi32(a, b);
}
LANES_INLINE ints int_sub(ints a, ints b) {
    return _mm512_sub_epi32(a, b);
}
LANES_INLINE ints int_mul(ints a, ints b) {
    return _mm512_mullo_epi32(a, b);
}
LANES_INLINE ints int_min(ints a, ints b) {
    return _mm512_min_epi32(a, b);
}
LANES_INLINE ints int_max(ints a, ints b) {
    return _mm512_max_epi32(a, b);
}
LANES_INLINE ints int_shl_each(ints x, ints n) {
    return _mm512_sllv_epi32(x, n);
}
LANES_INLINE ints int_shr_each(ints x, ints n) {
    return _mm512_srlv_epi32(x, n);
}
/* Counts that are constants after inlining become immediates; the others are broadcast, which is one operation less than a count in a
 * register and gives 0 from 32 on. */
#define LANES_CONSTANT(n) (__builtin_constant_p(n) && (n) < 32)
LANES_INLINE ints int_shl(ints x, int n) {
    return LANES_CONSTANT(n) ? (ints)((__v16su)x << n) : _mm512_sllv_epi32(x, _mm512_set1_epi32(n));
}
LANES_INLINE ints int_shr(ints x, int n) {
    return LANES_CONSTANT(n) ? (ints)((__v16su)x >> n) : _mm512_srlv_epi32(x, _mm512_set1_epi32(n));
}
LANES_INLINE ints int_sar(ints x, int n) {
    return LANES_CONSTANT(n) ? (ints)((__v16si)x >> n) : _mm512_srav_epi32(x, _mm512_set1_epi32(n));
}
LANES_INLINE ints int_pairs_low(ints x) {
    return _mm512_cvtepu16_epi32(_mm512_castsi512_si256(x));
}
LANES_INLINE ints int_pairs_high(ints x) {
    return _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1));
}

LANES_INLINE void int_store_upper_8(int8_t *dst, ints low, ints high) {
    const ints odd = _mm512_add_epi32(_mm512_slli_epi32(int_count_from(0), 18), _mm512_slli_epi32(int_count_from(0), 2));
    ints upper = _mm512_permutex2var_epi16(low, _mm512_add_epi32(odd, _mm512_set1_epi32(0x00030001)), high);
    _mm256_storeu_si256((__m256i *)dst, _mm512_cvtepi16_epi8(upper));
}

LANES_INLINE void int_store_words_8(int8_t *dst, ints words) {
    _mm256_storeu_si256((__m256i *)dst, _mm512_cvtepi16_epi8(words));
}

LANES_INLINE mask int_above(ints a, ints b) {
    return _mm512_cmpgt_epi32_mask(a, b);
}
LANES_INLINE mask int_equal(ints a, ints b) {
    return _mm512_cmpeq_epi32_mask(a, b);
}
LANES_INLINE mask mask_and(mask a, mask b) {
    return (mask)(a & b);
}
LANES_INLINE bool mask_any(mask m) {
    return m != 0;
}
LANES_INLINE ints int_add_one(ints x, mask m) {
    return _mm512_mask_add_epi32(x, m, x, _mm512_set1_epi32(1));
}
LANES_INLINE ints mask_select(mask m, ints yes, ints no) {
    return _mm512_mask_blend_epi32(m, no, yes);
}
LANES_INLINE ints mask_one(mask m) {
    return _mm512_maskz_set1_epi32(m, 1);
}

LANES_INLINE floats float_set(float x) {
    return _mm512_set1_ps(x);
}
LANES_INLINE floats float_load(const float *src) {
    return _mm512_loadu_ps(src);
}
LANES_INLINE void float_store(float *dst, floats x) {
    _mm512_storeu_ps(dst, x);
}
LANES_INLINE floats float_add(floats a, floats b) {
    return _mm512_add_ps(a, b);
}
LANES_INLINE floats float_mul(floats a, floats b) {
    return _mm512_mul_ps(a, b);
}
LANES_INLINE floats float_sub(floats a, floats b) {
    return _mm512_sub_ps(a, b);
}
LANES_INLINE floats float_swap(floats x, int distance) {
    switch (distance) {
    case 1:
        return _mm512_permute_ps(x, 0xB1);
    case 2:
        return _mm512_permute_ps(x, 0x4E);
    case 4:
        return _mm512_shuffle_f32x4(x, x, 0xB1);
    default:
        return _mm512_shuffle_f32x4(x, x, 0x4E);
    }
}
LANES_INLINE mask float_above(floats a, floats b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
LANES_INLINE mask float_nan(floats x) {
    return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
}
LANES_INLINE floats float_clamp(floats x, float lowest, float highest) {
    return _mm512_max_ps(_mm512_min_ps(x, _mm512_set1_ps(highest)), _mm512_set1_ps(lowest));
}
LANES_INLINE ints float_bits(floats x) {
    return _mm512_castps_si512(x);
}
LANES_INLINE floats float_of_bits(ints x) {
    return _mm512_castsi512_ps(x);
}
LANES_INLINE floats float_of_int(ints x) {
    return _mm512_cvtepi32_ps(x);
}
LANES_INLINE ints float_truncate(floats x) {
    return _mm512_cvttps_epi32(x);
}
LANES_INLINE ints float_nearest(floats x) {
    return _mm512_cvt_roundps_epi32(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
LANES_INLINE ints float_to_half(floats x) {
    return _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
LANES_INLINE floats float_of_half(const void *src) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)src));
}

LANES_INLINE doubles double_set(double x) {
    return (doubles){_mm512_set1_pd(x), _mm512_set1_pd(x)};
}
LANES_INLINE doubles double_of_float(floats x) {
    return (doubles){_mm512_cvtps_pd(_mm512_castps512_ps256(x)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}
LANES_INLINE doubles double_add(doubles a, doubles b) {
    return (doubles){_mm512_add_pd(a.low, b.low), _mm512_add_pd(a.high, b.high)};
}
LANES_INLINE doubles double_sub(doubles a, doubles b) {
    return (doubles){_mm512_sub_pd(a.low, b.low), _mm512_sub_pd(a.high, b.high)};
}
LANES_INLINE doubles double_mul(doubles a, doubles b) {
    return (doubles){_mm512_mul_pd(a.low, b.low), _mm512_mul_pd(a.high, b.high)};
}
LANES_INLINE doubles double_truncate(doubles x) {
    return (doubles){_mm512_roundscale_pd(x.low, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
                     _mm512_roundscale_pd(x.high, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)};
}
LANES_INLINE __m512d double_power_half(__m256i n) {
    return _mm512_castsi512_pd(_mm512_slli_epi64(_mm512_add_epi64(_mm512_cvtepi32_epi64(n), _mm512_set1_epi64(1023)), 52));
}
LANES_INLINE doubles double_power(ints n) {
    return (doubles){double_power_half(_mm512_castsi512_si256(n)), double_power_half(_mm512_extracti64x4_epi64(n, 1))};
}
LANES_INLINE void double_store(double *dst, doubles x) {
    _mm512_storeu_pd(dst, x.low);
    _mm512_storeu_pd(dst + 8, x.high);
}

#endif
