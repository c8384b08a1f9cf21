// SPDX-License-Identifier: Apache-2.0
/* Forward and input gradient: each row of the result, one pixel, is a row of codes (the channels under the window) times the matrix of
 * the weights. Rows whose windows touch the same taps are a *phase*: all of them forward; those of equal position modulo the stride in the
 * input gradient. */
#include "product_rows.h"
#include "qsync/base.h"

#include <string.h>

static bool is_forward(const qs__rows_job *job) {
    return job->product->pass == QS__FORWARD;
}

static int64_t padded(int64_t columns) {
    int64_t half = QS__TILE_COLUMNS / 2;
    return (columns + half - 1) / half * half;
}

/* ---- Memory ---- */

static void lay_out(qs__rows_job *job, qs__pieces *pieces) {
    const qs__product *p = job->product;
    bool forward = p->pass == QS__FORWARD;
    int64_t inner = (forward ? p->channels : p->outputs) / p->groups, columns = (forward ? p->outputs : p->channels) / p->groups;
    int64_t pixels = p->batch * (forward ? p->height * p->width : p->out_height * p->out_width);
    int64_t most = qs__packed_most(inner), window = p->kernel[0] * p->kernel[1], wide = padded(columns) + QS__TILE_COLUMNS;
    job->inner = inner;
    job->columns = columns;
    job->order.channel = qs__piece(pieces, most * (int64_t)sizeof *job->order.channel);
    job->order.left_power = qs__piece(pieces, most);
    job->order.right_power = qs__piece(pieces, most);
    job->staged = qs__piece(pieces, pixels * most);
    job->zeros = qs__piece(pieces, most);
    job->blocks = qs__piece(pieces, job->threads * QS__BLOCK_ROWS * window * most);
    job->right = qs__piece(pieces, padded(columns) * window * most);
    job->correction = qs__piece(pieces, wide * (int64_t)sizeof *job->correction);
    job->correction32 = qs__piece(pieces, wide * (int64_t)sizeof *job->correction32);
    job->factor = qs__piece(pieces, wide * (int64_t)sizeof *job->factor);
    job->bias = qs__piece(pieces, wide * (int64_t)sizeof *job->bias);
    qs__gathered_lay_out(job, pieces);
}

size_t qs__product_rows_scratch(const qs__product *product, int threads) {
    qs__rows_job job = {.product = product, .threads = threads};
    qs__pieces pieces = {NULL, 0};
    lay_out(&job, &pieces);
    return pieces.used;
}

/* ---- Taps ---- */

/* Distance from source × i to the source position that kernel offset k reads; false when rows of this phase do not touch it. */
static bool tap_offset(const qs__rows_job *job, int axis, int64_t k, int64_t *offset) {
    const qs__product *p = job->product;
    if (is_forward(job)) {
        *offset = k - p->padding[axis];
        return true;
    }
    int64_t distance = job->phase.first[axis] + p->padding[axis] - k, stride = p->stride[axis];
    if ((distance % stride + stride) % stride) return false;
    *offset = distance / stride;
    return true;
}

static bool tap_touches(const qs__rows_job *job, int64_t kh, int64_t kw) {
    int64_t offset;
    return tap_offset(job, 0, kh, &offset) && tap_offset(job, 1, kw, &offset);
}

static int count_taps(const qs__rows_job *job) {
    int taps = 0;
    for (int64_t kh = 0; kh < job->product->kernel[0]; kh++)
        for (int64_t kw = 0; kw < job->product->kernel[1]; kw++)
            taps += tap_touches(job, kh, kw);
    return taps;
}

/* ---- Left factor ---- */

static void stage_rows(void *context, int64_t begin, int64_t end) {
    const qs__rows_job *job = context;
    int64_t stride = job->inner * job->product->groups;
    qs__stage_left(&job->order, job->run->kernels, !job->product->left->is_unsigned, end - begin, job->inner, stride,
                   job->run->left + begin * stride + job->group * job->inner, job->staged + begin * job->order.packed);
}

static void stage(qs__rows_job *job) {
    memset(job->zeros, qs__left_zero(job->product->left), (size_t)job->order.packed);
    qs_parallel(job->product->batch * job->extent[0] * job->extent[1], 1 + 16384 / job->inner, stage_rows, job);
}

