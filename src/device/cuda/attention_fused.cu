// SPDX-License-Identifier: Apache-2.0
/* What graphs of fused attention are given, and what they leave undone. */
#include "cuda/attention_seen.cuh"
#include "cuda/attention_fused_jobs.h"

/* 0 where a key is seen. */
QS_CUDA_GLOBAL(attention_bias, qs__cuda_fused_job) {
    const qs__cuda_attention_job &all = job.all;
    float *bias = pointer<float>(job.bias);
    for (int64_t i = thread_number(); i < all.samples * all.queries * all.keys; i += thread_count()) {
        const int64_t row = i / all.keys;
        bias[i] = seen_of(all, row / all.queries, row % all.queries).has(i % all.keys) ? 0.0f : job.unseen;
    }
}

/* Eight draws a thread; the memory ends at a multiple of 16 bytes. */
QS_CUDA_GLOBAL(attention_kept, qs__cuda_fused_job) {
    const qs__cuda_attention_job &all = job.all;
    const int64_t count = all.samples * all.heads * all.queries * all.keys;
    for (int64_t i = 8 * thread_number(); i < count; i += 8 * thread_count()) {
        packet<4> out = {{0, 0, 0, 0}};
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            const int64_t row = (i + j) / all.keys, key = (i + j) % all.keys;
            const bool kept = random_uniform(all.key, ((all.first_row + (uint64_t)row) << 32) + (uint64_t)key) >= all.probability;
            out.word[j / 2] |= (kept ? job.one : 0u) << (j % 2 * 16);
        }
        packet_store(pointer<uint16_t>(job.kept) + i, out);
    }
}

/* A query that sees no key has the result 0, and no part in gradients: with infinite statistics its probabilities are 0. */
QS_CUDA_GLOBAL(attention_blind, qs__cuda_fused_job) {
    const qs__cuda_attention_job &all = job.all;
    for (int64_t row = thread_number(); row < all.samples * all.queries; row += thread_count()) {
        const int64_t sample = row / all.queries, query = row % all.queries;
        const seen_keys seen = seen_of(all, sample, query);
        int64_t key = seen.begin;
        while (key < seen.end && !seen.has(key))
            key++;
        if (key < seen.end) continue;
        for (int64_t c = 0; job.result && c < all.heads * job.width; c++)
            pointer<uint16_t>(job.result)[row * all.heads * job.width + c] = 0;
        for (int64_t head = 0; job.stats && head < all.heads; head++)
            pointer<float>(job.stats)[(sample * all.heads + head) * all.queries + query] = INFINITY;
    }
}
