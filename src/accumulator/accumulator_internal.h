// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ACCUMULATOR_INTERNAL_H
#define QSYNC_ACCUMULATOR_INTERNAL_H

#include "qsync/accumulator.h"

/* vrr.c: 1 - VRR of `length` additions one after the other, product_bits <= accumulator_bits. */
double qs__vrr_loss(int accumulator_bits, int product_bits, double length);

/* width.c: the one or two sums that a sum in chunks is made of. QS_USAGE for one that is none. */
typedef struct qs__stages {
    int stages, product_bits[2];
    double length[2];
} qs__stages;
qs_status qs__stages_make(const qs_accumulation *sum, int accumulator_bits, qs__stages *out);

#endif
