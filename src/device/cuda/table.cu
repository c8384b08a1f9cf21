// SPDX-License-Identifier: Apache-2.0
/* Gradients that are sums of rows, in fp32, each in the order of positions: the bits of the reference, which do not depend on who came
 * first. */
#include "cuda/table_jobs.h"

#include "cuda/each.cuh"

static_assert(QS__READERS == WARP, "a lane for each position of a list");
static_assert(QS__PIECE_IDS == 8, "two packets");

/* Two tiles a block, whatever kernel they are part of. */
typedef float tile_row[QS__SUM_COLUMNS];
QS_CUDA_DEVICE tile_row *tiles_of_block() {
    __shared__ tile_row tile[2 * QS__SUM_TILE];
    return tile;
}

/* Adds `count` rows to the sum of this thread's column, threadIdx.x < QS__SUM_COLUMNS. One thread adds up a column while others load the
 * next tile of rows. Row r begins at element row_at(r) of `v`; columns from `first` on are summed, as far as they are below `columns`. All
 * threads of a block of QS__SUM_THREADS call it. */
template <int each, typename Row>
QS_CUDA_DEVICE void ordered_sum(const qs__cuda_values &v, int64_t count, Row row_at, int64_t first, int64_t columns, float &sum) {
    constexpr int WIDE = QS__SUM_COLUMNS / each, AT_ONCE = 16;
    tile_row *const tiles = tiles_of_block();
    const int inside = (int)least<int64_t>(columns - first, QS__SUM_COLUMNS), loader = (int)threadIdx.x - WARP;
    for (int64_t begin = -QS__SUM_TILE; begin < count; begin += QS__SUM_TILE) {
        const int64_t next = begin + QS__SUM_TILE;
        tile_row *const to = tiles + next % (2 * QS__SUM_TILE), *const from = tiles + QS__SUM_TILE - next % (2 * QS__SUM_TILE);
        const int wanted = (int)least<int64_t>(count - next, QS__SUM_TILE) * WIDE;
        for (int at = loader; loader >= 0 && at < wanted; at += QS__SUM_LOADERS) {
            const int row = at / WIDE, column = at % WIDE * each;
            float x[each];
            if (column >= inside) continue;
            load_each<each>(v, row_at(next + row) + first + column, x);
            QS_CUDA_UNROLL
            for (int k = 0; k < each; k++)
                to[row][column + k] = x[k];
        }
        if (begin >= 0 && (int)threadIdx.x < inside) {
            const int rows = (int)least<int64_t>(count - begin, QS__SUM_TILE);
            int row = 0;
            for (; row + AT_ONCE <= rows; row += AT_ONCE) { /* reads do not wait for sums */
                float x[AT_ONCE];
                QS_CUDA_UNROLL
                for (int k = 0; k < AT_ONCE; k++)
                    x[k] = from[row + k][threadIdx.x];
                QS_CUDA_UNROLL
                for (int k = 0; k < AT_ONCE; k++)
                    sum += x[k];
            }
            for (; row < rows; row++)
                sum += from[row][threadIdx.x];
        }
        __syncthreads();
    }
}

/* ---- The gradient of an embedding ----
 *
 * Readers are put into the lists of their rows in any order; a warp sorts a row's list, which few rows have more than a handful in. Rows
 * with long lists (padding, types of tokens) are summed by blocks, which go through all ids instead. */

QS_CUDA_GLOBAL(qs__table_list, qs__table_job) {
    int *const count = pointer<int>(job.count), *const list = pointer<int>(job.list);
    for (int64_t i = thread_number(); i < job.positions; i += thread_count()) {
        const int id = pointer<const int>(job.ids)[i];
        if (id < 0 || id >= job.rows) {
            complain(job.complaint, job.number, id, i);
            continue;
        }
        const int at = atomicAdd(count + id, 1);
        if (at < QS__READERS)
            list[(int64_t)id * QS__READERS + at] = (int)i;
        else if (at == QS__READERS)
            pointer<int>(job.longs)[atomicAdd(count + job.rows, 1)] = id;
    }
}

/* The list of a row, the lane's position of it, put into order: lane j has the j-th. */
QS_CUDA_DEVICE int sorted(int position, int count) {
    const int lane = (int)threadIdx.x % WARP;
    int rank = 0, mine = position;
    for (int k = 0; k < count; k++)
        rank += __shfl_sync(WHOLE_WARP, position, k) < position;
    for (int k = 0; k < count; k++) {
        const int place = __shfl_sync(WHOLE_WARP, rank, k), other = __shfl_sync(WHOLE_WARP, position, k);
        if (place == lane) mine = other;
    }
    return mine;
}