static qs__place place_of(const qs__rows_job *job, int64_t row) {
    const qs__phase *ph = &job->phase;
    const qs__product *p = job->product;
    int64_t j = row % ph->count[1], i = row / ph->count[1] % ph->count[0], n = row / ph->count[1] / ph->count[0];
    int64_t height = is_forward(job) ? p->out_height : p->height, width = is_forward(job) ? p->out_width : p->width;
    return (qs__place){.image = n * job->extent[0] * job->extent[1],
                       .corner = {i * ph->source[0], j * ph->source[1]},
                       .result = (n * height + ph->first[0] + i * ph->step[0]) * width + ph->first[1] + j * ph->step[1]};
}

/* Staged codes under the tap that lies `offset` from the corner. */
static const uint8_t *source_row(const qs__rows_job *job, const qs__place *at, const int64_t *offset) {
    int64_t h = at->corner[0] + offset[0], w = at->corner[1] + offset[1];
    if (h < 0 || h >= job->extent[0] || w < 0 || w >= job->extent[1]) return job->zeros;
    return job->staged + (at->image + h * job->extent[1] + w) * job->order.packed;
}

/* Twelve rows under one tap, a part of their channels. */
static uint8_t *pack_tap(const qs__rows_job *job, int part, const qs__place *places, const int64_t *offset, uint8_t *dst) {
    const uint8_t *row[QS__TILE_ROWS];
    for (int r = 0; r < QS__TILE_ROWS; r++)
        row[r] = source_row(job, &places[r], offset) + job->order.begin[part];
    job->run->kernels->quads(job->order.length[part], row, dst);
    return dst + job->order.length[part] * QS__TILE_ROWS;
}

static void pack_tile(const qs__rows_job *job, const qs__place *places, uint8_t *dst) {
    for (int part = 0; part < job->order.parts; part++)
        for (int64_t kh = 0; kh < job->product->kernel[0]; kh++)
            for (int64_t kw = 0; kw < job->product->kernel[1]; kw++) {
                int64_t offset[2];
                if (!tap_offset(job, 0, kh, &offset[0]) || !tap_offset(job, 1, kw, &offset[1])) continue;
                dst = pack_tap(job, part, places, offset, dst);
            }
}

/* ---- Right factor ---- */

/* Weights of column j at a tap, as k runs over channels: first element and stride. */
static const int8_t *weights_at(const qs__rows_job *job, int64_t column, int64_t kh, int64_t kw, int64_t *stride) {
    const qs__product *p = job->product;
    int64_t inputs = p->channels / p->groups, outputs = p->outputs / p->groups, window = p->kernel[0] * p->kernel[1];
    int64_t tap = kh * p->kernel[1] + kw;
    const int8_t *group = job->run->right + job->group * outputs * window * inputs + tap * inputs;
    *stride = is_forward(job) ? 1 : window * inputs;
    return group + column * (is_forward(job) ? window * inputs : 1);
}

/* One part and tap of a column: the channels in the order, four at a time, `width` columns apart. Returns the sum. */
static int64_t pack_column(const qs__rows_job *job, int part, const int8_t *weights, int64_t stride, int64_t width, int8_t *dst) {
    const qs__shift_order *order = &job->order;
    int64_t sum = 0, begin = order->begin[part], length = order->length[part];
    for (int64_t k = 0; k < length; k++) {
        int32_t channel = order->channel[begin + k];
        int code = channel < 0 || !weights ? 0 : weights[channel * stride] * order->right_power[begin + k];
        dst[k / 4 * 4 * width + k % 4] = (int8_t)code;
        sum += code;
    }
    return sum;
}

static int64_t pack_right_column(const qs__rows_job *job, int64_t column, int64_t width, int8_t *dst) {
    int64_t correction = 0, stride = 0;
    for (int part = 0; part < job->order.parts; part++) {
        correction *= 2;
        for (int64_t kh = 0; kh < job->product->kernel[0]; kh++)
            for (int64_t kw = 0; kw < job->product->kernel[1]; kw++) {
                if (!tap_touches(job, kh, kw)) continue;
                const int8_t *weights = column < job->columns ? weights_at(job, column, kh, kw, &stride) : NULL;
                correction += pack_column(job, part, weights, stride, width, dst);
                dst += job->order.length[part] * width;
            }
    }
    return job->product->left->is_unsigned ? 0 : 128 * correction;
}

static void pack_right(void *context, int64_t begin, int64_t end) {
    qs__rows_job *job = context;
    for (int64_t first = begin * QS__TILE_COLUMNS; first < end * QS__TILE_COLUMNS && first < job->columns; first += QS__TILE_COLUMNS) {
        int64_t width = qs__panel_width(job->columns - first);
        for (int64_t j = 0; j < width; j++) {
            int64_t correction = pack_right_column(job, first + j, width, job->right + first * 4 * job->quads + 4 * j);
            job->correction[first + j] = correction;
            job->correction32[first + j] = (int32_t)(uint32_t)(uint64_t)correction;
        }
    }
}

