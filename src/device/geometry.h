// SPDX-License-Identifier: Apache-2.0
/* The extents of convolutions, pools and linear operators, and which results of an input gradient are computed alike. One struct for all
 * kernels. */
#ifndef QSYNC_DEVICE_GEOMETRY_H
#define QSYNC_DEVICE_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

/* What forward reads and writes, whatever the pass: channels × height × width to outputs × out_height × out_width. A linear operator is a
 * convolution of 1 × 1 images, as many as it has rows: samples, or positions of all of them. Pairs are of height and width. */
typedef struct qs__geometry {
    int64_t batch, channels, height, width, outputs, out_height, out_width;
    int64_t kernel[2], stride[2], dilation[2], padding[2], groups; /* padding: above, to the left; behind it follows from the extents */
    bool count_padding;                                            /* means of pools are over whole windows */
} qs__geometry;

/* The passes of convolutions and linear operators. */
typedef enum qs__pass { QS__FORWARD, QS__INPUT_GRADIENT, QS__WEIGHT_GRADIENT } qs__pass;

/* Source and result exchanged: what an input gradient reads, and what it writes. */
qs__geometry qs__geometry_reversed(const qs__geometry *forward);
/* With stride 1 an input gradient is a forward convolution with the weights turned around: its geometry. */
qs__geometry qs__geometry_turned(const qs__geometry *forward);

/* Along one axis (0: height, 1: width), results that the same taps of the filter reach: forward all of them; in an input gradient with a
 * stride those with the same remainder by it. They are first + step × (0 ... count - 1); from one to the next the source moves by `move`
 * places. Taps are tap + tap_step × (0 ... taps - 1): for the first result the first of them reads the place `offset` of the source, each
 * later one the place `spread` behind (1 unless the filter is dilated). */
typedef struct qs__phase {
    int64_t first, step, count, move;
    int64_t tap, tap_step, taps, offset, spread;
} qs__phase;

/* How many phases an axis has. `view`: the geometry forward, its reverse in an input gradient. */
int64_t qs__phases(const qs__geometry *view, bool gradient, int axis);
qs__phase qs__phase_at(const qs__geometry *view, bool gradient, int axis, int64_t index);
/* The places of the source that the taps of all phases reach: *low (at most 0) to *high - 1. */
void qs__phases_reach(const qs__geometry *view, bool gradient, int axis, int64_t *low, int64_t *high);

#endif
