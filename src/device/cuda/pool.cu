// SPDX-License-Identifier: Apache-2.0
/* max_pool, average_pool, global_average_pool. Threads take results or, backward, pixels, whose gradient they gather from the windows that
 * cover them: no two write one place. */
#include "cuda/pool_jobs.h"

#include "cuda/each.cuh"

/* From begin to end - 1: taps of a window inside the image, or the windows that reach over a place. */
struct span {
    int begin, end;
};

/* Of numbers from 0 on; 1 and 2 are what strides and dilations mostly are. */
QS_CUDA_DEVICE int quotient(int number, int by) {
    return by == 1 ? number : by == 2 ? number >> 1 : number / by;
}

/* Where tap k of a window reads. */
QS_CUDA_DEVICE int tap_place(const qs__pool_job &job, int axis, int result, int k) {
    return result * job.stride[axis] - job.padding[axis] + k * job.dilation[axis];
}

QS_CUDA_DEVICE span taps_of(const qs__pool_job &job, int axis, int result, int extent) {
    const int first = tap_place(job, axis, result, 0), step = job.dilation[axis];
    const span inside = {first < 0 ? (step - 1 - first) / step : 0, least((extent - first + step - 1) / step, job.kernel[axis])};
    return inside;
}

QS_CUDA_DEVICE span windows_over(const qs__pool_job &job, int axis, int place, int results) {
    const int reach = place + job.padding[axis], first = reach - (job.kernel[axis] - 1) * job.dilation[axis] - 1 + job.stride[axis];
    const span over = {first > 0 ? quotient(first, job.stride[axis]) : 0, least(quotient(reach, job.stride[axis]) + 1, results)};
    return over;
}

/* The tap by which a window that reaches over a place reads it; -1: none does. */
QS_CUDA_DEVICE int tap_at(const qs__pool_job &job, int axis, int place, int result) {
    const int from = place + job.padding[axis] - result * job.stride[axis], step = job.dilation[axis];
    const int tap = quotient(from, step);
    return tap * step == from ? tap : -1;
}

/* Where a thread's channels are: in an image [batch][height][width][channels]. */
struct spot {
    int64_t image;
    int row, column, channel;
};

QS_CUDA_DEVICE int64_t place_of(const qs__pool_job &job, const spot &at, int row, int column, int height, int width) {
    return (at.image * height * width + row * width + column) * job.channels + at.channel;
}

/* Calls use(spot, its element) for every `each` channels of images of this extent. Blocks go through memory together; a block takes a piece
 * of an image, so that places inside one are found in 32 bits. */
template <int each, typename Use> QS_CUDA_DEVICE void each_spot(const qs__pool_job &job, int height, int width, const Use &use) {
    const unsigned vectors = (unsigned)job.channels / each, across = (unsigned)width * vectors, plane = (unsigned)height * across;
    const unsigned pieces = (plane + blockDim.x - 1) / blockDim.x, images = gridDim.x / pieces, more = gridDim.x % pieces;
    unsigned piece = blockIdx.x % pieces;
    for (int64_t image = blockIdx.x / pieces; image < job.batch;) {
        const unsigned at = piece * blockDim.x + threadIdx.x, row = at / across, rest = at - row * across, column = rest / vectors;
        const spot here = {image, (int)row, (int)column, (int)(rest - column * vectors) * each};
        if (at < plane) use(here, (image * plane + at) * each);
        image += images;
        piece += more;
        if (piece < pieces) continue;
        piece -= pieces;
        image++;
    }
}

/* ---- max_pool ---- */

/* Taps of a row are loaded together, the last one instead of those behind it: what was compared once changes nothing again. */
template <int each, int kind> QS_CUDA_DEVICE void maximum(const qs__pool_job &job) {
    constexpr int AHEAD = kind == ANY_KIND ? 1 : 3;
    each_spot<each>(job, job.out_height, job.out_width, [&](const spot &at, int64_t i) {
        const span rows = taps_of(job, 0, at.row, job.height), columns = taps_of(job, 1, at.column, job.width);
        float best[each];
        uint8_t where[each];
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++) {
            best[k] = float_of(INFINITY_BITS | SIGN_BIT);
            where[k] = (uint8_t)(rows.begin * job.kernel[1] + columns.begin);
        }
        for (int kh = rows.begin; kh < rows.end; kh++) {
            const int row = tap_place(job, 0, at.row, kh);
            for (int kw = columns.begin; kw < columns.end; kw += AHEAD) {
                float x[AHEAD][each];
                QS_CUDA_UNROLL
                for (int tap = 0; tap < AHEAD; tap++) {
                    const int column = tap_place(job, 1, at.column, least(kw + tap, columns.end - 1));
                    load_kind<each, kind>(job.from, place_of(job, at, row, column, job.height, job.width), x[tap]);
                }
                QS_CUDA_UNROLL
                for (int tap = 0; tap < AHEAD; tap++) {
                    const uint8_t here = (uint8_t)(kh * job.kernel[1] + kw + tap);
                    QS_CUDA_UNROLL
                    for (int k = 0; k < each; k++) {
                        const bool wins = !(x[tap][k] <= best[k]) && best[k] == best[k]; /* a NaN wins, and nothing after it */
                        best[k] = wins ? x[tap][k] : best[k];
                        where[k] = wins ? here : where[k];
                    }
                }
            }
        }
        store_each<each>(job.to, i, best);
        if (job.mask) store_bytes<each>(job.mask, i, where);
    });
}

