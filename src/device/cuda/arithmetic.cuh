// SPDX-License-Identifier: Apache-2.0
/* Arithmetic of one element, with the bits of the rooms `number` and `base`: random draws, rounding to every format in every mode, codes and
 * back. Integer arithmetic throughout, in which a value and a draw are used once: what a carry does needs no cases. Compiled by nvcc for the
 * GPU and by the tests for the CPU. */
#ifndef QSYNC_DEVICE_CUDA_ARITHMETIC_CUH
#define QSYNC_DEVICE_CUDA_ARITHMETIC_CUH

#include "cuda/jobs.h"

#include <math.h>
#include <string.h>
extern "C" {
#include "qsync/number.h"
}

/* Head of a function of one thread, and of a member function. */
#if defined(__CUDACC__)
#define QS_CUDA_DEVICE static __device__ __forceinline__
#define QS_CUDA_DEVICE_MEMBER __device__ __forceinline__
#define QS_CUDA_UNROLL _Pragma("unroll") /* before a loop over an array that is to be registers */
#else
#define QS_CUDA_DEVICE static inline
#define QS_CUDA_DEVICE_MEMBER inline
#define QS_CUDA_UNROLL
#endif

/* ---- Bits ------------------------------------------------------------------------------------------------------------------------ */

constexpr uint32_t SIGN_BIT = 0x80000000u, MAGNITUDE_BITS = 0x7FFFFFFFu, INFINITY_BITS = 0x7F800000u, QUIET_NAN_BITS = 0x7FC00000u;

QS_CUDA_DEVICE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

QS_CUDA_DEVICE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

QS_CUDA_DEVICE bool finite(float value) {
    return (bits_of(value) & INFINITY_BITS) != INFINITY_BITS;
}

template <typename T> QS_CUDA_DEVICE T least(T a, T b) {
    return a < b ? a : b;
}

template <typename T> QS_CUDA_DEVICE T largest(T a, T b) {
    return a < b ? b : a;
}

/* Makes a number known to the compiler: with_... call `use`, a function object, with constant<it>. */
template <int number> struct constant { static constexpr int value = number; };

template <typename Use> QS_CUDA_DEVICE auto with_rounding(int rounding, Use use) {
    switch (rounding) {
    case QS_NEAREST_EVEN:
        return use(constant<QS_NEAREST_EVEN>());
    case QS_NEAREST_AWAY:
        return use(constant<QS_NEAREST_AWAY>());
    case QS_STOCHASTIC:
        return use(constant<QS_STOCHASTIC>());
    case QS_FLOOR:
        return use(constant<QS_FLOOR>());
    default:
        return use(constant<QS_TOWARD_ZERO>());
    }
}

/* ---- Random draws: base's ---------------------------------------------------------------------------------------------------------- */

/* qs_random_hash. */
QS_CUDA_DEVICE uint32_t random_hash(uint32_t key_low, uint32_t key_high, uint32_t counter) {
    uint32_t x = counter * 0x9E3779B1u + key_low;
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x += key_high;
    x *= 0x846CA68Bu;
    x ^= x >> 16;
    return x;
}

/* qs_random_key_for: of all counters that share their high half. */
QS_CUDA_DEVICE uint64_t random_key_for(uint64_t key, uint64_t counter) {
    uint64_t x = counter >> 32;
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return key ^ x;
}

/* qs_random_bits. */
QS_CUDA_DEVICE uint32_t random_bits(uint64_t key, uint64_t counter) {
    key = random_key_for(key, counter);
    return random_hash((uint32_t)key, (uint32_t)(key >> 32), (uint32_t)counter);
}

/* qs_random_uniform. */
QS_CUDA_DEVICE float random_uniform(uint64_t key, uint64_t counter) {
    return (float)(random_bits(key, counter) >> 8) * 0x1p-24f;
}

/* ---- Float formats ------------------------------------------------------------------------------------------------------------------- */

