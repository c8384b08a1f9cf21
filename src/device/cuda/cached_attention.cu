// SPDX-License-Identifier: Apache-2.0
/* Attention over caches (op/cached_attention.c): few queries, whose rows of scores are formed one after the other; the time is that of reading
 * keys and values. Every sum has one order, whatever the GPU. */
#include "cuda/sequence_jobs.h"

#include "cuda/each.cuh"

#include <math.h>

/* Keys and values of the positions at hand into the rows of the caches from the place on. */
QS_CUDA_GLOBAL(qs__cached_attention_keep, qs__cached_job) {
    const int place = *pointer<const int>(job.place);
    const int64_t keys = job.key.count, all = keys + job.value.count;
    if (place < 0 || place > job.last) {
        if (thread_number() == 0) complain(job.complaint, job.number, place, 0);
        return;
    }
    float *const to_keys = pointer<float>(job.key_cache) + place * job.key_heads * job.width;
    float *const to_values = pointer<float>(job.value_cache) + place * job.key_heads * job.value_width;
    for (int64_t i = thread_number(); i < all; i += thread_count()) {
        if (i < keys)
            to_keys[i] = value_load(job.key, i);
        else
            to_values[i - keys] = value_load(job.value, i - keys);
    }
}

constexpr int KEYS = 4; /* that a warp has on their way */

/* A block takes a head of a query: scores by its warps, KEYS at a time; their softmax; then each result by the threads that share its values'
 * positions. */
QS_CUDA_GLOBAL(qs__cached_attention, qs__cached_job) {
    __shared__ float part[QS__CACHED_THREADS];
    const int place = *pointer<const int>(job.place), thread = (int)threadIdx.x, lane = thread % WARP;
    if (place < 0 || place > job.last) return; /* all threads */
    for (int64_t row = blockIdx.x; row < job.positions * job.heads; row += gridDim.x) {
        const int64_t key_head = row % job.heads / (job.heads / job.key_heads), end = place + row / job.heads + 1;
        const int64_t first = job.window > 0 && end > job.window ? end - job.window : 0;
        const float *const keys = pointer<const float>(job.key_cache) + key_head * job.width;
        const float *const values = pointer<const float>(job.value_cache) + key_head * job.value_width;
        float *const score = pointer<float>(job.scores) + blockIdx.x * job.context;
        float most = float_of(INFINITY_BITS | SIGN_BIT), sum = 0;
        for (int64_t begin = first + thread / WARP * KEYS; begin < end; begin += QS__CACHED_THREADS / WARP * KEYS) {
            float dot[KEYS] = {0};
            for (int64_t i = lane; i < job.width; i += WARP) {
                const float query = value_load(job.query, row * job.width + i);
                QS_CUDA_UNROLL
                for (int k = 0; k < KEYS; k++)
                    if (begin + k < end) dot[k] = fmaf(query, keys[(begin + k) * job.key_heads * job.width + i], dot[k]);
            }
            QS_CUDA_UNROLL
            for (int k = 0; k < KEYS; k++) {
                dot[k] = warp_sum(dot[k]) * job.scale;
                if (begin + k >= end) continue;
                if (lane == 0) score[begin + k] = dot[k];
                most = fmaxf(most, dot[k]);
            }
        }
        most = block_max(most); /* behind it all scores are written */
        for (int64_t k = first + thread; k < end; k += QS__CACHED_THREADS) {
            const float power = expf(score[k] - most);
            score[k] = power;
            sum += power;
        }
        sum = block_sum(sum);
        /* Threads side by side on the values, as many rows of them as there are threads for. */
        const int wide = (int)least<int64_t>(job.value_width, QS__CACHED_THREADS), rows = QS__CACHED_THREADS / wide;
        for (int64_t begin = 0; begin < job.value_width; begin += wide) {
            const int64_t e = begin + thread % wide;
            float result = 0;
            for (int64_t k = first + thread / wide; k < end && thread < rows * wide && e < job.value_width; k += rows)
                result = fmaf(score[k], values[k * job.key_heads * job.value_width + e], result);
            part[thread] = result;
            __syncthreads();
            if (thread < wide && e < job.value_width) {
                for (int other = 1; other < rows; other++)
                    result += part[other * wide + thread];
                value_store(job.dst, row * job.value_width + e, result / sum);
            }
            __syncthreads();
        }
    }
}
