// SPDX-License-Identifier: Apache-2.0
/* Products of conv2d and linear in narrow accumulators: our own kernels, any float formats in and out. Columns are channels of the result,
 * in blocks of vectors; rows are pixels (forward, input gradient) or weights (weight gradient). Threads take whole sums, so their number
 * changes no bit. Images are copied, with their padding, to where rows can be read in place: one image a thread at a time. */
#include "cpu/narrow/narrow_plan.h"

#include <stdatomic.h>
#include <string.h>

typedef struct job {
    const qs__narrow_plan *plan;
    const qs_case *one;
    const qs_run *run;
    const qs__cpu_kernels *kernels;
    qs__in in[2]; /* what rows are made of, and the other factor: weights, or gradients of weight gradients */
    qs__out dst;
    const float *bias;
    float *diff_bias;
    char *scratch;
    const qs__narrow_piece *piece;
    atomic_bool weights_differ; /* some are not finite */
} job;

/* ---- Elements of either kind --------------------------------------------------------------------------------------------------------- */

static const char *element(const qs__narrow_plan *plan, const void *array, int64_t index) {
    return (const char *)array + (size_t)index * plan->element;
}

static char *place(const qs__narrow_plan *plan, void *array, int64_t index) {
    return (char *)array + (size_t)index * plan->element;
}

static void copy_element(const qs__narrow_plan *plan, void *dst, int64_t to, const void *src, int64_t from) {
    if (plan->rule.lanes == QS__NARROW_DOUBLES) {
        ((double *)dst)[to] = ((const double *)src)[from];
    } else {
        ((float *)dst)[to] = ((const float *)src)[from];
    }
}

enum { ROWS, OTHER }; /* the factors, as in qs__narrow_rule.scale */

/* Elements from `first` on; false where some are not finite. */
static bool read_factors(const job *j, int factor, int64_t first, int64_t count, void *to) {
    const qs__narrow_rule *rule = &j->plan->rule;
    return j->kernels->narrow_read[rule->lanes](count, qs__in_at(j->in[factor], first), rule->scale[factor], to);
}

/* ---- Weights: blocks of columns, [group][block][product][QS__NARROW_COLUMNS] --------------------------------------------------------- */

/* The weights [output][tap][input] that one product of a block multiplies: index of the first, and from one column to the next. */
typedef struct weight_columns {
    int64_t first, step;
} weight_columns;

static weight_columns columns_of(const qs__narrow_plan *p, int64_t group, int64_t k, int64_t column) {
    if (p->pass == QS__FORWARD) return (weight_columns){(group * p->group_outputs + column) * p->length + k, p->length};
    const int64_t tap = k / p->group_outputs, output = group * p->group_outputs + k % p->group_outputs;
    return (weight_columns){(output * p->taps + tap) * p->group_inputs + column, 1};
}

static void pack_product(const qs__narrow_plan *p, const void *flat, weight_columns from, int64_t width, void *to) {
    memset(place(p, to, width), 0, (size_t)(QS__NARROW_COLUMNS - width) * p->element);
    if (from.step == 1) {
        memcpy(to, element(p, flat, from.first), (size_t)width * p->element);
        return;
    }
    for (int64_t c = 0; c < width; c++)
        copy_element(p, to, c, flat, from.first + c * from.step);
}

static void pack_range(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const qs__narrow_plan *p = j->plan;
    for (int64_t at = begin; at < end; at++) {
        const int64_t k = at % p->length, block = at / p->length % p->blocks, group = at / p->length / p->blocks;
        const int64_t first = block * QS__NARROW_COLUMNS, left = p->group_columns - first;
        pack_product(p, j->scratch + p->flat, columns_of(p, group, k, first), left < QS__NARROW_COLUMNS ? left : QS__NARROW_COLUMNS,
                     place(p, j->scratch + p->packed, at * QS__NARROW_COLUMNS));
    }
}

static void read_range(void *context, int64_t begin, int64_t end) {
    job *j = context;
    if (!read_factors(j, OTHER, begin, end - begin, place(j->plan, j->scratch + j->plan->flat, begin))) j->weights_differ = true;
}

static void pack_weights(job *j) {
    const qs__narrow_plan *p = j->plan;
    qs_parallel(p->weights, QS__GRAIN, read_range, j);
    qs_parallel(p->view.groups * p->blocks * p->length, QS__GRAIN / QS__NARROW_COLUMNS, pack_range, j);
}

/* ---- Images -------------------------------------------------------------------------------------------------------------------------- */

