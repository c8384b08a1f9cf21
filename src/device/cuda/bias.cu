// SPDX-License-Identifier: Apache-2.0
/* Sums of the columns of a matrix, in double and in an order that is always the same: bias gradients. */
#include "each.cuh"
#include "cuda/product_jobs.h"

enum { STRIPS = QS__BIAS_BLOCK / QS__BIAS_EACH, LANES = QS__BIAS_LANES };

/* Adds eight columns from c0 on of rows r, r + LANES, ... below end, one row after the other; four of them are on their way at once. */
template <int KIND> QS_CUDA_DEVICE void rows_add(const qs__cuda_bias_sums_job &job, int64_t r, int64_t end, int64_t c0, double sum[8]) {
    enum { AT_ONCE = 4 };
    for (; r + (AT_ONCE - 1) * LANES < end; r += AT_ONCE * LANES) {
        float x[AT_ONCE][8];
        QS_CUDA_UNROLL
        for (int k = 0; k < AT_ONCE; k++)
            load_kind<8, KIND>(job.from, (r + k * LANES) * job.columns + c0, x[k]);
        QS_CUDA_UNROLL
        for (int k = 0; k < AT_ONCE; k++)
            for (int j = 0; j < 8; j++)
                sum[j] += (double)x[k][j];
    }
    for (; r < end; r += LANES) {
        float x[8];
        load_kind<8, KIND>(job.from, r * job.columns + c0, x);
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            sum[j] += (double)x[j];
    }
}

/* The same of columns that come in no eights, or of rows that are not all added. */
QS_CUDA_DEVICE void some_rows_add(const qs__cuda_bias_sums_job &job, int64_t r, int64_t end, int64_t c0, double sum[8]) {
    for (; r < end; r += LANES) {
        if (job.block > 1 && r / job.pixels % job.block != 0) continue;
        float x[8];
        if (job.columns % 8 == 0) {
            value_load8(job.from, r * job.columns + c0, x);
        } else {
            QS_CUDA_UNROLL
            for (int j = 0; j < 8; j++)
                x[j] = c0 + j < job.columns ? value_load(job.from, r * job.columns + c0 + j) : 0.0f;
        }
        QS_CUDA_UNROLL
        for (int j = 0; j < 8; j++)
            sum[j] += (double)x[j];
    }
}

/* A block has 256 columns, eight of them a thread, and the rows of a segment, every eighth of them a lane of threads. */
QS_CUDA_GLOBAL(bias_sums, qs__cuda_bias_sums_job) {
    __shared__ double part[LANES][QS__BIAS_BLOCK];
    const int64_t strips = (job.columns + QS__BIAS_BLOCK - 1) / QS__BIAS_BLOCK;
    const int64_t segment = blockIdx.x / strips, strip = blockIdx.x % strips * QS__BIAS_BLOCK;
    const int lane = (int)threadIdx.x / STRIPS, own = (int)threadIdx.x % STRIPS * QS__BIAS_EACH;
    const int64_t c0 = strip + own, first = segment * job.segment_rows + lane, end = least((segment + 1) * job.segment_rows, job.rows);
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    if (c0 < job.columns && job.columns % 8 == 0 && job.block <= 1)
        with_common_kind(job.from.format.kind, [&](auto kind) { rows_add<decltype(kind)::value>(job, first, end, c0, sum); });
    else if (c0 < job.columns)
        some_rows_add(job, first, end, c0, sum);
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        part[lane][own + j] = sum[j];
    __syncthreads();
    const int64_t c = strip + (int64_t)threadIdx.x;
    if (c >= job.columns) return;
    double total = part[0][threadIdx.x];
    for (int l = 1; l < LANES; l++)
        total += part[l][threadIdx.x];
    pointer<double>(job.partial)[segment * job.columns + c] = total;
}

/* A block has 32 columns, a lane of threads every eighth segment. */
QS_CUDA_GLOBAL(bias_sums_end, qs__cuda_bias_sums_end_job) {
    __shared__ double part[LANES][32];
    const int lane = (int)threadIdx.x / 32, own = (int)threadIdx.x % 32;
    const int64_t c = (int64_t)blockIdx.x * 32 + own;
    double sum = 0;
    if (c < job.columns)
        for (int64_t s = lane; s < job.segments; s += LANES)
            sum += pointer<const double>(job.partial)[s * job.columns + c];
    part[lane][own] = sum;
    __syncthreads();
    if (lane > 0 || c >= job.columns) return;
    for (int l = 1; l < LANES; l++)
        sum += part[l][own];
    const double step = job.step ? (double)*pointer<const float>(job.step) : 1.0;
    const int group = job.group ? (int)pointer<const int8_t>(job.group)[c] : 0;
    pointer<float>(job.to)[c] = (float)(sum * (step / (double)(1u << group)) * job.factor);
}