QS_CUDA_GLOBAL(qs__max_pool, qs__pool_job) {
    if (job.each == 8)
        with_common_kind(job.from.format.kind, [&](auto kind) { maximum<8, decltype(kind)::value>(job); });
    else
        maximum<1, ANY_KIND>(job);
}

/* Two windows of a row are loaded together, the last one instead of one behind it, whose tap is none. */
template <int each, int kind> QS_CUDA_DEVICE void maximum_gradient(const qs__pool_job &job) {
    constexpr int AHEAD = kind == ANY_KIND ? 1 : 2;
    each_spot<each>(job, job.height, job.width, [&](const spot &at, int64_t i) {
        const span rows = windows_over(job, 0, at.row, job.out_height), columns = windows_over(job, 1, at.column, job.out_width);
        float sum[each] = {0};
        for (int row = rows.begin; row < rows.end; row++) {
            const int kh = tap_at(job, 0, at.row, row);
            for (int first = columns.begin; first < columns.end; first += AHEAD) {
                float x[AHEAD][each];
                uint8_t where[AHEAD][each];
                QS_CUDA_UNROLL
                for (int w = 0; w < AHEAD; w++) {
                    const int64_t from = place_of(job, at, row, least(first + w, columns.end - 1), job.out_height, job.out_width);
                    load_kind<each, kind>(job.from, from, x[w]);
                    load_bytes<each>(job.mask, from, where[w]);
                }
                QS_CUDA_UNROLL
                for (int w = 0; w < AHEAD; w++) {
                    const int kw = first + w < columns.end ? tap_at(job, 1, at.column, first + w) : -1;
                    const int here = kh < 0 || kw < 0 ? -1 : kh * job.kernel[1] + kw;
                    QS_CUDA_UNROLL
                    for (int k = 0; k < each; k++)
                        sum[k] += where[w][k] == here ? x[w][k] : 0;
                }
            }
        }
        store_each<each>(job.to, i, sum);
    });
}

QS_CUDA_GLOBAL(qs__max_pool_gradient, qs__pool_job) {
    if (job.each == 8)
        with_common_kind(job.from.format.kind, [&](auto kind) { maximum_gradient<8, decltype(kind)::value>(job); });
    else
        maximum_gradient<1, ANY_KIND>(job);
}

/* ---- average_pool ---- */

/* What a sum is divided by. */
QS_CUDA_DEVICE float elements_of(const qs__pool_job &job, const span &rows, const span &columns) {
    return (float)(job.count_padding ? job.kernel[0] * job.kernel[1] : (rows.end - rows.begin) * (columns.end - columns.begin));
}

template <int each> QS_CUDA_DEVICE void mean(const qs__pool_job &job) {
    each_spot<each>(job, job.out_height, job.out_width, [&](const spot &at, int64_t i) {
        const span rows = taps_of(job, 0, at.row, job.height), columns = taps_of(job, 1, at.column, job.width);
        const float inside = elements_of(job, rows, columns);
        float sum[each] = {0}, x[each];
        for (int kh = rows.begin; kh < rows.end; kh++)
            for (int kw = columns.begin; kw < columns.end; kw++) {
                const int row = tap_place(job, 0, at.row, kh), column = tap_place(job, 1, at.column, kw);
                load_each<each>(job.from, place_of(job, at, row, column, job.height, job.width), x);
                QS_CUDA_UNROLL
                for (int k = 0; k < each; k++)
                    sum[k] += x[k];
            }
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++)
            sum[k] /= inside;
        store_each<each>(job.to, i, sum);
    });
}

QS_CUDA_GLOBAL(qs__average_pool, qs__pool_job) {
    if (job.each == 8)
        mean<8>(job);
    else
        mean<1>(job);
}

