// SPDX-License-Identifier: Apache-2.0
/* Walking columns (columns_jobs.h), and values of a format that the compiler knows: where a kernel is bound by memory, a branch for each
 * vector keeps loads from being on their way at once. */
#ifndef QSYNC_DEVICE_CUDA_COLUMNS_CUH
#define QSYNC_DEVICE_CUDA_COLUMNS_CUH

#include "cuda/columns_jobs.h"
#include "cuda/values.cuh"

/* ---- Values of a known format ------------------------------------------------------------------------------------------------------ */

enum { ANY_KIND = -1 };

/* The kind that a kernel is compiled for, of what it reads and writes; ANY_KIND where they differ or are rare. */
QS_CUDA_DEVICE int common_kind(const qs__cuda_format &a, const qs__cuda_format &b) {
    return a.kind == b.kind && a.kind <= QS__CUDA_FP16 ? a.kind : ANY_KIND;
}

/* The same values, of this kind; vectors of eight end where the values do. */
template <int KIND> QS_CUDA_DEVICE qs__cuda_values of_kind(qs__cuda_values values) {
    if (KIND != ANY_KIND) {
        values.format.kind = KIND;
        values.count = INT64_MAX;
    }
    return values;
}

template <int WIDTH> QS_CUDA_DEVICE void load_vector(const qs__cuda_values &values, int64_t at, float out[WIDTH]) {
    if (WIDTH == 8)
        value_load8(values, at, out);
    else
        out[0] = value_load(values, at);
}

/* What reading gives of a value that was written. */
QS_CUDA_DEVICE float as_stored(const qs__cuda_format &format, float x) {
    return value_of(format, code_of(format, x));
}

/* Writes values that as_stored gave: those of bf16 are the upper halves of their bits. */
QS_CUDA_DEVICE void store_exact8(const qs__cuda_values &values, int64_t at, const float x[8]) {
    uint32_t code[8];
    if (values.format.kind != QS__CUDA_BF16) {
        value_store8(values, at, x);
        return;
    }
    QS_CUDA_UNROLL
    for (int k = 0; k < 8; k++)
        code[k] = bits_of(x[k]) >> 16;
    code_store8(values, at, code);
}

/* Eight floats of a vector of fp32, at a multiple of four. */
QS_CUDA_DEVICE void floats8(uint64_t vector, int64_t at, float out[8]) {
    QS_CUDA_UNROLL
    for (int half = 0; half < 2; half++) {
        const packet<4> in = packet_load<4>(pointer<const float>(vector) + at + 4 * half);
        QS_CUDA_UNROLL
        for (int k = 0; k < 4; k++)
            out[4 * half + k] = float_of(in.word[k]);
    }
}

template <int WIDTH> QS_CUDA_DEVICE void vector_floats(uint64_t vector, int64_t at, float out[WIDTH]) {
    if (WIDTH == 8)
        floats8(vector, at, out);
    else
        out[0] = pointer<const float>(vector)[at];
}

/* ---- The relu behind a normalisation, and the largest of what is written ------------------------------------------------------------------ */

/* What is stored of a value: rounded, through the relu where there is one; `inside` where backward lets a gradient pass. */
QS_CUDA_DEVICE float relu_stored(const qs__cuda_format &format, bool relu, float ceiling, float x, bool *inside) {
    const float rounded = as_stored(format, x);
    *inside = false;
    if (!relu) return rounded;
    if (rounded <= 0) return 0;
    if (ceiling > 0 && rounded >= ceiling) return as_stored(format, ceiling);
    *inside = true;
    return rounded;
}

/* All threads of the block come, each with the largest bits of a magnitude that it wrote; the operand, 0 before, becomes the largest. */
QS_CUDA_DEVICE void absmax_join(uint64_t absmax, uint32_t bits) {
    bits = block_max(bits);
    if (threadIdx.x == 0 && bits > 0) atomicMax(pointer<unsigned>(absmax), bits);
}

/* ---- A thread's place -------------------------------------------------------------------------------------------------------------- */

struct column_place {
    int64_t channel;
    int64_t row, stop; /* its first row; nothing to do where that is not below */
    int64_t step;      /* from one of its rows to the next */
    int64_t slab;
    int lane; /* among those with the same channels */
};

QS_CUDA_DEVICE column_place column_place_of(const qs__columns &cut) {
    const int thread = (int)threadIdx.x, lane = thread / cut.across;
    column_place out;
    out.slab = blockIdx.x / (unsigned)cut.tiles;
    out.lane = lane;
    out.channel = ((int64_t)(blockIdx.x % (unsigned)cut.tiles) * cut.across + thread % cut.across) * cut.width;
    out.row = out.slab * cut.slab_rows + lane;
    out.stop = least((out.slab + 1) * cut.slab_rows, cut.rows);
    out.step = cut.down;
    if (lane >= cut.down || out.channel >= cut.channels) out.stop = out.row;
    return out;
}

/* How many rows the thread has from `row` on. */
QS_CUDA_DEVICE int64_t rows_left(const column_place &place, int64_t row) {
    return row < place.stop ? (place.stop - row + place.step - 1) / place.step : 0;
}

/* ---- Sums ---------------------------------------------------------------------------------------------------------------------------- */

/* Adds what the block's threads have of each channel, as a tree, and writes it at [slab][channel] of `to`. All threads come. */
template <int WIDTH> QS_CUDA_DEVICE void slab_sums(const qs__columns &cut, const column_place &place, const double sum[WIDTH], double *to) {
    __shared__ double part[WIDTH][QS__COLUMN_THREADS];
    const int thread = (int)threadIdx.x;
    int half = 1;
    __syncthreads(); /* who reads the sums before these is done */
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        part[k][thread] = sum[k];
    while (half < cut.down)
        half *= 2;
    for (half /= 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.lane < half && place.lane + half < cut.down)
            for (int k = 0; k < WIDTH; k++)
                part[k][thread] += part[k][thread + half * cut.across];
    }
    if (place.lane > 0 || place.channel >= cut.channels) return;
    for (int k = 0; k < WIDTH; k++)
        to[place.slab * cut.channels + place.channel + k] = part[k][thread];
}

/* Adds the slabs of the channel that a thread of QS__TOTAL_THREADS stands for; lane 0 has the total. All threads come. */
template <typename T> QS_CUDA_DEVICE double slabs_total(const qs__columns &cut, int64_t channel, int lane, const T *sums) {
    __shared__ double part[QS__TOTAL_THREADS];
    double sum = 0;
    if (channel < cut.channels) {
        for (int64_t slab = lane; slab < cut.slabs; slab += QS__TOTAL_LANES)
            sum += (double)sums[slab * cut.channels + channel];
    }
    __syncthreads();
    part[threadIdx.x] = sum;
    for (int half = QS__TOTAL_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) part[threadIdx.x] += part[threadIdx.x + (unsigned)half * QS__TOTAL_CHANNELS];
    }
    return part[threadIdx.x];
}

#endif