template <int each, int kind> QS_CUDA_DEVICE void short_row(const qs__table_job &job, int64_t row, int count) {
    constexpr int AT_ONCE = 2; /* rows on their way */
    const int lane = (int)threadIdx.x % WARP;
    const int position = lane < count ? pointer<const int>(job.list)[row * QS__READERS + lane] : INT32_MAX;
    const int mine = count > 1 ? sorted(position, count) : position;
    for (int64_t begin = 0; begin < job.columns; begin += WARP * each) {
        const int64_t column = begin + lane * each;
        const bool inside = column < job.columns;
        float sum[each] = {0};
        if (job.accumulate && inside) load_floats<each>(job.sums, row * job.columns + column, sum);
        for (int k = 0; k < count; k += AT_ONCE) {
            float x[AT_ONCE][each] = {};
            QS_CUDA_UNROLL
            for (int r = 0; r < AT_ONCE; r++) {
                const int64_t reader = __shfl_sync(WHOLE_WARP, mine, (k + r) % WARP);
                if (inside && k + r < count) load_kind<each, kind>(job.diff, reader * job.columns + column, x[r]);
            }
            QS_CUDA_UNROLL
            for (int r = 0; r < AT_ONCE; r++) {
                QS_CUDA_UNROLL
                for (int j = 0; j < each; j++)
                    sum[j] = inside && k + r < count ? sum[j] + x[r][j] : sum[j];
            }
        }
        if (inside) store_floats<each>(job.sums, row * job.columns + column, sum);
    }
}

constexpr int PIECE = QS__SUM_THREADS * QS__PIECE_IDS; /* ids */
QS_CUDA_DEVICE int *readers_of_block() {
    __shared__ int reader[PIECE];
    return reader;
}

/* Columns `first` and on of a row that many read: its readers are found piece by piece of the ids, each thread looking at neighbouring
 * ones, so that they come in order. */
template <int each> QS_CUDA_DEVICE void long_row(const qs__table_job &job, int id, int64_t first) {
    constexpr int WARPS = QS__SUM_THREADS / WARP;
    int *const reader = readers_of_block();
    __shared__ int of_warp[WARPS];
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const int64_t column = first + threadIdx.x;
    const bool adds = threadIdx.x < QS__SUM_COLUMNS && column < job.columns;
    float *const result = pointer<float>(job.sums) + id * job.columns + column;
    float sum = adds && job.accumulate ? *result : 0;
    for (int64_t begin = 0; begin < job.positions; begin += PIECE) {
        const int64_t mine = begin + (int64_t)threadIdx.x * QS__PIECE_IDS;
        uint32_t reads = 0;
        if (mine + QS__PIECE_IDS <= job.positions) {
            const auto ids = packet_load<4>(pointer<const int>(job.ids) + mine),
                       more = packet_load<4>(pointer<const int>(job.ids) + mine + 4);
            QS_CUDA_UNROLL
            for (int k = 0; k < 4; k++)
                reads |= (uint32_t)((int)ids.word[k] == id) << k | (uint32_t)((int)more.word[k] == id) << (k + 4);
        } else {
            for (int k = 0; k < QS__PIECE_IDS && mine + k < job.positions; k++)
                reads |= (uint32_t)(pointer<const int>(job.ids)[mine + k] == id) << k;
        }
        int before = __popc(reads); /* up to this thread, in its warp */
        for (int distance = 1; distance < WARP; distance *= 2) {
            const int other = __shfl_up_sync(WHOLE_WARP, before, (unsigned)distance);
            if (lane >= distance) before += other;
        }
        if (lane == WARP - 1) of_warp[warp] = before;
        before -= __popc(reads);
        __syncthreads();
        int all = 0;
        for (int w = 0; w < WARPS; w++) {
            if (w == warp) before += all;
            all += of_warp[w];
        }
        for (int k = 0; k < QS__PIECE_IDS; k++)
            if (reads >> k & 1) reader[before++] = (int)(mine + k);
        __syncthreads();
        const auto row_at = [&](int64_t r) { return reader[r] * job.columns; };
        ordered_sum<each>(job.diff, all, row_at, first, job.columns, sum);
    }
    if (adds) *result = sum;
}

