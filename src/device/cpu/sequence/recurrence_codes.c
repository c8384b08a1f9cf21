// SPDX-License-Identifier: Apache-2.0
/* Products of recurrences in codes, by the tiles of our own integer products (integer/products.h). */
#include "cpu/sequence/recurrence_codes.h"

#include "cpu/integer/panels.h"
#include "cpu/vector/kernels.h"

#include <string.h>

/* Rows of a sum over samples and positions that 32 bits hold for certain: 127 × 127 × this. */
enum { SLICE = 1 << 16 };

static const int8_t zeros[QS__TILE_COLUMNS];

static int64_t length_of(int64_t inner) {
    return (inner + 3) / 4 * 4;
}

static int64_t panels_of(int64_t columns) {
    return (columns + QS__TILE_COLUMNS - 1) / QS__TILE_COLUMNS;
}

static int columns_of(int64_t columns, int64_t panel) {
    const int64_t left = columns - panel * QS__TILE_COLUMNS;
    return left < QS__TILE_COLUMNS ? (int)left : QS__TILE_COLUMNS;
}

/* What the left factor's flipped signs add to the sum of each column. */
static void corrections_put(const int32_t *sum, int32_t *to) {
    for (int c = 0; c < QS__TILE_COLUMNS; c++)
        to[c] = (int32_t)(128u * (uint32_t)sum[c]);
}

/* ---- Products ---- */

static qs__codes_right codes_right_make(qs__pieces *pieces, int64_t inner, int64_t columns) {
    const int64_t whole = panels_of(columns) * QS__TILE_COLUMNS;
    qs__codes_right out = {.inner = inner, .columns = columns};
    out.packed = qs__piece(pieces, whole * length_of(inner));
    out.correction = qs__piece(pieces, whole * (int64_t)sizeof *out.correction);
    out.factor = qs__piece(pieces, whole * (int64_t)sizeof *out.factor);
    return out;
}

static void codes_pack(const qs__products *kernels, const qs__codes_right *right, bool rows_are_columns, const int8_t *codes,
                       int64_t pitch) {
    for (int64_t panel = 0; panel < panels_of(right->columns); panel++) {
        const int64_t first = panel * QS__TILE_COLUMNS;
        const int columns = columns_of(right->columns, panel);
        int8_t *to = right->packed + first * length_of(right->inner);
        int32_t sum[QS__TILE_COLUMNS] = {0};
        if (rows_are_columns)
            qs__panel_of_columns(kernels, right->inner, pitch, codes + first * pitch, columns, sum, to);
        else
            qs__panel_of_rows(kernels, right->inner, pitch, codes + first, columns, zeros, sum, to);
        corrections_put(sum, right->correction + first);
    }
}

static int64_t codes_room(int64_t inner) {
    return QS__TILE_ROWS * length_of(inner);
}

/* Rows of a tile, signs flipped, one behind the other; what is beyond the inner dimension meets zeros. */
static void stage(int64_t inner, int rows, const int8_t *left, int64_t left_row, uint8_t *to) {
    const int64_t length = length_of(inner);
    for (int r = 0; r < rows; r++, left += left_row, to += length) {
        for (int64_t k = 0; k < inner; k++)
            to[k] = (uint8_t)left[k] ^ 0x80;
        memset(to + inner, 0, (size_t)(length - inner));
    }
}

static void codes_multiply(const qs__products *kernels, const qs__codes_right *right, int64_t rows, const int8_t *left, int64_t left_row,
                           const float *row_factor, uint8_t *room, float *dst, int64_t dst_row) {
    const int64_t length = length_of(right->inner);
    const qs__stretch stretch = {0, length / 4, false};
    for (int64_t first = 0; first < rows; first += QS__TILE_ROWS) {
        float factor[QS__TILE_ROWS];
        qs__tile tile = {.step = QS__STEP_ROWS, .stretch = &stretch, .stretches = 1, .width = QS__TILE_COLUMNS, .result = QS__TILE_FP32};
        tile.rows = rows - first < QS__TILE_ROWS ? (int)(rows - first) : QS__TILE_ROWS;
        tile.row_factor = factor;
        stage(right->inner, tile.rows, left + first * left_row, left_row, room);
        for (int r = 0; r < QS__TILE_ROWS; r++) { /* those beyond are read and not written */
            factor[r] = row_factor && r < tile.rows ? row_factor[first + r] : 1;
            tile.left[r] = room + (r < tile.rows ? r : tile.rows - 1) * length;
        }
        for (int64_t panel = 0; panel < panels_of(right->columns); panel++) {
            const int64_t column = panel * QS__TILE_COLUMNS;
            tile.right = right->packed + column * length;
            tile.correction = right->correction + column;
            tile.column_factor = right->factor + column;
            tile.columns = columns_of(right->columns, panel);
            for (int r = 0; r < QS__TILE_ROWS; r++)
                tile.row[r] = dst + (first + (r < tile.rows ? r : tile.rows - 1)) * dst_row + column;
            kernels->tile(&tile);
        }
    }
}

