// SPDX-License-Identifier: Apache-2.0
#ifndef QSYNC_ACCUMULATOR_INTERNAL_H
#define QSYNC_ACCUMULATOR_INTERNAL_H

#include "qsync/accumulator.h"

/* formula.c: the one or two sums that a sum in chunks is made of. QS_USAGE for one that is none. */
typedef struct qs__stages {
    int stages, product_bits[2];
    double length[2];
} qs__stages;
qs_status qs__stages_make(const qs_accumulation *sum, int accumulator_bits, qs__stages *out);

#endif
