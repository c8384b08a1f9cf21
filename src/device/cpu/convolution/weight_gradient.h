// SPDX-License-Identifier: Apache-2.0
/* Weight gradients of convolutions, a tile of the result in registers: a few outputs by a few *vectors*, of which each is sixteen
 * neighbouring numbers of one output's weights (its input channels at one tap).
 *
 * What instructions add up inside a lane (one product of fp32, two of bf16, four of 8-bit integers) are the same place of as many images,
 * so that every tap is a mere offset into the packed source: packed arrays hold 64 bytes for a place and sixteen channels, [16][images]. */
#ifndef QSYNC_DEVICE_CPU_WEIGHT_GRADIENT_H
#define QSYNC_DEVICE_CPU_WEIGHT_GRADIENT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    QS__WEIGHT_GRADIENT_LANES = 16,
    QS__WEIGHT_GRADIENT_BYTES = 64,  /* of a place and sixteen channels */
    QS__WEIGHT_GRADIENT_OUTPUTS = 8, /* of a tile */
    QS__WEIGHT_GRADIENT_VECTORS = 3, /* of a tile */
    QS__WEIGHT_GRADIENT_IMAGES = 4   /* in a lane, at most */
};

/* One line of places from as many images as a lane has. Place c holds the elements first + c × pitch + (0 ... lanes - 1) of each image's
 * row, and 0 where that is before or behind its `elements`; all lanes of an image whose row is NULL are 0. Blocks of sixteen lanes lie
 * `block` bytes apart. */
typedef struct qs__weight_gradient_line {
    const void *row[QS__WEIGHT_GRADIENT_IMAGES];
    int64_t first, pitch, elements, places, lanes, block;
    bool flip; /* sign bits of 8-bit codes: 128 is added */
    void *dst;
} qs__weight_gradient_line;

/* Σ over images and places: diff[o] × vector[v], o < 8. */
typedef struct qs__weight_gradient_tile {
    int64_t images, places;
    const int32_t *place; /* [places]: where each place's window begins in the packed source of an image, bytes */
    const char *src, *diff;
    int64_t src_image, diff_image; /* bytes from one to the next */
    int outputs, vectors;
    int64_t vector[QS__WEIGHT_GRADIENT_VECTORS]; /* bytes from a window's begin */
    /* Element (o, v) of the result, fp32 or 32-bit sums: result + o × row + column[v], of which `width[v]` lanes count. */
    float *result;
    int64_t row, column[QS__WEIGHT_GRADIENT_VECTORS];
    int width[QS__WEIGHT_GRADIENT_VECTORS];
    bool add; /* to what is there */
    /* Of codes, where the sums are whole (scale NULL: they are not): they are settled, with the excess and scale of each output and the
     * factors of an output's row. */
    const int32_t *excess;
    const float *scale, *factor;
} qs__weight_gradient_tile;

typedef struct qs__weight_gradient_kernels {
    const char *name;
    /* By qs__type: fp32, bf16, int8 (the source's codes unsigned, the gradient's signed; sums modulo 2^32). */
    void (*pack[3])(const qs__weight_gradient_line *line);
    void (*tile[3])(const qs__weight_gradient_tile *tile);
    /* sum[16] += 128 × the codes of `places` packed places. */
    void (*excess)(int64_t places, const void *diff, int32_t *sum);
    /* 32-bit sums become (sum - excess) × factor[i] × scale, each operation rounded to fp32. */
    void (*settle)(int64_t count, int32_t excess, const float *factor, float scale, float *sum);
} qs__weight_gradient_kernels;

extern const qs__weight_gradient_kernels qs__weight_gradient_avx512;

#endif
