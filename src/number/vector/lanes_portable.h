// SPDX-License-Identifier: Apache-2.0
/* Sixteen lanes on any machine, by the compilers' own vector types of four: the reference meaning of the operations that
 * vector/kernels.inc is written in. Integers wrap; shifts by 32 or more give 0 (int_sar is used below 32 only); a mask is all bits of its
 * lanes; int_add_one adds 1 in the lanes of a mask; float_nearest is nearest-even, for magnitudes up to 2^23; float_truncate for magnitudes
 * below 2^31, double_truncate likewise; float_clamp takes NaN to the top; double_power is 2^n;
 * float_swap gives each lane the value of the one whose number differs in the bit `distance` (1, 2, 4 or 8);
 * int_pairs_low and _high widen the sixteen-bit halves of lanes 0-7 and 8-15, low half first; int_store_upper_8 stores the low byte of the
 * upper halves of 32 lanes, int_store_words_8 the low bytes of both halves of sixteen lanes, low half first. */
#ifndef QSYNC_NUMBER_LANES_PORTABLE_H
#define QSYNC_NUMBER_LANES_PORTABLE_H

#include <stdint.h>
#include <string.h>

#define LANES_NAME "portable"
#define LANES_TABLE qs__kernels_portable
#define LANES_HAVE_HALF 0
#define LANES_INLINE static inline __attribute__((always_inline, unused))
#define LANES_LOOP static __attribute__((noinline))
#define LANES_RARE static __attribute__((noinline))

typedef int32_t int_quad __attribute__((vector_size(16)));
typedef uint32_t word_quad __attribute__((vector_size(16)));
typedef float float_quad __attribute__((vector_size(16)));
typedef double double_pair __attribute__((vector_size(16)));

typedef struct ints {
    int_quad part[4];
} ints;
typedef struct floats {
    float_quad part[4];
} floats;
typedef ints mask;
typedef struct doubles {
    double_pair part[8];
} doubles;

/* One expression of i per part. */
#define LANES_PARTS(type, parts, expression) \
    type out;                                \
    for (int i = 0; i < (parts); i++) {      \
        out.part[i] = (expression);          \
    }                                        \
    return out
#define LANES_INTS(expression) LANES_PARTS(ints, 4, (int_quad)(expression))
#define LANES_FLOATS(expression) LANES_PARTS(floats, 4, (float_quad)(expression))
#define LANES_DOUBLES(expression) LANES_PARTS(doubles, 8, expression)
#define LANES_WORDS(x) ((word_quad)(x).part[i])

