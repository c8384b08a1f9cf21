// SPDX-License-Identifier: Apache-2.0
/* Codes that are powers of two (family_log.c). Between 2^k and 2^(k+1) steps a value is rounded as if the spacing were 2^k steps: what an
 * integer's rounding does to value / spacing, times the spacing. So stochastic rounding is unbiased everywhere below the largest code, also
 * between 0 and the least power (LUQ's stochastic underflow). */
#include "number_room.h"

#include <math.h>

/* The exponent of the spacing at a magnitude of so many steps. */
static int spacing_exponent(float steps) {
    const int exponent = (int)(qs__bits_of(steps) >> 23 & 0xFF) - 127;
    return exponent > 0 ? exponent : 0;
}

/* Nearest-even of less than 2^22, without a call. */
static int nearest(float y) {
    return (int)(y + 0x1.8p23f - 0x1.8p23f);
}

/* y has 16 fractional bits where rounding is stochastic; within ±2. */
static int rounded(qs_rounding rounding, float y, uint32_t half) {
    switch (rounding) {
    case QS_STOCHASTIC:
        return (nearest(y) + (int)half) >> 16;
    case QS_NEAREST_EVEN:
        return nearest(y);
    case QS_NEAREST_AWAY:
        return (int)roundf(y);
    case QS_FLOOR:
        return (int)floorf(y);
    default:
        return (int)y;
    }
}

/* `y` in steps, or in 2^-16 steps. */
static int code_of(const qs_format *format, qs_rounding rounding, float y, uint32_t half) {
    const float unit = rounding == QS_STOCHASTIC ? 0x1p16f : 1.0f, high = (float)format->max * unit;
    y = y < high ? y : high;
    y = y > -high ? y : -high;
    const int exponent = spacing_exponent(y / unit);
    return rounded(rounding, y * qs__float_of((uint32_t)(127 - exponent) << 23), half) * (1 << exponent);
}

float qs__logarithmic_round(const qs_format *format, qs_rounding rounding, float x, uint32_t random) {
    return (float)code_of(format, rounding, rounding == QS_STOCHASTIC ? x * 0x1p16f : x, random >> 16);
}

/* Values × factors, whose place moves on. */
static void values_load(qs__factors *factors, int64_t count, bool bfloat, const void *src, float *scaled) {
    for (int64_t i = 0; i < count; i++) {
        const float x = bfloat ? qs__float_of((uint32_t)((const uint16_t *)src)[i] << 16) : ((const float *)src)[i];
        scaled[i] = x * factors->factor[factors->start];
        if (++factors->start == factors->period) factors->start = 0;
    }
}

void qs__logarithmic_quantize(const qs_format *format, qs_rounding rounding, qs_random_stream random, qs__factors factors, int64_t count,
                              bool bfloat, const void *src, int8_t *dst) {
    const qs__kernels *kernels = qs__kernels_get();
    const size_t size = bfloat ? sizeof(uint16_t) : sizeof(float);
    float scaled[QS__POWERS];
    for (int64_t at = 0; at < count;) {
        const uint64_t position = random.first + (uint64_t)at;
        const bool alone = rounding == QS_STOCHASTIC && position % 2 == 1; /* the second half of a draw whose first one is another's */
        int64_t some = alone ? 1 : count - at < QS__POWERS ? count - at : QS__POWERS;
        if (rounding == QS_STOCHASTIC && !alone) {
            const int64_t pairs = qs__draws_run(position / 2, (some + 1) / 2);
            some = 2 * pairs < some ? 2 * pairs : some;
        }
        values_load(&factors, some, bfloat, (const char *)src + (size_t)at * size, scaled);
        if (rounding == QS_STOCHASTIC && !alone)
            kernels->quantize_powers(qs__draws_at(random, position / 2), some, (float)format->max * 0x1p16f, scaled, dst + at);
        else
            for (int64_t i = 0; i < some; i++)
                dst[at + i] = (int8_t)code_of(format, rounding, scaled[i], alone ? qs_random_bits(random.key, position / 2) >> 16 : 0);
        at += some;
    }
}
