// SPDX-License-Identifier: Apache-2.0
/* Axes in another order. Where the fastest axis stays the fastest, its values move in the widest units that it is made of; else tiles are
 * read along the input's fastest axis, and written along the result's, through shared memory. */
#include "cuda/permute_jobs.h"

#include "cuda/values.cuh"

struct places {
    int64_t from, to;
};

/* Of number `number` among the axes before `axes`, but for the one left out (-1: none). */
QS_CUDA_DEVICE places places_of(const qs__permuted &of, int axes, int left_out, int64_t number) {
    places out = {0, 0};
    QS_CUDA_UNROLL
    for (int a = QS__PERMUTE_AXES - 1; a >= 0; a--) {
        if (a >= axes || a == left_out) continue;
        const int64_t slower = a == 0 ? 0 : number / of.extent[a], index = number - slower * of.extent[a];
        out.from += index * of.from_step[a];
        out.to += index * of.to_step[a];
        number = slower;
    }
    return out;
}

/* ---- The last axis stays ------------------------------------------------------------------------------------------------------------ */

template <typename unit> QS_CUDA_DEVICE void permute_rows(const qs__permute_job &job) {
    for (int64_t i = thread_number(); i < job.count; i += thread_count())
        pointer<unit>(job.to.at)[i] = pointer<const unit>(job.from.at)[places_of(job.axes, job.axes.axes, -1, i).from];
}

QS_CUDA_GLOBAL(qs__permute_rows_1, qs__permute_job) {
    permute_rows<uint8_t>(job);
}

QS_CUDA_GLOBAL(qs__permute_rows_2, qs__permute_job) {
    permute_rows<uint16_t>(job);
}

QS_CUDA_GLOBAL(qs__permute_rows_4, qs__permute_job) {
    permute_rows<uint32_t>(job);
}

QS_CUDA_GLOBAL(qs__permute_rows_8, qs__permute_job) {
    permute_rows<uint2>(job);
}

QS_CUDA_GLOBAL(qs__permute_rows_16, qs__permute_job) {
    permute_rows<uint4>(job);
}

/* ---- It does not -------------------------------------------------------------------------------------------------------------------- */

/* rows × columns of a tile, from `from` on, columns `step` codes apart. Several loads are on their way at a time. */
template <typename code>
QS_CUDA_DEVICE void tile_read(const qs__permute_job &job, const code *from, int64_t step, int rows, int columns, uint32_t *room) {
    constexpr int EACH = 16 / (int)sizeof(code), AHEAD = 4, SINGLES_AHEAD = 8;
    const int thread = (int)threadIdx.x;
    if (job.packed_from) {
        const int wide = rows / EACH, all = wide * columns;
        for (int i = thread; i < all; i += AHEAD * QS__PERMUTE_THREADS) {
            packet<4> x[AHEAD];
            int at[AHEAD];
            QS_CUDA_UNROLL
            for (int a = 0; a < AHEAD; a++) {
                const int number = least(i + a * QS__PERMUTE_THREADS, all - 1), column = number / wide, r = number - column * wide;
                x[a] = packet_load<4>(from + column * step + r * EACH);
                at[a] = column * job.pitch + 4 * r;
            }
            QS_CUDA_UNROLL
            for (int a = 0; a < AHEAD; a++) {
                if (i + a * QS__PERMUTE_THREADS >= all) break;
                QS_CUDA_UNROLL
                for (int w = 0; w < 4; w++)
                    room[at[a] + w] = x[a].word[w];
            }
        }
        return;
    }
    const int all = rows * columns;
    for (int i = thread; i < all; i += SINGLES_AHEAD * QS__PERMUTE_THREADS) {
        code x[SINGLES_AHEAD];
        int at[SINGLES_AHEAD];
        QS_CUDA_UNROLL
        for (int a = 0; a < SINGLES_AHEAD; a++) {
            const int number = least(i + a * QS__PERMUTE_THREADS, all - 1), column = number / rows, row = number - column * rows;
            x[a] = from[column * step + row];
            at[a] = column * job.pitch * (int)(sizeof *room / sizeof(code)) + row;
        }
        QS_CUDA_UNROLL
        for (int a = 0; a < SINGLES_AHEAD; a++)
            if (i + a * QS__PERMUTE_THREADS < all) ((code *)room)[at[a]] = x[a];
    }
}