/* A float format in terms of fp32 bits: the number room's qs__float_plan. Of a format that is the same for all threads, and no work then. */
struct float_plan {
    int shift;          /* mantissa bits of fp32 that are dropped */
    int min_field;      /* fp32 exponent field of min_normal */
    int mantissa_bits;  /* m */
    int magnitude_bits; /* e + m */
    int specials;
    uint32_t max_code;     /* of the largest value */
    uint32_t special_code; /* codes from here on are not numbers */
    uint32_t infinity_code, nan_code;
    float step;  /* min_subnormal */
    bool padded; /* storage is the value's fp32: tf32 */
};

QS_CUDA_DEVICE float_plan plan_of(const qs__cuda_format &format) {
    const int e = format.exponent_bits, m = format.mantissa_bits;
    const uint32_t last = (1u << (e + m)) - 1;
    float_plan plan;
    plan.shift = 23 - m;
    plan.min_field = 128 - (1 << (e - 1)) - format.bias + 1;
    plan.mantissa_bits = m;
    plan.magnitude_bits = e + m;
    plan.specials = format.specials;
    plan.max_code = (bits_of(format.max) >> plan.shift) - ((uint32_t)(plan.min_field - 1) << m);
    /* Largest value, then (but for formats whose last code is a number) what is none. */
    plan.special_code = format.specials == QS_SPECIALS_NONE && plan.max_code == last ? UINT32_MAX : plan.max_code + 1;
    plan.infinity_code = least(plan.special_code, last);
    plan.nan_code = plan.infinity_code | (format.specials == QS_SPECIALS_IEEE ? 1u << m >> 1 : 0);
    plan.step = format.min_subnormal;
    plan.padded = format.bits > 1 + e + m;
    return plan;
}

/* fp32 bits of a code without sign: of one up to max_code, and of any. */
QS_CUDA_DEVICE uint32_t decode_number(const float_plan &plan, uint32_t code) {
    if (code >> plan.mantissa_bits == 0) return bits_of((float)code * plan.step);
    return (code << plan.shift) + ((uint32_t)(plan.min_field - 1) << 23);
}

QS_CUDA_DEVICE uint32_t decode_magnitude(const float_plan &plan, uint32_t code) {
    if (code >= plan.special_code) {
        if (plan.specials == QS_SPECIALS_NONE) return INFINITY_BITS;
        if (plan.specials == QS_SPECIALS_FN) return QUIET_NAN_BITS;
        const uint32_t fraction = (code & ((1u << plan.mantissa_bits) - 1)) << plan.shift;
        return INFINITY_BITS | fraction | (fraction && plan.min_field != 1 ? QUIET_NAN_BITS : 0);
    }
    return decode_number(plan, code);
}

/* qs_decode_value of a float format; no bits above the code's. */
QS_CUDA_DEVICE float decode(const float_plan &plan, uint32_t code) {
    if (plan.padded) return float_of(code);
    const uint32_t magnitude = decode_magnitude(plan, code & ((1u << plan.magnitude_bits) - 1));
    return float_of(magnitude | code >> plan.magnitude_bits << 31);
}

/* The first `bits` bits of a draw, 0 to 31. */
QS_CUDA_DEVICE uint32_t draw_of_bits(uint32_t random, int bits) {
#if defined(__CUDA_ARCH__)
    return __funnelshift_l(random, 0, (unsigned)bits);
#else
    return (uint32_t)((uint64_t)random << bits >> 32);
#endif
}

/* Code, without sign, of a magnitude rounded to a grid without upper end: codes go on behind the largest, and what is no number is behind
 * all that are. The significand is an integer of which `dropped` bits fall away; what is rounded up may carry into the exponent, which is
 * as it should be. Far below the smallest step, where more than 31 bits would be dropped, it is shifted before: bits that are lost then
 * count for nothing, but in `floor`. Exponents are counted from 0, that of subnormal numbers and of the smallest normal ones. */
