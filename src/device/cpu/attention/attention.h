// SPDX-License-Identifier: Apache-2.0
/* Attention in blocks (Dao et al., 2022): scores of a block of queries, their softmax and the sum of values, so that memory grows with the
 * number of positions and not with its square. One table per instruction set (attention.inc compiled once for each).
 *
 * Work is cut into *tasks*, by the shape alone; a task is done by one thread, with scratch of its own, in one order: results do not depend
 * on threads. Forward, a task is up to QS__ATTENTION_QUERIES queries of a head. Backward, it is a key head of a sample, with all heads
 * that read it: gradients of keys and values are sums over those.
 *
 * Products are formed of *words*: one fp32, or, by pairs, two neighbouring bf16 along the dimension that is summed over, where the
 * processor multiplies those. Other formats are widened as they are packed. All sums are fp32. Padding takes the time of other positions:
 * what a case costs does not depend on its data. */
#ifndef QSYNC_DEVICE_CPU_ATTENTION_H
#define QSYNC_DEVICE_CPU_ATTENTION_H

#include "cpu/vector/kernels.h"
#include "qsync/attention.h"

enum { QS__ATTENTION_QUERIES = 256 };

typedef struct qs__attention_job {
    qs_attention size;
    const qs_run *run;
    bool pairs, backward;
    const int32_t *keep; /* NULL: all keys count */
    qs__in queries, keys, values, diff;
    qs__out dst; /* forward */
    qs__out diff_queries, diff_keys, diff_values;
} qs__attention_job;

/* sum[r][lanes of v] (+)= Σ over words of left[r][word] × right[v][word][lane]; strides count words. */
typedef struct qs__attention_product {
    const float *left;
    int64_t row, word; /* from one row of left to the next, from one word to the next */
    const float *right;
    int64_t column; /* from one vector of right to the next; from one word of it to the next there are as many as lanes */
    float *sum;
    int64_t next;                 /* from one row of sums to the next */
    int64_t rows, vectors, words; /* rows: whole tiles */
    bool adds;                    /* to what is there */
} qs__attention_product;

/* Scores of all rows at once, in the order sample, head, query: what attention in three steps hands over. */
typedef struct qs__attention_rows {
    int64_t next;                 /* from one row to the next: qs__attention_next */
    float *scores, *diff;         /* diff: gradients of the probabilities, backward only */
    uint16_t *codes, *diff_codes; /* by pairs, what scores and diff become, bf16; else NULL */
    float *bias;                  /* [sample (masked: and query)][next]: 0, or minus infinity where a key is left out */
} qs__attention_rows;

static inline int64_t qs__attention_next(const qs_attention *size) {
    return (size->keys + 31) / 32 * 32;
}

typedef struct qs__attention_kernels {
    const char *name;
    void (*multiply[2])(const qs__attention_product *product);                            /* by pairs or not; NULL: there is none */
    size_t (*scratch)(const qs__attention_job *job);                                      /* bytes of a thread; a multiple of 64 */
    void (*run)(const qs__attention_job *job, int64_t begin, int64_t end, char *scratch); /* tasks */
    /* Rows begin ... end - 1 become probabilities, dropped where dropout says so; backward also the gradients of unscaled scores. */
    void (*softmax)(const qs__attention_job *job, const qs__attention_rows *rows, int64_t begin, int64_t end);
} qs__attention_kernels;

extern const qs__attention_kernels qs__attention_portable, qs__attention_avx2, qs__attention_avx512, qs__attention_avx512_amx;

struct qs__cpu;
struct qs__chain;
/* Those that the device runs. */
const qs__attention_kernels *qs__attention_of(const struct qs__cpu *cpu);
/* The work of a case, without memory. Products by pairs are for operands that all are bf16. */
qs__attention_job qs__attention_work(const struct qs__chain *chain);

static inline int64_t qs__attention_tasks(const qs__attention_job *job) {
    const qs_attention *size = &job->size;
    const int64_t chunks = (size->queries + QS__ATTENTION_QUERIES - 1) / QS__ATTENTION_QUERIES;
    return size->samples * (job->backward ? size->key_heads : size->heads * chunks);
}

#endif
