// SPDX-License-Identifier: Apache-2.0
/* Beside products of the library: factors in the order it takes bytes in, and what becomes of sums that it left in scratch. */
#include "values.cuh"
#include "cuda/product_jobs.h"

/* Lines of the tile are as they lie in memory, rows or columns; a word more a line keeps threads that read across lines apart. */
enum { TILE = QS__PACK_TILE, LINE_WORDS = TILE / 4 };

QS_CUDA_DEVICE uint32_t word_load(const uint8_t *at, int64_t there) {
    if (there >= 4 && ((uintptr_t)at & 3) == 0) return *(const uint32_t *)at;
    uint32_t word = 0;
    for (int j = 0; j < 4 && j < there; j++)
        word |= (uint32_t)at[j] << (8 * j);
    return word;
}

QS_CUDA_GLOBAL(product_pack, qs__cuda_pack_job) {
    __shared__ uint32_t tile[TILE][LINE_WORDS + 1];
    const int64_t across = (job.padded_inner + TILE - 1) / TILE, down = (job.padded_rows + TILE - 1) / TILE;
    const int64_t matrix = blockIdx.x / (across * down), at = blockIdx.x % (across * down), r0 = at / across * TILE,
                  k0 = at % across * TILE;
    const uint8_t *from = pointer<const uint8_t>(job.from) + matrix / job.heads * job.sample + matrix % job.heads / job.shared * job.head;
    const bool turned = job.column != 1 || job.period < job.inner;
    const int64_t lines = turned ? job.inner - k0 : job.rows - r0, length = turned ? job.rows - r0 : job.inner - k0;
    for (int w = (int)threadIdx.x; w < TILE * LINE_WORDS; w += (int)blockDim.x) {
        const int line = w / LINE_WORDS, place = w % LINE_WORDS * 4;
        const int64_t there = line < lines ? length - place : 0;
        const int64_t k = k0 + line,
                      begin = turned ? k % job.period * job.column + k / job.period * job.far + r0 : (r0 + line) * job.row + k0;
        tile[line][place / 4] = there > 0 ? word_load(from + begin + place, there) : 0;
    }
    __syncthreads();
    const int64_t matrix_bytes = job.padded_rows * job.padded_inner, plane = job.samples * job.heads * matrix_bytes;
    for (int w = (int)threadIdx.x; w < TILE * LINE_WORDS; w += (int)blockDim.x) {
        const int r = w / LINE_WORDS, k = w % LINE_WORDS * 4;
        if (r0 + r >= job.padded_rows || k0 + k >= job.padded_inner) continue;
        uint32_t word = 0, rest = 0;
        if (turned)
            for (int j = 0; j < 4; j++)
                word |= (uint32_t) reinterpret_cast<const uint8_t *>(tile[k + j])[r] << (8 * j);
        else
            word = tile[r][k / 4];
        if (job.group || job.limbs > 1) {
            const int8_t *groups = pointer<const int8_t>(job.group) + matrix % job.heads * job.group_head;
            uint32_t first = 0;
            for (int j = 0; j < 4 && k0 + k + j < job.inner; j++) {
                const int code = (int)(int8_t)(word >> (8 * j));
                const int wide = job.group ? code * (1 << (job.shifts - 1 - groups[(k0 + k + j) % job.group_period])) : code;
                const int high = job.limbs > 1 ? (wide + 64) >> 7 : wide;
                first |= (uint32_t)(uint8_t)high << (8 * j);
                rest |= (uint32_t)(uint8_t)(wide - 128 * high) << (8 * j);
            }
            word = first;
        }
        uint8_t *to = pointer<uint8_t>(job.to) + matrix * matrix_bytes + (r0 + r) * job.padded_inner + k0 + k;
        *reinterpret_cast<uint32_t *>(to) = word;
        if (job.limbs > 1) *reinterpret_cast<uint32_t *>(to + plane) = rest;
    }
}

/* ---- Sums ------------------------------------------------------------------------------------------------------------------------- */