/* Lines begin .. end - 1 of the padded image of a sample: what lies inside is copied, the rest is zero and stays so. False where some
 * values are not finite. */
static bool read_lines(const job *j, int64_t sample, int64_t begin, int64_t end, void *image) {
    const qs__narrow_image *g = &j->plan->image;
    const int64_t line = g->width * g->channels;
    bool finite = true;
    for (int64_t h = begin - g->top; h < end - g->top; h++) {
        if (h < 0 || h >= g->height) continue;
        const int64_t to = ((h + g->top) * g->padded_width + g->left) * g->channels;
        finite &= read_factors(j, ROWS, (sample * g->height + h) * line, line, place(j->plan, image, to));
    }
    return finite;
}

static void *image_of_slot(const job *j, int64_t slot) {
    const qs__narrow_plan *p = j->plan;
    char *image = j->scratch + p->images + (size_t)slot * p->slot_bytes;
    memset(image, 0, (size_t)p->image.elements * p->element);
    return image;
}

/* ---- Forward and input gradient ------------------------------------------------------------------------------------------------------ */

void qs__narrow_draw_keys(const qs_case *one, const qs_run *run, int r, int64_t row, qs__narrow_tile *tile) {
    if (tile->rule->adder != QS__NARROW_STOCHASTIC) return;
    const qs_narrow_draws draws = qs_op_narrow_draws(one, run, row);
    const uint64_t key = qs_random_key_for(draws.key, draws.first);
    tile->key_low[r] = (uint32_t)key;
    tile->key_high[r] = (uint32_t)(key >> 32);
    tile->stride = (uint32_t)draws.stride;
}

/* Rows of results that a tile makes; those behind `rows` repeat the last. */
typedef struct pixels {
    int64_t rows, row[QS__NARROW_ROWS];
} pixels;

static pixels gather_pixels(const job *j, const qs__narrow_grid *grid, int64_t sample, int64_t line, int64_t first, int64_t count,
                            const void *image, qs__narrow_tile *tile) {
    const qs__narrow_plan *p = j->plan;
    pixels out = {.rows = count - first < QS__NARROW_ROWS ? count - first : QS__NARROW_ROWS};
    for (int r = 0; r < QS__NARROW_ROWS; r++) {
        const int64_t at = first + (r < out.rows ? r : out.rows - 1), i = line + at / grid->width, w = at % grid->width;
        const int64_t h = grid->origin[0] + i * p->result_step[0], column = grid->origin[1] + w * p->result_step[1];
        out.row[r] = (sample * p->view.out_height + h) * p->view.out_width + column;
        tile->a[r] = element(p, image, grid->base + i * p->line_step + w * p->pixel_step);
        qs__narrow_draw_keys(j->one, j->run, r, out.row[r], tile);
    }
    return out;
}

static void block_sums(const job *j, const pixels *rows, int64_t group, int64_t block, qs__narrow_tile tile) {
    const qs__narrow_plan *p = j->plan;
    _Alignas(64) char sum[QS__NARROW_ROWS * QS__NARROW_COLUMNS * sizeof(double)], total[sizeof sum];
    const int64_t first = group * p->group_columns + block * QS__NARROW_COLUMNS, left = p->group_columns - block * QS__NARROW_COLUMNS;
    memset(sum, 0, QS__NARROW_ROWS * QS__NARROW_COLUMNS * p->element);
    if (p->chunk) memset(total, 0, QS__NARROW_ROWS * QS__NARROW_COLUMNS * p->element);
    for (int r = 0; r < QS__NARROW_ROWS; r++)
        tile.a[r] = element(p, tile.a[r], group * p->group_products);
    tile.b = element(p, j->scratch + p->packed, (group * p->blocks + block) * p->length * QS__NARROW_COLUMNS);
    tile.sum = sum, tile.total = total;
    tile.counter = (uint32_t)first;
    j->kernels->narrow_tile[p->rule.lanes](&tile);
    for (int64_t r = 0; r < rows->rows; r++)
        j->kernels->narrow_write[p->rule.lanes](left < QS__NARROW_COLUMNS ? left : QS__NARROW_COLUMNS,
                                                element(p, p->chunk ? total : sum, r * QS__NARROW_COLUMNS), p->rule.result,
                                                j->bias ? j->bias + first : NULL, j->dst, rows->row[r] * p->columns + first);
}

