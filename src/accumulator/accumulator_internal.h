// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ACCUMULATOR_INTERNAL_H
#define QSYNC_ACCUMULATOR_INTERNAL_H

#include "qsync/accumulator.h"

/* vrr.c: 1 - VRR of `length` additions one after the other, product_bits <= accumulator_bits. */
double qs__vrr_loss(int accumulator_bits, int product_bits, double length);

#endif
