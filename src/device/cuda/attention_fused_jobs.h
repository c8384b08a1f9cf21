// SPDX-License-Identifier: Apache-2.0
/* Job of the kernels around fused attention (attention_fused.cu). */
#ifndef QSYNC_DEVICE_CUDA_ATTENTION_FUSED_JOBS_H
#define QSYNC_DEVICE_CUDA_ATTENTION_FUSED_JOBS_H

#include "cuda/attention_unfused_jobs.h"

typedef struct qs__cuda_fused_job {
    qs__cuda_attention_job all; /* who sees what, and draws; extents */
    uint64_t bias;              /* fp32: what is added to scores, [sample, keys] or [sample, query, keys] */
    float unseen;               /* of a key that is not seen: far below any score, and finite */
    uint64_t kept;              /* of dropout, 16 bits: 1 or 0, [sample, head, query, key] */
    uint32_t one;               /* its code */
    uint64_t result;            /* 16 bits, [sample, query, head, channel]; 0: not wanted */
    int64_t width;              /* channels of a head in it */
    uint64_t stats;             /* fp32 [sample, head, query]; 0: not wanted */
} qs__cuda_fused_job;

#endif
