// SPDX-License-Identifier: Apache-2.0
/* Rows of neighbouring values: positions of a normalisation, of a softmax, of a loss. Short ones are held in registers, by lanes of a warp;
 * others are gone through by a block. */
#ifndef QSYNC_DEVICE_CUDA_ROWS_CUH
#define QSYNC_DEVICE_CUDA_ROWS_CUH

#include "cuda/values.cuh"

/* ---- In registers ---- */

/* Lanes of a row are neighbours, a power of two of them; vector v of a lane is channels 8 (lanes v + lane) ... + 7. */
struct row_lanes {
    int lanes, lane;
    int64_t channels;
    QS_CUDA_DEVICE_MEMBER int64_t channel(int vector) const {
        return 8 * ((int64_t)lanes * vector + lane);
    }
    template <typename T, typename Two> QS_CUDA_DEVICE_MEMBER T reduce(T x, Two two) const {
        for (int by = lanes / 2; by > 0; by /= 2)
            x = two(x, __shfl_xor_sync(WHOLE_WARP, x, by));
        return x;
    }
    template <typename T> QS_CUDA_DEVICE_MEMBER T sum(T x) const {
        return reduce(x, sum_of());
    }
};

QS_CUDA_DEVICE row_lanes row_lanes_of(int lanes, int64_t channels) {
    const row_lanes out = {lanes, (int)threadIdx.x % lanes, channels};
    return out;
}

/* Zeros where the lane has no such vector, or the row is not `there`. */
template <int VECTORS>
QS_CUDA_DEVICE void row_read(const row_lanes &on, const qs__cuda_values &src, int64_t first, bool there, float out[VECTORS][8]) {
    QS_CUDA_UNROLL
    for (int v = 0; v < VECTORS; v++) {
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            out[v][k] = 0;
        if (there && on.channel(v) < on.channels) value_load8(src, first + on.channel(v), out[v]);
    }
}

/* ---- By a block ---- */

/* Calls take(i, value) for values first + i, i < count, each by one thread, in the order of i: by eights where those begin. */
template <typename Take> QS_CUDA_DEVICE void row_values(const qs__cuda_values &src, int64_t first, int64_t count, const Take &take) {
    const int64_t stop = first + count, body = least((first + 7) / 8 * 8, stop), tail = largest(stop / 8 * 8, body);
    for (int64_t at = first + threadIdx.x; at < body; at += blockDim.x)
        take(at - first, value_load(src, at));
    for (int64_t at = body + 8 * (int64_t)threadIdx.x; at < tail; at += 8 * (int64_t)blockDim.x) {
        float x[8];
        value_load8(src, at, x);
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            take(at + k - first, x[k]);
    }
    for (int64_t at = tail + threadIdx.x; at < stop; at += blockDim.x)
        take(at - first, value_load(src, at));
}

/* The other way: stores give(i) at first + i. Blocks may share a byte of formats that are strings of bits. */
template <typename Give> QS_CUDA_DEVICE void row_store(const qs__cuda_values &dst, int64_t first, int64_t count, const Give &give) {
    const int64_t stop = first + count, body = least((first + 7) / 8 * 8, stop), tail = largest(stop / 8 * 8, body);
    for (int64_t at = first + threadIdx.x; at < body; at += blockDim.x)
        value_store(dst, at, give(at - first));
    for (int64_t at = body + 8 * (int64_t)threadIdx.x; at < tail; at += 8 * (int64_t)blockDim.x) {
        float x[8];
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            x[k] = give(at + k - first);
        value_store8(dst, at, x);
    }
    for (int64_t at = tail + threadIdx.x; at < stop; at += blockDim.x)
        value_store(dst, at, give(at - first));
}

/* ---- In memory order ---- */

/* Where element `at` lies, and the next ones. */
struct row_walk {
    int64_t row, c;
};

QS_CUDA_DEVICE row_walk walk_from(int64_t at, int64_t channels) {
    const row_walk out = {at / channels, at % channels};
    return out;
}

QS_CUDA_DEVICE void walk_on(row_walk *at, int64_t channels) {
    if (++at->c < channels) return;
    at->c = 0;
    at->row++;
}

#endif
