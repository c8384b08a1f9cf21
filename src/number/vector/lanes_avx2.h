// SPDX-License-Identifier: Apache-2.0
/* Sixteen lanes on AVX2 and F16C, as two registers of eight. The operations that vector/kernels.inc is written in; see
 * lanes_portable.h for their meaning. A mask is all bits of its lanes. */
#ifndef QSYNC_NUMBER_LANES_AVX2_H
#define QSYNC_NUMBER_LANES_AVX2_H

#include <immintrin.h>
#include <stdint.h>

#define LANES_NAME "avx2"
#define LANES_TABLE qs__kernels_avx2
#define LANES_HAVE_HALF 1
#define LANES_INLINE static inline __attribute__((always_inline, unused))
#define LANES_LOOP static inline __attribute__((always_inline, unused))
#define LANES_RARE static __attribute__((noinline))

typedef struct ints {
    __m256i low, high;
} ints;
typedef struct floats {
    __m256 low, high;
} floats;
typedef ints mask;
typedef struct doubles {
    __m256d part[4];
} doubles;

LANES_INLINE ints int_set(int32_t x) {
    return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)};
}
LANES_INLINE ints int_add(ints a, ints b) {
    return (ints){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}
LANES_INLINE ints int_count_from(uint32_t start) {
    ints count = {_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)};
    return int_add(int_set((int32_t)start), count);
}
LANES_INLINE ints int_load(const void *src) {
    return (ints){_mm256_loadu_si256((const __m256i *)src), _mm256_loadu_si256((const __m256i *)src + 1)};
}
LANES_INLINE void int_store(void *dst, ints x) {
    _mm256_storeu_si256((__m256i *)dst, x.low);
    _mm256_storeu_si256((__m256i *)dst + 1, x.high);
}
LANES_INLINE ints int_load_i8(const void *src) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)src);
    return (ints){_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
LANES_INLINE ints int_load_u8(const void *src) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)src);
    return (ints){_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes))};
}
LANES_INLINE ints int_load_u16(const void *src) {
    const __m128i *words = (const __m128i *)src;
    return (ints){_mm256_cvtepu16_epi32(_mm_loadu_si128(words)), _mm256_cvtepu16_epi32(_mm_loadu_si128(words + 1))};
}
LANES_INLINE ints int_and(ints a, ints b) {
    return (ints){_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}
LANES_INLINE ints int_or(ints a, ints b) {
    return (ints){_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)};
}
LANES_INLINE ints int_xor(ints a, ints b) {
    return (ints){_mm256_xor_si256(a.low, b.low), _mm256_xor_si256(a.high, b.high)};
}
LANES_INLINE ints int_sub(ints a, ints b) {
    return (ints){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}
LANES_INLINE ints int_mul(ints a, ints b) {
    return (ints){_mm256_mullo_epi32(a.low, b.low), _mm256_mullo_epi32(a.high, b.high)};
}
LANES_INLINE ints int_min(ints a, ints b) {
    return (ints){_mm256_min_epi32(a.low, b.low), _mm256_min_epi32(a.high, b.high)};
}
LANES_INLINE ints int_max(ints a, ints b) {
    return (ints){_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)};
}
LANES_INLINE ints int_shl_each(ints x, ints n) {
    return (ints){_mm256_sllv_epi32(x.low, n.low), _mm256_sllv_epi32(x.high, n.high)};
}
LANES_INLINE ints int_shr_each(ints x, ints n) {
    return (ints){_mm256_srlv_epi32(x.low, n.low), _mm256_srlv_epi32(x.high, n.high)};
}
/* Counts that are constants after inlining become immediates; the others are broadcast, which gives 0 from 32 on. */
#define LANES_CONSTANT(n) (__builtin_constant_p(n) && (n) < 32)
LANES_INLINE ints int_shl(ints x, int n) {
    if (!LANES_CONSTANT(n)) return int_shl_each(x, int_set(n));
    return (ints){(__m256i)((__v8su)x.low << n), (__m256i)((__v8su)x.high << n)};
}
LANES_INLINE ints int_shr(ints x, int n) {
    if (!LANES_CONSTANT(n)) return int_shr_each(x, int_set(n));
    return (ints){(__m256i)((__v8su)x.low >> n), (__m256i)((__v8su)x.high >> n)};
}
LANES_INLINE ints int_sar(ints x, int n) {
    return (ints){(__m256i)((__v8si)x.low >> n), (__m256i)((__v8si)x.high >> n)};
}
LANES_INLINE ints int_widen_words(__m256i words) {
    return (ints){_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1))};
}
LANES_INLINE ints int_pairs_low(ints x) {
    return int_widen_words(x.low);
}
LANES_INLINE ints int_pairs_high(ints x) {
    return int_widen_words(x.high);
}
/* Packing works within halves of 128 bits: the permutation puts the quarters back in order. Saturation never acts on masked values. */
LANES_INLINE void int_store_16(void *dst, ints x) {
    ints words = int_and(x, int_set(0xFFFF));
    _mm256_storeu_si256((__m256i *)dst, _mm256_permute4x64_epi64(_mm256_packus_epi32(words.low, words.high), 0xD8));
}
LANES_INLINE void int_store_8(void *dst, ints x) {
    ints bytes = int_and(x, int_set(0xFF));
    __m256i words = _mm256_permute4x64_epi64(_mm256_packus_epi32(bytes.low, bytes.high), 0xD8);
    _mm_storeu_si128((__m128i *)dst, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

LANES_INLINE void int_store_upper_8(int8_t *dst, ints low, ints high) {
    __m256i first = _mm256_packs_epi32(int_sar(low, 16).low, int_sar(low, 16).high);
    __m256i second = _mm256_packs_epi32(int_sar(high, 16).low, int_sar(high, 16).high);
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i bytes = _mm256_packs_epi16(first, second);
    _mm256_storeu_si256((__m256i *)dst, _mm256_permutevar8x32_epi32(bytes, order));
}

LANES_INLINE void int_store_words_8(int8_t *dst, ints words) {
    ints bytes = int_and(words, int_set(0x00FF00FF));
    _mm256_storeu_si256((__m256i *)dst, _mm256_permute4x64_epi64(_mm256_packus_epi16(bytes.low, bytes.high), 0xD8));
}

LANES_INLINE mask int_above(ints a, ints b) {
    return (ints){_mm256_cmpgt_epi32(a.low, b.low), _mm256_cmpgt_epi32(a.high, b.high)};
}
LANES_INLINE mask int_equal(ints a, ints b) {
    return (ints){_mm256_cmpeq_epi32(a.low, b.low), _mm256_cmpeq_epi32(a.high, b.high)};
}
LANES_INLINE mask mask_and(mask a, mask b) {
    return int_and(a, b);
}
LANES_INLINE bool mask_any(mask m) {
    __m256i either = _mm256_or_si256(m.low, m.high);
    return !_mm256_testz_si256(either, either);
}
LANES_INLINE ints int_add_one(ints x, mask m) {
    return int_sub(x, m);
}
LANES_INLINE ints mask_select(mask m, ints yes, ints no) {
    return (ints){_mm256_blendv_epi8(no.low, yes.low, m.low), _mm256_blendv_epi8(no.high, yes.high, m.high)};
}
LANES_INLINE ints mask_one(mask m) {
    return (ints){_mm256_srli_epi32(m.low, 31), _mm256_srli_epi32(m.high, 31)};
}

LANES_INLINE floats float_set(float x) {
    return (floats){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
LANES_INLINE floats float_load(const float *src) {
    return (floats){_mm256_loadu_ps(src), _mm256_loadu_ps(src + 8)};
}
LANES_INLINE void float_store(float *dst, floats x) {
    _mm256_storeu_ps(dst, x.low);
    _mm256_storeu_ps(dst + 8, x.high);
}
LANES_INLINE floats float_add(floats a, floats b) {
    return (floats){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}
LANES_INLINE floats float_sub(floats a, floats b) {
    return (floats){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}
LANES_INLINE floats float_mul(floats a, floats b) {
    return (floats){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}
LANES_INLINE floats float_swap(floats x, int distance) {
    switch (distance) {
    case 1:
        return (floats){_mm256_permute_ps(x.low, 0xB1), _mm256_permute_ps(x.high, 0xB1)};
    case 2:
        return (floats){_mm256_permute_ps(x.low, 0x4E), _mm256_permute_ps(x.high, 0x4E)};
    case 4:
        return (floats){_mm256_permute2f128_ps(x.low, x.low, 1), _mm256_permute2f128_ps(x.high, x.high, 1)};
    default:
        return (floats){x.high, x.low};
    }
}
LANES_INLINE ints float_bits(floats x) {
    return (ints){_mm256_castps_si256(x.low), _mm256_castps_si256(x.high)};
}
LANES_INLINE floats float_of_bits(ints x) {
    return (floats){_mm256_castsi256_ps(x.low), _mm256_castsi256_ps(x.high)};
}
LANES_INLINE mask float_above(floats a, floats b) {
    return float_bits((floats){_mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ)});
}
LANES_INLINE mask float_nan(floats x) {
    return float_bits((floats){_mm256_cmp_ps(x.low, x.low, _CMP_UNORD_Q), _mm256_cmp_ps(x.high, x.high, _CMP_UNORD_Q)});
}
LANES_INLINE floats float_clamp(floats x, float lowest, float highest) {
    __m256 top = _mm256_set1_ps(highest);
    __m256 bottom = _mm256_set1_ps(lowest);
    return (floats){_mm256_max_ps(_mm256_min_ps(x.low, top), bottom), _mm256_max_ps(_mm256_min_ps(x.high, top), bottom)};
}
LANES_INLINE floats float_of_int(ints x) {
    return (floats){_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
LANES_INLINE ints float_truncate(floats x) {
    return (ints){_mm256_cvttps_epi32(x.low), _mm256_cvttps_epi32(x.high)};
}
/* In the rounding mode of the thread, as every operation here; C programs run in nearest-even. */
LANES_INLINE ints float_nearest(floats x) {
    return (ints){_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high)};
}
LANES_INLINE ints float_to_half(floats x) {
    return (ints){_mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)),
                  _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))};
}
LANES_INLINE floats float_of_half(const void *src) {
    const __m128i *words = (const __m128i *)src;
    return (floats){_mm256_cvtph_ps(_mm_loadu_si128(words)), _mm256_cvtph_ps(_mm_loadu_si128(words + 1))};
}

#define DOUBLES(expression)         \
    doubles out;                    \
    for (int i = 0; i < 4; i++) {   \
        out.part[i] = (expression); \
    }                               \
    return out
LANES_INLINE doubles double_set(double x) {
    DOUBLES(_mm256_set1_pd(x));
}
LANES_INLINE doubles double_of_float(floats x) {
    return (doubles){{_mm256_cvtps_pd(_mm256_castps256_ps128(x.low)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.low, 1)),
                      _mm256_cvtps_pd(_mm256_castps256_ps128(x.high)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.high, 1))}};
}
LANES_INLINE doubles double_add(doubles a, doubles b) {
    DOUBLES(_mm256_add_pd(a.part[i], b.part[i]));
}
LANES_INLINE doubles double_sub(doubles a, doubles b) {
    DOUBLES(_mm256_sub_pd(a.part[i], b.part[i]));
}
LANES_INLINE doubles double_mul(doubles a, doubles b) {
    DOUBLES(_mm256_mul_pd(a.part[i], b.part[i]));
}
LANES_INLINE doubles double_truncate(doubles x) {
    DOUBLES(_mm256_round_pd(x.part[i], _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}
LANES_INLINE __m256d double_power_quarter(__m128i n) {
    return _mm256_castsi256_pd(_mm256_slli_epi64(_mm256_add_epi64(_mm256_cvtepi32_epi64(n), _mm256_set1_epi64x(1023)), 52));
}
LANES_INLINE doubles double_power(ints n) {
    return (doubles){{double_power_quarter(_mm256_castsi256_si128(n.low)), double_power_quarter(_mm256_extracti128_si256(n.low, 1)),
                      double_power_quarter(_mm256_castsi256_si128(n.high)), double_power_quarter(_mm256_extracti128_si256(n.high, 1))}};
}
LANES_INLINE void double_store(double *dst, doubles x) {
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_pd(dst + 4 * i, x.part[i]);
    }
}

#endif
