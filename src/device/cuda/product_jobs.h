// SPDX-License-Identifier: Apache-2.0
/* Jobs of the kernels beside products of cuBLASLt (product.cu, bias.cu). */
#ifndef QSYNC_DEVICE_CUDA_PRODUCT_JOBS_H
#define QSYNC_DEVICE_CUDA_PRODUCT_JOBS_H

#include "cuda/jobs.h"

enum { QS__PACK_TILE = 64, QS__PACK_THREADS = 256 };

/* Bytes of factors as the library multiplies them: matrix by matrix, rows of inner ones side by side, both extents filled up with zeros.
 * Element (r, k) of head h of sample n comes from n · sample + (h / shared) · head + r · row + (k % period) · column + (k / period) · far.
 * A block does one tile. */
typedef struct qs__cuda_pack_job {
    uint64_t from, to;
    int64_t samples, heads, sample, head, shared, row, column; /* row or column is 1 */
    int64_t period, far;
    int64_t rows, inner, padded_rows, padded_inner;
    /* int8: the codes are multiplied by 2^(shifts - 1 - group), of the group at head · group_head + k % group_period; 0: as they are. */
    uint64_t group;
    int64_t group_head, group_period;
    int shifts;
    int limbs; /* 1; or 2: code = 128 · first + second, the second ones all behind the first */
} qs__cuda_pack_job;

/* What becomes of sums: result = (Σ of parts) · steps · 2^-(groups and shift) + bias. The sums lie [part][sample][head][summed][padded
 * row][padded column], int32 or fp32; parts are [repeat][limb of left][limb of right][piece of the inner dimension]. Vectors by column or
 * row go on from head to head where their step is not 0. */
typedef struct qs__cuda_result_job {
    uint64_t sums;
    int integers;
    int left_limbs, right_limbs;
    int64_t repeats, pieces;
    int64_t samples, heads, summed, rows, columns, padded_rows, padded_columns;
    qs__cuda_values to;
    int64_t sample, head, row;        /* strides of the result, whose columns lie side by side */
    uint64_t left_step, right_step;   /* fp32; 0: 1 */
    int64_t right_steps;              /* 1, or one for each column */
    uint64_t row_group, column_group; /* int8: 2^-group of rows, of columns, those modulo column_period; 0: none */
    int64_t column_period;
    int shift;     /* and 2^-shift */
    uint64_t bias; /* fp32 [columns]; 0: none */
    int64_t head_bias, head_step, head_row_group, head_column_group;
} qs__cuda_result_job;

/* A bias, fp32 [count], as two addends in a narrower format: the nearest value, and what it lacks, that in `rows` copies. */
typedef struct qs__cuda_bias_job {
    uint64_t bias;
    int64_t count, rows;
    qs__cuda_values nearest, rest;
} qs__cuda_bias_job;

enum { QS__BIAS_EACH = 8, QS__BIAS_BLOCK = 256, QS__BIAS_LANES = 8 };

/* Sums of the columns of a matrix [rows, columns], over the rows r for which r / pixels is a multiple of block (0: all). Blocks: strips of
 * columns × segments of rows. */
typedef struct qs__cuda_bias_sums_job {
    qs__cuda_values from;
    int64_t rows, columns;
    int64_t pixels, block;
    int64_t segments, segment_rows;
    uint64_t partial; /* fp64 [segments][columns] */
} qs__cuda_bias_sums_job;

/* Their second stage: to[c] = Σ partial · step · 2^-group[c] · factor. */
typedef struct qs__cuda_bias_sums_end_job {
    uint64_t partial;
    int64_t segments, columns;
    uint64_t step, group; /* fp32 [1]; int8 [columns]; 0: none */
    double factor;
    uint64_t to; /* fp32 [columns] */
} qs__cuda_bias_sums_end_job;

#endif
