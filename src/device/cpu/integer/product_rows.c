// SPDX-License-Identifier: Apache-2.0
/* Forward and input gradient: each row of the result, one pixel, is a row of codes (the channels under the window) times the matrix of
 * the weights. Rows whose windows touch the same taps are a *phase*: all of them forward; those of equal position modulo the stride in the
 * input gradient. */
#include "cpu/integer/product_rows.h"
#include "qsync/base.h"

#include <string.h>

enum {
    STRETCH = QS__SLICE / 4, /* quadruples of a stretch, at most */
    JOINED = 2048            /* bytes that are staged at a time where pixels are narrow, about */
};

/* ---- Taps ---- */

/* Onto the last stretch, if it goes on there. */
static void stretch_add(qs__rows_job *job, int64_t offset, int64_t quads, bool twice) {
    qs__stretch *last = job->stretch + job->stretches - 1;
    if (job->stretches > 0 && !twice && offset == last->offset + 4 * last->quads && last->quads + quads <= STRETCH) {
        last->quads += quads;
        return;
    }
    do {
        const int64_t some = quads < STRETCH ? quads : STRETCH;
        job->stretch[job->stretches++] = (qs__stretch){offset, some, twice};
        offset += 4 * some;
        quads -= some;
        twice = false;
    } while (quads > 0);
}

/* A part without taps or channels has a stretch as well, of no length: it still doubles what is before it. */
static void fill_stretches(qs__rows_job *job) {
    const qs__shift_order *order = &job->order;
    job->stretches = 0;
    job->quads = 0;
    for (int part = 0; part < order->parts; part++) {
        bool none = true;
        for (int64_t r = 0; r < job->phase[0].taps && order->length[part] > 0; r++)
            for (int64_t c = 0; c < job->phase[1].taps; c++) {
                const int64_t row = job->phase[0].offset + r * job->phase[0].spread;
                const int64_t pixel = row * job->staged_extent[1] + job->phase[1].offset + c * job->phase[1].spread;
                stretch_add(job, pixel * order->packed + order->begin[part], order->length[part] / 4, none && part > 0);
                job->quads += order->length[part] / 4;
                none = false;
            }
        if (none) stretch_add(job, 0, 0, part > 0);
    }
}

/* ---- Memory ---- */

static int64_t padded(int64_t columns) {
    int64_t half = QS__TILE_COLUMNS / 2;
    return (columns + half - 1) / half * half;
}

