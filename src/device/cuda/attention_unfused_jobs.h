// SPDX-License-Identifier: Apache-2.0
/* Job of the softmax between the products of attention (attention_unfused.cu). */
#ifndef QSYNC_DEVICE_CUDA_ATTENTION_UNFUSED_JOBS_H
#define QSYNC_DEVICE_CUDA_ATTENTION_UNFUSED_JOBS_H

#include "cuda/jobs.h"

enum { QS__ATTENTION_THREADS = 128 }; /* of a block: a warp has a row */

/* Rows [sample][head][query] of keys, `next` elements from one to the next. Scores become probabilities times their factors of dropout;
 * backward, gradients of those become gradients of the scores before they were scaled. */
typedef struct qs__cuda_attention_job {
    uint64_t scores;                     /* fp32 */
    uint64_t diff;                       /* fp32; 0: forward */
    qs__cuda_values result, diff_result; /* may be the same memory, in fp32 */
    int64_t samples, heads, queries, keys;
    int64_t next;
    uint64_t keep; /* int32 [sample, keys], or with `masked` [sample · query, keys]; 0: all count */
    int masked, causal;
    int64_t window;
    float scale;               /* that scores were multiplied by */
    float probability, factor; /* of dropout; 1 / (1 - probability) */
    uint64_t key, first_row;   /* of draws: row r of the job draws with 2^32 (first_row + r) + key's number */
} qs__cuda_attention_job;

#endif
