// SPDX-License-Identifier: Apache-2.0
/* How operands lie against each other in cases whose shapes alone do not tell: what is repeated, and axes in another order. For kernels of
 * devices. */
#ifndef QSYNC_VIEWS_H
#define QSYNC_VIEWS_H

#include "qsync/op.h"

/* An operand of a case that has one element for several of a value (of the largest operand): of [N,C,H,W], in memory order N,H,W,C, element
 * (n,h,w,c) goes with element n step[0] + h step[1] + w step[2] + c step[3] of the operand. A step of 0: it is repeated along that axis.
 * Values with fewer axes have extents of 1. */
typedef struct qs_broadcast {
    int64_t extent[4], step[4];
} qs_broadcast;
/* Of gate, gain, offset, prelu, expand and the reductions. */
QS_API qs_broadcast qs_case_broadcast(const qs_case *one);
/* Extents of permute's axes and their order, as numbers from 0 on; returns how many there are, for a sample of `count` elements. */
QS_API int qs_permute_axes(const qs_attributes *attributes, int64_t count, int64_t extent[5], int order[5]);

#endif