template <int each> QS_CUDA_DEVICE void mean_gradient(const qs__pool_job &job) {
    each_spot<each>(job, job.height, job.width, [&](const spot &at, int64_t i) {
        const span rows = windows_over(job, 0, at.row, job.out_height), columns = windows_over(job, 1, at.column, job.out_width);
        float sum[each] = {0}, x[each];
        for (int row = rows.begin; row < rows.end; row++)
            for (int column = columns.begin; column < columns.end; column++) {
                if (tap_at(job, 0, at.row, row) < 0 || tap_at(job, 1, at.column, column) < 0) continue;
                const float inside = elements_of(job, taps_of(job, 0, row, job.height), taps_of(job, 1, column, job.width));
                load_each<each>(job.from, place_of(job, at, row, column, job.out_height, job.out_width), x);
                QS_CUDA_UNROLL
                for (int k = 0; k < each; k++)
                    sum[k] += x[k] / inside;
            }
        store_each<each>(job.to, i, sum);
    });
}

QS_CUDA_GLOBAL(qs__average_pool_gradient, qs__pool_job) {
    if (job.each == 8)
        mean_gradient<8>(job);
    else
        mean_gradient<1>(job);
}

/* ---- global_average_pool ---- */

QS_CUDA_DEVICE float *parts_of_block() {
    __shared__ float part[QS__POOL_THREADS * 8];
    return part;
}

/* A block takes `lanes` neighbouring threads' channels of an image; each of its rows of threads sums every so many-th position, and a tree
 * adds up the rows. */
template <int each, int kind> QS_CUDA_DEVICE void whole_mean(const qs__pool_job &job) {
    constexpr int AHEAD = kind == ANY_KIND ? 1 : 4;
    float *const part = parts_of_block();
    const int lanes = job.lanes, rows = QS__POOL_THREADS / lanes, row = (int)threadIdx.x / lanes;
    const int64_t positions = (int64_t)job.height * job.width, wide = (int64_t)lanes * each;
    const int64_t pieces = (job.channels + wide - 1) / wide; /* of an image */
    for (int64_t piece = blockIdx.x; piece < job.batch * pieces; piece += gridDim.x) {
        const int64_t image = piece / pieces, channel = piece % pieces * wide + (int64_t)(threadIdx.x % lanes) * each;
        float sum[each] = {0};
        for (int64_t first = row; first < positions && channel < job.channels; first += AHEAD * rows) {
            float x[AHEAD][each];
            QS_CUDA_UNROLL
            for (int p = 0; p < AHEAD; p++) /* the last one instead of those behind it */
                load_kind<each, kind>(job.from, (image * positions + least(first + p * rows, positions - 1)) * job.channels + channel,
                                      x[p]);
            QS_CUDA_UNROLL
            for (int p = 0; p < AHEAD; p++) {
                if (first + p * rows >= positions) continue;
                QS_CUDA_UNROLL
                for (int k = 0; k < each; k++)
                    sum[k] += x[p][k];
            }
        }
        for (int half = rows / 2; half > 0; half /= 2) {
            __syncthreads(); /* what was there before is read */
            QS_CUDA_UNROLL
            for (int k = 0; k < each; k++)
                part[k * QS__POOL_THREADS + threadIdx.x] = sum[k];
            __syncthreads();
            if (row >= half) continue;
            QS_CUDA_UNROLL
            for (int k = 0; k < each; k++)
                sum[k] += part[k * QS__POOL_THREADS + threadIdx.x + half * lanes];
        }
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++)
            sum[k] /= (float)positions;
        if (row == 0 && channel < job.channels) store_each<each>(job.to, image * job.channels + channel, sum);
    }
}

QS_CUDA_GLOBAL(qs__global_average_pool, qs__pool_job) {
    if (job.each == 8)
        with_common_kind(job.from.format.kind, [&](auto kind) { whole_mean<8, decltype(kind)::value>(job); });
    else
        whole_mean<1, ANY_KIND>(job);
}

template <int each> QS_CUDA_DEVICE void whole_mean_gradient(const qs__pool_job &job) {
    const int64_t positions = (int64_t)job.height * job.width;
    each_spot<each>(job, job.height, job.width, [&](const spot &at, int64_t i) {
        float x[each];
        load_each<each>(job.from, at.image * job.channels + at.channel, x);
        QS_CUDA_UNROLL
        for (int k = 0; k < each; k++)
            x[k] /= (float)positions;
        store_each<each>(job.to, i, x);
    });
}

QS_CUDA_GLOBAL(qs__global_average_pool_gradient, qs__pool_job) {
    if (job.each == 8)
        whole_mean_gradient<8>(job);
    else
        whole_mean_gradient<1>(job);
}
