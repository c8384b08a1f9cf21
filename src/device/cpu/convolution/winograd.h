// SPDX-License-Identifier: Apache-2.0
/* Convolutions 3 × 3 with stride 1 in fp32, of fp32 or bf16, by the minimal filtering of Winograd, F(4×4, 3×3) (Lavin and Gray, Fast
 * Algorithms for Convolutional Neural Networks): results in tiles of 4 × 4 from 6 × 6 pixels, Y = Aᵀ (Σ GgGᵀ ⊙ BᵀdB) A over the channels
 * of the source; 36 products instead of 144. Weight gradients by F(3×3, 4×4): the same with the tile of gradients, 4 × 4, in the place of
 * the weights, summed over tiles. Lanes are sixteen neighbouring channels.
 *
 * The points are 0, 1, -1, 2, -1/2 and ∞: 2 and -1/2, whose powers balance, err less than the usual 2 and -2. A result has three to four
 * times the error of a direct sum in fp32, relative to what its whole tile adds up: where all of a result's own products are 0 it may be a
 * rounding of its neighbours', and what is not finite spreads over its tile. */
#ifndef QSYNC_DEVICE_CPU_WINOGRAD_H
#define QSYNC_DEVICE_CPU_WINOGRAD_H

#include <stdint.h>

#include "cpu/vector/kernels.h"

enum {
    QS__WINOGRAD_LANES = 16,
    QS__WINOGRAD_EDGE = 4, /* of a tile of results */
    QS__WINOGRAD_SPAN = 6, /* of the pixels under it */
    QS__WINOGRAD_RESULTS = 16,
    QS__WINOGRAD_POINTS = 36, /* pixels of a tile, and products */
    QS__WINOGRAD_TAPS = 9,
    QS__WINOGRAD_ROWS = 24 /* tiles of a product come in such numbers */
};

/* Σ over depth of source [rows][depth] × weights [vectors][depth][16] to result [rows][vectors][16]; rows a multiple of
 * QS__WINOGRAD_ROWS. */
typedef struct qs__winograd_product {
    int64_t rows, depth, vectors;
    int64_t source_pitch, pitch; /* floats from one tile to the next: of the source, and of the result or (accumulate) the weights */
    const float *source, *weights;
    float *result;
} qs__winograd_product;

/* Transformed tiles have their points `point` floats apart; channels and depths are multiples of 16. What lies in memory before and after
 * is by type: fp32, bf16. */
typedef struct qs__winograd {
    const char *name;
    /* BᵀdB of one tile: pixel[6 × row + column] has all its channels. */
    void (*source[2])(const char *const *pixel, int64_t channels, int64_t point, float *dst);
    /* GgGᵀ of `count` filters of sixteen channels, taps `step` elements and results 16 floats behind one another. A filter is read before
     * its points are written: these may lie where it does. */
    void (*weights[2])(const char *const *tap, int64_t step, int64_t count, int64_t point, float *dst);
    void (*multiply)(const qs__winograd_product *product);
    /* The product with all of it turned, for sums over tiles: source [depth][rows] × weights [depth][vectors][16], added to result
     * [rows][vectors][16]; rows a multiple of 16. */
    void (*accumulate)(const qs__winograd_product *product);
    /* AᵀmA + bias (NULL: none) of one tile; result[4 × row + column] has all its channels, NULL: outside. */
    void (*result[2])(const float *src, int64_t channels, int64_t point, const float *bias, char *const *result);
    /* GdGᵀ of a tile of gradients, as source: pixel[4 × row + column]. */
    void (*gradient[2])(const char *const *pixel, int64_t channels, int64_t point, float *dst);
    /* AᵀmA of sums over tiles, as result: tap[3 × row + column] has all its channels. */
    void (*taps)(const float *src, int64_t channels, int64_t point, float *const *tap);
} qs__winograd;

extern const qs__winograd qs__winograd_avx512;

#endif
