// SPDX-License-Identifier: Apache-2.0
/* Attention whose scores are never in memory (Dao et al., 2022): a block has a tile of queries of one head and goes through the keys that
 * they see, tile by tile, with the largest score so far and the sum of powers relative to it. Backward the scores are formed anew: by
 * blocks of queries, which find what belongs to a row and then its gradient, and by blocks of keys, which go through the queries. All
 * sums are fp32; the order of each is that of tiles, whatever the GPU.
 *
 * Tiles lie in shared memory, with rows whose distance keeps 32 lanes that read one each apart. For scores a warp has eight rows of
 * the block's own tile, and each lane one of the other; for sums over that one, each lane has a channel of every 32. */
#include "cuda/attention_jobs.h"
#include "cuda/attention_seen.cuh"

#include <math.h>

#if defined(__CUDACC__)
#define QS_CUDA_ROLLED _Pragma("unroll 1")
#else
#define QS_CUDA_ROLLED
#endif

enum { TILE = QS__ATTENTION_TILE, OWN = TILE / (QS__ATTENTION_BLOCK / WARP) };

/* ---- Where things lie ---- */

/* Rows of one head in an operand [sample][position][head][channel]. */
struct head_rows {
    const qs__cuda_values &values;
    int64_t first, next, count; /* element of position 0; from one position to the next; positions */
    int width;
};

QS_CUDA_DEVICE head_rows head_of(const qs__cuda_values &values, int64_t sample, int64_t positions, int64_t heads, int64_t head, int width) {
    const head_rows out = {values, (sample * positions * heads + head) * width, heads * width, positions, width};
    return out;
}

/* Floats from one row of a tile to the next: whole 16 bytes, an odd number of them. */
template <int PARTS> struct tile_row {
    enum { FLOATS = PARTS * WARP + 4 };
};

/* TILE positions from `position` on into shared memory, zeros behind the last and behind the last channel. All threads come. */
template <int PARTS> QS_CUDA_DEVICE void tile_read(const head_rows &from, int64_t position, float *to) {
    enum { CHANNELS = PARTS * WARP };
    for (int i = 8 * (int)threadIdx.x; i < TILE * CHANNELS; i += 8 * QS__ATTENTION_BLOCK) {
        const int r = i / CHANNELS, c = i % CHANNELS;
        const int64_t at = from.first + (position + r) * from.next + c;
        const bool there = position + r < from.count;
        float x[8] = {};
        if (from.width % 8 == 0) {
            if (there && c < from.width) value_load8(from.values, at, x);
        } else {
            QS_CUDA_ROLLED
            for (int k = 0; k < 8; k++) { /* one place for all formats: x moves through it */
                QS_CUDA_UNROLL
                for (int j = 0; j < 7; j++)
                    x[j] = x[j + 1];
                x[7] = there && c + k < from.width ? value_load(from.values, at + k) : 0;
            }
        }
        float *place = to + r * tile_row<PARTS>::FLOATS + c;
        QS_CUDA_UNROLL
        for (int half = 0; half < 8; half += 4)
            *(float4 *)(place + half) = make_float4(x[half], x[half + 1], x[half + 2], x[half + 3]);
    }
}

/* Writes the warp's rows, a channel of every 32 a lane. */
template <int PARTS> QS_CUDA_DEVICE void rows_write(const head_rows &to, int64_t position, const float sum[OWN][PARTS]) {
    const int lane = (int)threadIdx.x % WARP;
    QS_CUDA_UNROLL
    for (int r = 0; r < OWN; r++) {
        QS_CUDA_UNROLL
        for (int j = 0; j < PARTS; j++) {
            const int c = lane + WARP * j;
            if (position + r < to.count && c < to.width) value_store(to.values, to.first + (position + r) * to.next + c, sum[r][j]);
        }
    }
}

/* ---- Products of tiles ---- */

/* out[r] = own row r · other row. */
template <int PARTS> QS_CUDA_DEVICE void tile_dots(const float *own, const float *other, int width, float out[OWN]) {
    QS_CUDA_UNROLL
    for (int r = 0; r < OWN; r++)
        out[r] = 0;
    for (int c = 0; c < width; c += 4) {
        const float4 b = *(const float4 *)(other + c);
        QS_CUDA_UNROLL
        for (int r = 0; r < OWN; r++) {
            const float4 a = *(const float4 *)(own + r * tile_row<PARTS>::FLOATS + c);
            out[r] = __fmaf_rn(a.x, b.x, out[r]);
            out[r] = __fmaf_rn(a.y, b.y, out[r]);
            out[r] = __fmaf_rn(a.z, b.z, out[r]);
            out[r] = __fmaf_rn(a.w, b.w, out[r]);
        }
    }
}

