// SPDX-License-Identifier: Apache-2.0
/* Products that are gathered: for each shift group one plain integer product over the group's own channels. Its 32-bit sums are added to
 * those of the groups before, which were shifted by what lies between: group 0 first, whose sums weigh 2^(G-1). This goes through memory,
 * a block of sums that stays in the cache at a time. All sums are modulo 2^32, as those of tiles are, so that only the result must fit;
 * where it might not, run_wide of product_rows.c adds the groups' products in 64 bits. */
#include "cpu/integer/product_rows.h"

#include <string.h>

enum {
    SUM_ROWS = 4 * QS__TILE_ROWS,
    SUM_COLUMNS = 64, /* of a block of sums: 12 KiB, in the first cache */
    BLOCK_SUMS = SUM_ROWS * SUM_COLUMNS
};

/* ---- Memory ---- */

void qs__gathered_lay_out(qs__rows_job *job, qs__pieces *pieces) {
    const int64_t threads = job->product->gathered ? job->threads : 0;
    job->sums = qs__piece(pieces, threads * BLOCK_SUMS * (int64_t)sizeof *job->sums);
}

/* ---- Sums ---- */

/* From one row of a block of sums to the next. */
static int64_t sums_stride(const qs__rows_job *job) {
    const int64_t half = QS__TILE_COLUMNS / 2, padded = (job->columns + half - 1) / half * half;
    return padded < SUM_COLUMNS ? padded : SUM_COLUMNS;
}

/* One shift group: some of the stretches. */
typedef struct part_at {
    int begin, end;        /* stretches */
    int64_t before, quads; /* quadruples of the parts before it, and its own */
} part_at;

/* The next one: the first of its stretches doubles what was summed before. */
static part_at part_next(const qs__rows_job *job, const part_at *last) {
    part_at at = {.begin = last->end, .end = last->end, .before = last->before + last->quads};
    while (at.end < job->stretches && (at.end == at.begin || !job->stretch[at.end].twice))
        at.quads += job->stretch[at.end++].quads;
    return at;
}

/* The part's product for one tile, onto the sums or in their place. */
static void run_tile(const qs__rows_job *job, const part_at *part, int rows, const uint8_t *const *left, int64_t column, int64_t columns,
                     bool add, int32_t *sums) {
    static const int32_t none[QS__TILE_COLUMNS];
    const int width = (int)qs__panel_width(job->columns - column);
    qs__tile tile = {.step = QS__STEP_ROWS,
                     .right = job->right + column * 4 * job->quads + part->before * 4 * width,
                     .stretch = job->stretch + part->begin,
                     .stretches = part->end - part->begin,
                     .rows = rows,
                     .columns = (int)(columns < width ? columns : width),
                     .width = width,
                     .correction = none,
                     .result = QS__TILE_INT32,
                     .add = add};
    memcpy(tile.left, left, sizeof tile.left);
    for (int r = 0; r < rows; r++)
        tile.row[r] = sums + r * sums_stride(job);
    job->run->kernels->tile(&tile);
}

/* The part's product for `columns` columns from `first` on. */
static void run_part(const qs__rows_job *job, const part_at *part, int64_t count, const uint8_t *const *left, int64_t first,
                     int64_t columns, bool add, int32_t *sums) {
    for (int64_t column = 0; column < columns; column += QS__TILE_COLUMNS)
        for (int64_t row = 0; row < count; row += QS__TILE_ROWS) {
            const int rows = (int)(count - row < QS__TILE_ROWS ? count - row : QS__TILE_ROWS);
            run_tile(job, part, rows, left + row, first + column, columns - column, add, sums + row * sums_stride(job) + column);
        }
}

/* Groups without channels have no product, but their place among the weights. */
static void sum_parts(const qs__rows_job *job, int64_t count, const uint8_t *const *left, int64_t first, int64_t columns, int32_t *sums) {
    const qs__products *kernels = job->run->kernels;
    const int64_t size = count * sums_stride(job);
    part_at at = {0};
    int weight = 0; /* part that the sums are weighted for */
    bool any = false;
    for (int part = 0; part < job->order.parts; part++) {
        at = part_next(job, &at);
        if (!at.quads) continue;
        if (any) kernels->shift(size, part - weight, sums);
        run_part(job, &at, count, left, first, columns, any, sums);
        any = true;
        weight = part;
    }
    const int rest = job->order.parts - 1 - weight;
    if (any && rest) kernels->shift(size, rest, sums);
    if (!any) memset(sums, 0, (size_t)size * sizeof *sums);
}

/* ---- Results ---- */

static void put_row(const qs__rows_job *job, char *result, int64_t first, int64_t columns, const int32_t *sums) {
    job->run->kernels->settle(columns, sums, job->correction32 + first, job->factor + first, job->run->bias ? job->bias + first : NULL,
                              job->product->result == QS__TILE_BF16, result + qs__result_bytes(job, first));
}

static void run_rows(const qs__rows_job *job, int64_t count, const uint8_t *const *left, char *const *result, int32_t *sums) {
    for (int64_t first = 0; first < job->columns; first += SUM_COLUMNS) {
        const int64_t rest = job->columns - first, columns = rest < SUM_COLUMNS ? rest : SUM_COLUMNS;
        sum_parts(job, count, left, first, columns, sums);
        for (int64_t row = 0; row < count; row++)
            put_row(job, result[row], first, columns, sums + row * sums_stride(job));
    }
}

void qs__gathered_block(const qs__rows_job *job, int64_t count, const qs__places *places, int64_t share) {
    for (int64_t row = 0; row < count; row += SUM_ROWS)
        run_rows(job, count - row < SUM_ROWS ? count - row : SUM_ROWS, places->left + row, places->result + row,
                 job->sums + share * BLOCK_SUMS);
}
