// SPDX-License-Identifier: Apache-2.0
/* The 8-bit vectors of quantized normalisations: what a reference and the kernels of devices must round alike. */
#include "norm.h"

#include <math.h>
#include <string.h>

enum { MOST_SHIFT = 8, MOST_CODE = 127 };

/* A mean that is not a number stays one and decides nothing. */
int qs_norm_round_means(int64_t channels, double *means) {
    double largest = 0;
    int shift = MOST_SHIFT;
    for (int64_t c = 0; c < channels; c++)
        if (fabs(means[c]) > largest) largest = fabs(means[c]);
    while (shift > -MOST_SHIFT && rint(ldexp(largest, shift)) > MOST_CODE)
        shift--;
    for (int64_t c = 0; c < channels; c++)
        if (!isnan(means[c])) means[c] = ldexp(fmax(fmin(rint(ldexp(means[c], shift)), MOST_CODE), -MOST_CODE), -shift);
    return shift;
}

/* Seven significant bits, nearest-even, which are whole numbers of 64 to 127 of some unit; below a quarter whole numbers of 2^-8, which
 * are what the sum with a number of that unit keeps. */
void qs_norm_round_each(int64_t count, float *values) {
    const float least = 0.25f, coarse = 49152.0f;
    for (int64_t i = 0; i < count; i++) {
        const float fine = (values[i] + coarse) - coarse;
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        bits = (bits + 0xFFFF + (bits >> 17 & 1)) & ~UINT32_C(0x1FFFF);
        memcpy(&values[i], fabsf(values[i]) < least ? (const void *)&fine : (const void *)&bits, sizeof *values);
    }
}

void qs_norm_round_deviations(int64_t count, float *values) {
    const float least = 0.25f;
    qs_norm_round_each(count, values);
    for (int64_t i = 0; i < count; i++)
        values[i] = values[i] < least ? least : values[i];
}

void qs_norm_round_vector(int64_t channels, const double *src, double *dst) {
    const qs_format *format = qs_format_of("int8");
    double largest = 0;
    for (int64_t c = 0; c < channels; c++)
        if (!(fabs(src[c]) <= largest)) largest = fabs(src[c]);
    const float step = qs_step_of_absmax(format, (float)largest);
    for (int64_t c = 0; c < channels; c++)
        dst[c] =
            (double)step * (double)qs_round_value(format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (float)(src[c] / (double)step), 0, NULL);
}
