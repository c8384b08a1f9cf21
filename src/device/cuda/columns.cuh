// SPDX-License-Identifier: Apache-2.0
/* Walking columns (columns_jobs.h), and values of a format that the compiler knows: where a kernel is bound by memory, a branch for each
 * vector keeps loads from being on their way at once. */
#ifndef QSYNC_DEVICE_CUDA_COLUMNS_CUH
#define QSYNC_DEVICE_CUDA_COLUMNS_CUH

#include "cuda/beside.cuh"
#include "cuda/columns_jobs.h"
#include "cuda/each.cuh"

/* ---- Values of a known format ------------------------------------------------------------------------------------------------------ */

/* The same values, of this kind (with_common_kind); vectors of eight end where the values do. */
template <int KIND> QS_CUDA_DEVICE qs__cuda_values of_kind(qs__cuda_values values) {
    if (KIND != ANY_KIND) {
        values.format.kind = KIND;
        values.count = INT64_MAX;
    }
    return values;
}

/* Vectors of eight that a thread has on their way: 64 bytes, or one of a kind that the compiler does not know. */
template <int KIND> constexpr int vectors_ahead = KIND == ANY_KIND ? 1 : KIND == QS__CUDA_FP32 ? 2 : 4;
template <int KIND> constexpr int pairs_ahead = (vectors_ahead<KIND> + 1) / 2;

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

/* ---- Results, the relu behind them, and what is beside ------------------------------------------------------------------------------ */

/* Writes results by eights: rounded to their format, then through the relu where there is one, with a bit each that says where
 * backward lets a gradient pass. Codes of magnitudes grow as magnitudes do, those of NaN are above all. */
template <int KIND, bool RELU> struct result_writer {
    qs__cuda_values dst;
    uint64_t mask, absmax; /* 0: not wanted */
    float limit;           /* relu_behind8 */
    uint32_t cap, most;    /* codes */

    QS_CUDA_DEVICE_MEMBER result_writer(const qs__cuda_values &values, float ceiling, uint64_t mask_bytes, uint64_t largest_one)
        : dst(of_kind<KIND>(values)), mask(mask_bytes), absmax(largest_one), limit(relu_limit(ceiling)),
          cap(RELU ? code_of(dst.format, ceiling) : 0), most(0) {
    }
    QS_CUDA_DEVICE_MEMBER void put(int64_t at, const float y[8]) {
        uint32_t code[8];
        codes_of8(dst.format, y, code);
        if (RELU) {
            float rounded[8];
            values_of8(dst.format, code, rounded);
            uint32_t bits = relu_behind8(limit, cap, rounded, code);
            if (KIND == ANY_KIND && at + 8 > dst.count) bits &= (1u << (dst.count - at)) - 1;
            if (mask) pointer<uint8_t>(mask)[at >> 3] = (uint8_t)bits;
        }
        code_store8(dst, at, code);
        if (!absmax) return;
        const uint32_t magnitude = dst.format.bits == 32 ? MAGNITUDE_BITS : (1u << (dst.format.bits - 1)) - 1;
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            if (KIND != ANY_KIND || at + k < dst.count) most = largest(most, code[k] & magnitude);
    }
    /* All threads of the block come. */
    QS_CUDA_DEVICE_MEMBER void finish() const {
        absmax_deliver(absmax, dst.format, bits_of(value_of(dst.format, most)) & MAGNITUDE_BITS);
    }
};

/* ---- A thread's place -------------------------------------------------------------------------------------------------------------- */

struct column_place {
    int64_t channel;
    int64_t row, count; /* its first row, and how many it has */
    int64_t stop;       /* or where rows end, of slabs that lie one behind the other */
    int64_t step;       /* from one of its rows to the next */
    int64_t slab;
    int64_t vector; /* of the channel in vectors that parts have each for themselves */
    int lane;       /* among those with the same channels */
};

QS_CUDA_DEVICE column_place column_place_of(const qs__columns &cut) {
    const int thread = (int)threadIdx.x, lane = thread / cut.across;
    column_place out = {};
    out.slab = blockIdx.x / (unsigned)cut.tiles;
    out.lane = lane;
    out.channel = ((int64_t)(blockIdx.x % (unsigned)cut.tiles) * cut.across + thread % cut.across) * cut.width;
    const int64_t part = out.slab / cut.part_slabs, first = out.slab % cut.part_slabs * cut.down + lane;
    out.vector = part * cut.channels + out.channel;
    out.row = part * cut.part_rows + first;
    out.step = cut.part_slabs * cut.down;
    out.count = first < cut.part_rows ? (cut.part_rows - first + out.step - 1) / out.step : 0;
    if (lane >= cut.down || out.channel >= cut.channels) out.count = 0;
    return out;
}