/* A band of a grid's lines. */
static void grid_sums(const job *j, const qs__narrow_grid *grid, int64_t sample, int64_t begin, int64_t end, const void *image,
                      bool finite) {
    const qs__narrow_plan *p = j->plan;
    const int64_t count = (end - begin) * grid->width;
    for (int64_t first = 0; first < count; first += QS__NARROW_ROWS) {
        qs__narrow_tile tile = {.rule = &p->rule, .piece = j->piece + grid->piece, .pieces = grid->pieces, .a_step = 1};
        tile.b_step = QS__NARROW_COLUMNS, tile.variant = p->rule.variant, tile.variant.finite = finite;
        const pixels rows = gather_pixels(j, grid, sample, begin, first, count, image, &tile);
        for (int64_t group = 0; group < p->view.groups; group++)
            for (int64_t block = 0; block < p->blocks; block++)
                block_sums(j, &rows, group, block, tile);
    }
}

static void image_slots(void *context, int64_t slot, int64_t end) {
    const job *j = context;
    const qs__narrow_plan *p = j->plan;
    void *image = image_of_slot(j, slot);
    const int64_t units = p->view.batch * p->bands;
    for (int64_t unit = units * slot / p->slots; unit < units * end / p->slots; unit++) {
        const int64_t sample = unit / p->bands, band = unit % p->bands;
        const int64_t first = p->grid_lines * band / p->bands, last = p->grid_lines * (band + 1) / p->bands;
        const bool finite = read_lines(j, sample, first * p->read_step, (last - 1) * p->read_step + p->read_lines, image);
        for (int64_t g = 0; g < p->grids; g++) {
            const qs__narrow_grid grid = qs__narrow_grid_at(p, g);
            grid_sums(j, &grid, sample, first < grid.height ? first : grid.height, last < grid.height ? last : grid.height, image,
                      finite && !j->weights_differ);
        }
    }
}

/* ---- Weight gradient ----------------------------------------------------------------------------------------------------------------- */

/* A tile of one group: rows (kh, kw, input) from `row` on, columns of a block. */
typedef struct unit {
    int64_t group, block, row, rows;
} unit;

static unit unit_at(const qs__narrow_plan *p, int64_t index) {
    const int64_t tiles = (p->rows + QS__NARROW_ROWS - 1) / QS__NARROW_ROWS, row = index % tiles * QS__NARROW_ROWS;
    return (unit){.group = index / tiles / p->blocks,
                  .block = index / tiles % p->blocks,
                  .row = row,
                  .rows = p->rows - row < QS__NARROW_ROWS ? p->rows - row : QS__NARROW_ROWS};
}

/* Sums of a unit, and behind them its totals. */
static char *unit_sums(const job *j, int64_t index) {
    return place(j->plan, j->scratch + j->plan->sums, index * 2 * QS__NARROW_ROWS * QS__NARROW_COLUMNS);
}

static void unit_advance(const job *j, int64_t index, const void *image, const void *diff, const qs__narrow_piece *piece, int64_t pieces,
                         bool finite) {
    const qs__narrow_plan *p = j->plan;
    const unit u = unit_at(p, index);
    const int64_t first = u.group * p->group_columns + u.block * QS__NARROW_COLUMNS;
    qs__narrow_tile tile = {.rule = &p->rule, .piece = piece, .pieces = pieces, .a_step = p->pixel_step, .b_step = p->columns};
    for (int r = 0; r < QS__NARROW_ROWS; r++) {
        const int64_t row = u.row + (r < u.rows ? r : u.rows - 1), tap = row / p->group_inputs, input = row % p->group_inputs;
        const int64_t line = tap / p->view.kernel[1], column = tap % p->view.kernel[1];
        const int64_t pixel = line * p->view.dilation[0] * p->image.padded_width + column * p->view.dilation[1];
        tile.a[r] = element(p, image, pixel * p->image.channels + u.group * p->group_inputs + input);
        qs__narrow_draw_keys(j->one, j->run, r, row, &tile);
    }
    tile.b = element(p, diff, first);
    tile.variant = p->rule.variant, tile.variant.finite = finite;
    tile.sum = unit_sums(j, index);
    tile.total = place(p, tile.sum, QS__NARROW_ROWS * QS__NARROW_COLUMNS);
    tile.counter = (uint32_t)first;
    j->kernels->narrow_tile[p->rule.lanes](&tile);
}

