// SPDX-License-Identifier: Apache-2.0
/* linear by cuBLASLt: one product a pass. Activations are matrices of as many rows as there are samples, or positions. Factors of two
 * formats, or of one that the library does not know, are multiplied as fp32, which holds them as they are. */
#include "cuda/convert_jobs.h"
#include "cuda/own.h"
#include "cuda/product.h"

#include <stdlib.h>

typedef struct linear {
    qs__product product;
    qs__bias_sums bias;      /* sums of diff_dst; where rows is 0, none */
    qs__cuda_values from[2]; /* factors that are written as fp32 into scratch first, but for their addresses; count 0: none */
    int widen;               /* the function that does so */
} linear;

static void release(qs__cuda_kernel *kernel) {
    free(kernel->own);
}

/* The library multiplies floats of one format, and of both that have 8 bits. */
static bool as_they_lie(const qs_format *left, const qs_format *right) {
    if (left->kind != QS_KIND_FLOAT || (left->bits == 8 && right->bits == 8 && qs__lt_type(left) >= 0 && qs__lt_type(right) >= 0))
        return true;
    return left == right && qs__lt_type(left) >= 0;
}

/* Puts fp32 copies in scratch into the place of factors that are not multiplied as they lie. */
static qs_status factors_place(qs__cuda_kernel *kernel, qs__product_request *request, linear *own) {
    const qs_format *fp32 = qs_format_of("fp32");
    if (as_they_lie(request->format[QS__LEFT], request->format[QS__RIGHT])) return QS_OK;
    for (int i = 0; i < 2; i++) {
        if (request->format[i] == fp32) continue;
        const int64_t count = qs_shape_count(&kernel->one.operand[request->place[i].operand].shape);
        own->from[i] = (qs__cuda_values){.count = count, .format = qs__cuda_format_of(request->format[i])};
        request->place[i] = (qs__place){QS__SCRATCH, qs__cuda_scratch(kernel, (size_t)count * sizeof(float))};
        request->format[i] = fp32;
    }
    return qs__cuda_function(kernel, "cast_nearest", &own->widen);
}

static qs_status factor_widen(const qs__cuda_kernel *kernel, const linear *own, int factor) {
    const qs_matmul *of = &own->product.is.of;
    qs__cuda_cast_job job = {.src = own->from[factor], .rounding = QS_NEAREST_EVEN, .overflow = QS_OVERFLOW_DEFAULT};
    job.src.at = qs__cuda_at(kernel, factor == QS__LEFT ? of->left.role : of->right.role);
    job.dst = (qs__cuda_values){.at = qs__place_at(kernel, own->product.is.place[factor]),
                                .count = job.src.count,
                                .format = qs__cuda_format_of(qs_format_of("fp32"))};
    return qs__cuda_launch(kernel, own->widen, qs__cuda_blocks(kernel->cuda, job.src.count, QS__CUDA_THREADS, 8), QS__CUDA_THREADS, 0,
                           &job);
}

static qs_status run(qs__cuda_kernel *kernel, const qs_run *run) {
    const linear *own = kernel->own;
    (void)run;
    for (int i = 0; i < 2; i++)
        if (own->from[i].count > 0) QS_TRY(factor_widen(kernel, own, i));
    QS_TRY(qs__product_run(kernel, &own->product));
    return own->bias.rows > 0 ? qs__bias_sums_run(kernel, &own->bias) : QS_OK;
}

/* A matrix that is all of an operand. */
static qs_matrices whole(qs_role role, int64_t row, int64_t column) {
    return (qs_matrices){.role = role, .row = row, .column = column, .shared = 1};
}

static qs_matmul extents(const qs_case *one) {
    const qs__geometry g = qs__case_geometry(one);
    const int64_t rows = g.batch, inputs = g.channels, outputs = g.outputs;
    qs_matmul out = {.samples = 1, .heads = 1, .summed = 1, .rows = rows, .inner = inputs, .columns = outputs};
    switch (qs__case_pass(one)) {
    case QS__FORWARD:
        out.left = whole(QS_SRC, inputs, 1);
        out.right = whole(QS_WEIGHTS, 1, inputs);
        out.result = whole(QS_DST, outputs, 1);
        return out;
    case QS__INPUT_GRADIENT:
        out.inner = outputs, out.columns = inputs;
        out.left = whole(QS_DIFF_DST, outputs, 1);
        out.right = whole(QS_WEIGHTS, inputs, 1);
        out.result = whole(QS_DIFF_SRC, inputs, 1);
        return out;
    default:
        out.rows = outputs, out.inner = rows, out.columns = inputs;
        out.left = whole(QS_DIFF_DST, 1, outputs);
        out.right = whole(QS_SRC, inputs, 1);
        out.result = whole(QS_DIFF_WEIGHTS, inputs, 1);
        return out;
    }
}

