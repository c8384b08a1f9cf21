// SPDX-License-Identifier: Apache-2.0
/* Weight gradients of convolutions by our own tiles: diff_weights[o][tap][i] = Σ over images and places of diff_dst[o] × the src[i] that
 * the tap reads. As many places as the second-level cache holds are packed at a time (weight_gradient.h), and one part after the other is
 * added to the result. Sums over places have the same order for any number of threads: threads share tiles, not places. */
#include "cpu/library/gemm.h"
#include "qsync/base.h"

#include <math.h>
#include <string.h>

enum {
    PACKED_BYTES = 3 << 18 /* three quarters of a second cache of 1 MiB */
};

/* How a convolution is seen: rows of places, each with some lanes, which a few taps reach. Taps of one line of the filter are lanes like
 * channels where these are few and lie side by side in memory anyway. */
typedef struct view {
    int64_t lanes, blocks; /* of sixteen lanes */
    int64_t taps[2];       /* down, across */
    int64_t step[2];       /* packed rows and places from one result to the next */
    int64_t skip;          /* source rows from one packed row to the next */
    int64_t columns;       /* places of a packed row */
    int64_t first, pitch;  /* element of the source row where the first place begins; from one to the next */
} view;

typedef struct job {
    const qs__weight_gradient_kernels *kernels;
    qs__type type;
    qs__geometry size;
    view view;
    int64_t side;                   /* images in a lane */
    int64_t most_images, most_rows; /* of a part: lanes' images; rows of results */
    int64_t images, rows;           /* of this part */
    int64_t first_image, first_row;
    const char *src, *diff;
    bool flip;
    float *result;
    /* scratch */
    char *packed_src, *packed_diff;
    int32_t *place, *excess; /* excess: 128 × the sums of the gradients' codes */
    float *factor, *scale;   /* of codes: what sums are multiplied with, for each lane and each output */
} job;

/* ---- Sizes ---- */

static int64_t part_rows(const job *j, int64_t rows) {
    return (rows - 1) * j->view.step[0] + j->view.taps[0];
}

static int64_t out_blocks(const job *j) {
    return (j->size.outputs + QS__WEIGHT_GRADIENT_LANES - 1) / QS__WEIGHT_GRADIENT_LANES;
}

/* Bytes of one image (of lanes) with that many rows of results. */
static int64_t src_bytes(const job *j, int64_t rows) {
    return j->view.blocks * part_rows(j, rows) * j->view.columns * QS__WEIGHT_GRADIENT_BYTES;
}

static int64_t diff_bytes(const job *j, int64_t rows) {
    return out_blocks(j) * rows * j->size.out_width * QS__WEIGHT_GRADIENT_BYTES;
}

/* Numbers of one output's weights. */
static int64_t row_of(const job *j) {
    return j->view.taps[0] * j->view.taps[1] * j->view.lanes;
}

static view view_of(const job *j) {
    const int64_t *kernel = j->size.kernel;
    const int64_t stride = j->size.stride[0];
    const bool joined = j->size.channels < QS__WEIGHT_GRADIENT_LANES || kernel[1] == 1;
    view v = {.lanes = joined ? kernel[1] * j->size.channels : j->size.channels,
              .taps = {kernel[0], joined ? 1 : kernel[1]},
              .step = {kernel[0] == 1 ? 1 : stride, joined ? 1 : stride},
              .skip = kernel[0] == 1 ? stride : 1,
              .columns = joined ? j->size.out_width : (j->size.out_width - 1) * stride + kernel[1],
              .first = -j->size.padding[0] * j->size.channels,
              .pitch = (joined ? stride : 1) * j->size.channels};
    v.blocks = (v.lanes + QS__WEIGHT_GRADIENT_LANES - 1) / QS__WEIGHT_GRADIENT_LANES;
    return v;
}

/* The largest part whose packed factors fit: whole images, or rows of one. */
static void choose_part(job *j) {
    const int64_t all = (j->size.batch + j->side - 1) / j->side;
    const int64_t image = src_bytes(j, j->size.out_height) + diff_bytes(j, j->size.out_height);
    j->most_rows = j->size.out_height;
    j->most_images = PACKED_BYTES / image;
    if (j->most_images < 1) j->most_images = 1;
    if (j->most_images > all) j->most_images = all;
    while (j->most_rows > 1 && src_bytes(j, j->most_rows) + diff_bytes(j, j->most_rows) > PACKED_BYTES)
        j->most_rows = (j->most_rows + 1) / 2;
}

