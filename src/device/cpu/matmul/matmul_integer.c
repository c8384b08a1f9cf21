// SPDX-License-Identifier: Apache-2.0
/* Products of two activations whose factors are codes, by the tiles of our own integer products (integer/products.h). Every matrix of the
 * result is a unit: its right factor is packed into panels of columns, its left one is staged a tile's rows at a time. Sums are exact. */
#include <string.h>

#include "cpu/integer/panels.h"
#include "cpu/matmul/units.h"
#include "cpu/staging.h"

typedef struct job {
    const qs__products *kernels;
    qs_matmul of;
    const int8_t *left, *right;
    qs__out result;
    float factor[QS__TILE_COLUMNS], ones[QS__TILE_ROWS]; /* every column has the same */
    const uint8_t *once;                                 /* powers that shift nothing */
    const int8_t *zeros;
    int64_t quads; /* quadruples of a head's inner dimension */
} job;

/* Of a slot. */
typedef struct room {
    uint8_t *staged;     /* [QS__TILE_ROWS][4 quads summed] */
    int8_t *packed;      /* [panels][quads summed][width][4] */
    int32_t *correction; /* [panels][QS__TILE_COLUMNS] */
} room;

static int64_t panels_of(const qs_matmul *of) {
    return (of->columns + QS__TILE_COLUMNS - 1) / QS__TILE_COLUMNS;
}

static room room_of(const qs_matmul *of, qs__pieces *pieces) {
    const int64_t length = (of->inner + 3) / 4 * 4 * of->summed, columns = panels_of(of) * QS__TILE_COLUMNS;
    room out = {.staged = qs__piece(pieces, QS__TILE_ROWS * length)};
    out.packed = qs__piece(pieces, columns * length);
    out.correction = qs__piece(pieces, columns * (int64_t)sizeof *out.correction);
    return out;
}

/* ---- Packing ---- */

static void pack_right(const job *j, int64_t sample, int64_t head, const room *to) {
    const qs_matmul *of = &j->of;
    const int64_t panel_bytes = 4 * j->quads * QS__TILE_COLUMNS;
    for (int64_t panel = 0; panel < panels_of(of); panel++) {
        const int64_t first = panel * QS__TILE_COLUMNS, left = of->columns - first;
        const int columns = left < QS__TILE_COLUMNS ? (int)left : QS__TILE_COLUMNS;
        int32_t sum[QS__TILE_COLUMNS] = {0};
        for (int64_t g = 0; g < of->summed; g++) {
            const int8_t *from = j->right + qs__matrix_at(&of->right, sample, head * of->summed + g) + first * of->right.column;
            int8_t *at = to->packed + (panel * of->summed + g) * panel_bytes;
            if (of->right.column == 1)
                qs__panel_of_rows(j->kernels, of->inner, of->right.row, from, columns, j->zeros, sum, at);
            else
                qs__panel_of_columns(j->kernels, of->inner, of->right.column, from, columns, sum, at);
        }
        for (int c = 0; c < QS__TILE_COLUMNS; c++)
            to->correction[first + c] = (int32_t)(128u * (uint32_t)sum[c]);
    }
}

/* Rows first ... first + rows - 1, signs flipped; what is beyond the inner dimension meets zeros on the right. */
static void stage_left(const job *j, int64_t sample, int64_t head, int64_t first, int rows, const room *to) {
    const qs_matmul *of = &j->of;
    const int64_t length = 4 * j->quads;
    for (int64_t g = 0; g < of->summed; g++) {
        const int8_t *from = j->left + qs__matrix_at(&of->left, sample, head * of->summed + g) + first * of->left.row;
        if (of->left.column == 1) {
            for (int r = 0; r < rows; r++) {
                uint8_t *row = to->staged + (r * of->summed + g) * length;
                for (int64_t k = 0; k < of->inner; k += QS__GRAIN)
                    j->kernels->lift(of->inner - k < QS__GRAIN ? of->inner - k : QS__GRAIN, true, j->once, from + r * of->left.row + k,
                                     row + k);
                memset(row + of->inner, 0, (size_t)(length - of->inner));
            }
            continue;
        }
        uint8_t *panel = to->staged + g * length * QS__TILE_ROWS;
        for (int64_t k = 0; k < length; k += 4, panel += QS__STEP_PANEL) {
            const int8_t *row[4];
            for (int q = 0; q < 4; q++)
                row[q] = k + q < of->inner ? from + (k + q) * of->left.column : j->zeros;
            j->kernels->interleave(rows, QS__TILE_ROWS, true, row, NULL, (int8_t *)panel);
        }
    }
}

/* ---- Products ---- */

