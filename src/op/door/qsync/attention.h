// SPDX-License-Identifier: Apache-2.0
/* attention: what the cases of attention and cached_attention say, and places in sequences, for those who write their kernels. */
#ifndef QSYNC_ATTENTION_H
#define QSYNC_ATTENTION_H

#include "qsync/op.h"

/* What an attention is over (op/attention.c): in memory [sample][position][head][channel of it]. */
typedef struct qs_attention {
    int64_t samples, heads, key_heads;
    int64_t queries, keys;      /* positions */
    int64_t width, value_width; /* channels of a head: of queries and keys; of values and results */
    int64_t sequences;          /* of a sample of the batch: `samples` counts each */
    bool causal, masked;        /* masked: keep is of each query */
    int64_t window;             /* 0: none */
    double probability;         /* of dropout in this pass */
} qs_attention;
QS_API qs_attention qs_case_attention(const qs_case *one);
/* The same of a cached_attention: keys are the places of its caches, and query m stands at the place of the case and m. */
QS_API qs_attention qs_case_cached_attention(const qs_case *one);
/* As far as `causal` and `window` go a query sees the keys from the second number on, up to the first, which it does not. */
QS_API int64_t qs_attention_seen(const qs_attention *all, int64_t query);
QS_API int64_t qs_attention_unseen(const qs_attention *all, int64_t query);
/* Where the draws of a row begin: key k draws with first + k, which leaves the upper half of the counter as it is. A probability is
 * kept where qs_random_uniform is at least (float)probability. */
QS_API qs_random_stream qs_attention_draws(const qs_attention *all, const qs_run *run, int64_t sample, int64_t head, int64_t query);

/* The place of a case's first of `positions` positions; QS_USAGE where the last one stands at `rows` or behind. */
QS_API qs_status qs_place_check(const qs_case *one, int32_t place, int64_t positions, int64_t rows);

#endif
