// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms before quantizing. A tile is read, transformed in the first-level cache and used at once, in both passes, which moves
 * fewer bytes than a transformed copy would. Tiles are pieces of a row where blocks lie along it, else pieces of all rows of a block. */
#include "cpu/convert/hadamard.h"

#include <stdatomic.h>
#include <string.h>

enum { TILE = 4096, GRAIN = 4 }; /* values of a tile, any block's multiple; tiles that a thread takes at least */

typedef struct job job;
/* Values of a row from column `at` on, transformed. */
typedef void (*use_values)(job *j, int64_t row, int64_t at, int64_t count, const float *values);

struct job {
    const qs__transformed *in;
    use_values use;
    const qs_format *bfloat; /* looked up once */
    const qs_quantizing *quantizing;
    int8_t *dst;
    _Atomic uint32_t largest; /* bits of a magnitude */
};

static void values_load(const job *j, int64_t row, int64_t at, int64_t count, float *values) {
    const qs__transformed *in = j->in;
    const void *from = qs__in_at(in->src, row * in->rows.per_row + at).at;
    if (in->src.type == QS__BF16) {
        qs_convert_to_fp32(j->bfloat, count, from, values);
    } else {
        memcpy(values, from, (size_t)count * sizeof *values);
    }
}

static int64_t tile_columns(const qs__transformed *in) {
    return in->down ? TILE / in->block : TILE;
}

static int64_t tiles_of_row(const qs__transformed *in) {
    return (in->rows.per_row + tile_columns(in) - 1) / tile_columns(in);
}

static void tile_use(job *j, int64_t tile) {
    const qs__transformed *in = j->in;
    const int64_t tiles = tiles_of_row(in), at = tile % tiles * tile_columns(in), rows = in->down ? in->block : 1;
    const int64_t first = tile / tiles * rows, rest = in->rows.per_row - at, count = rest < tile_columns(in) ? rest : tile_columns(in);
    float values[TILE];
    for (int64_t r = 0; r < rows; r++)
        values_load(j, first + r, at, count, values + r * count);
    if (in->down) {
        qs_hadamard_rows(in->block, count, values);
    } else {
        qs_hadamard_array(in->block, count, values);
    }
    for (int64_t r = 0; r < rows; r++)
        j->use(j, first + r, at, count, values + r * count);
}

static void tiles_use(void *context, int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile++)
        tile_use(context, tile);
}

static void job_run(job *j) {
    const int64_t rows = j->in->rows.rows / (j->in->down ? j->in->block : 1);
    qs_parallel(rows * tiles_of_row(j->in), GRAIN, tiles_use, j);
}

/* Bits of magnitudes order like the values, with infinity and NaN on top. */
static void raise_largest(job *j, int64_t row, int64_t at, int64_t count, const float *values) {
    (void)row, (void)at;
    const float found = qs_absmax_array(count, values);
    uint32_t bits, held = atomic_load_explicit(&j->largest, memory_order_relaxed);
    memcpy(&bits, &found, sizeof bits);
    while (bits > held && !atomic_compare_exchange_weak_explicit(&j->largest, &held, bits, memory_order_relaxed, memory_order_relaxed)) {
    }
}

float qs__transformed_absmax(const qs__transformed *values) {
    job j = {.in = values, .use = raise_largest, .bfloat = qs_format_of("bf16")};
    float largest;
    job_run(&j);
    const uint32_t bits = atomic_load_explicit(&j.largest, memory_order_relaxed);
    memcpy(&largest, &bits, sizeof largest);
    return largest;
}

/* `at` is even, as row starts of draws are. */
static void write_codes(job *j, int64_t row, int64_t at, int64_t count, const float *values) {
    const qs_random_rows *rows = &j->in->rows;
    const qs_random_stream stream = {rows->key, rows->first + (uint64_t)row * rows->stride + (uint64_t)at};
    qs_quantizing_row(j->quantizing, stream, row, count, values, j->dst + row * rows->per_row + at);
}

void qs__transformed_quantize(const qs__transformed *values, const qs_quantizing *quantizing, int8_t *dst) {
    job j = {.in = values, .use = write_codes, .bfloat = qs_format_of("bf16"), .quantizing = quantizing, .dst = dst};
    job_run(&j);
}

static qs__transformed values_of(const qs__chain *chain, const qs_run *run) {
    const qs_attributes *with = &chain->one.attributes;
    return (qs__transformed){qs__staged_in(chain, QS_SRC), qs_op_random_rows(&chain->one, run), with->hadamard, with->axis == 0};
}

qs_status qs__hadamard_absmax(const qs__chain *chain, const qs_run *run) {
    const qs__transformed values = values_of(chain, run);
    *(float *)qs__cpu_data(chain, QS_ABSMAX) = qs__transformed_absmax(&values);
    return QS_OK;
}

qs_status qs__hadamard_quantize(const qs__chain *chain, const qs_run *run) {
    const qs__transformed values = values_of(chain, run);
    qs_quantizing quantizing;
    qs_quantizing_start(&chain->one, qs__cpu_data(chain, QS_ABSMAX), false, NULL, qs__cpu_data(chain, QS_DST_STEP), NULL, &quantizing);
    qs__transformed_quantize(&values, &quantizing, qs__cpu_data(chain, QS_DST));
    return QS_OK;
}
