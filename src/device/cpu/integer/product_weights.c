// SPDX-License-Identifier: Apache-2.0
/* Weight gradient: diff_weights[o][tap][i] = Σ over pixels of diff_dst[o] × the src[i] that the tap reads. Pixels are packed in chunks;
 * between chunks the result holds the 32-bit sums. The channels are outer dimensions of both factors: no shift is inside the sum. */
#include "cpu/integer/product.h"
#include "qsync/base.h"

#include <string.h>

/* First position of a pixel's window in the source. */
typedef struct corner {
    int64_t image;
    int32_t h, w;
} corner;

typedef struct weights_job {
    const qs__product *product;
    const qs__product_run *run;
    int64_t group, inputs, outputs, window, pixels;
    int64_t first, count, quads; /* of the chunk */
    bool last, wide;
    int64_t threads, tiles, panels; /* of outputs; of inputs at one tap */
    uint8_t *left;
    int8_t *right, *zeros;
    int64_t *wide_sum;
    float *row_factor, *column_factor;
    corner *corners; /* of the chunk */
} weights_job;

static void lay_out(weights_job *job, qs__pieces *pieces) {
    const qs__geometry *p = &job->product->size;
    job->inputs = p->channels / p->groups;
    job->outputs = p->outputs / p->groups;
    job->window = p->kernel[0] * p->kernel[1];
    job->pixels = p->batch * p->out_height * p->out_width;
    job->tiles = (job->outputs + QS__TILE_ROWS - 1) / QS__TILE_ROWS;
    job->panels = (job->inputs + QS__TILE_COLUMNS - 1) / QS__TILE_COLUMNS;
    job->wide = !qs__product_fits(job->product);
    job->left = qs__piece(pieces, job->tiles * QS__TILE_ROWS * QS__CHUNK);
    job->right = qs__piece(pieces, job->threads * QS__TILE_COLUMNS * QS__CHUNK);
    job->zeros = qs__piece(pieces, job->inputs + job->outputs);
    job->wide_sum = qs__piece(pieces, job->wide ? job->outputs * job->window * job->inputs * (int64_t)sizeof *job->wide_sum : 0);
    job->corners = qs__piece(pieces, QS__CHUNK * (int64_t)sizeof *job->corners);
    job->row_factor = qs__piece(pieces, job->tiles * QS__TILE_ROWS * (int64_t)sizeof *job->row_factor);
    job->column_factor = qs__piece(pieces, job->panels * QS__TILE_COLUMNS * (int64_t)sizeof *job->column_factor);
}

size_t qs__product_weights_scratch(const qs__product *product, int threads) {
    weights_job job = {.product = product, .threads = threads};
    qs__pieces pieces = {NULL, 0};
    lay_out(&job, &pieces);
    return pieces.used;
}

static void fill_factors(weights_job *job) {
    const qs__product_run *run = job->run;
    for (int64_t o = 0; o < job->tiles * QS__TILE_ROWS; o++) {
        int64_t channel = job->group * job->outputs + o;
        int group = run->left_group && o < job->outputs ? run->left_group[channel] : 0;
        job->row_factor[o] = run->left_step / (float)(1 << group);
    }
    for (int64_t i = 0; i < job->panels * QS__TILE_COLUMNS; i++) {
        int64_t channel = job->group * job->inputs + i;
        int group = run->right_group && i < job->inputs ? run->right_group[channel] : 0;
        job->column_factor[i] = run->right_step[0] / (float)(1 << group);
    }
}

/* ---- Packing ---- */

static const int8_t *left_row(const weights_job *job, int64_t pixel, int64_t output) {
    if (pixel >= job->first + job->count) return job->zeros;
    return job->run->left + pixel * job->product->size.outputs + job->group * job->outputs + output;
}

