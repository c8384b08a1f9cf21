// SPDX-License-Identifier: Apache-2.0
/* single_product: one product by itself, for measurements (qsync-bench shiftmm). What the arithmetic of a format costs once operands are
 * quantized and packed, and what these preparations cost. Operands are synthetic and stay from run to run.
 *
 * A product belongs to an open device `cpu`, which must outlive it; other devices have none. It owns its memory. Runs are not slowed down
 * by the device's `speed`: they include no rest. */
#ifndef QSYNC_SINGLE_PRODUCT_H
#define QSYNC_SINGLE_PRODUCT_H

#include "qsync/device.h"

/* A convolution with square windows and padding kernel/2 (0 where stride is the kernel), or, with all of height, width and kernel 1, a
 * matrix product of `batch` rows. */
typedef struct qs_single_product_shape {
    int64_t batch, channels, outputs, height, width, kernel, stride;
} qs_single_product_shape;

/* Stages of a run, to be combined. */
enum {
    QS_SINGLE_GROUPS = 1,   /* ranges and groups of the input's channels */
    QS_SINGLE_QUANTIZE = 2, /* the input's codes, stochastic, from bf16 */
    QS_SINGLE_WEIGHTS = 4,  /* fp32 weights to the format, packed */
    QS_SINGLE_PRODUCT = 8,
    QS_SINGLE_ALL = 15,
    QS_SINGLE_GATHER = 16 /* the part of a gathered product that rearranges codes, by itself; nothing elsewhere */
};

typedef struct qs_single_product qs_single_product;

/* kind: "fp32", "bf16"; "int8" (one step for the whole input); "int4", "int6" (four shift groups); "hadamard" (4 bits, one step for each
 * factor behind a transform of blocks of at most 16 channels), all by the kernel library. "own int8" and so on, integers only, are the same
 * by our own kernels, which have "own int8:shift4" (8 bits in four shift groups) too; "grouped int4" and the like have a product for each
 * shift group, by the same tiles. "taken bf16" is the kernel that the device takes in a training step: it packs bf16 weights in each
 * product. QS_UNSUPPORTED where the device lacks it; all stages have run once when it returns. */
QS_API qs_status qs_single_product_open(qs_device *device, const qs_single_product_shape *shape, const char *kind, qs_single_product **out);
/* QS_FAILED where the kernel library fails. */
QS_API qs_status qs_single_product_run(qs_single_product *product, int stages);
/* Name of the kernel, as in qs_kernel_fact; lives as long as the product. */
QS_API const char *qs_single_product_kernel(const qs_single_product *product);
QS_API void qs_single_product_close(qs_single_product *product); /* NULL is fine */

#endif
