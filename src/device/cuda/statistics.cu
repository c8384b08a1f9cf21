// SPDX-License-Identifier: Apache-2.0
/* The statistics of a tensor, with the bits of qs_statistics_measure: its extremes and exponents, steps from the extremes, and at the end
 * the operand, of these and of sums (sums.cu). */
#include "cuda/statistics_jobs.h"
#include "cuda/values.cuh"

extern "C" {
#include "qsync/op.h"
}

/* ---- Extremes ------------------------------------------------------------------------------------------------------------------------ */

/* Orders like the value; NaNs at the ends. */
QS_CUDA_DEVICE uint32_t key_of(float x) {
    const uint32_t bits = bits_of(x);
    return bits & SIGN_BIT ? ~bits : bits | SIGN_BIT;
}

QS_CUDA_DEVICE float value_of_key(uint32_t key) {
    return float_of(key & SIGN_BIT ? key & MAGNITUDE_BITS : ~key);
}

struct key_pair {
    uint32_t low, high; /* of the complement of the smallest, of the largest; 0: nothing yet */
};

QS_CUDA_DEVICE key_pair joined(key_pair pair, float x) {
    const uint32_t key = key_of(x);
    const key_pair out = {largest(pair.low, ~key), largest(pair.high, key)};
    return out;
}

QS_CUDA_DEVICE void pair_raise(uint64_t pairs, int64_t number, key_pair found) {
    atomicMax(pointer<unsigned>(pairs) + 2 * number, found.low);
    atomicMax(pointer<unsigned>(pairs) + 2 * number + 1, found.high);
}

QS_CUDA_DEVICE float pair_low(uint64_t pairs, int64_t number) {
    return value_of_key(~pointer<const uint32_t>(pairs)[2 * number]);
}

QS_CUDA_DEVICE float pair_high(uint64_t pairs, int64_t number) {
    return value_of_key(pointer<const uint32_t>(pairs)[2 * number + 1]);
}

/* Of all, and how many there are with each exponent. */
QS_CUDA_GLOBAL(statistics_all, qs__cuda_statistics_job) {
    __shared__ unsigned count[256];
    key_pair found = {0, 0};
    for (unsigned f = threadIdx.x; f < 256; f += blockDim.x)
        count[f] = 0;
    __syncthreads();
    for (int64_t i = 8 * thread_number(); i < job.src.count; i += 8 * thread_count()) {
        float x[8];
        value_load8(job.src, i, x);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++) {
            if (i + j >= job.src.count) break;
            found = joined(found, x[j]);
            if (x[j] != 0.0f) atomicAdd(count + (bits_of(x[j]) << 1 >> 24), 1u);
        }
    }
    found.low = block_max(found.low);
    found.high = block_max(found.high);
    if (threadIdx.x == 0) pair_raise(job.extremes, 0, found);
    for (unsigned f = threadIdx.x; f < 256; f += blockDim.x)
        if (count[f]) atomicAdd(pointer<unsigned long long>(job.exponents) + f, (unsigned long long)count[f]);
}

/* Of rows: a block for each part of one. */
QS_CUDA_GLOBAL(statistics_rows, qs__cuda_statistics_job) {
    const int64_t length = job.src.count / job.channels, parts = gridDim.x / job.channels;
    const int64_t row = blockIdx.x / parts, part = blockIdx.x % parts;
    key_pair found = {0, 0};
    for (int64_t i = part * blockDim.x + threadIdx.x; i < length; i += parts * blockDim.x)
        found = joined(found, value_load(job.src, row * length + i));
    found.low = block_max(found.low);
    found.high = block_max(found.high);
    if (threadIdx.x == 0) pair_raise(job.channel, row, found);
}

/* Of columns, NaNs passed over. Threads are as many as a multiple of the columns: each stays in its column. */
QS_CUDA_GLOBAL(statistics_columns, qs__cuda_statistics_job) {
    const int64_t used = thread_count() / job.channels * job.channels;
    if (thread_number() >= used) return;
    key_pair found = {0, 0};
    for (int64_t i = thread_number(); i < job.src.count; i += used) {
        const float x = value_load(job.src, i);
        if (x == x) found = joined(found, x);
    }
    if (found.high) pair_raise(job.channel, thread_number() % job.channels, found);
}

/* ---- Steps ----------------------------------------------------------------------------------------------------------------------------- */

QS_CUDA_DEVICE float magnitude(float x) {
    return float_of(bits_of(x) & MAGNITUDE_BITS);
}

QS_CUDA_DEVICE float absmax_of(const qs__cuda_statistics_job &job) {
    const float low = magnitude(pair_low(job.extremes, 0)), high = magnitude(pair_high(job.extremes, 0));
    return low > high || low != low ? low : high;
}

QS_CUDA_GLOBAL(statistics_steps, qs__cuda_statistics_job) {
    float *step = pointer<float>(job.step);
    if (thread_number() == 0) step[0] = step_of_absmax(job.integer, absmax_of(job));
    for (int64_t c = thread_number(); job.rows && c < job.channels; c += thread_count())
        step[1 + c] = step_of_absmax(job.integer, fmaxf(-pair_low(job.channel, c), pair_high(job.channel, c)));
}

/* ---- The operand -------------------------------------------------------------------------------------------------------------------------- */

QS_CUDA_GLOBAL(statistics_finish, qs__cuda_statistics_job) {
    qs_statistics_head *head = pointer<qs_statistics_head>(job.out);
    double *extremes = (double *)(head + 1);
    const double *sums = pointer<const double>(job.sums);
    for (int64_t f = threadIdx.x; f < QS_EXPONENTS; f += blockDim.x)
        head->exponents[f] = (double)pointer<const unsigned long long>(job.exponents)[f];
    for (int64_t c = threadIdx.x; c < job.channels; c += blockDim.x) {
        const bool none = !job.rows && pointer<const uint32_t>(job.channel)[2 * c + 1] == 0; /* a column of NaNs */
        extremes[2 * c] = none ? (double)INFINITY : (double)pair_low(job.channel, c);
        extremes[2 * c + 1] = none ? (double)-INFINITY : (double)pair_high(job.channel, c);
    }
    if (threadIdx.x > 0) return;
    double by_channel = 0.0;
    for (int64_t c = 0; job.rows && c < job.channels; c++)
        by_channel += sums[4 + c];
    head->count = (double)job.src.count;
    head->norm2 = sums[0];
    head->absmax = (double)absmax_of(job);
    head->minimum = (double)pair_low(job.extremes, 0);
    head->maximum = (double)pair_high(job.extremes, 0);
    head->variance_int8 = sums[3];
    head->variance_bf16 = sums[1];
    head->variance_fp16 = sums[2];
    head->variance_int8_channel = by_channel;
    head->channels = (double)job.channels;
}