static job job_of(const qs_case *one) {
    job j = {.type = qs__cpu_type(qs__case_format(one, QS_SRC)), .size = qs__case_geometry(one)};
    j.flip = j.type == QS__INT8 && !qs__case_format(one, QS_SRC)->is_unsigned;
    j.side = 4 / (int64_t)qs__type_bytes(j.type);
    j.view = view_of(&j);
    choose_part(&j);
    return j;
}

/* ---- Packing ---- */

/* Rows of an image side by side with others. NULL: outside of the images. */
static void set_rows(const job *j, int64_t image, const char *data, int64_t image_elements, int64_t row_begin,
                     qs__weight_gradient_line *line) {
    const int64_t bytes = (int64_t)qs__type_bytes(j->type);
    for (int64_t i = 0; i < j->side; i++) {
        const int64_t n = (j->first_image + image) * j->side + i;
        line->row[i] = n < j->size.batch && row_begin >= 0 ? data + (n * image_elements + row_begin) * bytes : NULL;
    }
}

static void pack_src_row(const job *j, int64_t image, int64_t row) {
    const view *v = &j->view;
    const int64_t height = part_rows(j, j->rows), elements = j->size.width * j->size.channels;
    const int64_t h = j->first_row * j->size.stride[0] - j->size.padding[0] + row * v->skip;
    qs__weight_gradient_line line = {.first = v->first,
                                     .pitch = v->pitch,
                                     .elements = elements,
                                     .places = v->columns,
                                     .lanes = v->lanes,
                                     .block = height * v->columns * QS__WEIGHT_GRADIENT_BYTES,
                                     .flip = j->flip,
                                     .dst = j->packed_src + image * src_bytes(j, j->rows) + row * v->columns * QS__WEIGHT_GRADIENT_BYTES};
    set_rows(j, image, j->src, j->size.height * elements, h >= 0 && h < j->size.height ? h * elements : -1, &line);
    j->kernels->pack[j->type](&line);
}

static void pack_diff_row(const job *j, int64_t image, int64_t row) {
    const int64_t elements = j->size.out_width * j->size.outputs;
    qs__weight_gradient_line line = {.pitch = j->size.outputs,
                                     .elements = elements,
                                     .places = j->size.out_width,
                                     .lanes = j->size.outputs,
                                     .block = j->rows * j->size.out_width * QS__WEIGHT_GRADIENT_BYTES,
                                     .dst = j->packed_diff + image * diff_bytes(j, j->rows) +
                                            row * j->size.out_width * QS__WEIGHT_GRADIENT_BYTES};
    set_rows(j, image, j->diff, j->size.out_height * elements, (j->first_row + row) * elements, &line);
    j->kernels->pack[j->type](&line);
}

static void pack_lines(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t height = part_rows(j, j->rows), lines = height + j->rows;
    for (int64_t k = begin; k < end; k++) {
        const int64_t image = k / lines, row = k % lines;
        if (row < height)
            pack_src_row(j, image, row);
        else
            pack_diff_row(j, image, row - height);
    }
}

static void fill_places(const job *j) {
    const view *v = &j->view;
    for (int64_t r = 0; r < j->rows; r++)
        for (int64_t c = 0; c < j->size.out_width; c++)
            j->place[r * j->size.out_width + c] = (int32_t)((r * v->step[0] * v->columns + c * v->step[1]) * QS__WEIGHT_GRADIENT_BYTES);
}

/* ---- Tiles ---- */

static int64_t vectors_of(const job *j) {
    return j->view.blocks * j->view.taps[0] * j->view.taps[1];
}

/* Vectors of a tile: as even as can be. */
static int64_t tiles_of_vectors(const job *j) {
    return (vectors_of(j) + QS__WEIGHT_GRADIENT_VECTORS - 1) / QS__WEIGHT_GRADIENT_VECTORS;
}

/* Taps across, taps down, blocks: what is read together lies close together. */
static void set_vector(const job *j, int64_t index, int at, qs__weight_gradient_tile *tile) {
    const view *v = &j->view;
    const int64_t across = index % v->taps[1], down = index / v->taps[1] % v->taps[0], block = index / v->taps[1] / v->taps[0];
    const int64_t left = v->lanes - block * QS__WEIGHT_GRADIENT_LANES;
    tile->vector[at] = ((block * part_rows(j, j->rows) + down) * v->columns + across) * QS__WEIGHT_GRADIENT_BYTES;
    tile->column[at] = (down * v->taps[1] + across) * v->lanes + block * QS__WEIGHT_GRADIENT_LANES;
    tile->width[at] = left < QS__WEIGHT_GRADIENT_LANES ? (int)left : QS__WEIGHT_GRADIENT_LANES;
}

