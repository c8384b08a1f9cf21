// SPDX-License-Identifier: Apache-2.0
/* Sixteen lanes on any machine, by the compilers' own vector types: the reference meaning of the operations that vector/kernels.inc is
 * written in. Integers wrap; shifts by 32 or more give 0 (int_sar is used below 32 only); a mask is all bits of its lanes;
 * float_nearest is nearest-even and taken for magnitudes up to 2^22; float_truncate for magnitudes below 2^31; double_truncate likewise;
 * double_power is 2^n; int_pairs_low and _high widen the sixteen-bit halves of lanes 0-7 and 8-15, low half first. */
#ifndef QSYNC_NUMBER_LANES_PORTABLE_H
#define QSYNC_NUMBER_LANES_PORTABLE_H

#include <stdint.h>
#include <string.h>

#define LANES_NAME "portable"
#define LANES_TABLE qs__kernels_portable
#define LANES_HAVE_HALF 0
#define LANES_INLINE static inline __attribute__((always_inline, unused))

typedef int32_t ints __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef float floats __attribute__((vector_size(64)));
typedef ints mask;
typedef double doubles __attribute__((vector_size(128)));
typedef int64_t longs __attribute__((vector_size(128)));
typedef int8_t signed_bytes __attribute__((vector_size(16)));
typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint16_t halves __attribute__((vector_size(32)));

LANES_INLINE ints int_set(int32_t x) { return (ints){0} + x; }
LANES_INLINE ints int_count_from(uint32_t start) {
    ints count = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (ints)((words)count + start);
}
LANES_INLINE ints int_load(const void *src) {
    ints x;
    memcpy(&x, src, sizeof x);
    return x;
}
LANES_INLINE void int_store(void *dst, ints x) { memcpy(dst, &x, sizeof x); }
LANES_INLINE ints int_load_i8(const void *src) {
    signed_bytes x;
    memcpy(&x, src, sizeof x);
    return __builtin_convertvector(x, ints);
}
LANES_INLINE ints int_load_u8(const void *src) {
    bytes x;
    memcpy(&x, src, sizeof x);
    return __builtin_convertvector(x, ints);
}
LANES_INLINE ints int_load_u16(const void *src) {
    halves x;
    memcpy(&x, src, sizeof x);
    return __builtin_convertvector(x, ints);
}
LANES_INLINE void int_store_8(void *dst, ints x) {
    bytes narrow = __builtin_convertvector(x, bytes);
    memcpy(dst, &narrow, sizeof narrow);
}
LANES_INLINE void int_store_16(void *dst, ints x) {
    halves narrow = __builtin_convertvector(x, halves);
    memcpy(dst, &narrow, sizeof narrow);
}
LANES_INLINE ints int_and(ints a, ints b) { return a & b; }
LANES_INLINE ints int_or(ints a, ints b) { return a | b; }
LANES_INLINE ints int_xor(ints a, ints b) { return a ^ b; }
LANES_INLINE ints int_add(ints a, ints b) { return (ints)((words)a + (words)b); }
LANES_INLINE ints int_sub(ints a, ints b) { return (ints)((words)a - (words)b); }
LANES_INLINE ints int_mul(ints a, ints b) { return (ints)((words)a * (words)b); }
LANES_INLINE ints mask_select(mask m, ints yes, ints no) { return (m & yes) | (~m & no); }
LANES_INLINE ints int_min(ints a, ints b) { return mask_select((ints)(a < b), a, b); }
LANES_INLINE ints int_max(ints a, ints b) { return mask_select((ints)(a > b), a, b); }
LANES_INLINE ints int_shl(ints x, int n) { return n > 31 ? (ints){0} : (ints)((words)x << n); }
LANES_INLINE ints int_shr(ints x, int n) { return n > 31 ? (ints){0} : (ints)((words)x >> n); }
LANES_INLINE ints int_sar(ints x, int n) { return x >> n; }
LANES_INLINE ints int_shl_each(ints x, ints n) { return (ints)((words)x << (words)(n & 31)) & (ints)((words)n < 32u); }
LANES_INLINE ints int_shr_each(ints x, ints n) { return (ints)((words)x >> (words)(n & 31)) & (ints)((words)n < 32u); }
LANES_INLINE ints int_pairs_from(ints x, int first) {
    ints out;
    for (int i = 0; i < 16; i++) {
        out[i] = (int32_t)((uint32_t)x[first + i / 2] >> 16 * (i & 1) & 0xFFFF);
    }
    return out;
}
LANES_INLINE ints int_pairs_low(ints x) { return int_pairs_from(x, 0); }
LANES_INLINE ints int_pairs_high(ints x) { return int_pairs_from(x, 8); }

LANES_INLINE mask int_above(ints a, ints b) { return (ints)(a > b); }
LANES_INLINE mask int_equal(ints a, ints b) { return (ints)(a == b); }
LANES_INLINE mask mask_and(mask a, mask b) { return a & b; }
LANES_INLINE int mask_count(mask m) {
    int count = 0;
    for (int i = 0; i < 16; i++) {
        count -= m[i];
    }
    return count;
}
LANES_INLINE bool mask_any(mask m) {
    int32_t any = 0;
    for (int i = 0; i < 16; i++) {
        any |= m[i];
    }
    return any != 0;
}
LANES_INLINE ints mask_one(mask m) { return m & 1; }

LANES_INLINE floats float_set(float x) { return (floats){0} + x; }
LANES_INLINE floats float_load(const float *src) {
    floats x;
    memcpy(&x, src, sizeof x);
    return x;
}
LANES_INLINE void float_store(float *dst, floats x) { memcpy(dst, &x, sizeof x); }
LANES_INLINE floats float_mul(floats a, floats b) { return a * b; }
LANES_INLINE mask float_above(floats a, floats b) { return (ints)(a > b); }
LANES_INLINE ints float_bits(floats x) { return (ints)x; }
LANES_INLINE floats float_of_bits(ints x) { return (floats)x; }
LANES_INLINE floats float_of_int(ints x) { return __builtin_convertvector(x, floats); }
LANES_INLINE ints float_truncate(floats x) { return __builtin_convertvector(x, ints); }
/* Adding 1.5 × 2^23 leaves the rounded integer in the low mantissa bits. */
LANES_INLINE ints float_nearest(floats x) { return (ints)(x + 0x1.8p23f) - 0x4B400000; }

LANES_INLINE doubles double_set(double x) { return (doubles){0} + x; }
LANES_INLINE doubles double_of_float(floats x) { return __builtin_convertvector(x, doubles); }
LANES_INLINE doubles double_add(doubles a, doubles b) { return a + b; }
LANES_INLINE doubles double_sub(doubles a, doubles b) { return a - b; }
LANES_INLINE doubles double_mul(doubles a, doubles b) { return a * b; }
LANES_INLINE doubles double_truncate(doubles x) { return __builtin_convertvector(__builtin_convertvector(x, ints), doubles); }
LANES_INLINE doubles double_power(ints n) { return (doubles)((__builtin_convertvector(n, longs) + 1023) << 52); }
LANES_INLINE void double_store(double *dst, doubles x) { memcpy(dst, &x, sizeof x); }

#endif
