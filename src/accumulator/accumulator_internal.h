// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ACCUMULATOR_INTERNAL_H
#define QSYNC_ACCUMULATOR_INTERNAL_H

#include "qsync/accumulator.h"

/* vrr.c: 1 - VRR of `length` additions one after the other, product_bits <= accumulator_bits. */
double qs__vrr_loss(int accumulator_bits, int product_bits, double length);

/* ---- Adders ------------------------------------------------------------------------------------------------------------- */

/* Sums side by side. */
enum { QS_LANES = 64 };

struct qs_adder {
    const char *name, *summary;
    double (*add)(const qs_narrow *narrow, double a, double b, uint32_t random);
    /* sums[l] += addends[i][l] for i = 0 .. count - 1 in this order, [QS_LANES] each; draw (keys[l], counter + i). */
    void (*lanes)(int bits, int64_t count, const double *addends, double *sums, const uint64_t *keys, uint32_t counter);
};

/* lanes.c */
#define QS_ADDER(name, text, summary) \
    void qs__lanes_##name(int bits, int64_t count, const double *addends, double *sums, const uint64_t *keys, uint32_t counter);
#include "adders.def"
#undef QS_ADDER

#endif