/* And to `to` on, rows `step` codes apart. Lanes of a warp have eight rows of four packets: whole sectors of memory, and few of a bank. */
template <typename code>
QS_CUDA_DEVICE void tile_write(const qs__permute_job &job, code *to, int64_t step, int rows, int columns, const uint32_t *room) {
    constexpr int EACH = 16 / (int)sizeof(code), ACROSS = 4, DOWN = WARP / ACROSS;
    const int thread = (int)threadIdx.x, pitch = job.pitch * (int)(sizeof *room / sizeof(code));
    const code *const codes = (const code *)room;
    if (job.packed_to) {
        const int wide = columns / EACH, across = (wide + ACROSS - 1) / ACROSS, all = across * ((rows + DOWN - 1) / DOWN);
        for (int i = thread; i < all * WARP; i += QS__PERMUTE_THREADS) {
            const int square = i / WARP, lane = i % WARP, down = square / across;
            const int r = down * DOWN + lane / ACROSS, p = (square - down * across) * ACROSS + lane % ACROSS;
            code x[EACH];
            packet<4> out;
            if (r >= rows || p >= wide) continue;
            QS_CUDA_UNROLL
            for (int k = 0; k < EACH; k++)
                x[k] = codes[(p * EACH + k) * pitch + r];
            memcpy(&out, x, sizeof out);
            packet_store(to + r * step + p * EACH, out);
        }
        return;
    }
    for (int i = thread; i < rows * columns; i += QS__PERMUTE_THREADS) {
        const int row = i / columns, column = i - row * columns;
        to[row * step + column] = codes[column * pitch + row];
    }
}

template <typename code> QS_CUDA_DEVICE void permute_tiles(const qs__permute_job &job) {
    __shared__ uint32_t room[QS__PERMUTE_WORDS];
    const int last = job.axes.axes - 1, fast = job.axes.fast;
    const int64_t from_step = job.axes.from_step[last], to_step = job.axes.to_step[fast];
    for (int64_t tile = blockIdx.x; tile < job.count; tile += gridDim.x) {
        const int64_t band = tile / job.column_tiles, column = (tile - band * job.column_tiles) * job.columns;
        const int64_t number = band / job.row_tiles, row = (band - number * job.row_tiles) * job.rows;
        const int rows = (int)least<int64_t>(job.rows, job.axes.extent[fast] - row);
        const int columns = (int)least<int64_t>(job.columns, job.axes.extent[last] - column);
        const places at = places_of(job.axes, last, fast, number);
        __syncthreads(); /* the tile before was written */
        tile_read(job, pointer<const code>(job.from.at) + at.from + row + column * from_step, from_step, rows, columns, room);
        __syncthreads();
        tile_write(job, pointer<code>(job.to.at) + at.to + row * to_step + column, to_step, rows, columns, room);
    }
}

QS_CUDA_GLOBAL(qs__permute_tiles_1, qs__permute_job) {
    permute_tiles<uint8_t>(job);
}

QS_CUDA_GLOBAL(qs__permute_tiles_2, qs__permute_job) {
    permute_tiles<uint16_t>(job);
}

QS_CUDA_GLOBAL(qs__permute_tiles_4, qs__permute_job) {
    permute_tiles<uint32_t>(job);
}

/* Codes of no such size: a thread takes eight of the result, found one by one. */
QS_CUDA_GLOBAL(qs__permute_codes, qs__permute_job) {
    for (int64_t i = 8 * thread_number(); i < job.count; i += 8 * thread_count()) {
        uint32_t code[8];
        QS_CUDA_UNROLL
        for (int k = 0; k < 8; k++)
            code[k] = i + k < job.count ? code_load(job.from, places_of(job.axes, job.axes.axes, -1, i + k).from) : 0;
        code_store8(job.to, i, code);
    }
}