static void lay_out(qs__rows_job *job, qs__pieces *pieces) {
    const qs__product *p = job->product;
    const bool gradient = !qs__rows_forward(job);
    job->view = gradient ? qs__geometry_reversed(&p->size) : p->size;
    job->inner = job->view.channels / job->view.groups;
    job->columns = job->view.outputs / job->view.groups;
    job->window = job->view.kernel[0] * job->view.kernel[1];
    for (int axis = 0; axis < 2; axis++) {
        const int64_t extent = axis ? job->view.width : job->view.height;
        int64_t low, high;
        qs__phases_reach(&job->view, gradient, axis, &low, &high);
        job->border[axis] = -low;
        job->staged_extent[axis] = (high > extent ? high : extent) - low;
    }
    const int64_t most = qs__packed_most(p, job->inner), wide = padded(job->columns) + QS__TILE_COLUMNS;
    const int64_t stretches = QS__TILE_PARTS * (job->window + 1) + job->window * most / QS__SLICE;
    job->order.channel = qs__piece(pieces, most * (int64_t)sizeof *job->order.channel);
    job->order.left_power = qs__piece(pieces, most);
    job->order.right_power = qs__piece(pieces, most);
    job->order.repeat = 1 + JOINED / most;
    job->order.powers = qs__piece(pieces, job->order.repeat * most);
    job->stretch = qs__piece(pieces, stretches * (int64_t)sizeof *job->stretch);
    job->staged = qs__piece(pieces, job->view.batch * job->staged_extent[0] * job->staged_extent[1] * most);
    job->right = qs__piece(pieces, padded(job->columns) * job->window * most);
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

/* ---- Left factor ---- */

/* Pixels from one on. */
static void stage_pixels(const qs__rows_job *job, int64_t first, int64_t pixels, uint8_t *dst) {
    const int64_t stride = job->inner * job->view.groups;
    qs__stage_left(&job->order, job->run->kernels, !job->product->left->is_unsigned, pixels, job->inner, stride,
                   job->run->left + first * stride + job->group * job->inner, dst);
}

/* One row of pixels of one image, and the borders beside it. */
static void stage_row(const qs__rows_job *job, int64_t image, int64_t row, uint8_t *dst) {
    const int64_t packed = job->order.packed, width = job->view.width;
    const int64_t before = job->border[1] * packed, behind = job->staged_extent[1] * packed - before - width * packed;
    const int zero = qs__left_zero(job->product->left);
    if (row < 0 || row >= job->view.height) {
        memset(dst, zero, (size_t)(job->staged_extent[1] * packed));
        return;
    }
    memset(dst, zero, (size_t)before);
    stage_pixels(job, (image * job->view.height + row) * width, width, dst + before);
    memset(dst + before + width * packed, zero, (size_t)behind);
}

/* Without borders rows are one piece. */
static void stage_rows(void *context, int64_t begin, int64_t end) {
    const qs__rows_job *job = context;
    const int64_t height = job->staged_extent[0], bytes = job->staged_extent[1] * job->order.packed;
    if (height == job->view.height && job->staged_extent[1] == job->view.width) {
        stage_pixels(job, begin * job->view.width, (end - begin) * job->view.width, job->staged + begin * bytes);
        return;
    }
    for (int64_t index = begin; index < end; index++)
        stage_row(job, index / height, index % height - job->border[0], job->staged + index * bytes);
}

static void stage(qs__rows_job *job) {
    for (int64_t pixel = 0; pixel < job->order.repeat; pixel++)
        memcpy(job->order.powers + pixel * job->order.packed, job->order.left_power, (size_t)job->order.packed);
    qs_parallel(job->view.batch * job->staged_extent[0], 1 + 16384 / (job->view.width * job->inner), stage_rows, job);
}

/* Rows of the result that lie side by side, from the phase's `line` and column j on. */
static void fill_line(const qs__rows_job *job, int64_t line, int64_t j, int64_t count, const uint8_t **left, char **result) {
    const qs__phase *down = &job->phase[0], *across = &job->phase[1];
    const qs__geometry *view = &job->view;
    const int64_t n = line / down->count, i = line % down->count;
    const int64_t y = n * job->staged_extent[0] + job->border[0] + i * down->move, x = job->border[1] + j * across->move;
    const int64_t row = n * view->out_height + down->first + i * down->step, column = across->first + j * across->step;
    const int64_t pixel = row * view->out_width + column, left_step = across->move * job->order.packed;
    const int64_t result_step = qs__result_bytes(job, across->step * view->groups * job->columns);
    const uint8_t *from = job->staged + (y * job->staged_extent[1] + x) * job->order.packed;
    char *to = (char *)job->run->result + qs__result_bytes(job, (pixel * view->groups + job->group) * job->columns);
    for (int64_t r = 0; r < count; r++, from += left_step, to += result_step) {
        left[r] = from;
        result[r] = to;
    }
}

/* Of a line. A window of one pixel leaves nothing out between two lines: all of them are one. */
static int64_t line_length(const qs__rows_job *job) {
    const qs__geometry *p = &job->view;
    const bool all = job->window == 1 && p->stride[0] == 1 && p->stride[1] == 1 && p->padding[0] == 0 && p->padding[1] == 0 &&
                     p->height == p->out_height && p->width == p->out_width;
    return all ? job->rows : job->phase[1].count;
}

/* Line by line: a division for each row would cost as much as a narrow row's products. */
static void fill_places(const qs__rows_job *job, int64_t first, int64_t count, qs__places *places) {
    const int64_t length = line_length(job);
    int64_t line = first / length, j = first % length;
    for (int64_t r = 0; r < count; line++, j = 0) {
        const int64_t rest = count - r, some = length - j < rest ? length - j : rest;
        fill_line(job, line, j, some, places->left + r, places->result + r);
        r += some;
    }
}

/* Steps are of the whole operator's columns, or of those of a group of the convolution (weights by input channel). */
static void fill_factors(qs__rows_job *job) {
    const qs__product_run *run = job->run;
    const int64_t first = job->group * job->columns, room = padded(job->columns) + QS__TILE_COLUMNS;
    const bool many = run->right_steps > 1;
    const float *step = run->right_step + (many ? first % run->right_steps : 0);
    const float scale = 1.0f / (float)(1 << (run->left_group ? job->product->shifts - 1 : 0));
    for (int64_t j = 0; j < room; j++)
        job->factor[j] = j < job->columns ? run->left_step * step[many ? j : 0] * scale : 0.0f;
    for (int64_t j = 0; j < room && run->bias; j++)
        job->bias[j] = j < job->columns ? run->bias[first + j] : 0.0f;
}

/* ---- Tiles ---- */

typedef struct wide_tile {
    int64_t sum[QS__TILE_ROWS][QS__TILE_COLUMNS];
    int32_t slice[QS__TILE_ROWS][QS__TILE_COLUMNS];
} wide_tile;

static void wide_double(const qs__tile *tile, wide_tile *wide) {
    for (int r = 0; r < tile->rows; r++)
        for (int c = 0; c < tile->columns; c++)
            wide->sum[r][c] *= 2;
}

static void wide_add(const qs__rows_job *job, const qs__tile *slice, wide_tile *wide) {
    job->run->kernels->tile(slice);
    for (int r = 0; r < slice->rows; r++)
        for (int c = 0; c < slice->columns; c++)
            wide->sum[r][c] += wide->slice[r][c];
}

static void wide_put(const qs__rows_job *job, const qs__tile *tile, const wide_tile *wide, int64_t column) {
    for (int r = 0; r < tile->rows; r++) {
        float values[QS__TILE_COLUMNS];
        for (int c = 0; c < tile->columns; c++) {
            float sum = (float)(wide->sum[r][c] - job->correction[column + c]);
            values[c] = sum * tile->column_factor[c];
            if (tile->bias) values[c] += tile->bias[c];
        }
        const char *format = job->product->result == QS__TILE_BF16 ? "bf16" : "fp32";
        qs_convert_from_fp32(qs_format_of(format), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, tile->columns, values,
                             tile->row[r]);
    }
}

/* Stretches together, as far as the sums fit 32 bits even with the 128 that signed codes have too many. Returns their quadruples. */
static int64_t slice_take(const qs__stretch *at, const qs__stretch *end, qs__tile *slice) {
    int64_t quads = at->quads;
    slice->stretch = at;
    slice->stretches = 1;
    for (at++; at < end && !at->twice && quads + at->quads <= STRETCH; at++) {
        quads += at->quads;
        slice->stretches++;
    }
    return quads;
}

static void run_wide(const qs__rows_job *job, const qs__tile *tile, int64_t column) {
    static const int32_t none[QS__TILE_COLUMNS];
    wide_tile wide = {.sum = {{0}}};
    qs__tile slice = *tile;
    slice.result = QS__TILE_INT32;
    slice.correction = none;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        slice.row[r] = wide.slice[r];
    const qs__stretch *end = job->stretch + job->stretches;
    for (const qs__stretch *at = job->stretch; at < end; at += slice.stretches) {
        const int64_t quads = slice_take(at, end, &slice);
        if (at->twice) wide_double(tile, &wide);
        wide_add(job, &slice, &wide);
        slice.right += 4 * quads * slice.width;
    }
    wide_put(job, tile, &wide, column);
}

static qs__tile tile_of(const qs__rows_job *job, int64_t column) {
    const int64_t width = qs__panel_width(job->columns - column);
    return (qs__tile){.step = QS__STEP_ROWS,
                      .right = job->right + column * 4 * job->quads,
                      .stretch = job->stretch,
                      .stretches = job->stretches,
                      .columns = (int)(job->columns - column < width ? job->columns - column : width),
                      .width = (int)width,
                      .correction = job->correction32 + column,
                      .result = job->product->result,
                      .column_factor = job->factor + column,
                      .bias = job->run->bias ? job->bias + column : NULL,
                      .row_factor = job->ones};
}

/* Panels of columns, each over all rows of the block. */
static void run_panels(const qs__rows_job *job, int64_t count, const qs__places *places) {
    for (int64_t column = 0; column < job->columns; column += QS__TILE_COLUMNS) {
        qs__tile tile = tile_of(job, column);
        const int64_t before = qs__result_bytes(job, column);
        for (int64_t row = 0; row < count; row += QS__TILE_ROWS) {
            tile.rows = (int)(count - row < QS__TILE_ROWS ? count - row : QS__TILE_ROWS);
            memcpy(tile.left, places->left + row, sizeof tile.left);
            for (int r = 0; r < QS__TILE_ROWS; r++)
                tile.row[r] = places->result[row + r] + before;
            if (job->wide) {
                run_wide(job, &tile, column);
            } else {
                job->run->kernels->tile(&tile);
            }
        }
    }
}

/* What is beyond the last row repeats it and is not written. */
static void run_block(const qs__rows_job *job, int64_t first, int64_t last, int64_t share) {
    const int64_t count = last - first, whole = (count + QS__TILE_ROWS - 1) / QS__TILE_ROWS * QS__TILE_ROWS;
    qs__places places;
    fill_places(job, first, count, &places);
    for (int64_t r = count; r < whole; r++) {
        places.left[r] = places.left[count - 1];
        places.result[r] = places.result[count - 1];
    }
    if (job->product->gathered && !job->wide) {
        qs__gathered_block(job, count, &places, share);
    } else {
        run_panels(job, count, &places);
    }
}

/* One share a thread. */
static void run_shares(void *context, int64_t begin, int64_t end) {
    const qs__rows_job *job = context;
    const int64_t blocks = (job->rows + job->block_rows - 1) / job->block_rows;
    for (int64_t share = begin; share < end; share++)
        for (int64_t b = blocks * share / job->threads; b < blocks * (share + 1) / job->threads; b++) {
            const int64_t last = (b + 1) * job->block_rows;
            run_block(job, b * job->block_rows, last < job->rows ? last : job->rows, share);
        }
}

/* Rows that no tap touches (a stride larger than the kernel) are sums of nothing. Threads have blocks alike. */
static void run_phase(qs__rows_job *job) {
    fill_stretches(job);
    job->rows = job->view.batch * job->phase[0].count * job->phase[1].count;
    if (job->rows <= 0) return;
    const int64_t share = (job->rows + job->threads - 1) / job->threads, tiles = (share + QS__TILE_ROWS - 1) / QS__TILE_ROWS;
    const int64_t most = QS__BLOCK_ROWS / QS__TILE_ROWS, blocks = (tiles + most - 1) / most;
    job->block_rows = QS__TILE_ROWS * ((tiles + blocks - 1) / blocks);
    if (job->run->stages & QS__PACK) qs__rows_pack_right(job);
    if (job->run->stages & QS__MULTIPLY) qs_parallel(job->threads, 1, run_shares, job);
}

static void run_phases(qs__rows_job *job) {
    const bool gradient = !qs__rows_forward(job);
    for (int64_t y = 0; y < qs__phases(&job->view, gradient, 0); y++)
        for (int64_t x = 0; x < qs__phases(&job->view, gradient, 1); x++) {
            job->phase[0] = qs__phase_at(&job->view, gradient, 0, y);
            job->phase[1] = qs__phase_at(&job->view, gradient, 1, x);
            run_phase(job);
        }
}

static void run_group(const qs__product *product, const qs__product_run *run, int64_t group) {
    qs__rows_job job = {.product = product, .run = run, .group = group, .threads = qs_threads(), .wide = !qs__product_fits(product)};
    qs__pieces pieces = {run->scratch, 0};
    lay_out(&job, &pieces);
    for (int r = 0; r < QS__TILE_ROWS; r++)
        job.ones[r] = 1.0f;
    qs__shift_order_fill(product, job.inner, run->left_group ? run->left_group + group * job.inner : NULL, &job.order);
    fill_factors(&job);
    if (run->stages & QS__STAGE) stage(&job);
    run_phases(&job);
}

void qs__product_rows(const qs__product *product, const qs__product_run *run) {
    for (int64_t group = 0; group < product->size.groups; group++)
        run_group(product, run, group);
}
