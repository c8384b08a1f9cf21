// SPDX-License-Identifier: Apache-2.0
/* Jobs of recurrence.cu: what is done at one step, between products with the weights, in all directions and samples. */
#ifndef QSYNC_DEVICE_CUDA_RECURRENCE_JOBS_H
#define QSYNC_DEVICE_CUDA_RECURRENCE_JOBS_H

#include "cuda/jobs.h"

/* fp32 [direction][sample][gates, or one, of hidden]: address of the first, and elements from one direction to the next. */
typedef struct qs__recurrence_rows {
    uint64_t at;
    int64_t direction;
} qs__recurrence_rows;

typedef struct qs__recurrence_job {
    int cell;   /* qs_cell */
    int first;  /* backward: the first step that it takes, the last one of forward: no gradients come from behind it */
    int biases; /* of a gate */
    int at[4];  /* place of each gate */
    int gates;  /* of a cell */
    int keeps;  /* gates are kept as they become, and of a late GRU pn: for backward */
    int64_t samples, positions, hidden;
    int directions;
    int64_t place[2];                            /* of the step in the sequence, by direction */
    qs__cuda_values src, dst;                    /* dst: states, where they are wanted, or the gradient of src */
    qs__cuda_values diff;                        /* of the states */
    uint64_t bias;                               /* fp32; 0: none */
    qs__recurrence_rows gates_of, before, after; /* gates: R h' without biases, then themselves, then the gradients of R h' + c; states */
    /* C of an LSTM before the step and behind it; r * h' of an early GRU; of a late one pn, then the gradient of n's sum. */
    qs__recurrence_rows other, next;
    qs__recurrence_rows of_state; /* gradient of h' that came through no product */
    qs__recurrence_rows of_cell;  /* of C */
    qs__recurrence_rows product;  /* gradient of h' that came through R; or, of an early GRU, that of r * h' */
} qs__recurrence_job;

/* Rows of fp32 numbers become the values of their codes. Row (direction, step, sample) of `from` begins `direction` and so many times `row`
 * behind the first, as that of `to` does; its draws at counter first[direction] + step · by_step[direction] + sample · by_sample. */
typedef struct qs__recurrence_codes_job {
    qs__recurrence_rows from, to;
    int64_t row, columns; /* elements from one row to the next, and of a row that are rounded */
    int64_t directions, steps, samples;
    qs__cuda_format format;
    int rounding;
    float step;       /* of all; 0: of each row its own */
    uint64_t largest; /* where it is not 0: bits of the largest magnitude, by direction; then it says the step, or is what is found */
    uint64_t key, first[2];
    int64_t by_step[2], by_sample;
} qs__recurrence_codes_job;

enum { QS__RECURRENCE_THREADS = 128 };

#endif
