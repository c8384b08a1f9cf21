// SPDX-License-Identifier: Apache-2.0
/* Fixed-point codes of floats, and back. */
#ifndef QSYNC_DEVICE_CUDA_QUANTIZE_JOBS_H
#define QSYNC_DEVICE_CUDA_QUANTIZE_JOBS_H

#include "cuda/absmax_jobs.h"
#include "cuda/draws_jobs.h"
#include "qsync/number.h"

/* Which of several steps an element has. */
typedef enum qs__cuda_steps { QS__CUDA_ONE_STEP, QS__CUDA_ROW_STEPS, QS__CUDA_COLUMN_STEPS } qs__cuda_steps;

/* Errors of every clipping ratio (qs_clip_find), added to `error`: of all values, of a row or of a column. A block has a part of a unit. */
typedef struct qs__cuda_clip_job {
    qs__cuda_values src;
    qs__cuda_format format; /* of the codes */
    uint64_t absmax;        /* address of one for each unit, or with groups for each channel */
    uint64_t error;         /* (units, QS_CLIPS) 64-bit sums */
    uint64_t ratio;         /* (units) what is chosen, by the second kernel */
    int64_t units, extent;  /* extent: elements of a unit */
    int64_t next, stride;   /* elements from a unit to the next, and from an element of it to the next */
    int64_t channels;       /* that groups are of */
    int shifts;             /* number of groups; 0: none */
    float up[QS_CLIPS], down[QS_CLIPS], ratios[QS_CLIPS];
} qs__cuda_clip_job;

/* Steps of columns: from their maxima each its own, or with groups one that the groups halve. One block. */
typedef struct qs__cuda_column_steps_job {
    uint64_t absmax;
    int64_t columns;
    qs__cuda_format format; /* of the codes */
    int shifts;             /* number of groups; 0: steps of their own */
    float unit;             /* 1, or 2^16 where rounding is stochastic */
    uint64_t ratio;         /* address of what steps are multiplied by: one of groups, else one a column; 0: nothing */
    uint64_t step, group;   /* addresses of what is found: a step, or `columns` of them; groups */
    uint64_t factor;        /* (columns) unit/step of each, for qs__cuda_quantize_job */
} qs__cuda_column_steps_job;

typedef struct qs__cuda_quantize_job {
    qs__cuda_values src, dst;
    qs__cuda_draws draws;
    int rounding;
    int steps;       /* qs__cuda_steps */
    uint64_t absmax; /* address of one or one for each row */
    uint64_t ratio;  /* and of what their steps are multiplied by; 0: nothing */
    uint64_t factor; /* or of one for each column */
    uint64_t step;   /* where steps of absmax go */
    int64_t extent;  /* elements of a row, or number of columns */
    qs__cuda_hadamard transform;
} qs__cuda_quantize_job;

typedef struct qs__cuda_dequantize_job {
    qs__cuda_values src, dst;
    int steps;            /* qs__cuda_steps: QS__CUDA_COLUMN_STEPS are those of groups */
    uint64_t step, group; /* addresses: one or one for each row; (columns) */
    int64_t extent;
} qs__cuda_dequantize_job;

#endif
