// SPDX-License-Identifier: Apache-2.0
/* What a case with a narrow accumulator comes to before any value is known: the shapes of the work, the order of the products as runs in
 * memory, and places in scratch. A pure function of case, kind of lanes and threads. */
#ifndef QSYNC_DEVICE_CPU_NARROW_PLAN_H
#define QSYNC_DEVICE_CPU_NARROW_PLAN_H

#include "cpu/narrow/narrow_scale.h"
#include "cpu/staging.h"

/* The image that rows are read from (src, or diff_dst for input gradients), with zeros around it. */
typedef struct qs__narrow_image {
    int64_t channels, height, width, top, left, padded_height, padded_width;
    int64_t elements; /* of the padded image, and a vector behind it */
} qs__narrow_image;

/* Pixels of a result that have the same kernel positions: all of a forward pass; one per remainder of line and column by the strides for
 * an input gradient. Pixel (i, w) of a grid reads from base + i · line_step + w · pixel_step of the padded image. */
typedef struct qs__narrow_grid {
    int64_t height, width, origin[2], base, piece, pieces;
} qs__narrow_grid;

typedef struct qs__narrow_plan {
    qs__pass pass;
    qs__narrow_rule rule;
    int64_t chunk;     /* 0 where there is one stage only */
    int64_t length;    /* products of a sum */
    size_t element;    /* bytes of a factor */
    qs__geometry view; /* what the pass reads, and what it writes; weight gradients: forward's. A linear operator is one image, 1 wide */
    int64_t taps, group_inputs, group_outputs, weights;
    int64_t columns, group_columns, blocks; /* of results; of a group; blocks of QS__NARROW_COLUMNS of these */
    qs__narrow_image image;
    int64_t slots; /* parts of the work, and of the scratch */
    int64_t most_pieces;
    size_t pieces, flat, packed, images, slot_bytes, sums, bias, scratch_bytes; /* places in scratch */

    /* Forward and input gradient. */
    int64_t grids, grid_lines, bands; /* bands: parts that a sample is cut into, by lines of its grids */
    int64_t read_step, read_lines;    /* line i of grids reads lines i · read_step ... + read_lines - 1 of the padded image */
    int64_t line_step, pixel_step;    /* also for weight gradients: of a result's line and pixel */
    int64_t result_step[2];
    int64_t group_products; /* channels of the image that a group reads */

    /* Weight gradient. */
    int64_t rows, units, pixels; /* weights of an output; tiles in all; results of a sample */
} qs__narrow_plan;

/* The kind of lanes that does for sums of `length` products; fused ones only for operands that qs__narrow_fit finds to. */
qs__narrow_lanes qs__narrow_lanes_of(const qs_case *one, int64_t length, const qs__cpu_kernels *kernels);
/* The rule of a kind of lanes, before any value is known. */
qs__narrow_rule qs__narrow_rule_of(const qs_case *one, qs__narrow_lanes lanes);
/* The rule for the values at hand of the two factors of a case (what rows are made of, the other one): where fused lanes do not fit them,
 * doubles do. */
qs__narrow_rule qs__narrow_settle(const qs__chain *chain, int64_t length, qs_role rows, qs_role other);
/* Bytes of a factor in lanes. */
static inline size_t qs__narrow_element(qs__narrow_lanes lanes) {
    return lanes == QS__NARROW_DOUBLES ? sizeof(double) : sizeof(float);
}
/* What draws of a row of results need, row r of the tile; nothing where the adder does not draw. */
void qs__narrow_draw_keys(const qs_case *one, const qs_run *run, int r, int64_t row, qs__narrow_tile *tile);
/* Kernels of a kind of lanes are called so. */
const char *qs__narrow_family(qs__narrow_lanes lanes);
qs__narrow_plan qs__narrow_plan_of(const qs_case *one, qs__narrow_lanes lanes, int threads);
/* Grid number g, its pieces counted from those of grid 0 on. */
qs__narrow_grid qs__narrow_grid_at(const qs__narrow_plan *plan, int64_t g);
/* Writes the pieces of all grids. */
void qs__narrow_grid_pieces(const qs__narrow_plan *plan, qs__narrow_piece *piece);
/* Writes the pieces of a sample's results for weight gradients; their number. */
int64_t qs__narrow_sample_pieces(const qs__narrow_plan *plan, int64_t sample, qs__narrow_piece *piece);

#endif
