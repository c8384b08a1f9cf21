// SPDX-License-Identifier: Apache-2.0
/* How rows × channels are cut into blocks of threads. */
#include "cuda/columns.h"

int64_t qs__cuda_channels(const qs_case *one, qs_role role) {
    return qs__case_operand(one, role)->shape.dim[1];
}

int64_t qs__cuda_rows(const qs_case *one, qs_role role) {
    return qs__case_count(one, role) / qs__cuda_channels(one, role);
}

static int64_t at_least(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Threads over the channels, and slabs for so many blocks, with a few rows for every thread: more slabs would be more to add up than to
 * read. */
static qs__columns tiles_cut(const qs__cuda *cuda, int64_t parts, int64_t rows, int64_t channels, int blocks) {
    enum { MOST_ACROSS = 32, EACH = 4 };
    qs__columns cut = {.rows = parts * rows, .part_rows = rows, .channels = channels, .width = channels % 8 == 0 ? 8 : 1};
    const int64_t vectors = channels / cut.width, most = cut.width == 8 ? MOST_ACROSS : QS__COLUMN_THREADS;
    cut.across = (int)(vectors < most ? vectors : most);
    cut.down = QS__COLUMN_THREADS / cut.across;
    cut.tiles = (int)((vectors + cut.across - 1) / cut.across);
    const int64_t filling = at_least((int64_t)cuda->multiprocessors * blocks / cut.tiles / parts, 1);
    const int64_t useful = at_least(rows / ((int64_t)cut.down * EACH), 1);
    cut.part_slabs = filling < useful ? filling : useful;
    cut.slabs = parts * cut.part_slabs;
    return cut;
}

qs__columns qs__columns_cut(const qs__cuda *cuda, int64_t rows, int64_t channels, int64_t slabs) {
    enum { BLOCKS = 6 };
    qs__columns cut = tiles_cut(cuda, 1, rows, channels, BLOCKS);
    const int64_t allowed = slabs > 0 && slabs < cut.slabs ? slabs : cut.slabs;
    cut.slab_rows = (rows + allowed - 1) / allowed;
    cut.part_slabs = cut.slabs = (rows + cut.slab_rows - 1) / cut.slab_rows;
    return cut;
}

qs__columns qs__columns_cut_parts(const qs__cuda *cuda, int64_t parts, int64_t rows, int64_t channels, int blocks) {
    return tiles_cut(cuda, parts, rows, channels, blocks);
}

int64_t qs__columns_blocks(const qs__columns *cut) {
    return cut->slabs * cut->tiles;
}

int64_t qs__columns_total_blocks(const qs__columns *cut) {
    return (cut->channels + QS__TOTAL_CHANNELS - 1) / QS__TOTAL_CHANNELS;
}