/* ---- Sums over samples and positions ---- */

static int64_t slices_of(int64_t rows) {
    return (rows + SLICE - 1) / SLICE;
}

static int64_t slice_rows(int64_t rows, int64_t slice) {
    const int64_t left = rows - slice * SLICE;
    return left < SLICE ? left : SLICE;
}

static qs__codes_sums codes_sums_make(qs__pieces *pieces, int64_t rows, int64_t columns) {
    const int64_t whole = panels_of(columns) * QS__TILE_COLUMNS;
    qs__codes_sums out = {.rows = rows, .columns = columns};
    out.packed = qs__piece(pieces, whole * length_of(rows));
    out.correction = qs__piece(pieces, whole * slices_of(rows) * (int64_t)sizeof *out.correction);
    return out;
}

static int64_t codes_sums_room(int64_t rows) {
    return QS__TILE_ROWS * length_of(rows < SLICE ? rows : SLICE);
}

/* Where a slice of a panel begins; slices are whole quadruples but for the last. */
static int8_t *packed_at(const qs__codes_sums *sums, int64_t panel, int64_t slice) {
    return sums->packed + QS__TILE_COLUMNS * (panel * length_of(sums->rows) + slice * SLICE);
}

static int32_t *correction_at(const qs__codes_sums *sums, int64_t panel, int64_t slice) {
    return sums->correction + (panel * slices_of(sums->rows) + slice) * QS__TILE_COLUMNS;
}

static void codes_sums_pack(const qs__products *kernels, const qs__codes_sums *sums, int64_t panel) {
    for (int64_t slice = 0; slice < slices_of(sums->rows); slice++) {
        const int8_t *from = sums->right + slice * SLICE * sums->right_row + panel * QS__TILE_COLUMNS;
        int32_t sum[QS__TILE_COLUMNS] = {0};
        qs__panel_of_rows(kernels, slice_rows(sums->rows, slice), sums->right_row, from, columns_of(sums->columns, panel), zeros, sum,
                          packed_at(sums, panel, slice));
        corrections_put(sum, correction_at(sums, panel, slice));
    }
}

/* A panel of the left factor: `count` of its columns, signs flipped. */
static void panel_of_left(const qs__products *kernels, int64_t rows, int64_t pitch, int count, const int8_t *from, int8_t *to) {
    for (int64_t k = 0; k < rows; k += 4, to += QS__STEP_PANEL) {
        const int8_t *row[4];
        for (int q = 0; q < 4; q++)
            row[q] = k + q < rows ? from + (k + q) * pitch : zeros;
        kernels->interleave(count, QS__TILE_ROWS, true, row, NULL, to);
    }
}

static void codes_sums_block(const qs__products *kernels, const qs__codes_sums *sums, int64_t first, int count, float factor, int8_t *room,
                             float *dst) {
    int64_t total[QS__TILE_ROWS][QS__TILE_COLUMNS];
    int32_t part[QS__TILE_ROWS][QS__TILE_COLUMNS];
    const int64_t slices = slices_of(sums->rows);
    for (int64_t panel = 0; panel < panels_of(sums->columns); panel++) {
        const int columns = columns_of(sums->columns, panel);
        memset(total, 0, sizeof total);
        for (int64_t slice = 0; slice < slices; slice++) {
            const int64_t rows = slice_rows(sums->rows, slice);
            const qs__stretch stretch = {0, length_of(rows) / 4, false};
            qs__tile tile = {
                .step = QS__STEP_PANEL, .stretch = &stretch, .stretches = 1, .width = QS__TILE_COLUMNS, .result = QS__TILE_INT32};
            if (panel == 0 || slices > 1)
                panel_of_left(kernels, rows, sums->left_row, count, sums->left + slice * SLICE * sums->left_row + first, room);
            tile.right = packed_at(sums, panel, slice);
            tile.correction = correction_at(sums, panel, slice);
            tile.rows = count;
            tile.columns = columns;
            for (int r = 0; r < QS__TILE_ROWS; r++) {
                tile.left[r] = (const uint8_t *)room + 4 * (r < count ? r : count - 1);
                tile.row[r] = part[r];
            }
            kernels->tile(&tile);
            for (int r = 0; r < count; r++)
                for (int c = 0; c < columns; c++)
                    total[r][c] += part[r][c];
        }
        for (int r = 0; r < count; r++)
            for (int c = 0; c < columns; c++)
                dst[r * sums->columns + panel * QS__TILE_COLUMNS + c] = (float)total[r][c] * factor;
    }
}

