// SPDX-License-Identifier: Apache-2.0
/* Job of our own attention (attention.cu). */
#ifndef QSYNC_DEVICE_CUDA_ATTENTION_JOBS_H
#define QSYNC_DEVICE_CUDA_ATTENTION_JOBS_H

#include "cuda/jobs.h"

enum {
    QS__ATTENTION_TILE = 32,   /* queries, or keys, that a block has at a time */
    QS__ATTENTION_BLOCK = 128, /* its threads; a warp has eight of them */
    QS__ATTENTION_MOST = 128   /* channels of a head */
};

/* What qs_attention says. Rows of scores are [sample][head][query]. */
typedef struct qs__attention_job {
    int64_t samples, heads, key_heads, queries, keys;
    int width, value_width;
    int64_t window; /* 0: none */
    int causal, masked;
    uint64_t keep;             /* int32 [sample, keys], or with `masked` [sample · queries, keys]; 0: all count */
    float scale;               /* of scores */
    float probability, factor; /* of dropout; 1 / (1 - probability) */
    uint64_t key, first_row;   /* of draws: key k of row r draws with 2^32 (first_row + r) + k */
    qs__cuda_values src, src2, src3, dst;
    qs__cuda_values diff_dst, diff_src, diff_src2, diff_src3;
    uint64_t maxima, inverses, means; /* fp32, of rows: backward, from one kernel to the next */
} qs__attention_job;

#endif
