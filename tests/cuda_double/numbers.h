// SPDX-License-Identifier: Apache-2.0
/* Numbers as the doubles of libraries read and write them, one at a time, by the formats' definitions. */
#ifndef QSYNC_TESTS_NUMBERS_H
#define QSYNC_TESTS_NUMBERS_H

#include <cmath>
#include <cstdint>
#include <cstring>

enum number_kind { NUMBER_FP32, NUMBER_BF16, NUMBER_FP16, NUMBER_E4M3, NUMBER_E5M2, NUMBER_INT8, NUMBER_INT32 };

static inline int number_bytes(number_kind kind) {
    static const int bytes[] = {4, 2, 2, 1, 1, 1, 4};
    return bytes[kind];
}

static inline const char *number_name(number_kind kind) {
    static const char *const names[] = {"fp32", "bf16", "fp16", "e4m3fn", "e5m2", "int8", "int32"};
    return names[kind];
}

/* Bits of a float format; e4m3fn has no infinities, and NaN in its last code alone. */
struct number_layout {
    int exponent_bits, mantissa_bits, bias;
    bool finite;
    double max;
};

static inline const number_layout &number_layout_of(number_kind kind) {
    static const number_layout layouts[] = {{8, 23, 127, false, 0x1.fffffep127},
                                            {8, 7, 127, false, 0x1.fep127},
                                            {5, 10, 15, false, 65504},
                                            {4, 3, 7, true, 448},
                                            {5, 2, 15, false, 57344}};
    return layouts[kind];
}

static inline float number_decode(number_kind kind, uint32_t code) {
    const number_layout &layout = number_layout_of(kind);
    const uint32_t mantissa = code & ((1u << layout.mantissa_bits) - 1);
    const int exponent = (int)(code >> layout.mantissa_bits & ((1u << layout.exponent_bits) - 1)), last = (1 << layout.exponent_bits) - 1;
    const float sign = code >> (layout.mantissa_bits + layout.exponent_bits) & 1 ? -1.0f : 1.0f;
    if (exponent == last && !layout.finite) return mantissa ? NAN : sign * INFINITY;
    if (exponent == last && layout.finite && mantissa == (1u << layout.mantissa_bits) - 1) return NAN;
    if (exponent == 0) return sign * ldexpf((float)mantissa, 1 - layout.bias - layout.mantissa_bits);
    return sign * ldexpf((float)(mantissa | 1u << layout.mantissa_bits), exponent - layout.bias - layout.mantissa_bits);
}

/* To the nearest, ties to even; beyond the largest: infinity, or what is largest where `saturates`. */
static inline uint32_t number_encode(number_kind kind, float x, bool saturates) {
    const number_layout &layout = number_layout_of(kind);
    const uint32_t sign = (std::signbit(x) ? 1u : 0u) << (layout.mantissa_bits + layout.exponent_bits),
                   last = (1u << layout.exponent_bits) - 1, ones = (1u << layout.mantissa_bits) - 1,
                   infinity = sign | last << layout.mantissa_bits;
    if (std::isnan(x)) return infinity | (layout.finite ? ones : 1u << (layout.mantissa_bits - 1));
    const double magnitude = fabs((double)x);
    int exponent = magnitude > 0 && std::isfinite(magnitude) ? ilogb(magnitude) : 1 - layout.bias;
    if (exponent < 1 - layout.bias) exponent = 1 - layout.bias;
    const double rounded = ldexp(nearbyint(ldexp(magnitude, layout.mantissa_bits - exponent)), exponent - layout.mantissa_bits);
    if (rounded > layout.max) {
        if (!saturates) return layout.finite ? infinity | ones : infinity;
        return number_encode(kind, (float)copysign(layout.max, (double)x), false);
    }
    if (rounded < ldexp(1, 1 - layout.bias)) return sign | (uint32_t)ldexp(rounded, layout.bias - 1 + layout.mantissa_bits);
    exponent = ilogb(rounded);
    const uint32_t mantissa = (uint32_t)ldexp(rounded, layout.mantissa_bits - exponent) & ones;
    return sign | (uint32_t)(exponent + layout.bias) << layout.mantissa_bits | mantissa;
}

/* Element i of an array; integers of 32 bits may be rounded to a float. */
static inline float number_load(number_kind kind, const void *at, int64_t i) {
    const char *from = static_cast<const char *>(at) + i * number_bytes(kind);
    uint32_t code = 0;
    float x;
    if (kind == NUMBER_INT8) return (float)*reinterpret_cast<const int8_t *>(from);
    memcpy(&code, from, (size_t)number_bytes(kind));
    if (kind == NUMBER_INT32) return (float)(int32_t)code;
    if (kind == NUMBER_BF16) code <<= 16;
    if (kind != NUMBER_FP32 && kind != NUMBER_BF16) return number_decode(kind, code);
    memcpy(&x, &code, sizeof x);
    return x;
}

/* What tensor cores see of an fp32 factor: ten bits of mantissa, the others cut off. */
static inline float number_tf32(float x) {
    uint32_t code;
    memcpy(&code, &x, sizeof code);
    code &= ~(uint32_t)0x1fff;
    memcpy(&x, &code, sizeof x);
    return x;
}

/* Values of 8 bits saturate, as the libraries do. */
static inline void number_store(number_kind kind, void *at, int64_t i, float x) {
    char *to = static_cast<char *>(at) + i * number_bytes(kind);
    if (kind == NUMBER_FP32) {
        memcpy(to, &x, sizeof x);
    } else if (kind == NUMBER_INT8) {
        const float whole = nearbyintf(x);
        *reinterpret_cast<int8_t *>(to) = (int8_t)(whole < -128 ? -128 : whole > 127 ? 127 : whole);
    } else {
        const uint32_t code = number_encode(kind, x, number_bytes(kind) == 1);
        memcpy(to, &code, (size_t)number_bytes(kind));
    }
}

#endif
