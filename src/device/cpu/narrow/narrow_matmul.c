// SPDX-License-Identifier: Apache-2.0
/* Products of two activations in narrow accumulators: the tiles of narrow.h over the matrices of each head. Of every matrix of the result
 * the right factor is packed into blocks of columns, the left one a tile's rows at a time, both in the order in which products are added:
 * the bits are those of the scalar definition, whatever the instruction set and the number of threads. */
#include <string.h>

#include "cpu/matmul/units.h"
#include "cpu/narrow/narrow_plan.h"

typedef struct job {
    const qs_case *one;
    const qs_run *run;
    const qs__cpu_kernels *kernels;
    qs_matmul of;
    qs__narrow_rule rule;
    size_t element; /* bytes of a factor in lanes */
    int64_t length; /* products of a sum */
    int64_t chunk;  /* 0: one stage */
    const qs__narrow_piece *piece;
    int64_t pieces;
    qs__in left, right;
    qs__out result;
} job;

/* Of a slot. */
typedef struct room {
    char *right; /* [block][length][QS__NARROW_COLUMNS] */
    char *left;  /* [QS__NARROW_ROWS][length] */
    char *line;  /* a run of elements as it lies in an operand */
} room;

enum { LEFT, RIGHT }; /* as in qs__narrow_rule.scale */

static int64_t blocks_of(const qs_matmul *of) {
    return (of->columns + QS__NARROW_COLUMNS - 1) / QS__NARROW_COLUMNS;
}

static int64_t length_of(const qs_matmul *of) {
    return of->summed * of->inner;
}

static room room_of(const qs_matmul *of, size_t element, qs__pieces *pieces) {
    const int64_t columns = blocks_of(of) * QS__NARROW_COLUMNS, bytes = (int64_t)element, length = length_of(of);
    const int64_t line = of->inner > columns ? of->inner : columns;
    room out = {.right = qs__piece(pieces, columns * length * bytes)};
    out.left = qs__piece(pieces, QS__NARROW_ROWS * length * bytes);
    out.line = qs__piece(pieces, line * bytes);
    return out;
}

static char *place(const job *j, char *array, int64_t index) {
    return array + (size_t)index * j->element;
}

static bool read_factors(const job *j, int factor, qs__in from, int64_t count, char *to) {
    return j->kernels->narrow_read[j->rule.lanes](count, from, j->rule.scale[factor], to);
}

/* to[i · step] = from[i]. */
static void spread_out(const job *j, const char *from, int64_t count, int64_t step, char *to) {
    for (int64_t i = 0; i < count; i++)
        memcpy(place(j, to, i * step), from + (size_t)i * j->element, j->element);
}

/* False where some elements are not finite. */
static bool pack_right(const job *j, int64_t sample, int64_t head, const room *to) {
    const qs_matmul *of = &j->of;
    const int64_t blocks = blocks_of(of);
    bool finite = true;
    if (of->columns % QS__NARROW_COLUMNS)
        memset(place(j, to->right, (blocks - 1) * j->length * QS__NARROW_COLUMNS), 0,
               (size_t)(j->length * QS__NARROW_COLUMNS) * j->element);
    for (int64_t g = 0; g < of->summed; g++) {
        const qs__in from = qs__in_at(j->right, qs__matrix_at(&of->right, sample, head * of->summed + g));
        for (int64_t k = 0; of->right.column == 1 && k < of->inner; k++) {
            finite &= read_factors(j, RIGHT, qs__in_at(from, k * of->right.row), of->columns, to->line);
            for (int64_t block = 0; block < blocks; block++) {
                const int64_t first = block * QS__NARROW_COLUMNS, left = of->columns - first;
                memcpy(place(j, to->right, (block * j->length + g * of->inner + k) * QS__NARROW_COLUMNS), place(j, to->line, first),
                       (size_t)(left < QS__NARROW_COLUMNS ? left : QS__NARROW_COLUMNS) * j->element);
            }
        }
        for (int64_t c = 0; of->right.column != 1 && c < of->columns; c++) {
            const int64_t block = c / QS__NARROW_COLUMNS;
            finite &= read_factors(j, RIGHT, qs__in_at(from, c * of->right.column), of->inner, to->line);
            spread_out(j, to->line, of->inner, QS__NARROW_COLUMNS,
                       place(j, to->right, (block * j->length + g * of->inner) * QS__NARROW_COLUMNS + c % QS__NARROW_COLUMNS));
        }
    }
    return finite;
}

static bool pack_left(const job *j, int64_t sample, int64_t head, int64_t first, int64_t rows, const room *to) {
    const qs_matmul *of = &j->of;
    bool finite = true;
    for (int64_t g = 0; g < of->summed; g++) {
        const qs__in from = qs__in_at(j->left, qs__matrix_at(&of->left, sample, head * of->summed + g) + first * of->left.row);
        for (int64_t r = 0; of->left.column == 1 && r < rows; r++)
            finite &=
                read_factors(j, LEFT, qs__in_at(from, r * of->left.row), of->inner, place(j, to->left, r * j->length + g * of->inner));
        for (int64_t k = 0; of->left.column != 1 && k < of->inner; k++) {
            finite &= read_factors(j, LEFT, qs__in_at(from, k * of->left.column), rows, to->line);
            spread_out(j, to->line, rows, j->length, place(j, to->left, g * of->inner + k));
        }
    }
    return finite;
}

