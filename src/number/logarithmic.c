// SPDX-License-Identifier: Apache-2.0
/* Codes that are powers of two (family_log.c). Between 2^k and 2^(k+1) steps a value is rounded as if the spacing were 2^k steps: what an
 * integer's rounding does to value / spacing, times the spacing. So stochastic rounding is unbiased everywhere below the largest code, also
 * between 0 and the least power (LUQ's stochastic underflow). */
#include "number_room.h"

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
    const float most = (float)format->max * (rounding == QS_STOCHASTIC ? 0x1p16f : 1.0f);
    float scaled[QS__POWERS];
    for (int64_t at = 0; at < count;) {
        const uint64_t position = random.first + (uint64_t)at;
        const bool odd = position & 1;
        int64_t some = count - at < QS__POWERS ? count - at : QS__POWERS;
        const int64_t drawn = 2 * qs__draws_run(position / 2, (some + odd + 1) / 2) - odd;
        some = drawn < some ? drawn : some;
        values_load(&factors, some, bfloat, (const char *)src + (size_t)at * size, scaled);
        kernels->quantize_powers(rounding, qs__draws_at(random, position / 2), odd, some, most, scaled, dst + at);
        at += some;
    }
}
