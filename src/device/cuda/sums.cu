// SPDX-License-Identifier: Apache-2.0
/* Sums in double with the bits of the room `number`: the order of every addition is that of its vector kernels. */
#include "cuda/sums_jobs.h"
#include "cuda/values.cuh"

/* Lanes of the number room's kernels; squares go into two accumulators a lane, which a whole warp holds. */
constexpr int LANES = 16;

/* Elements of one piece from `first` on, with zeros behind the row's end. */
struct piece {
    int64_t first, end;
};

QS_CUDA_DEVICE piece piece_at(const qs__cuda_pieces_job &job, int64_t number) {
    const int64_t row = number / job.pieces, first = row * job.per_row + number % job.pieces * QS__CUDA_PIECE;
    const piece out = {first, least(first + QS__CUDA_PIECE, (row + 1) * job.per_row)};
    return out;
}

/* Adds term(x) of every `lanes`-th element from lane on, one after the other; eight loads are on their way at a time. */
template <int lanes, typename Term> QS_CUDA_DEVICE double lane_sum(const qs__cuda_values &v, piece of, int lane, Term term) {
    constexpr int AHEAD = 8;
    double sum = 0.0;
    for (int64_t i = of.first + lane; i < of.end; i += lanes * AHEAD) {
        float x[AHEAD];
        QS_CUDA_UNROLL
        for (int j = 0; j < AHEAD; j++)
            x[j] = i + j * lanes < of.end ? value_load(v, i + j * lanes) : 0.0f;
        QS_CUDA_UNROLL
        for (int j = 0; j < AHEAD; j++)
            sum += term(x[j]);
    }
    return sum;
}

/* Lanes `width` apart are added until one is left: all have it. */
QS_CUDA_DEVICE double lanes_join(double sum, int width) {
    for (; width > 0; width /= 2)
        sum += __shfl_xor_sync(WHOLE_WARP, sum, width);
    return sum;
}

/* A warp for each piece. */
QS_CUDA_GLOBAL(sums_squares, qs__cuda_pieces_job) {
    const int lane = (int)(threadIdx.x % WARP);
    for (int64_t p = thread_number() / WARP; p < job.rows * job.pieces; p += thread_count() / WARP) {
        const double sum = lane_sum<WARP>(job.src, piece_at(job, p), lane, [](float x) { return (double)x * (double)x; });
        const double all = lanes_join(sum, WARP / 2);
        if (lane == 0) pointer<double>(job.sums)[p] = all;
    }
}

/* f (1 - f) of the fractional part f of t, 0 <= t < 2^31. */
QS_CUDA_DEVICE double spread_of(double t) {
    const double f = t - (double)(int)t;
    return f * (1.0 - f);
}

/* 2^exponent. */
QS_CUDA_DEVICE double double_power(int exponent) {
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* The magnitude; 0 from `limit` on: what saturates, and what is not finite. */
QS_CUDA_DEVICE uint32_t below(float x, uint32_t limit) {
    const uint32_t magnitude = bits_of(x) & MAGNITUDE_BITS;
    return magnitude < limit ? magnitude : 0;
}

/* Half a warp for each piece; its halves meet even where one has none. sum(piece, number, lane) is a lane's, scale(number) goes on the whole. */
template <typename Sum, typename Scale> QS_CUDA_DEVICE void half_warps(const qs__cuda_pieces_job &job, Sum sum, Scale scale) {
    const int lane = (int)(threadIdx.x % LANES), half = (int)(threadIdx.x / LANES % 2);
    const int64_t pieces = job.rows * job.pieces;
    for (int64_t pair = thread_number() / WARP; 2 * pair < pieces; pair += thread_count() / WARP) {
        const int64_t p = 2 * pair + half;
        const double all = lanes_join(p < pieces ? sum(piece_at(job, p), p, lane) : 0.0, LANES / 2);
        if (lane == 0 && p < pieces) pointer<double>(job.sums)[p] = all * scale(p);
    }
}

QS_CUDA_GLOBAL(sums_variance_fixed, qs__cuda_pieces_job) {
    const auto step_of = [&](int64_t p) { return pointer<const float>(job.step)[p / job.pieces]; };
    const auto sum = [&](piece of, int64_t p, int lane) {
        const uint32_t limit = bits_of(step_of(p) * job.format.max);
        const double inverse = 1.0 / (double)step_of(p);
        return lane_sum<LANES>(job.src, of, lane, [&](float x) { return spread_of((double)float_of(below(x, limit)) * inverse); });
    };
    half_warps(job, sum, [&](int64_t p) { return (double)step_of(p) * (double)step_of(p); });
}

/* In a float format the step is the element's own: 2^exponent. */
QS_CUDA_GLOBAL(sums_variance_float, qs__cuda_pieces_job) {
    const float_plan plan = plan_of(job.format);
    const uint32_t limit = bits_of(job.format.max);
    const auto term = [&](float x) {
        const uint32_t magnitude = below(x, limit);
        const int exponent = largest((int)(magnitude >> 23), plan.min_field) - (127 + plan.mantissa_bits);
        return spread_of((double)float_of(magnitude) * double_power(-exponent)) * double_power(2 * exponent);
    };
    half_warps(
        job, [&](piece of, int64_t, int lane) { return lane_sum<LANES>(job.src, of, lane, term); }, [](int64_t) { return 1.0; });
}

QS_CUDA_GLOBAL(sums_slots, qs__cuda_slots_job) {
    __shared__ double slot[QS__CUDA_SLOTS];
    const int64_t run = (job.pieces + QS__CUDA_SLOTS - 1) / QS__CUDA_SLOTS, first = threadIdx.x * run;
    const double *sums = pointer<const double>(job.sums) + blockIdx.x * job.pieces;
    double sum = 0.0;
    for (int64_t p = first; p < least(first + run, job.pieces); p++)
        sum += sums[p];
    slot[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x > 0) return;
    sum = 0.0;
    for (int64_t s = 0; s * run < job.pieces; s++)
        sum += slot[s];
    pointer<double>(job.out)[blockIdx.x] = sum;
}
