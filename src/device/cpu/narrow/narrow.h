// SPDX-License-Identifier: Apache-2.0
/* Sums of products in narrow accumulators (qs_narrow), QS__NARROW_ROWS × QS__NARROW_COLUMNS of them at a time: lanes are columns, so that
 * each sum is formed in its own order. The bits are those of qs_narrow_dot; docs/method.md, §8.5, defines
 * the adders. */
#ifndef QSYNC_DEVICE_CPU_NARROW_H
#define QSYNC_DEVICE_CPU_NARROW_H

#include <stdbool.h>
#include <stdint.h>

enum { QS__NARROW_ROWS = 12, QS__NARROW_COLUMNS = 16 };

/* What lanes are. Floats: where products are exact in them and no sum ends below the accumulator's least place. Fused: floats that
 * multiply and add at once, where factors of the sizes at hand can be scaled for it (narrow_scale.h); on some instruction sets. Doubles:
 * always. */
typedef enum qs__narrow_lanes { QS__NARROW_FLOATS, QS__NARROW_FUSED, QS__NARROW_DOUBLES, QS__NARROW_KINDS } qs__narrow_lanes;

/* nearest: where rounding the lanes' own sum once more is as good as rounding the exact one (narrow_plan.c); nearest_exact: anywhere. */
typedef enum qs__narrow_adder {
    QS__NARROW_NEAREST,
    QS__NARROW_NEAREST_EXACT,
    QS__NARROW_TOWARD_ZERO,
    QS__NARROW_ALIGN_TRUNCATE,
    QS__NARROW_STOCHASTIC
} qs__narrow_adder;

/* Factors are multiplied by a power of two; then, what is not 0 but nearer to it than `least` moves there. Fused lanes only. */
typedef struct qs__narrow_scale {
    float factor, least;
} qs__narrow_scale;

/* Ways of the kernels that are compiled apart. */
typedef struct qs__narrow_variant {
    bool finite;    /* no factor and no sum is a NaN: for ways that would lose one; fused lanes take finite ones only */
    bool rounds;    /* fused lanes: products are rounded */
    bool saturates; /* sums may come to the largest value */
} qs__narrow_variant;

typedef struct qs__narrow_rule {
    qs__narrow_adder adder;
    qs__narrow_lanes lanes;
    bool guarded;       /* stochastic: sums are rounded to fp32's places first; float lanes always do */
    int mantissa_bits;  /* float and fused lanes: at most 20 (stochastic 11), doubles 30 */
    int least_exponent; /* of normal values; doubles only */
    int product_bits;   /* 0: exact, as in float lanes; fused ones: at most 20 */
    double largest;     /* of sums as they are scaled */

    /* Fused lanes, by qs__narrow_fit; else 1 and 0. */
    qs__narrow_variant variant; /* but for `finite` */
    qs__narrow_scale scale[2];  /* of what rows are made of, of the other factor */
    float unit, result;         /* times a rounded product: the product as sums are scaled; times a sum: the sum */
} qs__narrow_rule;

/* A run of products: addition .. addition + count - 1 of every sum. Offsets are in elements; then, with fold >= 0, the sums so far go into
 * the totals by addition number fold, and start at 0 again. */
typedef struct qs__narrow_piece {
    int64_t a, b, count, addition, fold;
} qs__narrow_piece;

/* sum[r][c] += Σ a[r][piece.a + k a_step] · b[piece.b + k b_step + c], piece by piece. Factors hold no infinities, NaNs are quiet ones. */
typedef struct qs__narrow_tile {
    const qs__narrow_rule *rule;
    const qs__narrow_piece *piece;
    int64_t pieces, a_step, b_step;
    qs__narrow_variant variant;
    const void *a[QS__NARROW_ROWS], *b;
    void *sum, *total; /* [QS__NARROW_ROWS][QS__NARROW_COLUMNS]; total: read where a piece folds */
    uint32_t key_low[QS__NARROW_ROWS], key_high[QS__NARROW_ROWS]; /* stochastic: addition j draws from counter + j / 2 · stride + c */
    uint32_t counter, stride;
} qs__narrow_tile;

#endif