/* ---- Scratch ---- */

static qs__codes_met met_make(const qs__recurrence_codes *codes, qs__pieces *pieces, bool backward, int64_t first, int64_t count) {
    const int64_t samples = codes->is.samples, all = samples * codes->is.positions, hidden = codes->is.hidden;
    qs__codes_met out = {.first = first, .count = count, .sample = (backward ? codes->is.positions : 1) * hidden};
    out.step = backward ? hidden : 0;
    out.at = qs__piece(pieces, samples * out.sample);
    out.from = codes_right_make(pieces, hidden, count);
    if (backward && !codes->gradients) out.values = qs__piece(pieces, all * codes->width * (int64_t)sizeof *out.values);
    if (!codes->gradients) return out;
    out.to = codes_right_make(pieces, count, hidden);
    out.sums = codes_sums_make(pieces, all, hidden);
    out.sums.left = codes->all, out.sums.left_row = codes->channels;
    out.sums.right = out.at, out.sums.right_row = hidden;
    return out;
}

qs__recurrence_codes qs__codes_make(const qs_case *one, int64_t shares, qs__pieces *pieces) {
    const bool backward = qs_case_position(one, QS_DIFF_SRC) >= 0;
    qs__recurrence_codes out = {.of = one->attributes.to, .rounding = one->attributes.rounding, .is = qs_case_recurrence(one)};
    const int64_t samples = out.is.samples, all = samples * out.is.positions, hidden = out.is.hidden, each = sizeof(float);
    if (!out.of) return out;
    out.gradients = backward ? one->attributes.gradients : NULL;
    out.channels = out.is.gates * hidden;
    out.width = (hidden + QS__MATMUL_COLUMNS - 1) / QS__MATMUL_COLUMNS * QS__MATMUL_COLUMNS;
    out.step = qs_step_of_absmax(out.of, 1);
    out.weights = qs__piece(pieces, out.channels * hidden);
    out.row_step = qs__piece(pieces, out.channels * each);
    out.column = qs__piece(pieces, hidden * each);
    out.room_bytes = codes_room(out.channels > hidden ? out.channels : hidden);
    if (out.gradients) {
        if (out.room_bytes < codes_sums_room(all)) out.room_bytes = codes_sums_room(all);
        out.sent = qs__piece(pieces, samples * out.channels);
        out.sent_step = qs__piece(pieces, samples * each);
        out.all = qs__piece(pieces, all * out.channels);
    }
    out.room_bytes = (out.room_bytes + 63) / 64 * 64;
    out.room = qs__piece(pieces, shares * out.room_bytes);
    const int64_t direct = out.is.cell == QS_CELL_GRU ? 2 * hidden : out.channels;
    out.state = met_make(&out, pieces, backward, 0, direct);
    if (direct < out.channels) out.reset = met_make(&out, pieces, backward, direct, hidden);
    return out;
}

/* ---- R, and products with it ---- */

void qs__codes_read(const qs__recurrence_codes *codes, const float *all) {
    const int64_t hidden = codes->is.hidden, channels = codes->channels;
    const float *weights = all + codes->direction * channels * hidden;
    const qs__codes_met *const each[] = {&codes->state, &codes->reset};
    const qs_row_codes by_row = {.format = codes->of,
                                 .rounding = codes->rounding,
                                 .random = qs_recurrence_draws(&codes->is, codes->run, QS_CODES_OF_ROWS, 0, 0, codes->direction),
                                 .stride = (uint64_t)((hidden + 1) / 2 * 2),
                                 .rows = channels,
                                 .per_row = hidden,
                                 .columns = hidden};
    qs_quantize_rows(&by_row, weights, codes->row_step, codes->column, codes->weights);
    for (int i = 0; i < 2 && each[i]->count > 0; i++) {
        codes_pack(codes->products, &each[i]->from, true, codes->weights + each[i]->first * hidden, hidden);
        for (int64_t k = 0; k < each[i]->count; k++)
            each[i]->from.factor[k] = codes->row_step[each[i]->first + k] * codes->step;
    }
    if (!codes->gradients) return;
    for (int64_t k = 0; k < hidden; k++)
        codes->column[k] = qs_step_of_absmax(codes->gradients, codes->column[k]);
    qs_quantize_channels(codes->gradients, codes->rounding,
                         qs_recurrence_draws(&codes->is, codes->run, QS_CODES_OF_COLUMNS, 0, 0, codes->direction),
                         (qs_channel_layout){channels, hidden, 1}, codes->column, weights, codes->weights);
    for (int i = 0; i < 2 && each[i]->count > 0; i++) {
        codes_pack(codes->products, &each[i]->to, false, codes->weights + each[i]->first * hidden, hidden);
        memcpy(each[i]->to.factor, codes->column, (size_t)hidden * sizeof(float));
    }
}

