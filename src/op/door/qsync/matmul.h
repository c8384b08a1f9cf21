// SPDX-License-Identifier: Apache-2.0
/* matmul: where the matrices of a product of two activations lie (src/op/matmul.c says what it computes), for kernels of devices and for
 * whoever asks how long its sums are. */
#ifndef QSYNC_MATMUL_H
#define QSYNC_MATMUL_H

#include "qsync/op.h"

/* Matrices inside an operand: element (r, c) of head h of sample n lies at n · sample + (h / shared) · head + r · row + c · column. */
typedef struct qs_matrices {
    qs_role role;
    int64_t sample, head, row, column; /* strides in elements; one of the last two is 1 */
    int64_t shared;                    /* heads that have one matrix together */
} qs_matrices;
/* A pass of a product of two activations: in every sample, matrix h of the result, rows × columns, is the sum over g < summed of
 * left(h · summed + g) · right(h · summed + g), where left is rows × inner and right inner × columns. */
typedef struct qs_matmul {
    int64_t samples, heads, summed, rows, inner, columns;
    qs_matrices left, right, result;
} qs_matmul;
/* Of a case of the operator matmul whose shapes are right. */
QS_API qs_matmul qs_case_matmul(const qs_case *one);

#endif