LANES_INLINE ints int_set(int32_t x) {
    LANES_INTS(((int_quad){x, x, x, x}));
}
LANES_INLINE ints int_count_from(uint32_t start) {
    LANES_INTS(((word_quad){0, 1, 2, 3} + (start + 4 * (uint32_t)i)));
}
LANES_INLINE ints int_load(const void *src) {
    ints x;
    memcpy(&x, src, sizeof x);
    return x;
}
LANES_INLINE void int_store(void *dst, ints x) {
    memcpy(dst, &x, sizeof x);
}
LANES_INLINE ints int_load_i8(const void *src) {
    const int8_t *bytes = (const int8_t *)src;
    LANES_INTS(((int_quad){bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]}));
}
LANES_INLINE ints int_load_u8(const void *src) {
    const uint8_t *bytes = (const uint8_t *)src;
    LANES_INTS(((int_quad){bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]}));
}
LANES_INLINE ints int_load_u16(const void *src) {
    uint16_t words[16];
    memcpy(words, src, sizeof words);
    LANES_INTS(((int_quad){words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]}));
}
LANES_INLINE void int_store_8(void *dst, ints x) {
    uint8_t bytes[16];
    for (int i = 0; i < 16; i++) {
        bytes[i] = (uint8_t)x.part[i / 4][i % 4];
    }
    memcpy(dst, bytes, sizeof bytes);
}
LANES_INLINE void int_store_16(void *dst, ints x) {
    uint16_t words[16];
    for (int i = 0; i < 16; i++) {
        words[i] = (uint16_t)x.part[i / 4][i % 4];
    }
    memcpy(dst, words, sizeof words);
}
LANES_INLINE ints int_and(ints a, ints b) {
    LANES_INTS(a.part[i] & b.part[i]);
}
LANES_INLINE ints int_or(ints a, ints b) {
    LANES_INTS(a.part[i] | b.part[i]);
}
LANES_INLINE ints int_xor(ints a, ints b) {
    LANES_INTS(a.part[i] ^ b.part[i]);
}
LANES_INLINE ints int_add(ints a, ints b) {
    LANES_INTS(LANES_WORDS(a) + LANES_WORDS(b));
}
LANES_INLINE ints int_sub(ints a, ints b) {
    LANES_INTS(LANES_WORDS(a) - LANES_WORDS(b));
}
LANES_INLINE ints int_mul(ints a, ints b) {
    LANES_INTS(LANES_WORDS(a) * LANES_WORDS(b));
}
LANES_INLINE mask int_above(ints a, ints b) {
    LANES_INTS(a.part[i] > b.part[i]);
}
LANES_INLINE mask int_equal(ints a, ints b) {
    LANES_INTS(a.part[i] == b.part[i]);
}
LANES_INLINE ints mask_select(mask m, ints yes, ints no) {
    LANES_INTS((m.part[i] & yes.part[i]) | (~m.part[i] & no.part[i]));
}
LANES_INLINE ints int_min(ints a, ints b) {
    return mask_select(int_above(b, a), a, b);
}
LANES_INLINE ints int_max(ints a, ints b) {
    return mask_select(int_above(a, b), a, b);
}
LANES_INLINE ints int_shl(ints x, int n) {
    LANES_INTS(n > 31 ? (word_quad){0} : LANES_WORDS(x) << n);
}
LANES_INLINE ints int_shr(ints x, int n) {
    LANES_INTS(n > 31 ? (word_quad){0} : LANES_WORDS(x) >> n);
}
LANES_INLINE ints int_sar(ints x, int n) {
    LANES_INTS(x.part[i] >> n);
}
LANES_INLINE ints int_shl_each(ints x, ints n) {
    LANES_INTS((int_quad)(LANES_WORDS(x) << (LANES_WORDS(n) & 31)) & (int_quad)(LANES_WORDS(n) < 32));
}
LANES_INLINE ints int_shr_each(ints x, ints n) {
    LANES_INTS((int_quad)(LANES_WORDS(x) >> (LANES_WORDS(n) & 31)) & (int_quad)(LANES_WORDS(n) < 32));
}
LANES_INLINE int_quad int_pairs_of(int_quad x, int first) {
    return (int_quad){x[first], x[first], x[first + 1], x[first + 1]};
}
LANES_INLINE ints int_pairs_from(ints x, int first) {
    const int_quad low = {0xFFFF, 0, 0xFFFF, 0};
    ints out;
    for (int i = 0; i < 4; i++) {
        int_quad twice = int_pairs_of(x.part[first + i / 2], 2 * (i % 2));
        out.part[i] = (twice & low) | ((int_quad)((word_quad)twice >> 16) & ~low);
    }
    return out;
}
LANES_INLINE ints int_pairs_low(ints x) {
    return int_pairs_from(x, 0);
}
LANES_INLINE ints int_pairs_high(ints x) {
    return int_pairs_from(x, 2);
}
LANES_INLINE void int_store_upper_8(int8_t *dst, ints low, ints high) {
    int_store_8(dst, int_sar(low, 16));
    int_store_8(dst + 16, int_sar(high, 16));
}

LANES_INLINE void int_store_words_8(int8_t *dst, ints words) {
    for (int i = 0; i < 16; i++) {
        uint32_t pair = (uint32_t)words.part[i / 4][i % 4];
        dst[2 * i] = (int8_t)(uint8_t)pair;
        dst[2 * i + 1] = (int8_t)(uint8_t)(pair >> 16);
    }
}

LANES_INLINE mask mask_and(mask a, mask b) {
    return int_and(a, b);
}
LANES_INLINE bool mask_any(mask m) {
    int_quad any = m.part[0] | m.part[1] | m.part[2] | m.part[3];
    return (any[0] | any[1] | any[2] | any[3]) != 0;
}
LANES_INLINE ints int_add_one(ints x, mask m) {
    return int_sub(x, m);
}
LANES_INLINE ints mask_one(mask m) {
    LANES_INTS(m.part[i] & 1);
}