/* Codes whose places are all in one part: their sums are settled at once. */
static bool is_whole(const job *j) {
    return j->type == QS__INT8 && j->most_images * j->side >= j->size.batch && j->most_rows == j->size.out_height;
}

static void run_outputs(const job *j, qs__weight_gradient_tile *tile) {
    const int64_t row = row_of(j);
    for (int64_t o = 0; o < j->size.outputs; o += QS__WEIGHT_GRADIENT_OUTPUTS) {
        tile->diff =
            j->packed_diff + (o / QS__WEIGHT_GRADIENT_LANES * tile->places * QS__WEIGHT_GRADIENT_BYTES) + o % QS__WEIGHT_GRADIENT_LANES * 4;
        tile->outputs = (int)(j->size.outputs - o < QS__WEIGHT_GRADIENT_OUTPUTS ? j->size.outputs - o : QS__WEIGHT_GRADIENT_OUTPUTS);
        tile->result = j->result + o * row;
        tile->excess = j->excess + o;
        tile->scale = is_whole(j) ? j->scale + o : NULL;
        j->kernels->tile[j->type](tile);
    }
}

static void run_tiles(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t tiles = tiles_of_vectors(j), vectors = vectors_of(j);
    for (int64_t k = begin; k < end; k++) {
        const int64_t first = vectors * k / tiles;
        qs__weight_gradient_tile tile = {.images = j->images,
                                         .places = j->rows * j->size.out_width,
                                         .place = j->place,
                                         .src = j->packed_src,
                                         .src_image = src_bytes(j, j->rows),
                                         .diff_image = diff_bytes(j, j->rows),
                                         .vectors = (int)(vectors * (k + 1) / tiles - first),
                                         .row = row_of(j),
                                         .factor = j->factor,
                                         .add = j->first_image > 0 || j->first_row > 0};
        for (int v = 0; v < tile.vectors; v++)
            set_vector(j, first + v, v, &tile);
        run_outputs(j, &tile);
    }
}

static void add_excess(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t places = j->rows * j->size.out_width;
    for (int64_t block = begin; block < end; block++)
        for (int64_t image = 0; image < j->images; image++)
            j->kernels->excess(places, j->packed_diff + image * diff_bytes(j, j->rows) + block * places * QS__WEIGHT_GRADIENT_BYTES,
                               j->excess + block * QS__WEIGHT_GRADIENT_LANES);
}

static void run_part(job *j) {
    fill_places(j);
    qs_parallel(j->images * (part_rows(j, j->rows) + j->rows), 8, pack_lines, j);
    if (j->flip) qs_parallel(out_blocks(j), 1, add_excess, j);
    qs_parallel(tiles_of_vectors(j), 1, run_tiles, j);
}

static void run_parts(job *j) {
    const int64_t all = (j->size.batch + j->side - 1) / j->side;
    for (j->first_image = 0; j->first_image < all; j->first_image += j->most_images)
        for (j->first_row = 0; j->first_row < j->size.out_height; j->first_row += j->most_rows) {
            j->images = all - j->first_image < j->most_images ? all - j->first_image : j->most_images;
            j->rows = j->size.out_height - j->first_row < j->most_rows ? j->size.out_height - j->first_row : j->most_rows;
            run_part(j);
        }
}

/* ---- Codes ---- */

static float power_of(const qs__chain *chain, qs_role role, int64_t channel) {
    return qs__case_has(&chain->one, role) ? ldexpf(1, -((const uint8_t *)qs__cpu_data(chain, role))[channel]) : 1;
}

/* Sums × src_step 2^-src_group[i] × diff_dst_step 2^-diff_dst_group[o], multiplied in this order. */
static void fill_factors(const qs__chain *chain, const job *j) {
    const float step = *(const float *)qs__cpu_data(chain, QS_DIFF_DST_STEP), src_step = *(const float *)qs__cpu_data(chain, QS_SRC_STEP);
    for (int64_t k = 0; k < row_of(j); k++)
        j->factor[k] = src_step * power_of(chain, QS_SRC_GROUP, k % j->size.channels);
    for (int64_t o = 0; o < j->size.outputs; o++)
        j->scale[o] = step * power_of(chain, QS_DIFF_DST_GROUP, o);
}

static void settle_outputs(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    for (int64_t o = begin; o < end; o++)
        j->kernels->settle(row_of(j), j->excess[o], j->factor, j->scale[o], j->result + o * row_of(j));
}

