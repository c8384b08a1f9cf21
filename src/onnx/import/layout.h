// SPDX-License-Identifier: Apache-2.0
/* Inside the room: how the axes of a tensor of a file lie in memory.
 *
 * An axis is a product of *factors*; memory is the factors from the slowest to the fastest, the batch always first. Reshape cuts axes
 * anew into factors, and Transpose brings axes into another order, while memory stays what it is: neither moves data. So heads of
 * attention, images whose channels are last in memory, the batch behind the length or merged with it are all one thing, and data is
 * moved (permute) only where an operator needs an axis elsewhere. */
#ifndef QSYNC_ONNX_LAYOUT_H
#define QSYNC_ONNX_LAYOUT_H

#include "qsync/base.h"

enum { QS__MOST_RANK = 8, QS__MOST_FACTORS = 24 };

typedef struct qs__factor {
    int64_t extent; /* of the batch: what the file says, 1 where that is a symbol */
    bool batch;
} qs__factor;

typedef struct qs__axis_parts {
    int count;
    signed char at[QS__MOST_FACTORS]; /* factors, the slowest first; an axis of one index has none */
} qs__axis_parts;

typedef struct qs__layout {
    int factors;
    qs__factor factor[QS__MOST_FACTORS]; /* in the order of memory */
    int axes;
    qs__axis_parts axis[QS__MOST_RANK];
} qs__layout;

/* Row-major extents; with `batched` the first of them is the batch, which is there even where it is 1. */
qs__layout qs__layout_rows(int rank, const int64_t *extent, bool batched);
int64_t qs__axis_extent(const qs__layout *layout, int axis);
/* Elements of factors first .. end - 1, the batch not counted. */
int64_t qs__layout_span(const qs__layout *layout, int first, int end);
int64_t qs__layout_count(const qs__layout *layout);
/* Whether an axis holds the batch. */
bool qs__axis_is_batched(const qs__layout *layout, int axis);
/* Whether memory is row-major over the axes; `transposed`: over the axes the other way round. */
bool qs__layout_in_order(const qs__layout *layout, bool transposed);
/* Where the element at `index` of the axes' row-major order lies. */
int64_t qs__layout_place(const qs__layout *layout, int64_t index);
/* Axis i of the result is order[i] of the layout. */
void qs__layout_transpose(qs__layout *layout, int rank, const int *order);
/* Puts axes of one index before axes `at`, ascending in the result; takes an axis of one index away. */
void qs__layout_insert(qs__layout *layout, int at);
void qs__layout_remove(qs__layout *layout, int at);
/* Other extents over the same elements in their row-major order; the batch comes to the axis `batch`. False where that is no matter of
 * cutting factors: an axis of the result begins within one factor and ends within another. The layout is then untouched. */
bool qs__layout_reshape(qs__layout *layout, int rank, const int64_t *extent, int batch);
/* Cuts factors of both until those of an axis are the same numbers; axes of one index of either are passed over. False where no cuts do
 * it, or where extents differ. */
bool qs__layout_align(qs__layout *left, qs__layout *right);
/* Whether the factors of an axis stand in their order, one behind the other, in memory; *first and *end are theirs. An axis of one index
 * stands anywhere: false. */
bool qs__axis_run(const qs__layout *layout, int axis, int *first, int *end);
/* The order of factors in which memory is row-major over the axes in the given order, the batch first; returns their number. */
int qs__layout_order(const qs__layout *layout, int axes, const int *axis, int *order);
/* Puts the factors into another order, and says so in the axes. */
void qs__layout_permute(qs__layout *layout, const int *order);
/* Makes one factor of neighbours in memory that are neighbours in their axis too. */
void qs__layout_merge(qs__layout *layout);
/* Gives a factor another extent; of 1 it is taken away, unless it is the batch. */
void qs__layout_resize(qs__layout *layout, int factor, int64_t extent);
/* Takes the factors of an axis away, and gives it a new one of that extent, the fastest; of extent 1: none. */
void qs__layout_replace(qs__layout *layout, int axis, int64_t extent);
/* Gives an axis that has none a factor of extent 1, which stands at `place` in memory. */
void qs__layout_add(qs__layout *layout, int axis, int place);
/* The factor of an axis that is one factor, else -1. */
int qs__axis_factor(const qs__layout *layout, int axis);

#endif