/* Steps are of the whole operator's columns, or of those of a group of the convolution (weights by input channel). */
static void fill_factors(qs__rows_job *job) {
    const qs__product_run *run = job->run;
    for (int64_t j = 0; j < padded(job->columns) + QS__TILE_COLUMNS; j++) {
        int64_t column = job->group * job->columns + j;
        bool inside = j < job->columns;
        float step = inside ? run->right_step[run->right_steps > 1 ? column % run->right_steps : 0] : 0.0f;
        job->factor[j] = run->left_step * step / (float)(1 << (run->left_group ? job->product->shifts - 1 : 0));
        job->bias[j] = inside && run->bias ? run->bias[column] : 0.0f;
    }
}

/* ---- Tiles ---- */

char *qs__result_row(const qs__rows_job *job, const qs__place *at, int64_t column) {
    const qs__product *p = job->product;
    int64_t size = p->result == QS__TILE_BF16 ? 2 : 4;
    return (char *)job->run->result + ((at->result * p->groups + job->group) * job->columns + column) * size;
}

typedef struct wide_tile {
    int64_t sum[QS__TILE_ROWS][QS__TILE_COLUMNS];
    int32_t slice[QS__TILE_ROWS][QS__TILE_COLUMNS];
} wide_tile;

static void wide_add(const qs__rows_job *job, qs__tile *tile, wide_tile *wide, int64_t quads) {
    tile->quads[0] = quads;
    job->run->kernels->tile(tile);
    for (int r = 0; r < tile->rows; r++)
        for (int c = 0; c < tile->columns; c++)
            wide->sum[r][c] += wide->slice[r][c];
    tile->left += quads * 4 * QS__TILE_ROWS;
    tile->right += quads * 4 * tile->width;
}

static void wide_put(const qs__rows_job *job, const qs__tile *tile, const wide_tile *wide, const qs__place *places, int64_t column) {
    for (int r = 0; r < tile->rows; r++) {
        float values[QS__TILE_COLUMNS];
        for (int c = 0; c < tile->columns; c++) {
            float sum = (float)(wide->sum[r][c] - job->correction[column + c]);
            values[c] = sum * tile->column_factor[c];
            if (tile->bias) values[c] += tile->bias[c];
        }
        int64_t size = job->product->result == QS__TILE_BF16 ? 2 : 4;
        qs_convert_from_fp32(qs_format_of(size == 2 ? "bf16" : "fp32"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0},
                             tile->columns, values, qs__result_row(job, &places[r], column));
    }
}

/* Slices of k that fit 32 bits even with the 128 that signed codes have too many. */
static void run_wide(const qs__rows_job *job, qs__tile tile, const qs__place *places, int64_t column) {
    static const int32_t none[QS__TILE_COLUMNS];
    wide_tile wide = {.sum = {{0}}};
    qs__tile slice = tile;
    slice.parts = 1;
    slice.result = QS__TILE_INT32;
    slice.add = false;
    slice.correction = none;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        slice.row[r] = wide.slice[r];
    for (int part = 0; part < tile.parts; part++) {
        for (int r = 0; r < tile.rows; r++)
            for (int c = 0; c < tile.columns; c++)
                wide.sum[r][c] *= 2;
        for (int64_t done = 0, most = QS__SLICE / 4; done < tile.quads[part]; done += most)
            wide_add(job, &slice, &wide, tile.quads[part] - done < most ? tile.quads[part] - done : most);
    }
    wide_put(job, &tile, &wide, places, column);
}

static void run_tile(const qs__rows_job *job, int rows, const qs__place *places, int64_t column, const uint8_t *left) {
    qs__tile tile = {.left = left,
                     .right = job->right + column * 4 * job->quads,
                     .parts = job->order.parts,
                     .width = (int)qs__panel_width(job->columns - column),
                     .correction = job->correction32 + column,
                     .result = job->product->result,
                     .column_factor = job->factor + column,
                     .bias = job->run->bias ? job->bias + column : NULL,
                     .row_factor = job->ones};
    tile.rows = rows;
    tile.columns = (int)(job->columns - column < tile.width ? job->columns - column : tile.width);
    for (int part = 0; part < tile.parts; part++)
        tile.quads[part] = qs__part_quads(job, part);
    if (job->wide) {
        run_wide(job, tile, places, column);
        return;
    }
    for (int r = 0; r < tile.rows; r++)
        tile.row[r] = qs__result_row(job, &places[r], column);
    job->run->kernels->tile(&tile);
}