static char *room_of(const qs__recurrence_codes *codes, int64_t share) {
    return codes->room + share * codes->room_bytes;
}

static qs_random_stream draws_of(const qs__recurrence_codes *codes, qs_recurrence_draw which, int64_t sample, int64_t step) {
    const int64_t position = codes->is.reverse[codes->direction] ? codes->is.positions - 1 - step : step;
    return qs_recurrence_draws(&codes->is, codes->run, which, sample, position, codes->direction);
}

void qs__codes_forward(const qs__recurrence_codes *codes, int64_t first, int64_t end, int64_t share, bool reset, int64_t step,
                       const qs__recurrence_rows *from, const qs__recurrence_rows *gates) {
    const qs__codes_met *met = reset ? &codes->reset : &codes->state;
    const int64_t hidden = codes->is.hidden;
    for (int64_t n = first; n < end; n++) {
        int8_t *to = met->at + n * met->sample + step * met->step;
        qs_quantize_array(codes->of, codes->rounding, draws_of(codes, reset ? QS_CODES_OF_RESET : QS_CODES_OF_STATES, n, step), codes->step,
                          hidden, qs__recurrence_row(from, n, step), to);
        if (met->values) qs_dequantize_array(codes->step, hidden, to, met->values + (n * codes->is.positions + step) * codes->width);
    }
    codes_multiply(codes->products, &met->from, end - first, met->at + first * met->sample + step * met->step, met->sample, NULL,
                   (uint8_t *)room_of(codes, share), qs__recurrence_row(gates, first, step) + met->first, gates->sample);
}

void qs__codes_backward(const qs__recurrence_codes *codes, int64_t first, int64_t end, int64_t share, bool reset, int64_t step,
                        const qs__recurrence_rows *gates, const qs__recurrence_rows *product) {
    const qs__codes_met *met = reset ? &codes->reset : &codes->state;
    for (int64_t n = first; n < end; n++) {
        const float *p = qs__recurrence_row(gates, n, step) + met->first;
        qs_random_stream draws = draws_of(codes, QS_CODES_OF_STEPS, n, step);
        draws.first += (uint64_t)met->first;
        codes->sent_step[n] = qs_step_of_absmax(codes->gradients, qs_absmax_array(met->count, p));
        qs_quantize_array(codes->gradients, codes->rounding, draws, codes->sent_step[n], met->count, p, codes->sent + n * codes->channels);
    }
    codes_multiply(codes->products, &met->to, end - first, codes->sent + first * codes->channels, codes->channels, codes->sent_step + first,
                   (uint8_t *)room_of(codes, share), qs__recurrence_row(product, first, 0), product->sample);
}

/* ---- The gradient of R ---- */

typedef struct rounding {
    const qs__recurrence_codes *codes;
    const qs__recurrence_rows *gates;
    float step;
} rounding;

static void samples_round(void *context, int64_t begin, int64_t end) {
    const rounding *one = context;
    const qs__recurrence_codes *codes = one->codes;
    for (int64_t n = begin; n < end; n++)
        for (int64_t s = 0; s < codes->is.positions; s++)
            qs_quantize_array(codes->gradients, codes->rounding, draws_of(codes, QS_CODES_OF_GRADIENTS, n, s), one->step, codes->channels,
                              qs__recurrence_row(one->gates, n, s), codes->all + (n * codes->is.positions + s) * codes->channels);
}

/* Panels of states, and behind them those of r * h'. */
static void panels_pack(void *context, int64_t begin, int64_t end) {
    const qs__recurrence_codes *codes = context;
    const int64_t panels = panels_of(codes->is.hidden);
    for (int64_t panel = begin; panel < end; panel++)
        codes_sums_pack(codes->products, panel < panels ? &codes->state.sums : &codes->reset.sums, panel % panels);
}

void qs__codes_gradients(qs__recurrence_codes *codes, const qs__recurrence_rows *gates) {
    const int64_t all = codes->is.samples * codes->is.positions * codes->channels; /* one behind another in backward */
    rounding one = {codes, gates, qs_step_of_absmax(codes->gradients, qs_absmax_array(all, gates->at))};
    codes->all_factor = one.step * codes->step;
    qs_parallel(codes->is.samples, 1, samples_round, &one);
    qs_parallel((codes->reset.count > 0 ? 2 : 1) * panels_of(codes->is.hidden), 1, panels_pack, codes);
}

void qs__codes_weights(const qs__recurrence_codes *codes, int64_t share, int64_t first, int count, float *dst) {
    const qs__codes_met *met = codes->reset.count > 0 && first >= codes->reset.first ? &codes->reset : &codes->state;
    codes_sums_block(codes->products, &met->sums, first, count, codes->all_factor, (int8_t *)room_of(codes, share), dst);
}
