// SPDX-License-Identifier: Apache-2.0
/* Jobs of losses (loss.cu). */
#ifndef QSYNC_DEVICE_CUDA_LOSS_JOBS_H
#define QSYNC_DEVICE_CUDA_LOSS_JOBS_H

#include "cuda/jobs.h"

/* Cross-entropies: the rows of qs_logits. */
typedef struct qs__loss_job {
    int64_t rows, rows_of_sample, classes, next_row, next_class;
    int64_t counted; /* rows of samples that count */
    int all;         /* a sample is right where all its rows are */
    int ignores;     /* negative labels count for nothing */
    double weight;   /* of a row in the loss of its sample */
    double smoothing;
    float factor; /* of gradients */
    qs__cuda_values src, dst;
    uint64_t labels;           /* int32 */
    uint64_t maxima, inverses; /* fp32 [rows], backward: 1 / Σ exp(x - maximum), 0 of rows that count for nothing */
    uint64_t losses, right;    /* double [rows], forward */
    uint64_t loss;             /* fp32 [2] */
    uint64_t complaint;
    int number;
} qs__loss_job;

typedef struct qs__squared_loss_job {
    int64_t counted; /* values of samples that count */
    double factor;   /* of the sum of squares; of differences */
    qs__cuda_values src, dst;
    uint64_t target; /* fp32 */
    uint64_t parts;  /* double [blocks] */
    int blocks;
    uint64_t loss; /* fp32 [2] */
} qs__squared_loss_job;

#endif
