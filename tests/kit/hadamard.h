// SPDX-License-Identifier: Apache-2.0
/* The Hadamard transform by its definition, for tests of number and of what is built on it. */
#ifndef QSYNC_TESTS_KIT_HADAMARD
#define QSYNC_TESTS_KIT_HADAMARD

#include "kit.h"

/* Blocks of values that lie `stride` apart, as sums in double: x[r] = Σ_j ±x[j] / sqrt(block), minus where r and j share an odd number of
 * bits. Returns how far fp32 butterflies may be off: log2(block) additions, the factor and its product each err by half a last place of
 * what is at most Σ |x| / sqrt(block); one more place for the rounding here. */
static inline double hadamard_by_definition(int block, int64_t stride, int64_t count, float *x) {
    const double factor = 1 / sqrt(block), roundings = log2(block) + 3;
    double worst = 0;
    for (int64_t base = 0; base < count; base++) {
        double in[64], magnitude = 0;
        if (base / stride % block) continue;
        for (int j = 0; j < block; j++) {
            in[j] = (double)x[base + j * stride];
            magnitude += fabs(in[j]);
        }
        for (int r = 0; r < block; r++) {
            double sum = 0;
            for (int j = 0; j < block; j++)
                sum += __builtin_popcount((unsigned)(r & j)) & 1 ? -in[j] : in[j];
            x[base + r * stride] = (float)(sum * factor);
        }
        worst = fmax(worst, roundings * 0x1p-24 * magnitude * factor);
    }
    return worst;
}

#endif