/* Ways of it. OTHER: sums in scratch and a kernel of ours for the bias of narrow results; bias gradients by the library for those of
 * floats. PIECES: a weight gradient whose results are too few for the GPU, by pieces of the rows that it sums over. */
typedef enum way { PLAIN, OTHER, PIECES } way;

/* Into how many pieces the rows of a weight gradient of 16-bit floats are cut: so that tiles of results are about as many as
 * multiprocessors, where equal pieces are long enough; 1 where results are enough. The library itself cuts none: for [768, 768] of 8192
 * rows it took 96 tiles of 96 × 64, and bert:base's weight gradients 1.8 times as long as its input gradients (seen on an H100). */
static int64_t pieces_of(const qs__cuda *cuda, const qs__product_request *request) {
    enum { TILE = 128, LEAST = 2048, UNIT = 8 };
    const qs_matmul *of = &request->of;
    const int64_t tiles = (of->rows + TILE - 1) / TILE * ((of->columns + TILE - 1) / TILE);
    int64_t pieces = (cuda->multiprocessors + tiles / 2) / tiles;
    if (of->result.role != QS_DIFF_WEIGHTS || request->format[QS__LEFT]->bits != 16) return 1;
    if (pieces > of->inner / LEAST) pieces = of->inner / LEAST;
    while (pieces > 1 && of->inner % (pieces * UNIT) != 0)
        pieces--;
    return pieces > 1 ? pieces : 1;
}

static qs_status build(qs__cuda_kernel *kernel, int algorithm, way taken) {
    static const char *const suffix[] = {[PLAIN] = "", [OTHER] = ":wide", [PIECES] = ":pieces"};
    const qs_case *one = &kernel->one;
    const bool floats = one->operand[0].format->kind == QS_KIND_FLOAT, gradient = qs__case_has(one, QS_DIFF_BIAS), other = taken == OTHER;
    const qs_matmul of = extents(one);
    qs__product_request request = qs__product_of_pass(one, &of);
    linear *own;
    if (one->attributes.accumulator.adder) return qs_fail(QS_UNSUPPORTED, "cuBLASLt adds in no narrow accumulator");
    QS_TRY(qs_allocate(1, sizeof *own, &own));
    kernel->own = own;
    kernel->release = release;
    kernel->run = run;
    QS_TRY(factors_place(kernel, &request, own));
    const bool narrow = qs__lt_type(request.format[QS__RESULT]) == CUDA_R_16BF || qs__lt_type(request.format[QS__RESULT]) == CUDA_R_16F;
    const bool splits = floats && narrow && request.format[QS__LEFT]->bits > 8 && request.bias.operand >= 0;
    if (other && !splits && !(gradient && floats && request.format[QS__LEFT]->bits > 8))
        return qs_fail(QS_UNSUPPORTED, "there is one way to compute it by cuBLASLt");
    if (taken == PIECES) request.pieces = pieces_of(kernel->cuda, &request);
    if (taken == PIECES && request.pieces == 1) return qs_fail(QS_UNSUPPORTED, "pieces of its sums would not fill the GPU better");
    request.wide = (other && splits) || taken == PIECES;
    if (other && gradient) request.row_sums = qs__operand_place(one, QS_DIFF_BIAS);
    QS_TRY(qs__product_build(kernel, &request, algorithm, &own->product));
    qs__products_workspace(kernel, 1, &own->product);
    if (gradient && !other) {
        own->bias = qs__bias_sums_of(one);
        QS_TRY(qs__bias_sums_build(kernel, &own->bias));
    }
    snprintf(kernel->name, sizeof kernel->name, "cublaslt:%s%s", own->product.plan->algorithm[algorithm].tag,
             other && gradient ? ":bias" : suffix[taken]);
    return QS_OK;
}

qs_status qs__cuda_build_cublaslt_linear_pieces(qs__cuda_kernel *kernel) {
    return build(kernel, 0, PIECES);
}

qs_status qs__cuda_build_cublaslt_linear(qs__cuda_kernel *kernel) {
    return build(kernel, 0, PLAIN);
}

qs_status qs__cuda_build_cublaslt_linear_second(qs__cuda_kernel *kernel) {
    return build(kernel, 1, PLAIN);
}

qs_status qs__cuda_build_cublaslt_linear_third(qs__cuda_kernel *kernel) {
    return build(kernel, 2, PLAIN);
}

qs_status qs__cuda_build_cublaslt_linear_other(qs__cuda_kernel *kernel) {
    return build(kernel, 0, OTHER);
}