static void pack_left(void *context, int64_t begin, int64_t end) {
    const weights_job *job = context;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile * QS__TILE_ROWS, outputs = job->outputs - first;
        int rows = outputs < QS__TILE_ROWS ? (int)outputs : QS__TILE_ROWS;
        uint8_t *dst = job->left + tile * QS__TILE_ROWS * 4 * job->quads;
        for (int64_t k = 0; k < 4 * job->quads; k += 4, dst += 4 * QS__TILE_ROWS) {
            const int8_t *row[4];
            for (int q = 0; q < 4; q++)
                row[q] = left_row(job, job->first + k + q, first);
            job->run->kernels->interleave(rows, QS__TILE_ROWS, !job->product->left->is_unsigned, row, NULL, (int8_t *)dst);
        }
    }
}

static void fill_corners(void *context, int64_t begin, int64_t end) {
    const weights_job *job = context;
    const qs__geometry *p = &job->product->size;
    for (int64_t k = begin; k < end; k++) {
        int64_t pixel = job->first + k, x = pixel % p->out_width, y = pixel / p->out_width % p->out_height;
        job->corners[k] = (corner){.image = pixel / p->out_width / p->out_height * p->height * p->width,
                                   .h = (int32_t)(y * p->stride[0] - p->padding[0]),
                                   .w = (int32_t)(x * p->stride[1] - p->padding[1])};
    }
}

/* Source codes that a tap multiplies with pixel k of the chunk, from a column on. */
static const int8_t *right_row(const weights_job *job, int64_t k, int64_t kh, int64_t kw, int64_t column) {
    const qs__geometry *p = &job->product->size;
    if (k >= job->count) return job->zeros;
    const corner *at = &job->corners[k];
    int64_t h = at->h + kh * p->dilation[0], w = at->w + kw * p->dilation[1];
    if (h < 0 || h >= p->height || w < 0 || w >= p->width) return job->zeros;
    return job->run->right + (at->image + h * p->width + w) * p->channels + job->group * job->inputs + column;
}

/* correction[j]: 128 × the sums of the columns, which signed codes on the left have too many. */
static void pack_right(const weights_job *job, int64_t tap, int64_t column, int columns, int width, int8_t *dst, int32_t *correction) {
    int64_t kh = tap / job->product->size.kernel[1], kw = tap % job->product->size.kernel[1];
    int32_t sum[QS__TILE_COLUMNS] = {0};
    for (int64_t k = 0; k < 4 * job->quads; k += 4, dst += 4 * width) {
        const int8_t *row[4];
        for (int q = 0; q < 4; q++)
            row[q] = right_row(job, k + q, kh, kw, column);
        job->run->kernels->interleave(columns, width, false, row, sum, dst);
    }
    for (int j = 0; j < width; j++)
        correction[j] = job->product->left->is_unsigned ? 0 : 128 * sum[j];
}

/* ---- Tiles ---- */

static int64_t place_of(const weights_job *job, int64_t output, int64_t tap, int64_t column) {
    return (output * job->window + tap) * job->inputs + column;
}

static float *result_at(const weights_job *job, int64_t place) {
    return (float *)job->run->result + job->group * job->outputs * job->window * job->inputs + place;
}

/* Sums that may leave 32 bits over all chunks are added up elsewhere. */
static void run_wide(const weights_job *job, qs__tile tile, int64_t output, int64_t tap, int64_t column) {
    int32_t sum[QS__TILE_ROWS][QS__TILE_COLUMNS];
    tile.result = QS__TILE_INT32;
    tile.add = false;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        tile.row[r] = sum[r];
    job->run->kernels->tile(&tile);
    for (int r = 0; r < tile.rows; r++)
        for (int c = 0; c < tile.columns; c++)
            job->wide_sum[place_of(job, output + r, tap, column + c)] += sum[r][c];
}

