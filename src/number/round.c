// SPDX-License-Identifier: Apache-2.0
/* Rounding of one value: the reference that the vector kernels must equal bit for bit, written in double arithmetic, which is exact here:
 * |x| = (k + f) q with q the spacing of the format at x, an integer k < 2^24 and a fraction f; a rounding decides between k and k + 1. */
#include "number_room.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Whether a magnitude k + f goes up to k + 1. */
static bool goes_up(qs_rounding rounding, bool negative, double k, double f, uint32_t random) {
    switch (rounding) {
    case QS_NEAREST_EVEN:
        return f > 0.5 || (f == 0.5 && fmod(k, 2.0) != 0.0);
    case QS_NEAREST_AWAY:
        return f >= 0.5;
    /* Probability f to the 31st bit: the carry out of the fraction's first 31 bits plus the random ones. */
    case QS_STOCHASTIC:
        return floor(f * 0x1p31) + (random >> 1) >= 0x1p31;
    case QS_FLOOR:
        return negative && f > 0.0;
    default:
        return false;
    }
}

/* Result when the magnitude passed max. */
static float overflow_value(const qs_format *format, qs_rounding rounding, qs_overflow overflow, float x) {
    bool inward = rounding == QS_TOWARD_ZERO || (rounding == QS_FLOOR && !signbit(x));
    bool saturates = format->specials != QS_SPECIALS_IEEE || (inward && !isinf(x));
    if (overflow != QS_OVERFLOW_DEFAULT) saturates = overflow == QS_OVERFLOW_SATURATE;
    return copysignf(saturates ? (float)format->max : INFINITY, x);
}

static float nan_value(const qs_format *format, qs_overflow overflow, float x) {
    bool stays = format->specials != QS_SPECIALS_NONE || overflow == QS_OVERFLOW_INFINITY;
    return copysignf(stays ? NAN : (float)format->max, x);
}

static qs__past_max past_max_of(const qs_format *format, qs_rounding rounding, qs_overflow overflow) {
    const float top = FLT_MAX;
    return (qs__past_max){
        .positive = (int32_t)qs__bits_of(overflow_value(format, rounding, overflow, top)),
        .negative = (int32_t)qs__bits_of(-overflow_value(format, rounding, overflow, -top)),
        .infinity = (int32_t)qs__bits_of(overflow_value(format, rounding, overflow, INFINITY)),
        .nan = (int32_t)qs__bits_of(nan_value(format, overflow, 1.0f)),
    };
}

static int32_t code_of(const qs_format *format, int32_t bits) {
    return (int32_t)qs_encode_value(format, qs__float_of((uint32_t)bits));
}

qs__float_rounding qs__float_rounding_of(const qs_format *format, qs_rounding rounding, qs_overflow overflow) {
    const qs__float_plan plan = qs__float_plan_of(format);
    const qs__past_max past = past_max_of(format, rounding, overflow);
    const int exponent = 127 + plan.mantissa_bits - plan.min_field; /* of 1/step */
    const int first = exponent > 126 ? 126 : exponent < -126 ? -126 : exponent;
    const bool as_fp32 = plan.min_field == 1 && plan.mantissa_bits > 0;
    qs__float_rounding how = {.plan = plan, .rounding = rounding, .value = past};
    how.dropped = (int32_t)((1u << plan.shift) - 1);
    /* A significand without mantissa is odd: its ties go up. */
    how.half = how.dropped / 2 + (plan.mantissa_bits == 0);
    how.odd = plan.mantissa_bits > 0 && plan.shift > 0;
    how.small_bits = as_fp32 ? 0 : plan.min_bits;
    how.step = as_fp32 ? 0.0f : plan.step;
    how.inverse[0] = ldexpf(1.0f, first);
    how.inverse[1] = ldexpf(1.0f, exponent - first);
    how.code = (qs__past_max){code_of(format, past.positive), code_of(format, past.negative), code_of(format, past.infinity),
                              code_of(format, past.nan)};
    return how;
}

static float round_float(const qs_format *format, qs_rounding rounding, qs_overflow overflow, float x, uint32_t random, bool *overflowed) {
    if (isnan(x)) {
        *overflowed = format->specials == QS_SPECIALS_NONE;
        return nan_value(format, overflow, x);
    }
    double magnitude = fabs((double)x);
    double rounded = magnitude;
    if (isfinite(x)) {
        int exponent = 0;
        (void)frexp(magnitude < format->min_normal ? format->min_normal : magnitude, &exponent);
        double q = ldexp(format->epsilon, exponent - 1);
        double k = floor(magnitude / q);
        double f = magnitude / q - k;
        rounded = (k + goes_up(rounding, signbit(x), k, f, random)) * q;
    }
    *overflowed = rounded > format->max;
    return *overflowed ? overflow_value(format, rounding, overflow, x) : copysignf((float)rounded, x);
}

/* Fixed point keeps 16 fractional bits, rounded to nearest-even, and adds a 16-bit draw: the arithmetic of the quantization kernels. */
static double round_integer_stochastic(double x, uint32_t random) {
    double fixed = x * 0x1p16;
    double k = floor(fixed);
    k += goes_up(QS_NEAREST_EVEN, false, k, fixed - k, 0);
    return floor((k + (random >> 16)) * 0x1p-16);
}

/* Powers of two are integers at a spacing that grows: 2^k from 2^k on. */
static double integer_spacing(const qs_format *format, double magnitude) {
    return format->is_logarithmic && magnitude > 1.0 ? ldexp(1.0, ilogb(magnitude)) : 1.0;
}

static float round_integer(const qs_format *format, qs_rounding rounding, float x, uint32_t random, bool *overflowed) {
    double magnitude = fabs((double)x);
    *overflowed = true;
    if (isnan(x)) return (float)format->max;
    if (magnitude > format->max + 1.0) return (float)(x < 0 ? qs_format_lowest(format) : format->max);
    double q = integer_spacing(format, magnitude);
    double k = floor(magnitude / q);
    double rounded;
    if (rounding == QS_STOCHASTIC) {
        rounded = fabs(round_integer_stochastic((double)x / q, random)) * q;
    } else {
        rounded = (k + goes_up(rounding, signbit(x), k, magnitude / q - k, random)) * q;
    }
    double result = copysign(rounded, (double)x);
    *overflowed = format->is_logarithmic ? magnitude > format->max : result > format->max || result < qs_format_lowest(format);
    return (float)fmax(fmin(result, format->max), qs_format_lowest(format));
}

float qs_round_value(const qs_format *format, qs_rounding rounding, qs_overflow overflow, float x, uint32_t random, bool *overflowed) {
    bool unused;
    if (!overflowed) overflowed = &unused;
    if (format->kind == QS_KIND_INTEGER) return round_integer(format, rounding, x, random, overflowed);
    return round_float(format, rounding, overflow, x, random, overflowed);
}
