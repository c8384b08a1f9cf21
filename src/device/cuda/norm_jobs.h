// SPDX-License-Identifier: Apache-2.0
/* Jobs of normalisations: batch norms (batch_norm.cu), norms of groups of channels (group_norm.cu), norms of every position by itself
 * (layer_norm.cu), and of each channel by its neighbours (local_response_norm.cu). Addresses are of fp32
 * vectors unless a comment says otherwise, 0 where there is none. What is in units is in units of src: codes where it is quantized. */
#ifndef QSYNC_DEVICE_CUDA_NORM_JOBS_H
#define QSYNC_DEVICE_CUDA_NORM_JOBS_H

#include "cuda/columns_jobs.h"

/* What qs_norm says, for kernels. */
typedef struct qs__norm_rule {
    int absolute;  /* spreads are mean distances from the mean, else of squares of them */
    int variance;  /* spreads of squares: not their roots */
    int quantized; /* src is codes; vectors take 8 bits */
    int centred;   /* values count from their mean: all but rms_norm */
    double epsilon;
    uint64_t step; /* what a code is worth */
} qs__norm_rule;

/* The relu behind, and what is beside a result. */
typedef struct qs__norm_behind {
    int relu;
    float ceiling;
    uint64_t mask; /* bytes */
    uint64_t absmax;
} qs__norm_behind;

/* ---- Batch norms ---- */

typedef enum qs__batch_stage {
    QS__BATCH_MOMENTS,   /* sums and sums of squares: mean and spread in one pass */
    QS__BATCH_VALUES,    /* sums: means, */
    QS__BATCH_DISTANCES, /* and distances from them */
    QS__BATCH_RUNNING    /* running statistics: inference */
} qs__batch_stage;

/* Sums of every slab: double [1, 2 or 3][slabs][channels]. Forward by stage; with diff_dst those of gradients: of dy, of dy times
 * the distance from the mean, and of the signs of that (absolute). */
typedef struct qs__batch_sums_job {
    qs__columns cut;
    qs__norm_rule rule;
    qs__cuda_values src, diff_dst;
    uint64_t mask;   /* bytes */
    uint64_t centre; /* forward: rounded means in units; with diff_dst: the mean that forward stored; of each part */
    uint64_t sums;
    int stage;
} qs__batch_sums_job;

/* Totals, and what follows from them for each channel: statistics and the terms of (x - centre) factor + offset. */
typedef struct qs__batch_finish_job {
    qs__columns cut;
    qs__norm_rule rule;
    uint64_t sums;  /* double */
    uint64_t exact; /* double [2][channels]: mean in units, spread, not rounded */
    uint64_t scale, shift;
    uint64_t mean, spread; /* stored for backward */
    uint64_t running_mean, running_spread;
    uint64_t centre, factor, offset;
    uint64_t absmax;
    double momentum;
    int stage;
} qs__batch_finish_job;

/* The same backward: gradients of the parameters, and the terms of dy factor - d slope - offset, d the distance or its sign. */
typedef struct qs__batch_gradient_finish_job {
    qs__columns cut;
    qs__norm_rule rule;
    uint64_t sums; /* double */
    uint64_t scale, mean, spread;
    uint64_t diff_scale, diff_shift;
    uint64_t centre, factor, offset, slope;
    uint64_t absmax;
} qs__batch_gradient_finish_job;

/* Both directions; vectors of each part. */
typedef struct qs__batch_apply_job {
    qs__columns cut;
    qs__cuda_values src, diff_dst, dst; /* dst: of the pass */
    qs__cuda_values src2;               /* added to what is normalised; absent: nothing */
    qs__norm_behind behind;
    uint64_t centre, factor, offset, slope;
    int absolute;
} qs__batch_apply_job;

/* ---- Norms of groups: the kernels of batch norms, parts of whose rows are samples; and between them these ---- */

/* Totals of a sample's slabs: double [2][parts][channels], of sums [2][slabs][channels]. */
typedef struct qs__group_totals_job {
    qs__columns cut;
    uint64_t sums, totals;
} qs__group_totals_job;

/* What follows from totals for each channel of each sample. Forward of values and their squares: terms of (x - centre) factor + offset.
 * Backward first the same, then, of dy and dy times the distance: terms of dy factor - d slope - offset, and the latter total becomes that
 * of dy times the normalised value. */
typedef struct qs__group_finish_job {
    qs__columns cut;
    double epsilon;
    int64_t groups;  /* of all samples */
    int64_t members; /* channels of one */
    int lanes;       /* of a warp that have a group together */
    uint64_t totals;
    uint64_t scale, shift;                           /* shift: forward */
    uint64_t centre, inverse, factor, offset, slope; /* [parts][channels] */
} qs__group_finish_job;

/* ---- Norms of positions ---- */

/* Forward. Rows are positions. */
typedef struct qs__layer_job {
    qs__norm_rule rule;
    int64_t rows, channels;
    qs__cuda_values src, dst;
    uint64_t scale, shift;    /* as they are used; no shift: rms_norm */
    uint64_t mean, spread;    /* saved: in their own units; 0: not kept */
    uint64_t centre, inverse; /* of rows: in units, and 1/spread; from one kernel to the next */
    qs__norm_behind behind;
    int lanes; /* of a warp that have a row together */
} qs__layer_job;

/* Backward. */
typedef struct qs__layer_gradient_job {
    qs__columns cut; /* of the sums over rows: slabs, or blocks of warps */
    qs__norm_rule rule;
    qs__cuda_values src, diff_dst, diff_src;
    uint64_t scale, mean, spread;
    uint64_t mask;                                        /* bytes */
    uint64_t centre, inverse, gradients, products, signs; /* of rows: as above; means of g = dy scale, of g n, of signs of distances */
    uint64_t sums;                                        /* [2][slabs][channels] of dy n and of dy: double, or float of warps */
    uint64_t diff_scale, diff_shift;
    uint64_t absmax;
    int lanes; /* that have a row together, of one warp or of several */
    int warps; /* rows are in registers, and sums are those of blocks, in fp32 */
} qs__layer_gradient_job;

/* ---- Local response norms ---- */

/* Values times s^-beta, s = bias + share Σ x² over the channels from `before` in front of each to `behind` it; or, with diff_dst,
 * gradients. A block takes `together` rows, whole ones, into shared memory. */
typedef struct qs__response_job {
    qs__cuda_values src, diff_dst, dst; /* dst: of the pass */
    int64_t rows;
    int channels, together, before, behind;
    float share, beta, bias;
} qs__response_job;

enum { QS__RESPONSE_THREADS = 256 };

/* ---- Quantized norms ---- */

/* A vector in 8 bits. */
typedef struct qs__norm_round_job {
    int64_t channels;
    uint64_t from, to;
} qs__norm_round_job;

#endif
