// SPDX-License-Identifier: Apache-2.0
/* How operands of a case lie against each other, as kernels walk them: of qsync/views.h, with axes that move as one joined and those of one
 * element left out. Plain numbers, which kernels take as they are. */
#ifndef QSYNC_DEVICE_VIEWS_H
#define QSYNC_DEVICE_VIEWS_H

#include <stdint.h>

enum { QS__VIEW_AXES = 4, QS__PERMUTE_AXES = 6 };

/* Axes of a value, the slowest first, and steps of an operand that has one element for several of it: 0 where that is repeated, so those
 * axes and others take turns. */
typedef struct qs__view {
    int axes;
    int64_t extent[QS__VIEW_AXES], step[QS__VIEW_AXES];
} qs__view;

/* Axes of permute's result, samples among them, the slowest first, and steps of what is read and of the result, in elements. */
typedef struct qs__permuted {
    int axes;
    int64_t extent[QS__PERMUTE_AXES], from_step[QS__PERMUTE_AXES], to_step[QS__PERMUTE_AXES];
    int fast; /* the fastest axis of what is read, where that is not the last one; else -1 */
} qs__permuted;

struct qs_case;
/* Of gate, gain, offset, prelu, expand and the reductions, either pass. */
qs__view qs__case_view(const struct qs_case *one);
/* Of permute; backward diff_dst is read. */
qs__permuted qs__case_permuted(const struct qs_case *one);

#endif
