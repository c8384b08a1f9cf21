// SPDX-License-Identifier: Apache-2.0
/* Local response norms. Rows lie in shared memory, where windows of any width are read: memory is read once, by eights. A thread's values are a
 * block's threads apart, so that neighbours read neighbouring words; sums go up with the channels. */
#include "cuda/norm_jobs.h"
#include "cuda/rows.cuh"

#include <math.h>

/* s^-beta; the usual powers by roots, as on cpu. */
QS_CUDA_DEVICE float power_of(float s, float beta) {
    if (beta == 0.75f) return 1.0f / (sqrtf(s) * sqrtf(sqrtf(s)));
    if (beta == 0.5f) return 1.0f / sqrtf(s);
    return beta == 1.0f ? 1.0f / s : powf(s, -beta);
}

/* Calls use(i, channel) for every value i of whole rows that is this thread's. */
template <typename Use> QS_CUDA_DEVICE void each_channel(const qs__response_job &job, int count, const Use &use) {
    const int turn = (int)blockDim.x % job.channels;
    int c = (int)threadIdx.x % job.channels;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x) {
        use(i, c);
        c += turn;
        if (c >= job.channels) c -= job.channels;
    }
}

/* Σ term(value) over the channels c - before ... c + behind that there are, around value i. */
template <typename Term>
QS_CUDA_DEVICE float window_sum(const float *values, int channels, int i, int c, int before, int behind, const Term &term) {
    const int first = i - least(c, before), last = i + least(channels - 1 - c, behind);
    float sum = 0;
    for (int k = first; k <= last; k++)
        sum = term(values[k], sum);
    return sum;
}

/* s of a value. */
QS_CUDA_DEVICE float response_of(const qs__response_job &job, const float *x, int i, int c) {
    const auto square = [](float value, float sum) { return __fmaf_rn(value, value, sum); };
    return __fmaf_rn(job.share, window_sum(x, job.channels, i, c, job.before, job.behind, square), job.bias);
}

/* Calls take(first, count) for the values of the rows that are a block's, as many at a time as it has room for. */
template <typename Take> QS_CUDA_DEVICE void each_rows(const qs__response_job &job, const Take &take) {
    const int64_t tiles = (job.rows + job.together - 1) / job.together;
    for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const int64_t row = tile * job.together;
        __syncthreads(); /* what was there before is stored */
        take(row * job.channels, (int)least<int64_t>(job.together, job.rows - row) * job.channels);
    }
}

QS_CUDA_GLOBAL(local_response_norm, qs__response_job) {
    QS_CUDA_SHARED(float, x);
    float *const out = x + job.together * job.channels;
    each_rows(job, [&](int64_t first, int count) {
        row_values(job.src, first, count, [&](int64_t i, float value) { x[i] = value; });
        __syncthreads();
        each_channel(job, count, [&](int i, int c) { out[i] = x[i] * power_of(response_of(job, x, i, c), job.beta); });
        __syncthreads();
        row_store(job.dst, first, count, [&](int64_t i) { return out[i]; });
    });
}

/* With r = dy x s^(-beta - 1): dy s^-beta - 2 share beta x Σ r over the channels whose sums have this one. */
QS_CUDA_GLOBAL(local_response_norm_gradient, qs__response_job) {
    QS_CUDA_SHARED(float, x);
    float *const dy = x + job.together * job.channels, *const ratio = dy + job.together * job.channels;
    const float factor = 2 * job.share * job.beta;
    each_rows(job, [&](int64_t first, int count) {
        row_values(job.src, first, count, [&](int64_t i, float value) { x[i] = value; });
        row_values(job.diff_dst, first, count, [&](int64_t i, float value) { dy[i] = value; });
        __syncthreads();
        each_channel(job, count, [&](int i, int c) {
            const float s = response_of(job, x, i, c), own = dy[i] * power_of(s, job.beta);
            ratio[i] = own * x[i] / s;
            dy[i] = own;
        });
        __syncthreads();
        each_channel(job, count, [&](int i, int c) {
            const auto plain = [](float value, float sum) { return sum + value; };
            dy[i] -= factor * x[i] * window_sum(ratio, job.channels, i, c, job.behind, job.before, plain);
        });
        __syncthreads();
        row_store(job.dst, first, count, [&](int64_t i) { return dy[i]; });
    });
}