template <int each> QS_CUDA_DEVICE void table_rows(const qs__table_job &job) {
    constexpr int WARPS = QS__SUM_THREADS / WARP;
    const int *const count = pointer<const int>(job.count);
    if (blockIdx.x < job.long_blocks) {
        const int64_t pieces = (job.columns + QS__SUM_COLUMNS - 1) / QS__SUM_COLUMNS, tasks = count[job.rows] * pieces;
        for (int64_t task = blockIdx.x; task < tasks; task += job.long_blocks)
            long_row<each>(job, pointer<const int>(job.longs)[task / pieces], task % pieces * QS__SUM_COLUMNS);
        return;
    }
    const int64_t warps = (gridDim.x - job.long_blocks) * WARPS;
    for (int64_t row = (blockIdx.x - job.long_blocks) * WARPS + threadIdx.x / WARP; row < job.rows; row += warps)
        if (count[row] <= QS__READERS)
            with_common_kind(job.diff.format.kind, [&](auto kind) { short_row<each, decltype(kind)::value>(job, row, count[row]); });
}

QS_CUDA_GLOBAL(qs__table_sum, qs__table_job) {
    if (job.each == 8)
        table_rows<8>(job);
    else
        table_rows<1>(job);
}

/* ---- Tables of positions, class tokens: sums over the samples ---- */

template <int each> QS_CUDA_DEVICE void row_sum(const qs__row_sum_job &job) {
    const int place = job.place ? *pointer<const int>(job.place) : 0;
    if (place < 0 || place > job.last) {
        if (thread_number() == 0) complain(job.complaint, job.number, place, 0);
        return; /* all threads */
    }
    const auto row_at = [&](int64_t r) { return r * job.step; };
    const int64_t pieces = (job.columns + QS__SUM_COLUMNS - 1) / QS__SUM_COLUMNS;
    for (int64_t piece = blockIdx.x; piece < pieces; piece += gridDim.x) {
        const int64_t first = piece * QS__SUM_COLUMNS, column = first + threadIdx.x;
        float sum = 0;
        ordered_sum<each>(job.diff, job.rows, row_at, first, job.columns, sum);
        if (threadIdx.x < QS__SUM_COLUMNS && column < job.columns) pointer<float>(job.sums)[place * job.channels + column] = sum;
    }
}

QS_CUDA_GLOBAL(qs__row_sum, qs__row_sum_job) {
    if (job.each == 8)
        row_sum<8>(job);
    else
        row_sum<1>(job);
}

/* ---- What was gathered ---- */

/* A warp takes a position and looks for who took it, WARP of them at a time. */
template <int each> QS_CUDA_DEVICE void scatter(const qs__scatter_job &job) {
    const int lane = (int)threadIdx.x % WARP;
    for (int64_t row = thread_number() / WARP; row < job.samples * job.positions; row += thread_count() / WARP) {
        const int64_t sample = row / job.positions, position = row % job.positions;
        for (int64_t begin = 0; begin < job.channels; begin += WARP * each) {
            const int64_t channel = begin + lane * each;
            float sum[each] = {0};
            for (int64_t first = sample * job.taken; first < (sample + 1) * job.taken; first += WARP) {
                const int64_t mine = first + lane;
                const int id = mine < (sample + 1) * job.taken ? pointer<const int>(job.ids)[mine] : (int)position - 1;
                unsigned takers = __ballot_sync(WHOLE_WARP, id == position);
                if (position == 0 && begin == 0 && mine < (sample + 1) * job.taken && (id < 0 || id >= job.positions))
                    complain(job.complaint, job.number, id, mine);
                for (; takers; takers &= takers - 1) {
                    float x[each];
                    if (channel >= job.channels) break;
                    load_each<each>(job.diff, (first + __ffs((int)takers) - 1) * job.channels + channel, x);
                    QS_CUDA_UNROLL
                    for (int k = 0; k < each; k++)
                        sum[k] += x[k];
                }
            }
            if (channel < job.channels) store_each<each>(job.to, row * job.channels + channel, sum);
        }
    }
}

QS_CUDA_GLOBAL(qs__scatter, qs__scatter_job) {
    if (job.each == 8)
        scatter<8>(job);
    else
        scatter<1>(job);
}