/* Where the thread's rows are in memory, from the last one back: elements, and how far it is from one to the next. */
struct column_walk {
    int64_t left, at, step;
};

QS_CUDA_DEVICE column_walk walk_back(const qs__columns &cut, const column_place &place) {
    const column_walk out = {place.count, (place.row + (place.count - 1) * place.step) * cut.channels + place.channel,
                             -place.step * cut.channels};
    return out;
}

QS_CUDA_DEVICE column_walk walk_forth(const qs__columns &cut, const column_place &place) {
    const column_walk out = {place.count, place.row * cut.channels + place.channel, place.step * cut.channels};
    return out;
}

/* ---- Sums ---------------------------------------------------------------------------------------------------------------------------- */

/* Joins, as a tree, what the block's threads have of their channels in WIDTH rows of `part`: those of lane 0 have all of it then. All
 * threads come. */
template <int WIDTH, typename T, typename Two>
QS_CUDA_DEVICE void slab_tree(const qs__columns &cut, const column_place &place, T (*part)[QS__COLUMN_THREADS], Two two) {
    const int thread = (int)threadIdx.x;
    int half = 1;
    while (half < cut.down)
        half *= 2;
    for (half /= 2; half > 0; half /= 2) {
        __syncthreads();
        if (place.lane < half && place.lane + half < cut.down)
            for (int k = 0; k < WIDTH; k++)
                part[k][thread] = two(part[k][thread], part[k][thread + half * cut.across]);
    }
}

/* Joins what the block's threads have of each channel; true for those that then hold it, of all rows of the slab. All threads come. */
template <int WIDTH, typename T, typename Two>
QS_CUDA_DEVICE bool slab_join(const qs__columns &cut, const column_place &place, T of[WIDTH], Two two) {
    __shared__ T part[WIDTH][QS__COLUMN_THREADS];
    const int thread = (int)threadIdx.x;
    if (cut.down == 1) return place.lane == 0 && place.channel < cut.channels; /* all threads */
    __syncthreads();                                                           /* who reads the sums before these is done */
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        part[k][thread] = of[k];
    slab_tree<WIDTH>(cut, place, part, two);
    QS_CUDA_UNROLL
    for (int k = 0; k < WIDTH; k++)
        of[k] = part[k][thread];
    return place.lane == 0 && place.channel < cut.channels;
}

/* Two sums of each of a thread's channels, in shared memory: registers are for loads on their way. */
typedef double column_sum[QS__COLUMN_THREADS];
QS_CUDA_DEVICE column_sum *column_sums_of_block() {
    __shared__ column_sum part[2 * 8];
    return part;
}

/* The thread's own. What is added goes to memory each time: a compiler would keep sums in registers all the same. */
QS_CUDA_DEVICE void column_sums_clear(column_sum *part) {
    QS_CUDA_UNROLL
    for (int k = 0; k < 2 * 8; k++)
        part[k][threadIdx.x] = 0;
}

QS_CUDA_DEVICE void column_sum_add(column_sum &part, double more) {
    volatile double *const own = &part[threadIdx.x];
    *own = *own + more;
}

/* Adds what the block's threads have of each channel, in WIDTH rows of `part`, and writes it at [slab][channel] of `to`. All threads
 * come. */
template <int WIDTH> QS_CUDA_DEVICE void slab_sums(const qs__columns &cut, const column_place &place, column_sum *part, double *to) {
    slab_tree<WIDTH>(cut, place, part, sum_of());
    if (place.lane > 0 || place.channel >= cut.channels) return;
    for (int k = 0; k < WIDTH; k++)
        to[place.slab * cut.channels + place.channel + k] = part[k][threadIdx.x];
}

/* Joins the slabs of the channel that a thread of QS__TOTAL_THREADS stands for, from 0 on; lane 0 has the total. All threads come. */
template <typename T, typename Each, typename Two>
QS_CUDA_DEVICE T slabs_join(const qs__columns &cut, int64_t channel, int lane, const Each *of, Two two) {
    __shared__ T part[QS__TOTAL_THREADS];
    T all = 0;
    if (channel < cut.channels) {
        for (int64_t slab = lane; slab < cut.slabs; slab += QS__TOTAL_LANES)
            all = two(all, (T)of[slab * cut.channels + channel]);
    }
    __syncthreads();
    part[threadIdx.x] = all;
    for (int half = QS__TOTAL_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) part[threadIdx.x] = two(part[threadIdx.x], part[threadIdx.x + (unsigned)half * QS__TOTAL_CHANNELS]);
    }
    return part[threadIdx.x];
}

template <typename T> QS_CUDA_DEVICE double slabs_total(const qs__columns &cut, int64_t channel, int lane, const T *sums) {
    return slabs_join<double>(cut, channel, lane, sums, sum_of());
}

#endif