/* Panels of columns, each over all rows of the block. */
static void run_panels(const qs__rows_job *job, int64_t count, const qs__place *places, const uint8_t *block) {
    int64_t bytes = job->quads * 4 * QS__TILE_ROWS;
    for (int64_t column = 0; column < job->columns; column += QS__TILE_COLUMNS)
        for (int64_t row = 0; row < count; row += QS__TILE_ROWS) {
            int rows = (int)(count - row < QS__TILE_ROWS ? count - row : QS__TILE_ROWS);
            run_tile(job, rows, places + row, column, block + row / QS__TILE_ROWS * bytes);
        }
}

/* What is beyond the last row repeats it and is not written. */
static void run_block(const qs__rows_job *job, int64_t first, int64_t last, const qs__share *share) {
    int64_t bytes = job->quads * 4 * QS__TILE_ROWS, count = last - first;
    qs__place places[QS__BLOCK_ROWS];
    for (int64_t r = 0; r < QS__BLOCK_ROWS; r++)
        places[r] = place_of(job, first + (r < count ? r : count - 1));
    for (int64_t row = 0; row < count; row += QS__TILE_ROWS)
        pack_tile(job, places + row, share->block + row / QS__TILE_ROWS * bytes);
    if (job->product->gathered && !job->wide) {
        qs__gathered_block(job, count, places, share);
    } else {
        run_panels(job, count, places, share->block);
    }
}

/* One share a thread: each has memory of its own. */
static void run_shares(void *context, int64_t begin, int64_t end) {
    const qs__rows_job *job = context;
    for (int64_t index = begin; index < end; index++) {
        qs__share share = {.block = job->blocks + index * QS__BLOCK_ROWS * job->quads * 4};
        if (job->product->gathered) qs__gathered_share(job, index, &share);
        int64_t blocks = (job->rows + job->block_rows - 1) / job->block_rows;
        for (int64_t b = blocks * index / job->threads; b < blocks * (index + 1) / job->threads; b++) {
            int64_t last = (b + 1) * job->block_rows;
            run_block(job, b * job->block_rows, last < job->rows ? last : job->rows, &share);
        }
    }
}

/* Rows that no tap touches (a stride larger than the kernel) are sums of nothing. */
static void run_phase(qs__rows_job *job) {
    job->taps = count_taps(job);
    job->quads = job->order.packed / 4 * job->taps;
    job->rows = job->product->batch * job->phase.count[0] * job->phase.count[1];
    if (job->rows <= 0) return;
    int64_t share = (job->rows + job->threads - 1) / job->threads;
    int64_t tiles = (share + QS__TILE_ROWS - 1) / QS__TILE_ROWS;
    job->block_rows = QS__TILE_ROWS * (tiles < 4 ? tiles : 4);
    if (job->run->stages & QS__PACK) qs_parallel((job->columns + QS__TILE_COLUMNS - 1) / QS__TILE_COLUMNS, 1, pack_right, job);
    if (job->run->stages & QS__MULTIPLY) qs_parallel(job->threads, 1, run_shares, job);
}

static void run_phases(qs__rows_job *job) {
    const qs__product *p = job->product;
    if (is_forward(job)) {
        job->phase = (qs__phase){{0, 0}, {1, 1}, {p->out_height, p->out_width}, {p->stride[0], p->stride[1]}};
        run_phase(job);
        return;
    }
    for (int64_t y = 0; y < p->stride[0] && y < p->height; y++)
        for (int64_t x = 0; x < p->stride[1] && x < p->width; x++) {
            int64_t rows = (p->height - y + p->stride[0] - 1) / p->stride[0], columns = (p->width - x + p->stride[1] - 1) / p->stride[1];
            job->phase = (qs__phase){{y, x}, {p->stride[0], p->stride[1]}, {rows, columns}, {1, 1}};
            run_phase(job);
        }
}

void qs__product_rows(const qs__product *product, const qs__product_run *run, int64_t group) {
    qs__rows_job job = {.product = product, .run = run, .group = group, .threads = qs_threads(), .wide = !qs__product_fits(product)};
    qs__pieces pieces = {run->scratch, 0};
    lay_out(&job, &pieces);
    bool forward = product->pass == QS__FORWARD;
    job.extent[0] = forward ? product->height : product->out_height;
    job.extent[1] = forward ? product->width : product->out_width;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        job.ones[r] = 1.0f;
    qs__shift_order_fill(product, job.inner, run->left_group ? run->left_group + group * job.inner : NULL, &job.order);
    fill_factors(&job);
    if (run->stages & QS__STAGE) stage(&job);
    run_phases(&job);
}
