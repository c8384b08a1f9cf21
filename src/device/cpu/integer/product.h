// SPDX-License-Identifier: Apache-2.0
/* Convolutions and matrix products of integer codes with channels in shift groups (ShiftQuant), by our own kernels: forward, input
 * gradient, weight gradient. A matrix product is a convolution of 1 × 1 images.
 *
 * Σ_k 2^-g(k) a_k b_k = 2^-(G-1) Σ_k (a_k b_k) << s(k), s(k) = G - 1 - g(k): docs/method.md, eqs. (9.3) to (9.5). The shift goes where
 * it costs nothing: into the left byte as far as its largest code leaves room, then into the right byte (both are written anew when they
 * are packed), so that 4-bit codes with G <= 6 and 6-bit ones with G <= 5 are one plain product. What is left (8-bit codes have no room at
 * all) orders k by falling rest: the sums are doubled between the parts, in registers, 2^(G-1) by Horner's rule. Nothing is rearranged but
 * what is packed anyway, each part is padded to whole quadruples. Everything is exact: where |sum| might reach 2^31, slices of k are added
 * in 64 bits.
 *
 * The other way, `grouped_gemm`, is there to be measured against: each group's channels are gathered, every group is a product of its own
 * whose 32-bit sums go through memory, and what was summed before is shifted there between two groups (product_gather.c). */
#ifndef QSYNC_DEVICE_CPU_PRODUCT_H
#define QSYNC_DEVICE_CPU_PRODUCT_H

#include "cpu/cpu.h"
#include "cpu/integer/products.h"
#include "qsync/number.h"

enum {
    QS__BLOCK_ROWS =
        20 * QS__TILE_ROWS, /* rows of the result that a thread takes at a time: each panel of the right factor is read once for
                                            so many, which matters where it comes from far */
    QS__SLICE = 1 << 16,    /* 255 × 127 × this fits 31 bits */
    QS__CHUNK = 2048        /* rows (k) of the weight gradient that are packed at a time */
};

/* The operator's extents, and the pass's two factors: forward src and weights, input gradient diff_dst and weights, weight gradient
 * diff_dst (left) and src (right). Codes are channels-last, weights [O][kh][kw][I / groups]. */
typedef struct qs__product {
    qs__pass pass;
    qs__geometry size;
    const qs_format *left, *right;
    int shifts;    /* G of the left factor's groups; 1: none */
    bool gathered; /* a product for each group; not in the weight gradient, whose sum has no groups inside */
    qs__tile_result result;
} qs__product;

/* What a run does. By themselves the three are for measurements, of forward products with one group of the convolution: scratch keeps what
 * the others left there. The weight gradient does all at once. */
enum {
    QS__STAGE = 1,    /* the left factor's codes, lifted or gathered */
    QS__PACK = 2,     /* the right factor */
    QS__MULTIPLY = 4, /* the rest */
    QS__ALL_STAGES = 7
};

/* Memory of a run. Where groups or bias are NULL there are none. The result is result_step[0 or column] (count 1 or all) × left_step × sum
 * + bias; weight gradients have left_step 2^-left_group[o] and right_step[0] 2^-right_group[i]. */
typedef struct qs__product_run {
    int stages;
    const qs__products *kernels;
    const int8_t *left, *right;
    const uint8_t *left_group, *right_group;
    float left_step;
    const float *right_step;
    int64_t right_steps;
    const float *bias;
    void *result;
    char *scratch;
} qs__product_run;

/* Forward and input gradient (product_rows.c), weight gradient (product_weights.c): bytes of scratch for `threads`; the product. */
size_t qs__product_rows_scratch(const qs__product *product, int threads);
void qs__product_rows(const qs__product *product, const qs__product_run *run);
size_t qs__product_weights_scratch(const qs__product *product, int threads);
void qs__product_weights(const qs__product *product, const qs__product_run *run);
/* Fits 32-bit sums, whatever the codes. */
bool qs__product_fits(const qs__product *product);

/* ---- Inside ---- */

/* Where the channels of the left factor (of one group of the convolution) stand when packed, and their shifts. */
typedef struct qs__shift_order {
    int parts;
    int64_t begin[QS__TILE_PARTS], length[QS__TILE_PARTS]; /* in packed channels; whole quadruples */
    int64_t packed;                                        /* channels, all parts */
    bool lifted, right_lifted;                             /* a power is not 1 */
    int32_t *channel;                                      /* [packed]; -1: padding */
    uint8_t *left_power, *right_power;                     /* [packed]: shifts, as powers of two */
    uint8_t *powers;                                       /* left_power over and over, for `repeat` pixels: for whoever stages them */
    int64_t repeat;
} qs__shift_order;

/* Bits by which the largest code can be shifted in an int8. */
int qs__spare_bits(const qs_format *format);
/* Most packed channels of `channels`. */
int64_t qs__packed_most(const qs__product *product, int64_t channels);
/* Fills an order whose arrays hold qs__packed_most entries. group NULL: all 0. */
void qs__shift_order_fill(const qs__product *product, int64_t channels, const uint8_t *group, qs__shift_order *order);

/* Pixels of the left factor, `channels` codes each, `stride` from one to the next: one byte a code, in the order's channels, lifted, with
 * the sign bit flipped where the format is signed. */
void qs__stage_left(const qs__shift_order *order, const qs__products *kernels, bool flip, int64_t pixels, int64_t channels, int64_t stride,
                    const int8_t *src, uint8_t *dst);
/* The byte that stands for 0. */
static inline uint8_t qs__left_zero(const qs_format *format) {
    return format->is_unsigned ? 0 : 0x80;
}

#endif