/* 2^-exponent. */
QS_CUDA_DEVICE double power(int exponent) {
    const uint64_t bits = (uint64_t)(1023 - exponent) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Eight sums of integers, over parts and what is summed of the result, exact. */
QS_CUDA_DEVICE void sums_add(const qs__cuda_result_job &job, int64_t at, int64_t matrix, int64_t part, int64_t total[8]) {
    const int limbs = job.left_limbs * job.right_limbs;
    for (int64_t pass = 0; pass < job.repeats * limbs; pass++) {
        const int left = (int)(pass % limbs) / job.right_limbs, right = (int)(pass % limbs) % job.right_limbs;
        const int64_t weight = (left + 1 < job.left_limbs ? 128 : 1) * (right + 1 < job.right_limbs ? 128 : 1);
        for (int64_t piece = 0; piece < job.pieces; piece++)
            for (int64_t g = 0; g < job.summed; g++) {
                const int32_t *sums = pointer<const int32_t>(job.sums) + (pass * job.pieces + piece) * part + g * matrix + at;
                QS_CUDA_UNROLL
                for (int h = 0; h < 2; h++) {
                    const packet<4> in = packet_load<4>(sums + 4 * h);
                    QS_CUDA_UNROLL
                    for (int j = 0; j < 4; j++)
                        total[4 * h + j] += weight * (int32_t)in.word[j];
                }
            }
    }
}

/* Eight columns from c0 on of the sums that begin at `at`. */
QS_CUDA_DEVICE void integers_scale(const qs__cuda_result_job &job, int64_t at, int64_t head, int64_t row, int64_t c0, double left_step,
                                   float y[8]) {
    const int64_t matrix = job.padded_rows * job.padded_columns, part = job.samples * job.heads * job.summed * matrix;
    const float *bias = job.bias ? pointer<const float>(job.bias) + head * job.head_bias : nullptr,
                *right_step = job.right_step ? pointer<const float>(job.right_step) + head * job.head_step : nullptr;
    const int8_t *column_group = job.column_group ? pointer<const int8_t>(job.column_group) + head * job.head_column_group : nullptr;
    const int shift = job.shift + (job.row_group ? (int)pointer<const int8_t>(job.row_group)[head * job.head_row_group + row] : 0);
    int64_t total[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    sums_add(job, at, matrix, part, total);
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++) {
        const int64_t c = least(c0 + j, job.columns - 1);
        const int group = shift + (column_group ? (int)column_group[job.column_period < job.columns ? c % job.column_period : c] : 0);
        const double step = right_step ? (double)right_step[job.right_steps > 1 ? c : 0] : 1.0;
        const double scaled = (double)total[j] * (left_step * step * power(group));
        y[j] = (float)(scaled + (bias ? (double)bias[c] : 0.0));
    }
}

/* The same of floats: the bias, and what is summed of the result, or its pieces. */
QS_CUDA_DEVICE void floats_add(const qs__cuda_result_job &job, int64_t at, int64_t head, int64_t c0, float y[8]) {
    const float *bias = job.bias ? pointer<const float>(job.bias) + head * job.head_bias : nullptr;
    QS_CUDA_UNROLL
    for (int j = 0; j < 8; j++)
        y[j] = bias ? bias[least(c0 + j, job.columns - 1)] : 0.0f;
    for (int64_t g = 0; g < job.summed * job.pieces; g++) {
        const float *sums = pointer<const float>(job.sums) + g * job.padded_rows * job.padded_columns + at;
        QS_CUDA_UNROLL
        for (int h = 0; h < 2; h++) {
            const packet<4> in = packet_load<4>(sums + 4 * h);
            QS_CUDA_UNROLL
            for (int j = 0; j < 4; j++)
                y[4 * h + j] += float_of(in.word[j]);
        }
    }
}

/* Eight columns of a row a thread. N counts them: divisions of 32 bits where that is enough. */
template <typename N> QS_CUDA_DEVICE void results_make(const qs__cuda_result_job &job, N items) {
    const N eights = (N)((job.columns + 7) / 8), rows = (N)job.rows, heads = (N)job.heads;
    const bool aligned = (job.columns | job.row | job.head | job.sample) % 8 == 0;
    const double left_step = job.left_step ? (double)*pointer<const float>(job.left_step) : 1.0;
    for (N item = (N)thread_number(); item < items; item += (N)thread_count()) {
        const N line = item / eights, matrix = line / rows;
        const int64_t c0 = (int64_t)(item % eights) * 8, r = line % rows, head = matrix % heads, sample = matrix / heads;
        const int64_t at = ((int64_t)matrix * job.summed * job.padded_rows + r) * job.padded_columns + c0;
        float y[8];
        if (job.integers) {
            integers_scale(job, at, head, r, c0, left_step, y);
        } else {
            floats_add(job, at, head, c0, y);
        }
        const int64_t to = sample * job.sample + head * job.head + r * job.row + c0;
        if (aligned) {
            value_store8(job.to, to, y);
        } else {
            for (int j = 0; j < 8 && c0 + j < job.columns; j++)
                value_store(job.to, to + j, y[j]);
        }
    }
}

QS_CUDA_GLOBAL(product_result, qs__cuda_result_job) {
    const int64_t items = job.samples * job.heads * job.rows * ((job.columns + 7) / 8);
    if (items + thread_count() <= UINT32_MAX)
        results_make<uint32_t>(job, (uint32_t)items);
    else
        results_make<int64_t>(job, items);
}

/* ---- A bias in a narrow format ------------------------------------------------------------------------------------------------------- */

QS_CUDA_GLOBAL(product_bias, qs__cuda_bias_job) {
    for (int64_t i = thread_number(); i < job.rows * job.count; i += thread_count()) {
        const int64_t c = i % job.count;
        const float bias = pointer<const float>(job.bias)[c], most = job.nearest.format.max;
        const float within = bias > most ? most : bias < -most ? -most : bias; /* a NaN stays */
        const uint32_t code = code_of(job.nearest.format, within);
        if (i == c) code_store(job.nearest, c, code);
        value_store(job.rest, i, bias - value_of(job.nearest.format, code));
    }
}