static void unit_write(const job *j, int64_t index) {
    const qs__narrow_plan *p = j->plan;
    const unit u = unit_at(p, index);
    const int64_t first = u.block * QS__NARROW_COLUMNS, left = p->group_columns - first;
    const char *sums = unit_sums(j, index) + (p->chunk ? (size_t)(QS__NARROW_ROWS * QS__NARROW_COLUMNS) * p->element : 0);
    for (int64_t r = 0; r < u.rows; r++) {
        float row[QS__NARROW_COLUMNS];
        const qs__out out = {.type = QS__FP32, .at = row};
        j->kernels->narrow_write[p->rule.lanes](QS__NARROW_COLUMNS, element(p, sums, r * QS__NARROW_COLUMNS), p->rule.result, NULL, out, 0);
        for (int64_t c = 0; c < QS__NARROW_COLUMNS && c < left; c++)
            ((float *)j->dst.at)[(u.group * p->group_columns + first + c) * p->rows + u.row + r] = row[c];
    }
}

/* Bias gradients are plain sums in double, pixel after pixel, of the gradients as they are. */
static void add_bias(const job *j, int64_t sample, double *bias) {
    const qs__narrow_plan *p = j->plan;
    const qs_format *format = qs_format_of(j->in[OTHER].type == QS__BF16 ? "bf16" : "fp32");
    float value[QS__NARROW_COLUMNS];
    for (int64_t pixel = sample * p->pixels; pixel < (sample + 1) * p->pixels; pixel++)
        for (int64_t c = 0; c < p->columns; c += QS__NARROW_COLUMNS) {
            const int64_t count = p->columns - c < QS__NARROW_COLUMNS ? p->columns - c : QS__NARROW_COLUMNS;
            qs_convert_to_fp32(format, count, qs__in_at(j->in[OTHER], pixel * p->columns + c).at, value);
            for (int64_t i = 0; i < count; i++)
                bias[c + i] += (double)value[i];
        }
}

static void weight_slots(void *context, int64_t slot, int64_t end) {
    const job *j = context;
    const qs__narrow_plan *p = j->plan;
    void *image = image_of_slot(j, slot), *diff = place(p, image, p->image.elements);
    double *bias = slot == 0 && j->diff_bias ? (double *)(j->scratch + p->bias) : NULL;
    qs__narrow_piece *piece = (qs__narrow_piece *)(j->scratch + p->pieces) + slot * p->most_pieces;
    const int64_t first = p->units * slot / p->slots, last = p->units * end / p->slots;
    memset(unit_sums(j, first), 0, (size_t)(unit_sums(j, last) - unit_sums(j, first)));
    if (bias) memset(bias, 0, (size_t)p->columns * sizeof *bias);
    bool finite = true; /* of all samples so far: sums stay NaN */
    for (int64_t sample = 0; sample < p->view.batch; sample++) {
        const int64_t pieces = qs__narrow_sample_pieces(p, sample, piece);
        finite &= read_lines(j, sample, 0, p->image.padded_height, image);
        finite &= read_factors(j, OTHER, sample * p->pixels * p->columns, p->pixels * p->columns, diff);
        for (int64_t u = first; u < last; u++)
            unit_advance(j, u, image, diff, piece, pieces, finite);
        if (bias) add_bias(j, sample, bias);
    }
    for (int64_t u = first; u < last; u++)
        unit_write(j, u);
    for (int64_t c = 0; bias && c < p->columns; c++)
        j->diff_bias[c] = (float)bias[c];
}

/* ---- Sizes of factors ---------------------------------------------------------------------------------------------------------------- */

typedef struct magnitudes {
    const qs__cpu_kernels *kernels;
    qs__in in;
    _Atomic uint32_t largest, least; /* bits; least: 0 where there is none yet */
} magnitudes;

static void magnitudes_range(void *context, int64_t begin, int64_t end) {
    magnitudes *m = context;
    uint32_t largest = 0, least = 0, known = m->largest;
    m->kernels->magnitudes(end - begin, qs__in_at(m->in, begin), &largest, &least);
    while (largest > known && !atomic_compare_exchange_weak(&m->largest, &known, largest))
        ;
    known = m->least;
    while (least - 1 < known - 1 && !atomic_compare_exchange_weak(&m->least, &known, least))
        ;
}

static qs__narrow_range range_of(const qs__chain *chain, qs_role role) {
    magnitudes m = {.kernels = chain->cpu->kernels, .in = qs__staged_in(chain, role)};
    qs_parallel(qs_shape_count(&qs__case_operand(&chain->one, role)->shape), QS__GRAIN, magnitudes_range, &m);
    return qs__narrow_range_of(m.largest, m.least);
}