/* The sums of a tile's rows and one block of columns, written to where the result has them: `at` is its first element. */
static void block_sums(const job *j, qs__narrow_tile tile, int64_t at, int64_t rows, int64_t block, const room *from) {
    _Alignas(64) char sum[QS__NARROW_ROWS * QS__NARROW_COLUMNS * sizeof(double)], total[sizeof sum];
    const int64_t channels = qs__case_operand(j->one, j->of.result.role)->shape.dim[1], first = block * QS__NARROW_COLUMNS;
    const int64_t left = j->of.columns - first;
    memset(sum, 0, QS__NARROW_ROWS * QS__NARROW_COLUMNS * j->element);
    if (j->chunk) memset(total, 0, QS__NARROW_ROWS * QS__NARROW_COLUMNS * j->element);
    tile.b = place(j, from->right, first * j->length);
    tile.sum = sum, tile.total = total;
    tile.counter = (uint32_t)((at + first) % channels);
    j->kernels->narrow_tile[j->rule.lanes](&tile);
    for (int64_t r = 0; r < rows; r++)
        j->kernels->narrow_write[j->rule.lanes](left < QS__NARROW_COLUMNS ? left : QS__NARROW_COLUMNS,
                                                place(j, j->chunk ? total : sum, r * QS__NARROW_COLUMNS), j->rule.result, NULL, j->result,
                                                at + r * j->of.result.row + first);
}

static void unit_multiply(const void *context, int64_t sample, int64_t head, char *scratch) {
    const job *j = context;
    const qs_matmul *of = &j->of;
    const room at = room_of(of, j->element, &(qs__pieces){scratch, 0});
    const int64_t matrix = qs__matrix_at(&of->result, sample, head), channels = qs__case_operand(j->one, of->result.role)->shape.dim[1];
    const bool right_finite = pack_right(j, sample, head, &at);
    for (int64_t first = 0; first < of->rows; first += QS__NARROW_ROWS) {
        const int64_t rows = of->rows - first < QS__NARROW_ROWS ? of->rows - first : QS__NARROW_ROWS, row = matrix + first * of->result.row;
        qs__narrow_tile tile = {.rule = &j->rule, .piece = j->piece, .pieces = j->pieces, .a_step = 1, .b_step = QS__NARROW_COLUMNS};
        tile.variant = j->rule.variant;
        tile.variant.finite = pack_left(j, sample, head, first, rows, &at) && right_finite;
        for (int r = 0; r < QS__NARROW_ROWS; r++) { /* those behind the last are formed as it is, and not written */
            const int64_t here = r < rows ? r : rows - 1;
            tile.a[r] = place(j, at.left, here * j->length);
            qs__narrow_draw_keys(j->one, j->run, r, (row + here * of->result.row) / channels, &tile);
        }
        for (int64_t block = 0; block < blocks_of(of); block++)
            block_sums(j, tile, row, rows, block, &at);
    }
}

/* Products in their order, a piece a chunk; their number. */
static int64_t pieces_write(int64_t length, int64_t chunk, qs__narrow_piece *piece) {
    int64_t count = 0;
    const int64_t step = chunk ? chunk : length;
    for (int64_t k = 0; k < length; k += step)
        piece[count++] = (qs__narrow_piece){.a = k,
                                            .b = k * QS__NARROW_COLUMNS,
                                            .count = length - k < step ? length - k : step,
                                            .addition = k,
                                            .fold = chunk ? qs_narrow_second_stage(length) + k / chunk : -1};
    return count;
}

static int64_t chunk_of(const qs_case *one, int64_t length) {
    return one->attributes.accumulator.chunk < length ? one->attributes.accumulator.chunk : 0;
}

static size_t slot_bytes(const qs_matmul *of, size_t element) {
    qs__pieces pieces = {NULL, 0};
    room_of(of, element, &pieces);
    return pieces.used;
}

static qs_status run(const qs__chain *chain, const qs_run *step) {
    qs__narrow_piece *piece = (qs__narrow_piece *)(void *)(chain->scratch + chain->offset[1]);
    job j = {.one = &chain->one, .run = step, .kernels = chain->cpu->kernels, .of = qs_case_matmul(&chain->one), .piece = piece};
    j.length = length_of(&j.of);
    j.chunk = chunk_of(j.one, j.length);
    j.rule = qs__narrow_settle(chain, j.length, j.of.left.role, j.of.right.role);
    j.element = qs__narrow_element(j.rule.lanes);
    j.pieces = pieces_write(j.length, j.chunk, piece);
    j.left = qs__staged_in(chain, j.of.left.role), j.right = qs__staged_in(chain, j.of.right.role);
    j.result = qs__staged_out(chain, j.of.result.role);
    qs__matmul_units(&j.of, chain->scratch + chain->offset[0], slot_bytes(&j.of, j.element), unit_multiply, &j);
    return QS_OK;
}

qs_status qs__build_narrow_matmul(qs__chain *chain) {
    const qs_matmul of = qs_case_matmul(&chain->one);
    const int64_t length = length_of(&of), chunk = chunk_of(&chain->one, length);
    if (!chain->one.attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "no narrow accumulator");
    const qs__narrow_lanes lanes = qs__narrow_lanes_of(&chain->one, length, chain->cpu->kernels);
    /* Doubles, where fused lanes may come to be those, take the most. */
    const size_t element = qs__narrow_element(lanes == QS__NARROW_FLOATS ? lanes : QS__NARROW_DOUBLES);
    chain->offset[0] = qs__chain_reserve(chain, (size_t)qs__matmul_slots(&of) * slot_bytes(&of, element));
    chain->offset[1] = qs__chain_reserve(chain, (size_t)(chunk ? (length + chunk - 1) / chunk : 1) * sizeof(qs__narrow_piece));
    return qs__staged_build(chain, qs__narrow_family(lanes), run);
}
