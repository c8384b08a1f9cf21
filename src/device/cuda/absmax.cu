// SPDX-License-Identifier: Apache-2.0
/* Largest magnitudes, and the check for what is not finite. As bits, magnitudes order like the values, infinities and NaNs on top: maxima
 * are of integers, and no order of them matters. */
#include "cuda/absmax_jobs.h"
#include "cuda/hadamard.cuh"
#include "cuda/values.cuh"

QS_CUDA_DEVICE uint32_t magnitude_of(float x) {
    return bits_of(x) & MAGNITUDE_BITS;
}

/* The largest of the thread's magnitudes, of QS__CUDA_EIGHTS eights at a time, which are on their way together. */
QS_CUDA_DEVICE uint32_t largest_magnitude(const qs__cuda_values &v) {
    const int64_t stride = 8 * thread_count();
    uint32_t high = 0;
    with_kind(v.format.kind, [&](auto known) {
        constexpr int kind = decltype(known)::value;
        for (int64_t first = 8 * thread_number(); first < v.count; first += QS__CUDA_EIGHTS * stride) {
            uint32_t code[QS__CUDA_EIGHTS][8];
            QS_CUDA_UNROLL
            for (int e = 0; e < QS__CUDA_EIGHTS; e++)
                code_load8_kind<kind>(v, first + e * stride, code[e]);
            QS_CUDA_UNROLL
            for (int e = 0; e < QS__CUDA_EIGHTS; e++) {
                QS_CUDA_UNROLL
                for (int j = 0; j < 8; j++)
                    high = largest(high, magnitude_of(value_of_kind<kind>(v.format, code[e][j])));
            }
        }
    });
    return high;
}

/* What blocks of the kernel at hand found so far, and how many have ended: zeros whenever none runs, and one runs at a time. */
static __device__ unsigned found, ended;

/* The last block that ends writes the largest of all. */
QS_CUDA_DEVICE void blocks_join(unsigned high, uint64_t to) {
    high = block_max(high);
    if (threadIdx.x > 0) return;
    atomicMax(&found, high);
    __threadfence();
    if (atomicAdd(&ended, 1u) + 1 < gridDim.x) return;
    atomicExch(&ended, 0u);
    *pointer<unsigned>(to) = atomicExch(&found, 0u);
}

QS_CUDA_GLOBAL(absmax, qs__cuda_absmax_job) {
    blocks_join(largest_magnitude(job.src), job.absmax);
}

QS_CUDA_GLOBAL(absmax_transformed, qs__cuda_absmax_job) {
    const int64_t groups = transform_groups(job.transform, job.src.count);
    uint32_t high = 0;
    for (int64_t g = thread_number() / WARP; g < groups; g += thread_count() / WARP) {
        const transformed two = transform_load(job.src, job.transform, g);
        high = largest(high, largest(magnitude_of(two.x[0]), magnitude_of(two.x[1])));
    }
    blocks_join(high, job.absmax);
}

/* The maxima of `wide` neighbouring columns. Threads are as many as a multiple of such groups: each stays in its own, and blocks that hold
 * several rows gather what their threads found. */
template <int wide> QS_CUDA_DEVICE void columns_find(const qs__cuda_absmax_job &job, unsigned *gathered) {
    const int64_t groups = job.columns / wide, used = thread_count() / groups * groups, number = thread_number();
    const bool gathers = groups < blockDim.x, works = number < used;
    unsigned *at = gathers ? gathered : pointer<unsigned>(job.absmax), high[wide] = {0};
    for (unsigned c = threadIdx.x; gathers && c < job.columns; c += blockDim.x)
        gathered[c] = 0;
    for (int64_t i = wide * number; works && i < job.src.count; i += wide * used) {
        float x[8];
        if (wide == 8)
            value_load8(job.src, i, x);
        else
            x[0] = value_load(job.src, i);
        QS_CUDA_UNROLL
        for (int j = 0; j < wide; j++)
            high[j] = largest(high[j], magnitude_of(x[j]));
    }
    __syncthreads();
    QS_CUDA_UNROLL
    for (int j = 0; j < wide; j++)
        if (works && high[j]) atomicMax(at + number % groups * wide + j, high[j]);
    __syncthreads();
    for (unsigned c = threadIdx.x; gathers && c < job.columns; c += blockDim.x)
        if (gathered[c]) atomicMax(pointer<unsigned>(job.absmax) + c, gathered[c]);
}

/* Columns along the fast axis. */
QS_CUDA_GLOBAL(absmax_columns, qs__cuda_absmax_job) {
    QS_CUDA_SHARED(unsigned, gathered); /* one for each column, where groups of them are fewer than the threads of a block */
    if (job.columns % 8 == 0)
        columns_find<8>(job, gathered);
    else
        columns_find<1>(job, gathered);
}

/* Rows, a block for each part of one. */
QS_CUDA_GLOBAL(absmax_rows, qs__cuda_absmax_job) {
    const int64_t parts = gridDim.x / (job.src.count / job.per_row), row = blockIdx.x / parts, part = blockIdx.x % parts;
    const int64_t first = row * job.per_row;
    uint32_t high = 0;
    for (int64_t i = part * blockDim.x + threadIdx.x; i < job.per_row; i += parts * blockDim.x)
        high = largest(high, magnitude_of(value_load(job.src, first + i)));
    high = block_max(high);
    if (threadIdx.x == 0) atomicMax(pointer<unsigned>(job.absmax) + row, high);
}

/* Whoever finds something writes the same. What begins within a vector is read one by one. */
QS_CUDA_GLOBAL(finite_check, qs__cuda_finite_job) {
    if (job.src.at % 16 != 0) {
        for (int64_t i = thread_number(); i < job.src.count; i += thread_count())
            if (magnitude_of(value_load(job.src, i)) >= INFINITY_BITS) *pointer<float>(job.flag) = 0.0f;
        return;
    }
    if (largest_magnitude(job.src) >= INFINITY_BITS) *pointer<float>(job.flag) = 0.0f;
}
