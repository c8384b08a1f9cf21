// SPDX-License-Identifier: Apache-2.0
/* blocks: formats whose values share scales (docs/blocks.md). Neighbours along one axis, `block` of them, have one scale s; each is an
 * element of a small format times s. A format is data: its name is parsed into a descriptor, and equal ones are the same pointer.
 *
 *   mx(ELEMENT,BLOCK)                       scales are powers of two (E8M0), rounded down as OCP's Microscaling text suggests
 *   mx(ELEMENT,BLOCK,e8m0,ROUNDING)         floor; up: nothing is clipped; nearest: as floor, of the largest rounded to an element's bits
 *   mx(ELEMENT,BLOCK,SCALE)                 scales in a float format: e4m3, fp32
 *   mx(ELEMENT,BLOCK,SCALE,tensor)          and above them one in fp32 for all of the tensor, so that its largest is a scale's largest
 *   mxfp8 mxfp8-e5m2 mxfp6 mxfp6-e3m2 mxfp4 mxint8 nvfp4
 *
 * ELEMENT: e4m3, e5m2, e2m3, e3m2, e2m1, any other float format of at most 8 bits, or int2 ... int8, whose codes count from -max to max in
 * units of 2^-(bits - 2). BLOCK: 8 ... 256, a power of two. */
#ifndef QSYNC_BLOCKS_H
#define QSYNC_BLOCKS_H

#include "qsync/number.h"

typedef enum qs_scale_rounding { QS_SCALE_FLOOR, QS_SCALE_UP, QS_SCALE_NEAREST } qs_scale_rounding;
enum { QS_MOST_BLOCK = 256 };

typedef struct qs_block_format {
    char name[48];            /* canonical: "mxfp8", "mx(e4m3,32,e8m0,up)" */
    const qs_format *element; /* a float format; of integers the one with the same values, "fp(1,6,1)" of int8 */
    int block;
    const qs_format *scale;     /* NULL: powers of two, from 2^-127 to 2^127 */
    qs_scale_rounding rounding; /* of powers of two */
    bool of_tensor;             /* a scale of all values, in fp32, above those of blocks */
    const qs_format *container; /* a format whose values and products hold every element times its scale: bf16, or fp32 */
    double bits;                /* of one value with its share of the block's scale */
} qs_block_format;

/* QS_USAGE says what is wrong with the name. Never freed. */
QS_API qs_status qs_block_format_find(const char *name, const qs_block_format **out);
/* Whether a name is meant to be one: those of number formats are not. */
QS_API bool qs_block_format_claims(const char *name);
/* Short names, NULL past the end. */
QS_API const char *qs_block_format_name_at(size_t index);
/* Bytes of `rows` rows of `length` values in storage: elements as one string of bits, scales of a byte or as wide as their format, that of
 * the tensor. */
QS_API size_t qs_block_format_bytes(const qs_block_format *format, int64_t rows, int64_t length);

/* The scale of a block whose largest magnitude is this, times `tensor`, which is 1 where of_tensor is not. 0 gives the smallest scale; what
 * is not finite gives NaN. */
QS_API float qs_block_scale(const qs_block_format *format, float absmax, float tensor);
/* The scale of all values of a tensor with this largest magnitude: 1 unless of_tensor. */
QS_API float qs_tensor_scale(const qs_block_format *format, float absmax);

/* Where blocks lie in memory: element i of line `inner` of plane o is at (o × length + i) × inner_count + inner. inner_count 1: blocks are
 * contiguous; the last block of a line may be shorter. */
typedef struct qs_block_layout {
    int64_t outer, length, inner;
    int64_t sample;  /* elements of one, a multiple of inner (of length, where that is 1): each sample's draws begin apart; 0: of all */
    uint64_t stride; /* counters between the first draws of two samples */
} qs_block_layout;

/* Every value becomes its element times its scales. Elements saturate; a block with a value that is not finite becomes NaN. Draw i of a
 * sample belongs to its element i in memory order, as in qs_round_array. dst may be src where both have the same format. */
typedef struct qs_block_rounding {
    const qs_block_format *format;
    qs_rounding rounding;
    qs_random_stream random; /* of the first sample */
    float tensor;            /* qs_tensor_scale of all values */
    qs_block_layout layout;
    bool bfloat[2]; /* of src, of dst: bf16 storage, else fp32; what a bf16 does not hold is rounded to the nearest */
    const void *src;
    void *dst;
} qs_block_rounding;
/* Pieces of work that threads may share: whole lines, or of lines side by side one block. */
QS_API int64_t qs_block_units(const qs_block_rounding *job);
QS_API void qs_block_round(const qs_block_rounding *job, int64_t begin, int64_t end);

#endif
