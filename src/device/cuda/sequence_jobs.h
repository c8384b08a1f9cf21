// SPDX-License-Identifier: Apache-2.0
/* Jobs for the positions of sequences: learned ones, rotary ones (sequence.cu), and attention over caches (cached_attention.cu). A `place`
 * is the address of an int32, where the first position at hand stands in its sequence, 0 to `last`; 0: there is none, and it counts as 0.
 * One beyond is complained of, and nothing else is done. */
#ifndef QSYNC_DEVICE_CUDA_SEQUENCE_JOBS_H
#define QSYNC_DEVICE_CUDA_SEQUENCE_JOBS_H

#include "cuda/jobs.h"

/* dst = src + the table, whose rows of `channels` elements from the place's on are those of a sequence of `sequence` elements. */
typedef struct qs__positions_job {
    qs__cuda_values src, table, dst;
    int64_t sequence, channels;
    uint64_t place;
    int last;
    uint64_t complaint;
    int number;
} qs__positions_job;

enum { QS__ROTARY_BLOCK = 16 }; /* positions of which the first is found by itself, the others by turning that one on */

/* Pairs (i, i + half) of heads of 2 half channels turn by angles l base^(-i/half) at the place l; back where sign is -1. Tables of fp32,
 * [positions][half]. */
typedef struct qs__rotary_job {
    qs__cuda_values from, to;
    uint64_t cosine, sine;
    int64_t rows, positions, heads, half; /* rows: positions of all samples */
    double base, sign;
    uint64_t place;
    int each; /* channels that a thread takes: 8 or 1 */
} qs__rotary_job;

enum { QS__CACHED_THREADS = 512 };

/* Attention of `positions` queries over keys and values in caches, [context][key_heads][width], after those at hand were put there.
 * Scores: fp32 [blocks][context]. */
typedef struct qs__cached_job {
    qs__cuda_values query, key, value, dst;
    uint64_t key_cache, value_cache, scores;
    int64_t positions, context, heads, key_heads, width, value_width, window;
    float scale;
    uint64_t place;
    int last;
    uint64_t complaint;
    int number;
} qs__cached_job;

#endif