static void run_tile(const weights_job *job, qs__tile tile, int64_t output, int64_t tap, int64_t column) {
    int64_t rows = job->outputs - output;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        tile.left[r] = job->left + output * 4 * job->quads + 4 * r;
    tile.rows = rows < QS__TILE_ROWS ? (int)rows : QS__TILE_ROWS;
    if (job->wide) {
        run_wide(job, tile, output, tap, column);
        return;
    }
    tile.row_factor = job->row_factor + output;
    for (int r = 0; r < tile.rows; r++)
        tile.row[r] = result_at(job, place_of(job, output + r, tap, column));
    job->run->kernels->tile(&tile);
}

/* All outputs at one tap and panel of inputs. */
static void run_panel(const weights_job *job, int64_t panel, int8_t *right) {
    int64_t tap = panel / job->panels, column = panel % job->panels * QS__TILE_COLUMNS, left = job->inputs - column;
    int32_t correction[QS__TILE_COLUMNS];
    bool single = job->first == 0 && job->last;
    const qs__stretch chunk = {.quads = job->quads};
    qs__tile tile = {.step = QS__STEP_PANEL, .right = right, .stretch = &chunk, .stretches = 1, .correction = correction};
    tile.width = left > QS__TILE_COLUMNS / 2 ? QS__TILE_COLUMNS : QS__TILE_COLUMNS / 2;
    tile.columns = left < tile.width ? (int)left : tile.width;
    tile.result = single ? QS__TILE_FP32 : QS__TILE_INT32;
    tile.add = job->first > 0;
    tile.column_factor = job->column_factor + column;
    pack_right(job, tap, column, tile.columns, tile.width, right, correction);
    for (int64_t output = 0; output < job->outputs; output += QS__TILE_ROWS)
        run_tile(job, tile, output, tap, column);
}

static void run_shares(void *context, int64_t begin, int64_t end) {
    const weights_job *job = context;
    int64_t panels = job->window * job->panels;
    for (int64_t share = begin; share < end; share++)
        for (int64_t panel = panels * share / job->threads; panel < panels * (share + 1) / job->threads; panel++)
            run_panel(job, panel, job->right + share * QS__TILE_COLUMNS * QS__CHUNK);
}

/* ---- Results ---- */

/* Sums become results, in their place. */
static void finish_outputs(void *context, int64_t begin, int64_t end) {
    const weights_job *job = context;
    for (int64_t o = begin; o < end; o++)
        for (int64_t k = 0; k < job->window * job->inputs; k++) {
            int64_t place = o * job->window * job->inputs + k;
            int32_t sum;
            memcpy(&sum, result_at(job, place), sizeof sum);
            float value = (job->wide ? (float)job->wide_sum[place] : (float)sum) * job->column_factor[k % job->inputs];
            *result_at(job, place) = value * job->row_factor[o];
        }
}

static void run_chunk(weights_job *job, int64_t first) {
    int64_t left = job->pixels - first;
    job->first = first;
    job->last = left <= QS__CHUNK;
    job->count = job->last ? left : QS__CHUNK;
    job->quads = (job->count + 3) / 4;
    qs_parallel(job->count, 512, fill_corners, job);
    qs_parallel(job->tiles, 1, pack_left, job);
    qs_parallel(job->threads, 1, run_shares, job);
}

static void run_group(const qs__product *product, const qs__product_run *run, int64_t group) {
    weights_job job = {.product = product, .run = run, .group = group, .threads = qs_threads()};
    qs__pieces pieces = {run->scratch, 0};
    lay_out(&job, &pieces);
    fill_factors(&job);
    memset(job.zeros, 0, (size_t)(job.inputs + job.outputs));
    if (job.wide) memset(job.wide_sum, 0, (size_t)(job.outputs * job.window * job.inputs) * sizeof *job.wide_sum);
    for (int64_t first = 0; first < job.pixels; first += QS__CHUNK)
        run_chunk(&job, first);
    if (job.wide || job.pixels > QS__CHUNK) qs_parallel(job.outputs, 1, finish_outputs, &job);
}

void qs__product_weights(const qs__product *product, const qs__product_run *run) {
    for (int64_t group = 0; group < product->size.groups; group++)
        run_group(product, run, group);
}
