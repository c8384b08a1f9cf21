// SPDX-License-Identifier: Apache-2.0
/* quantize row by row, for the reference and the kernels of devices: one arithmetic, whatever divides the rows among threads. */
#ifndef QSYNC_QUANTIZING_H
#define QSYNC_QUANTIZING_H

#include "qsync/blocks.h"
#include "qsync/op.h"

/* A quantize pass at work, for kernels of devices and the reference: what all rows (qs_random_rows) share. */
typedef struct qs_quantizing {
    qs_rounding rounding;
    int64_t channels;   /* that lie along the fast axis and have steps or groups; else 1 */
    const float *steps; /* NULL: shift groups */
    float *found;       /* the same by row, before they are known: each row finds its own; else NULL */
    bool by_row;        /* a step for each row */
    bool by_column;     /* a step for each channel along the fast axis */
    bool least_squares; /* rows that find their own step narrow its range (qs_clip_find) */
    qs_shift_codes codes;
} qs_quantizing;
/* Writes the operands dst_step and (NULL: absent) dst_group of the case from its absolute maxima, and where the case says mse from all its
 * values, fp32 or bf16 storage; absmax NULL where the case has none: rows find theirs when they are quantized. */
QS_API void qs_quantizing_start(const qs_case *one, const float *absmax, bool bfloat, const void *src, float *steps, uint8_t *group,
                                qs_quantizing *out);
/* Quantizes one row of `count` elements; from bf16 storage unless by_column. */
QS_API void qs_quantizing_row(const qs_quantizing *job, qs_random_stream stream, int64_t row, int64_t count, const float *src, int8_t *dst);
QS_API void qs_quantizing_row_bf16(const qs_quantizing *job, qs_random_stream stream, int64_t row, int64_t count, const uint16_t *src,
                                   int8_t *dst);

/* block_round at work, but for where the values lie and, where their format wants it, the scale of the tensor. */
QS_API qs_block_rounding qs_block_rounding_of(const qs_case *one, const qs_run *run);

#endif
