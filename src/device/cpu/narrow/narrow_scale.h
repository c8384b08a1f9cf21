// SPDX-License-Identifier: Apache-2.0
/* Powers of two that bring the factors of narrow accumulators to where fused lanes form exactly the sums that are defined. A pure function
 * of the accumulator and of the sizes of the factors. */
#ifndef QSYNC_DEVICE_CPU_NARROW_SCALE_H
#define QSYNC_DEVICE_CPU_NARROW_SCALE_H

#include "narrow.h"
#include "qsync/number.h"

/* Magnitudes of an operand: all that are not 0 lie in [2^least, 2^most). */
typedef struct qs__narrow_range {
    bool finite;
    int least, most;
} qs__narrow_range;

/* From the bits of the largest magnitude and of the least one that is not 0 (0: there is none). */
qs__narrow_range qs__narrow_range_of(uint32_t largest, uint32_t least);

/* Whether fused lanes can have the accumulator's places at all. `rounds`: its products are rounded. */
bool qs__narrow_fuses(const qs_narrow *narrow, bool rounds);

/* Whether sums of `length` products of factors of such magnitudes may come to the accumulator's largest value. */
bool qs__narrow_saturates(const qs_narrow *narrow, int64_t length, const qs__narrow_range range[2]);

/* Completes the rule of fused lanes for sums of `length` products of factors of such magnitudes; false where they would not form the sums
 * that are defined. */
bool qs__narrow_fit(const qs_narrow *narrow, int64_t length, const qs__narrow_range range[2], qs__narrow_rule *rule);

#endif