LANES_INLINE floats float_set(float x) {
    LANES_FLOATS(((float_quad){x, x, x, x}));
}
LANES_INLINE floats float_load(const float *src) {
    floats x;
    memcpy(&x, src, sizeof x);
    return x;
}
LANES_INLINE void float_store(float *dst, floats x) {
    memcpy(dst, &x, sizeof x);
}
LANES_INLINE floats float_add(floats a, floats b) {
    LANES_FLOATS(a.part[i] + b.part[i]);
}
LANES_INLINE floats float_mul(floats a, floats b) {
    LANES_FLOATS(a.part[i] * b.part[i]);
}
LANES_INLINE floats float_sub(floats a, floats b) {
    LANES_FLOATS(a.part[i] - b.part[i]);
}
LANES_INLINE floats float_swap(floats x, int distance) {
    if (distance >= 4) {
        LANES_FLOATS(x.part[i ^ (distance / 4)]);
    }
    const int far = distance == 2, near = distance == 1;
    LANES_FLOATS(((float_quad){x.part[i][near + 2 * far], x.part[i][near ? 0 : 3], x.part[i][near ? 3 : 0], x.part[i][near ? 2 : 1]}));
}
LANES_INLINE mask float_above(floats a, floats b) {
    LANES_INTS(a.part[i] > b.part[i]);
}
LANES_INLINE mask float_nan(floats x) {
    LANES_INTS(x.part[i] != x.part[i]);
}
LANES_INLINE ints float_bits(floats x) {
    LANES_INTS(x.part[i]);
}
LANES_INLINE floats float_of_bits(ints x) {
    LANES_FLOATS(x.part[i]);
}
LANES_INLINE floats float_of_int(ints x) {
    LANES_FLOATS(__builtin_convertvector(x.part[i], float_quad));
}
LANES_INLINE ints float_truncate(floats x) {
    LANES_INTS(__builtin_convertvector(x.part[i], int_quad));
}
LANES_INLINE floats float_clamp(floats x, float lowest, float highest) {
    floats top = float_set(highest);
    floats bottom = float_set(lowest);
    ints below = mask_select(float_above(top, x), float_bits(x), float_bits(top));
    return float_of_bits(mask_select(float_above(float_of_bits(below), bottom), below, float_bits(bottom)));
}
/* Adding 2^23 to a magnitude leaves the rounded integer in the low mantissa bits. */
LANES_INLINE ints float_nearest(floats x) {
    ints sign = int_sar(float_bits(x), 31);
    floats magnitude = float_of_bits(int_and(float_bits(x), int_set(INT32_MAX)));
    ints rounded;
    for (int i = 0; i < 4; i++) {
        rounded.part[i] = (int_quad)(magnitude.part[i] + 0x1p23f) - 0x4B000000;
    }
    return int_sub(int_xor(rounded, sign), sign);
}

LANES_INLINE doubles double_set(double x) {
    LANES_DOUBLES(((double_pair){x, x}));
}
LANES_INLINE doubles double_of_float(floats x) {
    LANES_DOUBLES(((double_pair){(double)x.part[i / 2][2 * (i % 2)], (double)x.part[i / 2][2 * (i % 2) + 1]}));
}
LANES_INLINE doubles double_add(doubles a, doubles b) {
    LANES_DOUBLES(a.part[i] + b.part[i]);
}
LANES_INLINE doubles double_sub(doubles a, doubles b) {
    LANES_DOUBLES(a.part[i] - b.part[i]);
}
LANES_INLINE doubles double_mul(doubles a, doubles b) {
    LANES_DOUBLES(a.part[i] * b.part[i]);
}
LANES_INLINE doubles double_truncate(doubles x) {
    LANES_DOUBLES(((double_pair){(double)(int32_t)x.part[i][0], (double)(int32_t)x.part[i][1]}));
}
LANES_INLINE doubles double_power(ints n) {
    doubles out;
    for (int i = 0; i < 16; i++) {
        uint64_t bits = (uint64_t)(n.part[i / 4][i % 4] + 1023) << 52;
        memcpy((char *)&out + 8 * i, &bits, sizeof bits);
    }
    return out;
}
LANES_INLINE void double_store(double *dst, doubles x) {
    memcpy(dst, &x, sizeof x);
}

#endif
