// SPDX-License-Identifier: Apache-2.0
/* Attention in steps: what stands between the products. */
#include "cuda/attention_seen.cuh"
#include "cuda/attention_unfused_jobs.h"

/* A warp has a row: its largest score, the sum of exponentials and, backward, of probabilities by gradients, then what is written. */
QS_CUDA_GLOBAL(attention_rows, qs__cuda_attention_job) {
    const int lane = (int)threadIdx.x % WARP;
    const int64_t row = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, rows = job.samples * job.heads * job.queries;
    if (row >= rows) return;
    const seen_keys seen = seen_of(job, row / job.queries / job.heads, row % job.queries);
    const float *scores = pointer<const float>(job.scores) + row * job.next, *diff = pointer<const float>(job.diff);
    if (diff) diff += row * job.next;
    const uint64_t draws = random_key_for(job.key, (job.first_row + (uint64_t)row) << 32);
    const auto factor_of = [&](int64_t k) {
        if (job.probability == 0.0f) return 1.0f;
        const uint32_t bits = random_hash((uint32_t)draws, (uint32_t)(draws >> 32), (uint32_t)k);
        return (float)(bits >> 8) * 0x1p-24f >= job.probability ? job.factor : 0.0f;
    };
    float most = -INFINITY, sum = 0, mean = 0;
    for (int64_t k = lane; k < job.keys; k += WARP)
        if (seen.has(k)) most = fmaxf(most, scores[k]);
    most = warp_reduce(most, largest_of());
    for (int64_t k = lane; k < job.keys; k += WARP) {
        if (!seen.has(k)) continue;
        const float e = expf(scores[k] - most);
        sum += e;
        if (diff) mean += e * (factor_of(k) * diff[k]);
    }
    sum = warp_sum(sum);
    mean = warp_sum(mean);
    const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f; /* a query that sees nothing has no probabilities */
    mean *= inverse;
    for (int64_t k = lane; k < job.keys; k += WARP) {
        const float factor = factor_of(k), p = seen.has(k) ? expf(scores[k] - most) * inverse : 0.0f;
        if (diff) value_store(job.diff_result, row * job.next + k, p * (factor * diff[k] - mean) * job.scale);
        value_store(job.result, row * job.next + k, p * factor);
    }
}
