// SPDX-License-Identifier: Apache-2.0
/* Products of two activations by our own kernels, in fp32 sums whatever the float formats: where the library has none, or heads share keys
 * and values. Every matrix of the result is a unit: its right factor is read into rows of fp32, whole tiles wide; the left one goes a
 * block of rows at a time. An element is one chain of sums in the order of the inner dimension, for any instruction set and
 * number of threads. */
#include <string.h>

#include "cpu/matmul/units.h"
#include "cpu/staging.h"

enum { ROWS = 24 }; /* of a block */

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs_matmul of;
    qs__in left, right;
    qs__out result;
    int64_t width; /* columns in whole tiles */
} job;

/* Of a slot, fp32. */
typedef struct room {
    float *right; /* [summed · inner][width] */
    float *left;  /* [ROWS][summed · inner], or the other way round where rows of the left factor lie side by side */
    float *line;  /* [inner] */
} room;

static int64_t width_of(const qs_matmul *of) {
    return (of->columns + QS__MATMUL_COLUMNS - 1) / QS__MATMUL_COLUMNS * QS__MATMUL_COLUMNS;
}

static room room_of(const qs_matmul *of, qs__pieces *pieces) {
    const int64_t length = of->summed * of->inner, bytes = (int64_t)sizeof(float);
    room out = {.right = qs__piece(pieces, length * width_of(of) * bytes)};
    out.left = qs__piece(pieces, ROWS * length * bytes);
    out.line = qs__piece(pieces, of->inner * bytes);
    return out;
}

static void read_right(const job *j, int64_t sample, int64_t head, const room *to) {
    const qs_matmul *of = &j->of;
    for (int64_t g = 0; g < of->summed; g++) {
        const qs__in from = qs__in_at(j->right, qs__matrix_at(&of->right, sample, head * of->summed + g));
        float *rows = to->right + g * of->inner * j->width;
        for (int64_t k = 0; k < of->inner; k++) {
            if (of->right.column == 1) j->kernels->matmul_read(of->columns, qs__in_at(from, k * of->right.row), rows + k * j->width);
            memset(rows + k * j->width + of->columns, 0, (size_t)(j->width - of->columns) * sizeof *rows);
        }
        for (int64_t c = 0; of->right.column != 1 && c < of->columns; c++) {
            j->kernels->matmul_read(of->inner, qs__in_at(from, c * of->right.column), to->line);
            for (int64_t k = 0; k < of->inner; k++)
                rows[k * j->width + c] = to->line[k];
        }
    }
}

static void read_left(const job *j, int64_t sample, int64_t head, int64_t first, int64_t rows, const room *to) {
    const qs_matmul *of = &j->of;
    const int64_t length = of->summed * of->inner;
    for (int64_t g = 0; g < of->summed; g++) {
        const qs__in from = qs__in_at(j->left, qs__matrix_at(&of->left, sample, head * of->summed + g) + first * of->left.row);
        if (of->left.column == 1)
            for (int64_t r = 0; r < rows; r++)
                j->kernels->matmul_read(of->inner, qs__in_at(from, r * of->left.row), to->left + r * length + g * of->inner);
        else
            for (int64_t k = 0; k < of->inner; k++)
                j->kernels->matmul_read(rows, qs__in_at(from, k * of->left.column), to->left + (g * of->inner + k) * ROWS);
    }
}

static void unit_multiply(const void *context, int64_t sample, int64_t head, char *scratch) {
    const job *j = context;
    const qs_matmul *of = &j->of;
    const room own = room_of(of, &(qs__pieces){scratch, 0}), *at = &own;
    const int64_t length = of->summed * of->inner;
    const qs__out result = qs__out_at(j->result, qs__matrix_at(&of->result, sample, head));
    const bool side_by_side = of->left.column != 1;
    qs__matmul_block block = {
        .inner = length, .columns = of->columns, .width = j->width, .left = at->left, .right = at->right, .dst_row = of->result.row};
    block.left_row = side_by_side ? 1 : length, block.left_column = side_by_side ? ROWS : 1;
    read_right(j, sample, head, at);
    for (int64_t first = 0; first < of->rows; first += ROWS) {
        block.rows = of->rows - first < ROWS ? of->rows - first : ROWS;
        block.dst = qs__out_at(result, first * of->result.row);
        read_left(j, sample, head, first, block.rows, at);
        j->kernels->matmul_rows(&block);
    }
}

/* ---- Units ---- */

typedef struct shares {
    const qs_matmul *of;
    char *scratch;
    size_t slot_bytes;
    int64_t slots;
    qs__matmul_unit unit;
    const void *context;
} shares;

static void slots_range(void *context, int64_t begin, int64_t end) {
    const shares *u = context;
    const int64_t count = u->of->samples * u->of->heads;
    for (int64_t slot = begin; slot < end; slot++)
        for (int64_t unit = count * slot / u->slots; unit < count * (slot + 1) / u->slots; unit++)
            u->unit(u->context, unit / u->of->heads, unit % u->of->heads, u->scratch + (size_t)slot * u->slot_bytes);
}

int64_t qs__matmul_slots(const qs_matmul *of) {
    const int64_t units = of->samples * of->heads;
    return qs_threads() < units ? qs_threads() : units;
}

void qs__matmul_units(const qs_matmul *of, char *scratch, size_t slot_bytes, qs__matmul_unit unit, const void *context) {
    shares all = {.of = of, .scratch = scratch, .slot_bytes = slot_bytes, .slots = qs__matmul_slots(of), .unit = unit, .context = context};
    qs_parallel(all.slots, 1, slots_range, &all);
}

/* ---- The kernel ---- */

static size_t slot_bytes(const qs_matmul *of) {
    qs__pieces pieces = {NULL, 0};
    room_of(of, &pieces);
    return pieces.used;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    job j = {.kernels = chain->cpu->kernels, .of = qs_case_matmul(&chain->one)};
    j.left = qs__staged_in(chain, j.of.left.role), j.right = qs__staged_in(chain, j.of.right.role);
    j.result = qs__staged_out(chain, j.of.result.role);
    j.width = width_of(&j.of);
    qs__matmul_units(&j.of, chain->scratch + chain->offset[0], slot_bytes(&j.of), unit_multiply, &j);
    return QS_OK;
}

qs_status qs__build_matmul(qs__chain *chain) {
    const qs_matmul of = qs_case_matmul(&chain->one);
    const qs_format *left = qs__case_format(&chain->one, of.left.role), *right = qs__case_format(&chain->one, of.right.role);
    if (chain->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "these sums are fp32, not a narrow accumulator's");
    if (left->kind == QS_KIND_INTEGER) return qs_fail(QS_UNSUPPORTED, "codes have kernels of their own");
    QS_TRY(qs__cpu_multiplies(chain->cpu, left));
    QS_TRY(qs__cpu_multiplies(chain->cpu, right));
    chain->offset[0] = qs__chain_reserve(chain, (size_t)qs__matmul_slots(&of) * slot_bytes(&of));
    return qs__staged_build(chain, "matmul", run);
}