QS_CUDA_DEVICE uint32_t round_magnitude(const float_plan &plan, int rounding, bool negative, uint32_t magnitude, uint32_t random) {
    const int lowest = plan.min_field - 1; /* exponent of the format's subnormal numbers */
    const int exponent = largest((int)(magnitude >> 23) - 1, 0), held = largest(exponent, lowest - 31 + plan.shift);
    const int dropped = largest(plan.shift + lowest - held, plan.shift);
    const uint32_t whole = magnitude - ((uint32_t)exponent << 23), ones = (1u << dropped) - 1;
    uint32_t significand = whole >> least(held - exponent, 31), up = 0;
    if (rounding == QS_NEAREST_EVEN) up = (ones >> 1) + (significand >> dropped & (uint32_t)least(dropped, 1));
    if (rounding == QS_NEAREST_AWAY) up = (ones + 1) >> 1;
    if (rounding == QS_STOCHASTIC) up = draw_of_bits(random, dropped);
    if (rounding == QS_FLOOR && negative) {
        up = ones;
        if (held > exponent) significand = whole != 0;
    }
    return ((significand + up) >> dropped) + ((uint32_t)(held + dropped - plan.shift - lowest) << plan.mantissa_bits);
}

/* What a rounding gives where a magnitude passed max: whether it saturates (else it is infinite). */
QS_CUDA_DEVICE bool saturates(const float_plan &plan, int rounding, int overflow, bool negative, bool infinite) {
    if (overflow != QS_OVERFLOW_DEFAULT) return overflow == QS_OVERFLOW_SATURATE;
    const bool inward = rounding == QS_TOWARD_ZERO || (rounding == QS_FLOOR && !negative);
    return plan.specials != QS_SPECIALS_IEEE || (inward && !infinite);
}

/* A rounded value: its storage code, itself as fp32 (an infinity, or a NaN, may have no code of its own), and what is counted of it. */
struct rounded {
    uint32_t code;
    float value;
    bool overflowed;
};

/* qs_round_value and qs_encode_value of a float format. */
QS_CUDA_DEVICE rounded round_float(const float_plan &plan, int rounding, int overflow, float x, uint32_t random) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS, sign = bits & SIGN_BIT;
    uint32_t code = round_magnitude(plan, rounding, sign != 0, magnitude, random), value;
    rounded out;
    out.overflowed = false;
    if (code <= plan.max_code) {
        value = decode_number(plan, code);
    } else { /* seldom */
        const bool nan = magnitude > INFINITY_BITS, infinite = magnitude == INFINITY_BITS;
        const bool stays = nan ? plan.specials != QS_SPECIALS_NONE || overflow == QS_OVERFLOW_INFINITY
                               : !saturates(plan, rounding, overflow, sign != 0, infinite);
        out.overflowed = !nan || plan.specials == QS_SPECIALS_NONE;
        code = !stays ? plan.max_code : nan ? plan.nan_code : plan.infinity_code;
        value = !stays ? decode_number(plan, plan.max_code) : nan ? QUIET_NAN_BITS : INFINITY_BITS;
    }
    out.code = plan.padded ? value | sign : code | (uint32_t)(sign != 0) << plan.magnitude_bits;
    out.value = float_of(value | sign);
    return out;
}

/* ---- Formats with paths of their own: as qs_convert_from_fp32, nearest-even with the format's own overflow, and back ------------------- */

QS_CUDA_DEVICE float bf16_decode(uint32_t code) {
    return float_of(code << 16);
}

QS_CUDA_DEVICE uint32_t bf16_encode(float x) {
    const uint32_t bits = bits_of(x);
    const uint32_t code = (bits + 0x7FFFu + (bits >> 16 & 1)) >> 16;
    return (bits & MAGNITUDE_BITS) > INFINITY_BITS ? (bits >> 16 & 0x8000u) | QUIET_NAN_BITS >> 16 : code;
}

/* Exact: an fp16 times 2^-112, as fp32 bits, is a number of fp32 without a step that is not its own. NaNs become quiet. */
QS_CUDA_DEVICE float fp16_decode(uint32_t code) {
    const uint32_t magnitude = code & 0x7FFFu, sign = (code & 0x8000u) << 16;
    uint32_t bits = bits_of(float_of(magnitude << 13) * 0x1p112f);
    if (magnitude >= 0x7C00u) bits = INFINITY_BITS | magnitude << 13 | (magnitude > 0x7C00u ? QUIET_NAN_BITS : 0);
    return float_of(bits | sign);
}

