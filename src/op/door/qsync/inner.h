// SPDX-License-Identifier: Apache-2.0
/* Adjustable operators whose products lie inside their passes: a factor of theirs is no operand (recurrence: the state before a position),
 * so that no conversion can stand before it. Lowering says by the attributes `to`, `gradients` and `rounding` which codes a pass
 * multiplies; where a recipe has floats, products are in fp32. Inputs and output are stored as those of a dependent operator would be. */
#ifndef QSYNC_INNER_H
#define QSYNC_INNER_H

#include "qsync/op.h"

typedef struct qs_inner {
    qs_role factor[3];                                    /* what a recipe calls src, weights and diff_dst, for statistics of them */
    bool (*takes_codes)(const qs_attributes *attributes); /* false: its products stay in fp32 whatever the recipe */
} qs_inner;

#endif
