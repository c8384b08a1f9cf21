// SPDX-License-Identifier: Apache-2.0
/* softmax over the channels of every position. Short rows whose channels come in eights are held by lanes of a warp and read once;
 * others take one kernel for what belongs to a row, and one for every value in memory order. Arithmetic is fp32, sums of a block's threads are
 * added in double. */
#include "cuda/rows.cuh"
#include "cuda/columns.cuh"
#include "cuda/softmax_jobs.h"

#include <math.h>

/* ---- What a row keeps ---- */

struct kept_channels {
    int64_t first, stop;
    const int32_t *keep; /* NULL: all between */
    QS_CUDA_DEVICE_MEMBER bool has(int64_t c) const {
        return c >= first && c < stop && (!keep || keep[c] != 0);
    }
};

QS_CUDA_DEVICE kept_channels kept_of(const qs__softmax_job &job, int64_t row) {
    const int64_t place = row % job.positions, sample = row / job.of_sample, window = job.window ? job.window : INT64_MAX / 2;
    kept_channels out = {};
    out.first = largest<int64_t>(place - window + 1, 0);
    out.stop = job.causal ? place + 1 : least(place + window, job.channels);
    if (job.keep) out.keep = pointer<const int32_t>(job.keep) + (job.masked ? sample * job.positions + place : sample) * job.channels;
    return out;
}

/* ---- Rows in registers ---- */

template <int KIND, int VECTORS> QS_CUDA_DEVICE void rows_in_registers(const qs__softmax_job &job) {
    const qs__cuda_values src = of_kind<KIND>(job.src), diff = of_kind<KIND>(job.diff_dst), dst = of_kind<KIND>(job.dst);
    const row_lanes on = row_lanes_of(job.lanes, job.channels);
    const int64_t together = thread_count() / job.lanes, of_warp = WARP / job.lanes;
    for (int64_t base = thread_number() / WARP * of_warp; base < job.rows; base += together) {
        const int64_t row = base + (int)threadIdx.x % WARP / job.lanes, first = row * job.channels;
        const bool there = row < job.rows;
        const kept_channels kept = kept_of(job, there ? row : 0);
        float y[VECTORS][8], dy[VECTORS][8], maximum = -INFINITY, sum = 0, dot = 0;
        uint32_t has[VECTORS] = {};
        row_read<VECTORS>(on, src, first, there, y);
        if (diff.at) row_read<VECTORS>(on, diff, first, there, dy);
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            QS_CUDA_UNROLL
            for (int k = 0; k < 8; k++) {
                if (on.channel(v) >= job.channels || !kept.has(on.channel(v) + k)) continue;
                has[v] |= 1u << k;
                y[v][k] *= job.scale;
                maximum = largest(maximum, y[v][k]);
            }
        }
        maximum = on.reduce(maximum, largest_of());
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++)
            QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            y[v][k] = has[v] >> k & 1 ? expf(y[v][k] - maximum) : 0;
            sum += y[v][k];
        }
        sum = on.sum(sum);
        const float inverse = sum == 0 ? 0 : 1.0f / sum;
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++)
            QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++) {
            y[v][k] *= inverse;
            if (diff.at) dot += y[v][k] * dy[v][k];
        }
        if (diff.at) dot = on.sum(dot);
        if (!there) continue;
        QS_CUDA_UNROLL
        for (int v = 0; v < VECTORS; v++) {
            if (on.channel(v) >= job.channels) continue;
            QS_CUDA_UNROLL
            for (int k = 0; k < 8 && diff.at; k++)
                y[v][k] *= job.scale * (dy[v][k] - dot);
            value_store8(dst, first + on.channel(v), y[v]);
        }
    }
}

#define ROWS_IN_REGISTERS(vectors)                                 \
    QS_CUDA_GLOBAL(softmax_rows_##vectors, qs__softmax_job) {      \
        switch (job.src.format.kind) {                             \
        case QS__CUDA_FP32:                                        \
            return rows_in_registers<QS__CUDA_FP32, vectors>(job); \
        case QS__CUDA_BF16:                                        \
            return rows_in_registers<QS__CUDA_BF16, vectors>(job); \
        default:                                                   \
            return rows_in_registers<QS__CUDA_FP16, vectors>(job); \
        }                                                          \
    }
ROWS_IN_REGISTERS(1)
ROWS_IN_REGISTERS(2)
ROWS_IN_REGISTERS(3)
ROWS_IN_REGISTERS(4)

/* ---- Any rows ---- */

QS_CUDA_GLOBAL(softmax_statistics, qs__softmax_job) {
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        const kept_channels kept = kept_of(job, row);
        const int64_t first = row * job.channels;
        float maximum = -INFINITY, part = 0;
        row_values(job.src, first, job.channels, [&](int64_t c, float x) {
            if (kept.has(c)) maximum = largest(maximum, x * job.scale);
        });
        maximum = block_max(maximum);
        row_values(job.src, first, job.channels, [&](int64_t c, float x) {
            if (kept.has(c)) part += expf(x * job.scale - maximum);
        });
        const double sum = block_sum((double)part);
        const float inverse = sum == 0 ? 0 : (float)(1 / sum);
        if (threadIdx.x == 0) {
            pointer<float>(job.maxima)[row] = maximum;
            pointer<float>(job.inverses)[row] = inverse;
        }
        if (!job.diff_dst.at) continue;
        part = 0;
        row_values(job.src, first, job.channels, [&](int64_t c, float x) {
            if (kept.has(c)) part += expf(x * job.scale - maximum) * inverse * value_load(job.diff_dst, first + c);
        });
        const double dot = block_sum((double)part);
        if (threadIdx.x == 0) pointer<float>(job.dots)[row] = (float)dot;
    }
}

QS_CUDA_GLOBAL(softmax_values, qs__softmax_job) {
    for (int64_t at = 8 * thread_number(); at < job.dst.count; at += 8 * thread_count()) {
        row_walk walk = walk_from(at, job.channels);
        kept_channels kept = kept_of(job, walk.row);
        float y[8], dy[8] = {};
        value_load8(job.src, at, y);
        if (job.diff_dst.at) value_load8(job.diff_dst, at, dy);
        for (int k = 0; k < 8 && at + k < job.dst.count; k++) {
            const float maximum = pointer<const float>(job.maxima)[walk.row], inverse = pointer<const float>(job.inverses)[walk.row];
            y[k] = kept.has(walk.c) ? expf(y[k] * job.scale - maximum) * inverse : 0;
            if (job.diff_dst.at) y[k] *= job.scale * (dy[k] - pointer<const float>(job.dots)[walk.row]);
            walk_on(&walk, job.channels);
            if (walk.c == 0 && at + k + 1 < job.dst.count) kept = kept_of(job, walk.row);
        }
        value_store8(job.dst, at, y);
    }
}
