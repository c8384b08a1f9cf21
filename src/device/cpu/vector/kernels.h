// SPDX-License-Identifier: Apache-2.0
/* Our own vector kernels, one table per instruction set (vector/kernels.inc compiled once for each). Every table gives the same bits: lanes
 * are elements or columns, sums run along rows in one order, and nothing is contracted.
 *
 * Arrays are fp32 or bf16 by `type`; other formats pass through fp32 scratch (staging.h). Matrices are rows × channels, channels-last. */
#ifndef QSYNC_DEVICE_CPU_KERNELS_H
#define QSYNC_DEVICE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "geometry.h"
#include "cpu/narrow/narrow.h"

/* QS__INT8: codes; what depthwise kernels and normalisations read. QS__OTHER: no kernel's. */
typedef enum qs__type { QS__FP32, QS__BF16, QS__INT8, QS__OTHER } qs__type;

static inline size_t qs__type_bytes(qs__type type) {
    return type == QS__FP32 ? 4 : type == QS__BF16 ? 2 : 1;
}
/* One array in a kernel. */
typedef struct qs__in {
    qs__type type;
    const void *at;
} qs__in;
typedef struct qs__out {
    qs__type type;
    void *at;
} qs__out;

enum {
    QS__CHUNK_ROWS = 256 /* rows of one fp32 partial sum */
};

/* Functions of one number, some with one or two constants. */
#define QS_CURVE(id) id,
typedef enum qs__activation {
#include "cpu/elementwise/curves.def"
} qs__activation;
#undef QS_CURVE
typedef struct qs__curve_of {
    qs__activation which;
    float constant[2];
} qs__curve_of;

/* Functions of two numbers; the last one: the first where that is positive, else their product. */
typedef enum qs__pair_of { QS__SUBTRACT, QS__DIVIDE, QS__MINIMUM, QS__MAXIMUM, QS__BEND } qs__pair_of;

/* Σ a, Σ a b, and Σ a b where b is not positive. */
typedef enum qs__sum_of { QS__SUM_OF_VALUES, QS__SUM_OF_PRODUCTS, QS__SUM_OF_PRODUCTS_BELOW } qs__sum_of;

/* Of a row of logits x: the largest, Σ exp(x - largest) and Σ x. */
typedef struct qs__logits_sums {
    float largest;
    double exponentials, total;
} qs__logits_sums;

/* Rows of a normalisation, and of its backward pass: diff is the gradient of its output, 0 where `mask` (NULL: none) has no bit. Bit
 * first + i of the mask's bytes is element i. */
typedef struct qs__norm_block {
    int64_t rows, channels;
    qs__in src, diff;
    const uint8_t *mask;
    int64_t first, mask_bytes;
    const float *mean; /* (channels); of layer norms (rows) */
    bool absolute;
} qs__norm_block;

/* The parameters of a block of a layer norm, and 1 / spread of its rows. */
typedef struct qs__layer_terms {
    const float *scale, *shift; /* (channels); shift: forward only */
    const float *inverse;       /* (rows) */
    const float *unit;          /* (rows): inverse times what a unit of src is worth */
} qs__layer_terms;

/* Rows of a product of matrices. Element (r, k) of the left factor lies at r · left_row + k · left_column, the rows of the right one are
 * `width` long, whole QS__MATMUL_COLUMNS. */
enum { QS__MATMUL_COLUMNS = 32 };
typedef struct qs__matmul_block {
    int64_t rows, inner, columns, width;
    const float *left, *right;
    int64_t left_row, left_column;
    qs__out dst;
    int64_t dst_row;
} qs__matmul_block;

/* A row of a softmax: of its channels those from `unseen` on and below `seen` count whose word in `kept` (NULL: all) is not 0. */
typedef struct qs__softmax_row {
    int64_t channels, room, unseen, seen; /* room: of powers */
    const int32_t *kept;
    float scale;
    qs__in src, diff; /* diff: backward only */
    qs__out dst;
} qs__softmax_row;

