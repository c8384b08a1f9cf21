// SPDX-License-Identifier: Apache-2.0
/* Fixed-point codes of floats, and back. */
#ifndef QSYNC_DEVICE_CUDA_QUANTIZE_JOBS_H
#define QSYNC_DEVICE_CUDA_QUANTIZE_JOBS_H

#include "cuda/absmax_jobs.h"
#include "cuda/draws_jobs.h"

/* Which of several steps an element has. */
typedef enum qs__cuda_steps { QS__CUDA_ONE_STEP, QS__CUDA_ROW_STEPS, QS__CUDA_COLUMN_STEPS } qs__cuda_steps;

/* Steps of columns: from their maxima each its own, or with groups one that the groups halve. One block. */
typedef struct qs__cuda_column_steps_job {
    uint64_t absmax;
    int64_t columns;
    qs__cuda_format format; /* of the codes */
    int shifts;             /* number of groups; 0: steps of their own */
    float unit;             /* 1, or 2^16 where rounding is stochastic */
    uint64_t step, group;   /* addresses of what is found: a step, or `columns` of them; groups */
    uint64_t factor;        /* (columns) unit/step of each, for qs__cuda_quantize_job */
} qs__cuda_column_steps_job;

typedef struct qs__cuda_quantize_job {
    qs__cuda_values src, dst;
    qs__cuda_draws draws;
    int rounding;
    int steps;       /* qs__cuda_steps */
    uint64_t absmax; /* address of one or one for each row */
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