/* sum[r] += Σ weight[r][i] row i, over the TILE rows of the other tile. */
template <int PARTS> QS_CUDA_DEVICE void tile_add(const float *weights, const float *rows, float sum[OWN][PARTS]) {
    const float *lane_rows = rows + threadIdx.x % WARP;
    for (int i = 0; i < TILE; i += 4) {
        float4 weight[OWN];
        QS_CUDA_UNROLL
        for (int r = 0; r < OWN; r++)
            weight[r] = *(const float4 *)(weights + r * TILE + i);
        QS_CUDA_UNROLL
        for (int j = 0; j < PARTS; j++) {
            float b[4];
            QS_CUDA_UNROLL
            for (int k = 0; k < 4; k++)
                b[k] = lane_rows[(i + k) * tile_row<PARTS>::FLOATS + WARP * j];
            QS_CUDA_UNROLL
            for (int r = 0; r < OWN; r++) {
                sum[r][j] = __fmaf_rn(weight[r].x, b[0], sum[r][j]);
                sum[r][j] = __fmaf_rn(weight[r].y, b[1], sum[r][j]);
                sum[r][j] = __fmaf_rn(weight[r].z, b[2], sum[r][j]);
                sum[r][j] = __fmaf_rn(weight[r].w, b[3], sum[r][j]);
            }
        }
    }
}

/* ---- What is seen, and what is dropped ---- */

QS_CUDA_DEVICE bool sees(const qs__attention_job &job, int64_t sample, int64_t query, int64_t key) {
    return query < job.queries && seen_of(job, sample, query).has(key);
}

QS_CUDA_DEVICE float dropout_factor(const qs__attention_job &job, int64_t row, int64_t key) {
    if (job.probability == 0) return 1;
    return random_uniform(job.key, ((job.first_row + (uint64_t)row) << 32) + (uint64_t)key) >= job.probability ? job.factor : 0;
}

/* A block's place: tile `tile` of one head of a sample. */
struct block_place {
    int64_t sample, head, first;
};

QS_CUDA_DEVICE block_place block_place_of(int64_t positions, int64_t heads) {
    const int64_t tiles = (positions + TILE - 1) / TILE, index = blockIdx.x;
    const block_place out = {index / tiles / heads, index / tiles % heads, index % tiles * TILE};
    return out;
}

/* ---- Forward ---- */

/* Of the warp's queries: the largest score so far, and this lane's part of sums relative to it. */
struct running {
    float most[OWN], sum[OWN];
};

/* Scores of the lane's key become powers, 0 where it is not seen; returns by what row r's sums are to be multiplied. */
QS_CUDA_DEVICE float power_of(running *of, int r, bool seen, float *score) {
    const float most = largest(of->most[r], warp_reduce(seen ? *score : -INFINITY, largest_of()));
    const float before = of->most[r] == most ? 1.0f : expf(of->most[r] - most);
    *score = seen ? expf(*score - most) : 0.0f;
    of->most[r] = most;
    of->sum[r] = of->sum[r] * before + *score;
    return before;
}

template <int PARTS> QS_CUDA_DEVICE void forward(const qs__attention_job &job) {
    enum { FLOATS = TILE * tile_row<PARTS>::FLOATS, ROW = tile_row<PARTS>::FLOATS };
    QS_CUDA_SHARED(float, shared);
    float *queries = shared, *keys = queries + FLOATS, *values = keys + FLOATS, *powers = values + FLOATS;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const block_place place = block_place_of(job.queries, job.heads);
    const int64_t key_head = place.head / (job.heads / job.key_heads), own = place.first + warp * OWN;
    const head_rows of_keys = head_of(job.src2, place.sample, job.keys, job.key_heads, key_head, job.width);
    const head_rows of_values = head_of(job.src3, place.sample, job.keys, job.key_heads, key_head, job.value_width);
    const int64_t end = seen_to(job, least(place.first + TILE, job.queries) - 1);
    float result[OWN][PARTS] = {};
    running of = {};
    for (int r = 0; r < OWN; r++)
        of.most[r] = -INFINITY;
    tile_read<PARTS>(head_of(job.src, place.sample, job.queries, job.heads, place.head, job.width), place.first, queries);
    for (int64_t first = seen_from(job, place.first) / TILE * TILE; first < end; first += TILE) {
        float score[OWN];
        __syncthreads(); /* who reads the tiles before these is done */
        tile_read<PARTS>(of_keys, first, keys);
        tile_read<PARTS>(of_values, first, values);
        __syncthreads();
        tile_dots<PARTS>(queries + warp * OWN * ROW, keys + lane * ROW, job.width, score);
        QS_CUDA_UNROLL
        for (int r = 0; r < OWN; r++) {
            const bool seen = sees(job, place.sample, own + r, first + lane);
            score[r] *= job.scale;
            const float before = power_of(&of, r, seen, &score[r]);
            QS_CUDA_UNROLL
            for (int j = 0; j < PARTS; j++)
                result[r][j] *= before;
            const int64_t row = (place.sample * job.heads + place.head) * job.queries + own + r;
            powers[(warp * OWN + r) * TILE + lane] = seen ? score[r] * dropout_factor(job, row, first + lane) : 0;
        }
        __syncwarp();
        tile_add<PARTS>(powers + warp * OWN * TILE, values, result);
    }
    QS_CUDA_UNROLL
    for (int r = 0; r < OWN; r++) {
        const float sum = warp_sum(of.sum[r]);
        QS_CUDA_UNROLL
        for (int j = 0; j < PARTS; j++)
            result[r][j] = sum > 0 ? result[r][j] / sum : 0;
    }
    rows_write<PARTS>(head_of(job.dst, place.sample, job.queries, job.heads, place.head, job.value_width), own, result);
}

