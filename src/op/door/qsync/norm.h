// SPDX-License-Identifier: Apache-2.0
/* Normalisations (qs_norm of qsync/op.h says how each normalises): shapes of their vectors, and how the quantized ones round these to 8
 * bits, for kernels of devices; and how far that is from the same without rounding. */
#ifndef QSYNC_NORM_H
#define QSYNC_NORM_H

#include "qsync/op.h"

/* Shape of mean and spread for an input: one a channel, [C], or per_position one a position in memory order, [N·H·W]. */
QS_API qs_shape qs_norm_vector(const qs_norm *norm, const qs_shape *src);
/* 1/sqrt(spread + epsilon) for a variance, 1/(spread + epsilon) for a deviation. */
QS_API double qs_norm_inverse(const qs_norm *norm, double spread, double epsilon);
/* Rounds means, given in units of src_step, as the ..._int8 operators do; returns p. */
QS_API int qs_norm_round_means(int64_t channels, double *means);
/* The same with a p for each value by itself, of at most 8: what layer norms do to means of positions; and to their deviations, none of
 * which is below 1/4. */
QS_API void qs_norm_round_each(int64_t count, float *values);
QS_API void qs_norm_round_deviations(int64_t count, float *values);
/* The same for the other vectors; dst may be src. */
QS_API void qs_norm_round_vector(int64_t channels, const double *src, double *dst);

/* What 8 bits do to the values x̂ = (x - mean) · inverse of a quantized normalisation, before scale and shift: sums over all elements,
 * beside the same normalisation of unrounded x with its own mean and spread, in double (ShiftQuant, appendix C.2). */
typedef struct qs_norm_gap {
    double distance2;   /* Σ (rounded x̂ - x̂)²: x, mean and spread are rounded */
    double statistics2; /* Σ (rounded x̂ - x̂ of the rounded x)²: what of it mean and spread do */
    double norm2;       /* Σ x̂² */
} qs_norm_gap;
/* Adds one forward pass of a quantized normalisation: the case, its operands as the pass left them, and the fp32 values, in memory order,
 * that its codes were made from. */
QS_API qs_status qs_norm_gap_add(const qs_case *one, const qs_tensor *operands, const float *unrounded, qs_norm_gap *sum);

#endif
