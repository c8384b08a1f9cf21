// SPDX-License-Identifier: Apache-2.0
/* Direct convolutions of floats, a tile of the result in registers: a few places by a few *vectors* of sixteen neighbouring channels of
 * the result.
 *
 * Instructions add up one product of fp32 or two of bf16 inside a lane: neighbouring channels of the source, 4 bytes of them, a *word*.
 * Windows are read where they lie, as runs of words; weights are packed as [word][16 channels of the result]. */
#ifndef QSYNC_DEVICE_CPU_DIRECT_H
#define QSYNC_DEVICE_CPU_DIRECT_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu/vector/kernels.h"

enum {
    QS__DIRECT_LANES = 16,
    QS__DIRECT_BYTES = 64, /* of a word of weights for sixteen channels */
    QS__DIRECT_PLACES = 8, /* of a tile */
    QS__DIRECT_VECTORS = 3 /* of a tile */
};

typedef struct qs__direct_run {
    int64_t offset, words; /* bytes from a window's begin */
} qs__direct_run;

/* Σ over words of the source × weights, plus the bias. */
typedef struct qs__direct_tile {
    const char *window[QS__DIRECT_PLACES]; /* where there are fewer places, the first one's again, as its result */
    int vectors, runs;
    const qs__direct_run *run;
    const char *weights; /* of the first vector */
    int64_t panel;       /* bytes from one vector's to the next one's */
    const float *bias;   /* of the channels, as many as vectors have lanes; NULL: none */
    qs__type type;       /* of the result: fp32 or bf16 */
    char *result[QS__DIRECT_PLACES];
    int channels; /* of the result that are written, of all vectors */
} qs__direct_tile;

typedef struct qs__direct {
    const char *name;
    void (*tile[2])(const qs__direct_tile *tile); /* by qs__type of source and weights: fp32, bf16 */
    /* Sixteen rows of `bytes` bytes to words side by side: dst[word][16]. Rows may be NULL, for 0; so is what a last word has beyond. */
    void (*turn)(int64_t bytes, const char *const *row, char *dst);
} qs__direct;

extern const qs__direct qs__direct_avx512;

#endif