/* ---- Backward: with p the probabilities, f the factors of dropout and g = f (diff_dst · value), the gradient of a score is p (g - Σ p g) ---- */

template <int PARTS> QS_CUDA_DEVICE void gradient_of_queries(const qs__attention_job &job) {
    enum { FLOATS = TILE * tile_row<PARTS>::FLOATS, ROW = tile_row<PARTS>::FLOATS };
    QS_CUDA_SHARED(float, shared);
    float *queries = shared, *diffs = queries + FLOATS, *keys = diffs + FLOATS, *values = keys + FLOATS, *scores = values + FLOATS;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const block_place place = block_place_of(job.queries, job.heads);
    const int64_t key_head = place.head / (job.heads / job.key_heads), own = place.first + warp * OWN;
    const int64_t own_row = (place.sample * job.heads + place.head) * job.queries + own;
    const head_rows of_keys = head_of(job.src2, place.sample, job.keys, job.key_heads, key_head, job.width);
    const head_rows of_values = head_of(job.src3, place.sample, job.keys, job.key_heads, key_head, job.value_width);
    const int64_t begin = seen_from(job, place.first) / TILE * TILE, end = seen_to(job, least(place.first + TILE, job.queries) - 1);
    float result[OWN][PARTS] = {}, mean[OWN] = {};
    running of = {};
    for (int r = 0; r < OWN; r++)
        of.most[r] = -INFINITY;
    tile_read<PARTS>(head_of(job.src, place.sample, job.queries, job.heads, place.head, job.width), place.first, queries);
    tile_read<PARTS>(head_of(job.diff_dst, place.sample, job.queries, job.heads, place.head, job.value_width), place.first, diffs);
    for (int turn = 0; turn < 2; turn++) { /* what belongs to rows, then gradients */
        for (int64_t first = begin; first < end; first += TILE) {
            float score[OWN], g[OWN];
            __syncthreads();
            tile_read<PARTS>(of_keys, first, keys);
            tile_read<PARTS>(of_values, first, values);
            __syncthreads();
            tile_dots<PARTS>(queries + warp * OWN * ROW, keys + lane * ROW, job.width, score);
            tile_dots<PARTS>(diffs + warp * OWN * ROW, values + lane * ROW, job.value_width, g);
            QS_CUDA_UNROLL
            for (int r = 0; r < OWN; r++) {
                const bool seen = sees(job, place.sample, own + r, first + lane);
                score[r] *= job.scale;
                g[r] = seen ? g[r] * dropout_factor(job, own_row + r, first + lane) : 0;
                if (turn == 0) {
                    const float before = power_of(&of, r, seen, &score[r]);
                    mean[r] = mean[r] * before + score[r] * g[r];
                } else {
                    const float p = seen ? expf(score[r] - of.most[r]) * of.sum[r] : 0;
                    scores[(warp * OWN + r) * TILE + lane] = p * (g[r] - mean[r]) * job.scale;
                }
            }
            if (turn == 0) continue;
            __syncwarp();
            tile_add<PARTS>(scores + warp * OWN * TILE, keys, result);
        }
        if (turn == 1) break;
        for (int r = 0; r < OWN; r++) {
            const float sum = warp_sum(of.sum[r]), inverse = sum > 0 ? 1 / sum : 0;
            of.sum[r] = inverse;
            mean[r] = warp_sum(mean[r]) * inverse;
            if (lane > 0 || own + r >= job.queries) continue;
            pointer<float>(job.maxima)[own_row + r] = of.most[r];
            pointer<float>(job.inverses)[own_row + r] = inverse;
            pointer<float>(job.means)[own_row + r] = mean[r];
        }
    }
    rows_write<PARTS>(head_of(job.diff_src, place.sample, job.queries, job.heads, place.head, job.width), own, result);
}