static void unit_multiply(const void *context, int64_t sample, int64_t head, char *scratch) {
    const job *j = context;
    const qs_matmul *of = &j->of;
    const room own = room_of(of, &(qs__pieces){scratch, 0}), *at = &own;
    const int64_t length = 4 * j->quads * of->summed;
    const qs__stretch stretch = {0, j->quads * of->summed, false};
    const bool side_by_side = of->left.column == 1;
    const qs__out result = qs__out_at(j->result, qs__matrix_at(&of->result, sample, head));
    pack_right(j, sample, head, at);
    for (int64_t first = 0; first < of->rows; first += QS__TILE_ROWS) {
        const int64_t left = of->rows - first;
        qs__tile tile = {
            .step = side_by_side ? QS__STEP_ROWS : QS__STEP_PANEL, .stretch = &stretch, .stretches = 1, .width = QS__TILE_COLUMNS};
        tile.rows = left < QS__TILE_ROWS ? (int)left : QS__TILE_ROWS;
        tile.result = result.type == QS__BF16 ? QS__TILE_BF16 : QS__TILE_FP32;
        tile.column_factor = j->factor, tile.row_factor = j->ones;
        stage_left(j, sample, head, first, tile.rows, at);
        for (int r = 0; r < QS__TILE_ROWS; r++) {
            const int here = r < tile.rows ? r : tile.rows - 1; /* those beyond are read and not written */
            tile.left[r] = at->staged + (side_by_side ? here * length : 4 * r);
        }
        for (int64_t panel = 0; panel < panels_of(of); panel++) {
            const int64_t column = panel * QS__TILE_COLUMNS, beyond = of->columns - column;
            tile.right = at->packed + column * length;
            tile.correction = at->correction + column;
            tile.columns = beyond < QS__TILE_COLUMNS ? (int)beyond : QS__TILE_COLUMNS;
            for (int r = 0; r < QS__TILE_ROWS; r++)
                tile.row[r] = qs__out_at(result, (first + (r < tile.rows ? r : tile.rows - 1)) * of->result.row + column).at;
            j->kernels->tile(&tile);
        }
    }
}

static qs_role step_of(qs_role factor) {
    return factor == QS_SRC ? QS_SRC_STEP : factor == QS_SRC2 ? QS_SRC2_STEP : QS_DIFF_DST_STEP;
}

static size_t slot_bytes(const qs_matmul *of) {
    qs__pieces pieces = {NULL, 0};
    room_of(of, &pieces);
    return pieces.used;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    job j = {.kernels = chain->cpu->products, .of = qs_case_matmul(&chain->one)};
    const float factor =
        *(const float *)qs__cpu_data(chain, step_of(j.of.left.role)) * *(const float *)qs__cpu_data(chain, step_of(j.of.right.role));
    j.left = qs__staged_in(chain, j.of.left.role).at, j.right = qs__staged_in(chain, j.of.right.role).at;
    j.result = qs__staged_out(chain, j.of.result.role);
    j.once = (const uint8_t *)chain->scratch + chain->offset[1];
    j.zeros = (const int8_t *)chain->scratch + chain->offset[2];
    j.quads = (j.of.inner + 3) / 4;
    memset(chain->scratch + chain->offset[1], 1, QS__GRAIN);
    memset(chain->scratch + chain->offset[2], 0, QS__TILE_COLUMNS);
    for (int c = 0; c < QS__TILE_COLUMNS; c++)
        j.factor[c] = factor;
    for (int r = 0; r < QS__TILE_ROWS; r++)
        j.ones[r] = 1;
    qs__matmul_units(&j.of, chain->scratch + chain->offset[0], slot_bytes(&j.of), unit_multiply, &j);
    return QS_OK;
}

qs_status qs__build_matmul_integer(qs__chain *chain) {
    const qs_matmul of = qs_case_matmul(&chain->one);
    const qs_format *left = qs__case_format(&chain->one, of.left.role), *right = qs__case_format(&chain->one, of.right.role);
    if (left->kind != QS_KIND_INTEGER)
        return qs_fail(QS_UNSUPPORTED, "%s is %s: this kernel multiplies codes", qs_role_name(of.left.role), left->name);
    if ((double)(of.inner * of.summed) * left->max * right->max > INT32_MAX)
        return qs_fail(QS_UNSUPPORTED, "%lld products of codes do not fit a sum of 32 bits", (long long)(of.inner * of.summed));
    chain->offset[0] = qs__chain_reserve(chain, (size_t)qs__matmul_slots(&of) * slot_bytes(&of));
    chain->offset[1] = qs__chain_reserve(chain, QS__GRAIN);
    chain->offset[2] = qs__chain_reserve(chain, QS__TILE_COLUMNS);
    QS_TRY(qs__staged_build(chain, "matmul", run));
    snprintf(chain->name, sizeof chain->name, "own:matmul_integer:%s", chain->cpu->products->name);
    return QS_OK;
}