QS_CUDA_DEVICE uint32_t fp16_encode(float x) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS, sign = bits >> 16 & 0x8000u;
#if defined(__CUDA_ARCH__)
    uint16_t half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return magnitude > INFINITY_BITS ? sign | 0x7E00u : half;
#else
    /* Below the normal range the sum with 1/2 has the step of fp16 as its last place. */
    const uint32_t normal = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1)) >> 13;
    const uint32_t small = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t code = magnitude < 113u << 23 ? small : least(normal, 0x7C00u);
    if (magnitude > INFINITY_BITS) code = 0x7E00u;
    return sign | code;
#endif
}

/* The two formats of 8 bits: `small` holds magnitudes below the normal range, added to what has the format's step as its last place. */
template <int mantissa_bits, int min_field> QS_CUDA_DEVICE uint32_t fp8_magnitude(uint32_t magnitude) {
    const int shift = 23 - mantissa_bits;
    const float magic = float_of((uint32_t)(min_field + shift) << 23);
    const uint32_t normal = (magnitude + ((1u << (shift - 1)) - 1) + (magnitude >> shift & 1)) >> shift;
    const uint32_t small = bits_of(float_of(magnitude) + magic) - bits_of(magic);
    return magnitude < (uint32_t)min_field << 23 ? small : normal - ((uint32_t)(min_field - 1) << mantissa_bits);
}

QS_CUDA_DEVICE uint32_t e4m3_encode(float x) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t code = least(fp8_magnitude<3, 121>(magnitude), 0x7Eu);
    return (magnitude > INFINITY_BITS ? 0x7Fu : code) | (bits >> 24 & 0x80u);
}

QS_CUDA_DEVICE uint32_t e5m2_encode(float x) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t code = least(fp8_magnitude<2, 113>(magnitude), 0x7Cu);
    return (magnitude > INFINITY_BITS ? 0x7Eu : code) | (bits >> 24 & 0x80u);
}

/* e4m3fn times 2^-120 as fp32 bits, like fp16 above; e5m2 is the upper half of an fp16. */
QS_CUDA_DEVICE float e4m3_decode(uint32_t code) {
    const uint32_t magnitude = code & 0x7Fu, sign = (code & 0x80u) << 24;
    const uint32_t bits = bits_of(float_of(magnitude << 20) * 0x1p120f);
    return float_of((magnitude == 0x7Fu ? QUIET_NAN_BITS : bits) | sign);
}

QS_CUDA_DEVICE float e5m2_decode(uint32_t code) {
    return fp16_decode(code << 8);
}

/* Stochastic rounding to them, with the format's own overflow: round_magnitude again, but that numbers so small that fp32 has them without
 * leading bit are none of theirs. */
template <int mantissa_bits, int min_field> QS_CUDA_DEVICE uint32_t stochastic_magnitude(uint32_t magnitude, uint32_t random) {
    const int shift = 23 - mantissa_bits, exponent = (int)(magnitude >> 23), held = largest(exponent, min_field - 31 + shift);
    const int dropped = largest(shift + min_field - held, shift);
    const uint32_t significand = ((magnitude & 0x7FFFFFu) | 0x800000u) >> least(held - exponent, 31);
    return ((significand + draw_of_bits(random, dropped)) >> dropped) + ((uint32_t)(held + dropped) << mantissa_bits) -
           ((uint32_t)(shift + min_field) << mantissa_bits);
}

QS_CUDA_DEVICE uint32_t bf16_stochastic(float x, uint32_t random) {
    const uint32_t bits = bits_of(x), code = (bits + (random >> 16)) >> 16;
    return (bits & MAGNITUDE_BITS) > INFINITY_BITS ? (bits >> 16 & 0x8000u) | QUIET_NAN_BITS >> 16 : code;
}

QS_CUDA_DEVICE uint32_t fp16_stochastic(float x, uint32_t random) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t code = least(stochastic_magnitude<10, 113>(magnitude, random), 0x7C00u);
    return (magnitude > INFINITY_BITS ? 0x7E00u : code) | (bits >> 16 & 0x8000u);
}