template <int PARTS> QS_CUDA_DEVICE void gradient_of_keys(const qs__attention_job &job) {
    enum { FLOATS = TILE * tile_row<PARTS>::FLOATS, ROW = tile_row<PARTS>::FLOATS };
    QS_CUDA_SHARED(float, shared);
    float *keys = shared, *values = keys + FLOATS, *queries = values + FLOATS, *diffs = queries + FLOATS;
    float *powers = diffs + FLOATS, *scores = powers + TILE * TILE;
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const block_place place = block_place_of(job.keys, job.key_heads);
    const int64_t sharing = job.heads / job.key_heads, own = place.first + warp * OWN, stop = least(place.first + TILE, job.keys);
    const head_rows of_keys = head_of(job.src2, place.sample, job.keys, job.key_heads, place.head, job.width);
    const head_rows of_values = head_of(job.src3, place.sample, job.keys, job.key_heads, place.head, job.value_width);
    float key_sum[OWN][PARTS] = {}, value_sum[OWN][PARTS] = {};
    tile_read<PARTS>(of_keys, place.first, keys);
    tile_read<PARTS>(of_values, place.first, values);
    for (int64_t head = place.head * sharing; head < (place.head + 1) * sharing; head++) {
        const head_rows of_queries = head_of(job.src, place.sample, job.queries, job.heads, head, job.width);
        const head_rows of_diffs = head_of(job.diff_dst, place.sample, job.queries, job.heads, head, job.value_width);
        for (int64_t first = 0; first < job.queries; first += TILE) {
            const int64_t query = first + lane, row = (place.sample * job.heads + head) * job.queries + query;
            const int64_t last = least(first + TILE, job.queries) - 1;
            float score[OWN], g[OWN], most = 0, inverse = 0, mean = 0;
            if (seen_to(job, last) <= place.first || seen_from(job, first) >= stop) continue; /* none of them sees one of these */
            __syncthreads();
            tile_read<PARTS>(of_queries, first, queries);
            tile_read<PARTS>(of_diffs, first, diffs);
            __syncthreads();
            if (query < job.queries) {
                most = pointer<const float>(job.maxima)[row];
                inverse = pointer<const float>(job.inverses)[row];
                mean = pointer<const float>(job.means)[row];
            }
            tile_dots<PARTS>(keys + warp * OWN * ROW, queries + lane * ROW, job.width, score);
            tile_dots<PARTS>(values + warp * OWN * ROW, diffs + lane * ROW, job.value_width, g);
            QS_CUDA_UNROLL
            for (int r = 0; r < OWN; r++) {
                const bool seen = own + r < job.keys && sees(job, place.sample, query, own + r);
                const float factor = seen ? dropout_factor(job, row, own + r) : 0;
                const float p = seen ? expf(score[r] * job.scale - most) * inverse : 0;
                powers[(warp * OWN + r) * TILE + lane] = p * factor;
                scores[(warp * OWN + r) * TILE + lane] = p * (g[r] * factor - mean) * job.scale;
            }
            __syncwarp();
            tile_add<PARTS>(powers + warp * OWN * TILE, diffs, value_sum);
            tile_add<PARTS>(scores + warp * OWN * TILE, queries, key_sum);
        }
    }
    rows_write<PARTS>(head_of(job.diff_src2, place.sample, job.keys, job.key_heads, place.head, job.width), own, key_sum);
    rows_write<PARTS>(head_of(job.diff_src3, place.sample, job.keys, job.key_heads, place.head, job.value_width), own, value_sum);
}

/* For heads of up to 32, 64 and 128 channels. */
#define ATTENTION(parts)                                           \
    QS_CUDA_GLOBAL(attention_forward_##parts, qs__attention_job) { \
        forward<parts>(job);                                       \
    }                                                              \
    QS_CUDA_GLOBAL(attention_queries_##parts, qs__attention_job) { \
        gradient_of_queries<parts>(job);                           \
    }                                                              \
    QS_CUDA_GLOBAL(attention_keys_##parts, qs__attention_job) {    \
        gradient_of_keys<parts>(job);                              \
    }
ATTENTION(1)
ATTENTION(2)
ATTENTION(4)