/* ---- Building ---- */

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    job j = job_of(&chain->one);
    j.kernels = chain->cpu->weight_gradient;
    j.src = qs__cpu_data(chain, QS_SRC);
    j.diff = qs__cpu_data(chain, QS_DIFF_DST);
    j.result = qs__cpu_data(chain, QS_DIFF_WEIGHTS);
    j.packed_src = chain->scratch + chain->offset[0];
    j.packed_diff = j.packed_src + j.most_images * src_bytes(&j, j.most_rows);
    j.place = (int32_t *)(void *)(chain->scratch + chain->offset[1]);
    j.excess = (int32_t *)(void *)(chain->scratch + chain->offset[2]);
    j.factor = (float *)(void *)(chain->scratch + chain->offset[3]);
    j.scale = j.factor + row_of(&j);
    memset(j.excess, 0, (size_t)(out_blocks(&j) * QS__WEIGHT_GRADIENT_LANES) * sizeof *j.excess);
    if (j.type == QS__INT8) fill_factors(chain, &j);
    run_parts(&j);
    if (j.type == QS__INT8 && !is_whole(&j)) qs_parallel(j.size.outputs, 1, settle_outputs, &j);
    return QS_OK;
}

/* Whether 32 bits hold every sum of codes. */
static bool sums_fit(const qs_case *one, const job *j) {
    const int64_t terms = j->size.batch * j->size.out_height * j->size.out_width;
    return terms * qs__case_format(one, QS_SRC)->max * qs__case_format(one, QS_DIFF_DST)->max <= INT32_MAX;
}

static qs_status check(const qs__chain *chain) {
    const qs_case *one = &chain->one;
    const qs__cpu *cpu = chain->cpu;
    const qs_attributes *with = &one->attributes;
    if (qs__case_pass(one) != QS__WEIGHT_GRADIENT) return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels are for weight gradients");
    const qs__type type = qs__cpu_type(qs__case_format(one, QS_SRC));
    if (qs__cpu_type(qs__case_format(one, QS_DIFF_DST)) != type || type == QS__OTHER || with->accumulator.adder)
        return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels multiply two fp32, bf16 or integer operands, in a wide accumulator");
    const bool multiplies = type == QS__FP32 || (type == QS__BF16 ? cpu->bf16 : cpu->vnni && qs__library_has("avx512_core_vnni"));
    if (!cpu->weight_gradient || !multiplies)
        return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels need AVX-512, and its products of these operands");
    if (with->groups > 1 || qs__case_has(one, QS_DIFF_BIAS) || with->stride[0] != with->stride[1] || with->padding[0] != with->padding[1])
        return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels are for one group, equal strides and padding, and no bias");
    if (with->dilation[0] > 1 || with->dilation[1] > 1)
        return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels have no gaps between taps");
    return QS_OK;
}

/* Measured on Zen 5 (qsync bench --tune) beside oneDNN's: floats of few channels leave lanes empty. */
static bool is_behind(const job *j) {
    return j->type != QS__INT8 && j->size.channels < (j->type == QS__FP32 ? 2 : 1) * QS__WEIGHT_GRADIENT_LANES;
}

qs_status qs__build_weight_gradient(qs__chain *chain) {
    QS_TRY(check(chain));
    const job j = job_of(&chain->one);
    chain->behind = is_behind(&j);
    if (j.type == QS__INT8 && (qs__case_format(&chain->one, QS_DIFF_DST)->is_unsigned || !sums_fit(&chain->one, &j)))
        return qs_fail(QS_UNSUPPORTED, "own weight-gradient kernels are for signed gradients whose sums fit 32 bits");
    chain->offset[0] = qs__chain_reserve(chain, (size_t)(j.most_images * (src_bytes(&j, j.most_rows) + diff_bytes(&j, j.most_rows))));
    chain->offset[1] = qs__chain_reserve(chain, (size_t)(j.most_rows * j.size.out_width) * sizeof(int32_t));
    chain->offset[2] = qs__chain_reserve(chain, (size_t)(out_blocks(&j) * QS__WEIGHT_GRADIENT_LANES) * sizeof(int32_t));
    chain->offset[3] = qs__chain_reserve(chain, (size_t)(row_of(&j) + j.size.outputs) * sizeof(float));
    qs__chain_call(chain, run);
    snprintf(chain->name, sizeof chain->name, "own:weight_gradient:%s", chain->cpu->weight_gradient->name);
    return QS_OK;
}