qs__narrow_rule qs__narrow_settle(const qs__chain *chain, int64_t length, qs_role rows, qs_role other) {
    const qs__narrow_lanes lanes = qs__narrow_lanes_of(&chain->one, length, chain->cpu->kernels);
    const qs_narrow *narrow = &chain->one.attributes.accumulator;
    const qs__narrow_range range[2] = {range_of(chain, rows), range_of(chain, other)};
    qs__narrow_rule rule = qs__narrow_rule_of(&chain->one, lanes);
    if (lanes == QS__NARROW_FUSED && qs__narrow_fit(narrow, length, range, &rule)) return rule;
    if (lanes == QS__NARROW_FUSED) rule = qs__narrow_rule_of(&chain->one, QS__NARROW_DOUBLES);
    rule.variant.saturates = qs__narrow_saturates(narrow, length, range);
    return rule;
}

static int64_t length_of(const qs_case *one) {
    return qs__narrow_plan_of(one, QS__NARROW_FLOATS, 1).length;
}

/* The plan for the values at hand. */
static qs__narrow_plan settle(const qs__chain *chain, qs_role rows, qs_role other) {
    const qs__narrow_rule rule = qs__narrow_settle(chain, length_of(&chain->one), rows, other);
    qs__narrow_plan plan = qs__narrow_plan_of(&chain->one, rule.lanes, (int)chain->offset[1]);
    plan.rule = rule;
    return plan;
}

/* ---- Building ------------------------------------------------------------------------------------------------------------------------ */

static job start_job(const qs__chain *chain, const qs_run *run, const qs__narrow_plan *plan, qs_role rows, qs_role other) {
    return (job){.plan = plan,
                 .one = &chain->one,
                 .run = run,
                 .kernels = chain->cpu->kernels,
                 .in = {qs__staged_in(chain, rows), qs__staged_in(chain, other)},
                 .scratch = chain->scratch + chain->offset[0]};
}

static qs_status run_image_pass(const qs__chain *chain, const qs_run *run) {
    const bool forward = qs__case_pass(&chain->one) == QS__FORWARD;
    const qs_role rows = forward ? QS_SRC : QS_DIFF_DST;
    const qs__narrow_plan plan = settle(chain, rows, QS_WEIGHTS);
    job j = start_job(chain, run, &plan, rows, QS_WEIGHTS);
    j.dst = qs__staged_out(chain, forward ? QS_DST : QS_DIFF_SRC);
    j.bias = forward ? qs__cpu_data(chain, QS_BIAS) : NULL;
    qs__narrow_piece *piece = (qs__narrow_piece *)(j.scratch + plan.pieces);
    qs__narrow_grid_pieces(&plan, piece);
    j.piece = piece;
    pack_weights(&j);
    qs_parallel(plan.slots, 1, image_slots, &j);
    return QS_OK;
}

static qs_status run_weight_pass(const qs__chain *chain, const qs_run *run) {
    const qs__narrow_plan plan = settle(chain, QS_SRC, QS_DIFF_DST);
    job j = start_job(chain, run, &plan, QS_SRC, QS_DIFF_DST);
    j.dst = qs__staged_out(chain, QS_DIFF_WEIGHTS);
    j.diff_bias = qs__cpu_data(chain, QS_DIFF_BIAS);
    qs_parallel(plan.slots, 1, weight_slots, &j);
    return QS_OK;
}

const char *qs__narrow_family(qs__narrow_lanes lanes) {
    static const char *const families[QS__NARROW_KINDS] = {"narrow", "narrow_fused", "narrow_wide"};
    return families[lanes];
}

qs_status qs__build_narrow(qs__chain *chain) {
    if (!chain->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "no narrow accumulator");
    const int threads = qs_threads();
    const qs__narrow_lanes lanes = qs__narrow_lanes_of(&chain->one, length_of(&chain->one), chain->cpu->kernels);
    /* Doubles, where fused lanes may come to be those, take the most. */
    const qs__narrow_plan plan = qs__narrow_plan_of(&chain->one, lanes == QS__NARROW_FLOATS ? lanes : QS__NARROW_DOUBLES, threads);
    chain->offset[0] = qs__chain_reserve(chain, plan.scratch_bytes);
    chain->offset[1] = (size_t)threads; /* the number that scratch is made for */
    return qs__staged_build(chain, qs__narrow_family(lanes), plan.pass == QS__WEIGHT_GRADIENT ? run_weight_pass : run_image_pass);
}
