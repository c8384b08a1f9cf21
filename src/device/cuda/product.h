// SPDX-License-Identifier: Apache-2.0
/* Products of a case's operands: what surrounds calls of cuBLASLt so that every format and layout is computed by its rules.
 *
 * fp32, bf16 and fp16 are multiplied as they lie, and results in one of them are written by the library itself. A bias is fp32: the library
 * adds it to fp32 results; to narrower ones it adds one of their own format, so the bias is split into the nearest value of that format,
 * which the epilogue adds, and what that lacks, which comes as the matrix C (all rows of C are alike: a few of them, shared by all pieces
 * of a batch, stay in the cache). Both enter the fp32 sum before it is rounded; what is lost of the bias is 2^-18 of it. Where that is not
 * to be had, `wide`: sums go to scratch in fp32, and a kernel of ours makes the result. Where results are few and sums are long, that way
 * also fills the GPU: the sums of pieces of the inner dimension are a batch, and are added one after the other.
 *
 * Bytes (int8 and narrower integers, e4m3fn, e5m2) are multiplied where the inner dimension lies side by side in both factors and extents
 * are multiples of 16: else a kernel of ours writes them so into scratch. Integer sums are exact: int32 as far as they hold them, so a long
 * inner dimension is cut into pieces, whose sums a kernel of ours adds in 64 bits; codes of shift groups are multiplied by the powers of
 * two that their groups differ by, in 8 bits where that fits, else as two bytes, 128 first + second, with a product each. */
#ifndef QSYNC_DEVICE_CUDA_PRODUCT_H
#define QSYNC_DEVICE_CUDA_PRODUCT_H

#include "cuda/cublaslt.h"
#include "cuda/product_jobs.h"
#include "qsync/matmul.h"

/* Something that a kernel reads or writes. */
enum { QS__SCRATCH = -1, QS__NOWHERE = -2 };
typedef struct qs__place {
    int operand; /* position in the case, QS__SCRATCH or QS__NOWHERE */
    size_t offset;
} qs__place;

qs__place qs__operand_place(const qs_case *one, qs_role role);
/* 0 for nowhere. */
CUdeviceptr qs__place_at(const qs__cuda_kernel *kernel, qs__place place);

enum { QS__LEFT, QS__RIGHT, QS__RESULT };
/* What is to be computed: make it by qs__product_start or qs__product_of_pass. */
typedef struct qs__product_request {
    qs_matmul of; /* extents, and how the three lie; left and result share no matrices */
    qs__place place[3];
    const qs_format *format[3];
    int64_t period, far; /* of bytes: row k of right lies at (k % period) · row + (k / period) · far; period 0: all at k · row */
    qs__place step[2];   /* fp32, of integers: left [1], right [1] or one for each column */
    int64_t right_steps;
    qs__place group;      /* shift groups of left along the inner dimension, int8: that at k % group_period */
    int64_t group_period; /* 0: each k has its own */
    int shifts;
    qs__place scale_group[2]; /* int8: results are multiplied by 2^-group of their row, and of their column modulo column_period */
    int64_t column_period;    /* 0: each has its own */
    /* How far these vectors go on from one head to the next: bias, steps of right, groups of left, groups of rows and of columns. */
    struct {
        int64_t bias, step, group, row_group, column_group;
    } by_head;
    qs__place bias;     /* fp32, one for each column */
    qs__place row_sums; /* fp32 [rows]: Σ of left over the inner dimension, by the library; floats alone */
    float alpha;        /* of floats */
    bool wide;
    int64_t
        pieces; /* of one product of floats of 16 or 32 bits: the inner dimension is cut into so many equal ones, 0 as 1; wide as well */
    /* A product in parts, each with other factors or another result: bytes that parts lie apart by, or multiples of that; 0 of what is the
     * same in all of them. */
    int64_t moves[3];
    int64_t repeats; /* so many parts add up to the result; 0: each makes its own */
} qs__product_request;

typedef struct qs__product {
    qs__product_request is;
    const qs__lt_plan *plan;
    int algorithm;
    int pack, result, bias; /* functions of ours; -1: not used */
    bool packs[2];
    size_t packed[2], sums, nearest, rest, workspace; /* offsets in scratch */
    int64_t padded_rows, padded_columns, padded_inner;
    int limbs[2];
    int64_t pieces, piece;
    int64_t rest_rows; /* > 0: the bias is split, so many rows of C */
    int walk;
    bool integers, bytes, wide;
    bool piecewise; /* pieces are multiplied by calls of their own, not as a batch */
} qs__product;

/* Everything nowhere, alpha 1. */
qs__product_request qs__product_start(const qs_matmul *of);
/* Operands by the roles in `of`, and what the passes of linear, conv2d and matmul have beside them: steps, groups, bias. */
qs__product_request qs__product_of_pass(const qs_case *one, const qs_matmul *of);
/* Plans the product with one of the library's algorithms, numbered from its best, and reserves scratch. QS_UNSUPPORTED with the reason. */
qs_status qs__product_build(qs__cuda_kernel *kernel, const qs__product_request *request, int algorithm, qs__product *out);
/* Behind the last product of a kernel: room that all of them use one after the other; those that were not built need none. */
void qs__products_workspace(qs__cuda_kernel *kernel, int products, qs__product *product);
qs_status qs__product_run(const qs__cuda_kernel *kernel, const qs__product *product);
/* One of its parts, from 0 on, with the three moved by so many bytes. */
qs_status qs__product_part(const qs__cuda_kernel *kernel, const qs__product *product, int64_t part, const int64_t moved[3]);

/* Sums of the columns of a matrix of values (bias.c): to[c] = factor · step · 2^-group[c] · Σ from[r][c], over the rows r for which
 * r / pixels is a multiple of block. */
typedef struct qs__bias_sums {
    qs__place from, step, group, to;
    const qs_format *format;
    int64_t rows, columns, pixels;
    int block; /* 0 as 1 */
    double factor;
    int64_t segments, segment_rows;
    size_t partial;
    int first, second; /* functions */
} qs__bias_sums;
/* Of a weight gradient's diff_dst; those of transformed samples stand in each block's first one. */
qs__bias_sums qs__bias_sums_of(const qs_case *one);
qs_status qs__bias_sums_build(qs__cuda_kernel *kernel, qs__bias_sums *columns);
qs_status qs__bias_sums_run(const qs__cuda_kernel *kernel, const qs__bias_sums *columns);

#endif
