// SPDX-License-Identifier: Apache-2.0
/* Products of two activations by our own kernels, in fp32 sums whatever the float formats: where the library has none, or heads share keys
 * and values. Every matrix of the result is a unit: its right factor is read into rows of fp32, whole tiles wide; the left one goes a
 * block of rows at a time. An element is one chain of sums in the order of the inner dimension, for any instruction set and
 * number of threads. */
#include <string.h>

#include "cpu/staging.h"
#include "qsync/matmul.h"

enum { ROWS = 24 }; /* of a block */

typedef struct job {
    const qs__cpu_kernels *kernels;
    qs_matmul of;
    qs__in left, right;
    qs__out result;
    char *scratch;
    size_t slot_bytes;
    int64_t slots, width; /* width: columns in whole tiles */
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

static int64_t matrix_at(const qs_matrices *of, int64_t sample, int64_t head) {
    return sample * of->sample + head / of->shared * of->head;
}

static void read_right(const job *j, int64_t sample, int64_t head, const room *to) {
    const qs_matmul *of = &j->of;
    for (int64_t g = 0; g < of->summed; g++) {
        const qs__in from = qs__in_at(j->right, matrix_at(&of->right, sample, head * of->summed + g));
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
        const qs__in from = qs__in_at(j->left, matrix_at(&of->left, sample, head * of->summed + g) + first * of->left.row);
        if (of->left.column == 1)
            for (int64_t r = 0; r < rows; r++)
                j->kernels->matmul_read(of->inner, qs__in_at(from, r * of->left.row), to->left + r * length + g * of->inner);
        else
            for (int64_t k = 0; k < of->inner; k++)
                j->kernels->matmul_read(rows, qs__in_at(from, k * of->left.column), to->left + (g * of->inner + k) * ROWS);
    }
}

static void unit_multiply(const job *j, int64_t unit, const room *at) {
    const qs_matmul *of = &j->of;
    const int64_t sample = unit / of->heads, head = unit % of->heads, length = of->summed * of->inner;
    const qs__out result = qs__out_at(j->result, matrix_at(&of->result, sample, head));
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

static void slots_multiply(void *context, int64_t begin, int64_t end) {
    const job *j = context;
    const int64_t units = j->of.samples * j->of.heads;
    for (int64_t slot = begin; slot < end; slot++) {
        qs__pieces pieces = {j->scratch + (size_t)slot * j->slot_bytes, 0};
        const room at = room_of(&j->of, &pieces);
        for (int64_t unit = units * slot / j->slots; unit < units * (slot + 1) / j->slots; unit++)
            unit_multiply(j, unit, &at);
    }
}

static size_t slot_bytes(const qs_matmul *of) {
    qs__pieces pieces = {NULL, 0};
    room_of(of, &pieces);
    return pieces.used;
}

static int64_t slots_of(const qs_matmul *of) {
    const int64_t units = of->samples * of->heads;
    return qs_threads() < units ? qs_threads() : units;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    (void)step;
    job j = {.kernels = chain->cpu->kernels, .of = qs_case_matmul(&chain->one), .scratch = chain->scratch + chain->offset[0]};
    j.left = qs__staged_in(chain, j.of.left.role), j.right = qs__staged_in(chain, j.of.right.role);
    j.result = qs__staged_out(chain, j.of.result.role);
    j.slot_bytes = slot_bytes(&j.of);
    j.slots = slots_of(&j.of);
    j.width = width_of(&j.of);
    qs_parallel(j.slots, 1, slots_multiply, &j);
    return QS_OK;
}

qs_status qs__build_matmul(qs__chain *chain) {
    const qs_matmul of = qs_case_matmul(&chain->one);
    const qs_format *left = qs__cpu_format(&chain->one, of.left.role), *right = qs__cpu_format(&chain->one, of.right.role);
    if (chain->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "these sums are fp32, not a narrow accumulator's");
    if (left->kind == QS_KIND_INTEGER) return qs_fail(QS_UNSUPPORTED, "codes have kernels of their own");
    QS_TRY(qs__cpu_multiplies(chain->cpu, left));
    QS_TRY(qs__cpu_multiplies(chain->cpu, right));
    chain->offset[0] = qs__chain_reserve(chain, (size_t)slots_of(&of) * slot_bytes(&of));
    return qs__staged_build(chain, "matmul", run);
}