QS_CUDA_DEVICE uint32_t e4m3_stochastic(float x, uint32_t random) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t code = least(stochastic_magnitude<3, 121>(magnitude, random), 0x7Eu);
    return (magnitude > INFINITY_BITS ? 0x7Fu : code) | (bits >> 24 & 0x80u);
}

QS_CUDA_DEVICE uint32_t e5m2_stochastic(float x, uint32_t random) {
    const uint32_t bits = bits_of(x), magnitude = bits & MAGNITUDE_BITS;
    const uint32_t code = least(stochastic_magnitude<2, 113>(magnitude, random), 0x7Cu);
    return (magnitude > INFINITY_BITS ? 0x7Eu : code) | (bits >> 24 & 0x80u);
}

/* ---- Integers --------------------------------------------------------------------------------------------------------------------------- */

/* How values become codes: clamp(round(x · inverse), lowest, highest), or powers of two. */
struct fixed_range {
    float lowest, highest;
    bool logarithmic;
};

QS_CUDA_DEVICE fixed_range fixed_range_of(const qs__cuda_format &format) {
    const fixed_range range = {format.is_unsigned ? 0.0f : -format.max, format.max, format.is_logarithmic != 0};
    return range;
}

/* Nearest-even. */
QS_CUDA_DEVICE int nearest_integer(float x) {
#if defined(__CUDA_ARCH__)
    return __float2int_rn(x);
#else
    return (int)nearbyintf(x);
#endif
}

/* qs_step_of_absmax. */
QS_CUDA_DEVICE float step_of_absmax(const qs__cuda_format &format, float absmax) {
    if (!finite(absmax) || absmax <= 0.0f) return 1.0f;
    return largest(absmax / format.max, 0x1p-100f);
}

/* An integer from y, 16 fractional bits of which take a draw where rounding is stochastic. */
template <int rounding> QS_CUDA_DEVICE int integer_of(float y, uint32_t half) {
    if (rounding == QS_STOCHASTIC) return (nearest_integer(y) + (int)half) >> 16;
    if (rounding == QS_NEAREST_EVEN) return nearest_integer(y);
    const int whole = (int)y;
    if (rounding == QS_FLOOR) return whole - ((float)whole > y);
    if (rounding == QS_NEAREST_AWAY) {
        const float rest = y < 0 ? (float)whole - y : y - (float)whole;
        return whole + (rest >= 0.5f ? (y < 0 ? -1 : 1) : 0);
    }
    return whole;
}

/* One code of qs_quantize_array, from y = x · (unit/step); a NaN becomes the largest. With QS_STOCHASTIC the unit is 2^16, else 1: codes have
 * 16 fractional bits, to which a draw of 16 bits, `half`, is added. */
template <int rounding> QS_CUDA_DEVICE int quantize_scaled(fixed_range range, float y, uint32_t half) {
    const float unit = rounding == QS_STOCHASTIC ? 65536.0f : 1.0f, low = range.lowest * unit, high = range.highest * unit;
    y = y < high ? y : high;
    y = y > low ? y : low;
    if (!range.logarithmic) return integer_of<rounding>(y, half);
    /* Between powers of two the spacing is the lower one. */
    const int above = (int)(bits_of(y) >> 23 & 0xFFu) - (rounding == QS_STOCHASTIC ? 143 : 127), exponent = above > 0 ? above : 0;
    return integer_of<rounding>(y * float_of((uint32_t)(127 - exponent) << 23), half) * (1 << exponent);
}

/* The same of qs_round_value for integers: the unit is taken here. */
QS_CUDA_DEVICE int round_integer(fixed_range range, int rounding, float x, uint32_t half) {
    return with_rounding(rounding, [&](auto mode) {
        constexpr int known = decltype(mode)::value;
        return quantize_scaled<known>(range, known == QS_STOCHASTIC ? x * 65536.0f : x, half);
    });
}

/* Draw of element i of a run of qs_quantize_array that begins at counter `first` (even): two from one hash. */
QS_CUDA_DEVICE uint32_t random_half(uint64_t key, uint64_t counter) {
    return random_bits(key, counter >> 1) >> (counter & 1 ? 16 : 0) & 0xFFFFu;
}

#endif