typedef struct qs__cpu_kernels {
    const char *name;
    /* Where a kernel has `largest` and it is not NULL, it is raised to the bits of the largest magnitude that the kernel stores in dst (or
     * diff_src); a NaN counts as larger than infinity. */

    /* Elementwise; masks hold one bit an element, `count` but the last call's is a multiple of 16. mask may be NULL in relu, whose ceiling
     * is 0 for none. */
    void (*relu)(int64_t count, qs__in src, float ceiling, uint8_t *mask, qs__out dst, uint32_t *largest);
    void (*relu_gradient)(int64_t count, const uint8_t *mask, qs__in diff_dst, qs__out diff_src, uint32_t *largest);
    void (*add)(int64_t count, qs__in a, qs__in b, qs__out dst, uint32_t *largest);
    void (*multiply)(int64_t count, qs__in a, qs__in b, qs__out dst, uint32_t *largest);
    /* dst = f(src), and dst = diff f'(src). */
    void (*activation)(qs__curve_of curve, int64_t count, qs__in src, qs__out dst, uint32_t *largest);
    void (*activation_gradient)(qs__curve_of curve, int64_t count, qs__in src, qs__in diff, qs__out dst, uint32_t *largest);
    /* dst = f(a, b), and both gradients: dst = diff times the derivative by a, dst2 by b. */
    void (*pair)(qs__pair_of which, int64_t count, qs__in a, qs__in b, qs__out dst, uint32_t *largest);
    void (*pair_gradient)(qs__pair_of which, int64_t count, qs__in a, qs__in b, qs__in diff, qs__out dst, qs__out dst2);
    /* Such sums (of values: b is not read, and has a's type) in double, rounded once: of each of `columns` columns, rows `pitch` elements
     * apart, from the first row to the last; of each row of `columns` elements. */
    void (*product_columns)(qs__sum_of what, int64_t rows, int64_t pitch, int64_t columns, qs__in a, qs__in b, float *sum);
    void (*product_rows)(qs__sum_of what, int64_t rows, int64_t columns, qs__in a, qs__in b, float *sum);
    /* Of a row of logits, read once from memory; and dst = exp(x - largest) scale - offset. */
    void (*logits_sums)(int64_t classes, qs__in src, qs__logits_sums *out);
    void (*logits_gradient)(int64_t classes, qs__in src, float largest, float scale, float offset, qs__out dst);
    /* Element i is kept when draw counter + i of the key is at least threshold, and scaled. */
    void (*dropout)(int64_t count, uint64_t key, uint32_t counter, float threshold, double scale, qs__in src, qs__out dst);

    /* At most QS__CHUNK_ROWS rows: mean[c] and square[c] = Σ (x - mean)². */
    void (*moments)(int64_t rows, int64_t channels, qs__in src, float *mean, float *square);
    /* At most QS__CHUNK_ROWS rows of any type: sum[c] = Σ x; and Σ |x - mean| or Σ (x - mean)². Exact for codes: means are multiples of
     * 2^-8, or 0 for squares. */
    void (*column_sums)(int64_t rows, int64_t channels, qs__in src, float *sum);
    void (*distances)(const qs__norm_block *block, float *sum);
    /* dst = (src - mean[c]) factor[c] + shift[c] */
    void (*normalize)(int64_t rows, int64_t channels, qs__in src, const float *mean, const float *factor, const float *shift, qs__out dst,
                      uint32_t *largest);
    /* normalize and relu in one pass, `mask` that of the block's rows; false, and nothing done, where there is no such kernel (bf16 in
     * rows of whole pairs has one). */
    bool (*normalize_relu)(const qs__norm_block *block, const float *factor, const float *shift, float ceiling, uint8_t *mask, qs__out dst,
                           uint32_t *largest);
    /* At most QS__CHUNK_ROWS rows: sum[c] = Σ dy, product[c] = Σ dy (x - mean[c]), and if absolute signs[c] = Σ sign(x - mean[c]) */
    void (*gradient_sums)(const qs__norm_block *block, float *sum, float *product, float *signs);
    /* dst = factor[c] (dy - offset[c] - d slope[c]) with d = x - mean[c], or its sign if absolute */
    void (*gradient_rows)(const qs__norm_block *block, const float *factor, const float *offset, const float *slope, qs__out dst,
                          uint32_t *largest);

    /* Layer norms: rows by themselves. Means over the channels of each row: of x, and of |x - mean| or (x - mean)² with the block's
     * mean. Of codes, and means that are whole 2^-8, the sums are exact. */
    void (*layer_means)(const qs__norm_block *block, float *mean);
    void (*layer_spreads)(const qs__norm_block *block, float *spread);
    /* dst = (src - mean[r]) unit[r] scale[c] + shift[c] */
    void (*layer_normalize)(const qs__norm_block *block, const qs__layer_terms *terms, qs__out dst, uint32_t *largest);
    /* At most QS__CHUNK_ROWS rows, with n = (src - mean[r]) unit[r]: the gradient of src into dst, and Σ dy n and Σ dy over the rows,
     * added to diff_scale[c] and diff_shift[c]. */
    void (*layer_gradient)(const qs__norm_block *block, const qs__layer_terms *terms, float *diff_scale, float *diff_shift, qs__out dst,
                           uint32_t *largest);

    /* RMS norms, rows by themselves: dst = src / sqrt(mean of squares + epsilon) scale[c]. Of at most QS__CHUNK_ROWS rows the gradient of
     * src into dst, and that of the scale, added to diff_scale[c]. */
    void (*rms_normalize)(const qs__norm_block *block, const float *scale, double epsilon, qs__out dst, uint32_t *largest);
    void (*rms_gradient)(const qs__norm_block *block, const float *scale, double epsilon, float *diff_scale, qs__out dst,
                         uint32_t *largest);

    /* One position of a sequence: in each head the channels i and i + half, i < half, become (x cosine[i] - y sine[i], y cosine[i] + x
     * sine[i]). */
    void (*rotate)(int64_t heads, int64_t half, const float *cosine, const float *sine, qs__in src, qs__out dst);
    /* dst = left · right, each element one chain of sums in fp32, rounded once; and the factors' values to fp32. */
    void (*matmul_rows)(const qs__matmul_block *block);
    void (*matmul_read)(int64_t count, qs__in src, float *dst);
    /* sum[c] = Σ over the rows, `pitch` elements apart, of column c < columns: in double, from the first row to the last, rounded once. */
    void (*bias_sums)(int64_t rows, int64_t pitch, int64_t columns, qs__in src, float *sum);
    /* A row, and its gradient; `powers` has room for it in whole vectors. */
    void (*softmax)(const qs__softmax_row *row, float *powers);
    void (*softmax_gradient)(const qs__softmax_row *row, float *powers);

    /* One line of results of a pool, number oh of an image: maxima and (mask not NULL) where they stand, or means. `src` is the image, dst
     * and mask are the line. */
    void (*maximum_line)(const qs__geometry *pool, int64_t oh, qs__in src, qs__out dst, int8_t *mask);
    void (*mean_line)(const qs__geometry *pool, int64_t oh, qs__in src, qs__out dst);
    /* Line h of an image's gradient: at each pixel the sum over the windows that cover it, of diff where the mask names the pixel
     * (max_pool), or, without a mask, of diff / window size. diff and mask are all results of the image, dst is the line. */
    void (*gradient_line)(const qs__geometry *pool, int64_t h, qs__in diff, const int8_t *mask, qs__out dst);
    /* Depthwise convolutions: 3 × 3, equal strides of 1 or 2, padding 0 to 2.
     * Lines begin ... end - 1 of the results of an image: Σ of the window × weights [9][channels], × factor[c] (for codes), + shift[c]
     * where it is not NULL. src and dst are the whole image and all its results. */
    void (*depthwise_lines)(const qs__geometry *size, int64_t begin, int64_t end, qs__in src, const float *weights, const float *factor,
                            const float *shift, qs__out dst);
    /* Stride 2 only: line h of the gradient of an image, of all its results' gradients; × factor[c] for codes. */
    void (*depthwise_gradient_line)(const qs__geometry *size, int64_t h, qs__in diff, const float *weights, const float *factor,
                                    qs__out dst);
    /* Adds what an image gives to the sums [channel][9] of the weight gradient of codes, of channels begin ... end - 1. Exact: an image has
     * fewer than 2^17 places. */
    void (*depthwise_weights)(const qs__geometry *size, int64_t begin, int64_t end, const int8_t *src, const int8_t *diff,
                              int64_t (*sum)[9]);

    /* By the kind of lanes; NULL where the instruction set has no fused ones. A tile of sums; fp32 or bf16 to its factors, true where all
     * are finite; the first `width` of a row of sums, times a power of two, plus the bias where it is not NULL, into elements index,
     * index + 1, ... of dst. */
    void (*narrow_tile[QS__NARROW_KINDS])(const qs__narrow_tile *tile);
    bool (*narrow_read[QS__NARROW_KINDS])(int64_t count, qs__in src, qs__narrow_scale scale, void *dst);
    void (*narrow_write[QS__NARROW_KINDS])(int64_t width, const void *sum, float scale, const float *bias, qs__out dst, int64_t index);
    /* Raises *largest to the bits of the largest magnitude, lowers *least (0: none yet) to those of the least one that is not 0. */
    void (*magnitudes)(int64_t count, qs__in src, uint32_t *largest, uint32_t *least);
} qs__cpu_kernels;

extern const qs__cpu_kernels qs__cpu_kernels_portable, qs__cpu_kernels_avx2, qs__cpu_kernels_avx512;

#endif
