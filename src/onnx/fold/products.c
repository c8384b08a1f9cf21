// SPDX-License-Identifier: Apache-2.0
/* Products of matrices, and quantized tensors. Sums are taken in double. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* Products of elements that one node may take: what is larger is a layer, not a constant. */
enum { MOST_PRODUCTS = 1 << 26 };

/* ---- Products ---------------------------------------------------------------------------------------------------------------------- */

static qs_status equal_extents(const qs_onnx_extent *a, const qs_onnx_extent *b, const char *what) {
    char text[2][QS_ONNX_EXTENT_TEXT];
    if (!qs_onnx_extent_is_known(a) || !qs_onnx_extent_is_known(b) || qs_onnx_extent_equal(a, b)) return QS_OK;
    return qs_fail(QS_BAD_FILE, "%s: %s and %s", what, qs_onnx_extent_text(a, text[0]), qs_onnx_extent_text(b, text[1]));
}

/* As in numpy: vectors are matrices of one row or column, which is then gone; axes before the last two are broadcast. */
static qs_status shape_matmul(const qs__shaping *at) {
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    const qs__fact *a = &at->in[0], *b = &at->in[1];
    const bool integers = strcmp(at->node->op, "MatMulInteger") == 0;
    at->out->type = integers ? QS_ONNX_INT32 : a->type != QS_ONNX_UNDEFINED ? a->type : b->type;
    if (!integers && a->type != b->type && a->type != QS_ONNX_UNDEFINED && b->type != QS_ONNX_UNDEFINED)
        return qs_fail(QS_BAD_FILE, "matrices of types %s and %s", qs_onnx_type_name(a->type), qs_onnx_type_name(b->type));
    if (a->rank < 0 || b->rank < 0) return QS_OK;
    if (a->rank == 0 || b->rank == 0) return qs_fail(QS_BAD_FILE, "a scalar is no matrix");
    QS_TRY(equal_extents(&a->extent[a->rank - 1], &b->extent[b->rank > 1 ? b->rank - 2 : 0], "the summed extents differ"));
    qs__fact outer = {.rank = a->rank > 2 ? a->rank - 2 : 0}, with = {.rank = b->rank > 2 ? b->rank - 2 : 0};
    memcpy(outer.extent, a->extent, (size_t)outer.rank * sizeof *a->extent);
    memcpy(with.extent, b->extent, (size_t)with.rank * sizeof *b->extent);
    QS_TRY(qs__broadcast(&outer, &with));
    memcpy(at->out->extent, outer.extent, sizeof outer.extent);
    at->out->rank = outer.rank;
    if (a->rank > 1) at->out->extent[at->out->rank++] = a->extent[a->rank - 2];
    if (b->rank > 1) at->out->extent[at->out->rank++] = b->extent[b->rank - 1];
    return QS_OK;
}

/* Elements as reals less a zero point, which integers may have. */
static qs_status load_reals(const qs_onnx_tensor *tensor, const qs_onnx_tensor *zero, double **out) {
    double *reals, offset = 0;
    if (tensor->count > (int64_t)(QS__ONNX_MEMORY_LIMIT / sizeof *reals)) return qs_fail(QS_UNSUPPORTED, "more elements than are computed");
    if (zero && zero->count != 1) return qs_fail(QS_UNSUPPORTED, "zero points of rows or columns");
    if (zero) QS_TRY(qs_onnx_tensor_doubles(zero, 0, 1, &offset));
    QS_TRY(qs_allocate((size_t)tensor->count, sizeof *reals, &reals));
    const qs_status status = qs_onnx_tensor_doubles(tensor, 0, tensor->count, reals);
    if (status != QS_OK) {
        free(reals);
        return status;
    }
    for (int64_t i = 0; i < tensor->count && offset != 0; i++)
        reals[i] -= offset;
    *out = reals;
    return QS_OK;
}

static void store_real(qs__array *out, int64_t i, double value) {
    if (out->real)
        out->real[i] = value;
    else
        out->integer[i] = qs__integer_of(value);
}

static qs_status evaluate_matmul(const qs__evaluation *at) {
    const qs_onnx_tensor *a = at->in[0], *b = at->in[1];
    const int64_t summed = a->dim[a->rank - 1], rows = a->rank > 1 ? a->dim[a->rank - 2] : 1,
                  columns = b->rank > 1 ? b->dim[b->rank - 1] : 1;
    const bool integers = strcmp(at->node->op, "MatMulInteger") == 0;
    double *left = NULL, *right = NULL;
    qs__array out = {0};
    qs_status status = QS_OK;
    if (summed > 0 && at->out->count > MOST_PRODUCTS / summed) return qs_fail(QS_UNSUPPORTED, "more than %d products", MOST_PRODUCTS);
    QS_GOTO(load_reals(a, integers && at->inputs > 2 ? at->in[2] : NULL, &left));
    QS_GOTO(load_reals(b, integers && at->inputs > 3 ? at->in[3] : NULL, &right));
    QS_GOTO(qs__array_make(at->out->type, at->out->count, &out));
    const int outer = at->out->rank - (a->rank > 1) - (b->rank > 1);
    qs__walk walk = qs__walk_over(outer, at->out->dim);
    qs__walk_broadcast(&walk, 0, a->rank > 2 ? a->rank - 2 : 0, a->dim);
    qs__walk_broadcast(&walk, 1, b->rank > 2 ? b->rank - 2 : 0, b->dim);
    const int64_t matrices = qs__dims_product(at->out->dim, 0, outer);
    for (int64_t m = 0; m < matrices; m++, qs__walk_next(&walk))
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++) {
                const double *x = left + (walk.position[0] * rows + r) * summed, *y = right + walk.position[1] * summed * columns + c;
                double sum = 0;
                for (int64_t k = 0; k < summed; k++)
                    sum += x[k] * y[k * columns];
                store_real(&out, (m * rows + r) * columns + c, sum);
            }
    QS_GOTO(qs__array_store(&out, false, at->out));
done:
    free(left);
    free(right);
    qs__array_release(&out);
    return status;
}

static qs_status shape_gemm(const qs__shaping *at) {
    int64_t turn_a, turn_b;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs_onnx_attribute_int(at->node, "transA", 0, &turn_a));
    QS_TRY(qs_onnx_attribute_int(at->node, "transB", 0, &turn_b));
    const qs__fact *a = &at->in[0], *b = &at->in[1];
    at->out->type = a->type != QS_ONNX_UNDEFINED ? a->type : b->type;
    if (a->rank < 0 || b->rank < 0) return QS_OK;
    if (a->rank != 2 || b->rank != 2) return qs_fail(QS_BAD_FILE, "matrices of %d and %d extents, must be 2", a->rank, b->rank);
    QS_TRY(equal_extents(&a->extent[turn_a ? 0 : 1], &b->extent[turn_b ? 1 : 0], "the summed extents differ"));
    at->out->rank = 2;
    at->out->extent[0] = a->extent[turn_a ? 1 : 0];
    at->out->extent[1] = b->extent[turn_b ? 0 : 1];
    if (!qs__given(at, 2) || at->in[2].rank < 0) return QS_OK;
    if (at->in[2].rank > 2) return qs_fail(QS_BAD_FILE, "a bias of %d extents", at->in[2].rank);
    qs__fact sum = *at->out;
    QS_TRY(qs__broadcast(&sum, &at->in[2]));
    return equal_extents(&sum.extent[0], &at->out->extent[0], "the bias has more rows than the product");
}

static qs_status evaluate_gemm(const qs__evaluation *at) {
    const int64_t rows = at->out->dim[0], columns = at->out->dim[1];
    double *a = NULL, *b = NULL, *bias = NULL;
    int64_t turn_a, turn_b;
    float alpha, beta;
    qs__array out = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "transA", 0, &turn_a));
    QS_TRY(qs_onnx_attribute_int(at->node, "transB", 0, &turn_b));
    QS_TRY(qs_onnx_attribute_float(at->node, "alpha", 1, &alpha));
    QS_TRY(qs_onnx_attribute_float(at->node, "beta", 1, &beta));
    const int64_t summed = at->in[0]->dim[turn_a ? 0 : 1];
    if (summed > 0 && at->out->count > MOST_PRODUCTS / summed) return qs_fail(QS_UNSUPPORTED, "more than %d products", MOST_PRODUCTS);
    QS_GOTO(load_reals(at->in[0], NULL, &a));
    QS_GOTO(load_reals(at->in[1], NULL, &b));
    QS_GOTO(qs__array_make(at->out->type, at->out->count, &out));
    qs__walk walk = qs__walk_over(2, at->out->dim);
    if (at->inputs > 2 && at->in[2]) {
        QS_GOTO(load_reals(at->in[2], NULL, &bias));
        qs__walk_broadcast(&walk, 0, at->in[2]->rank, at->in[2]->dim);
    }
    for (int64_t i = 0; i < rows * columns; i++, qs__walk_next(&walk)) {
        const int64_t r = i / columns, c = i % columns;
        double sum = 0;
        for (int64_t k = 0; k < summed; k++)
            sum += a[turn_a ? k * rows + r : r * summed + k] * b[turn_b ? c * summed + k : k * columns + c];
        store_real(&out, i, (double)alpha * sum + (bias ? (double)beta * bias[walk.position[0]] : 0));
    }
    QS_GOTO(qs__array_store(&out, false, at->out));
done:
    free(a);
    free(b);
    free(bias);
    qs__array_release(&out);
    return status;
}

/* ---- Quantized tensors ------------------------------------------------------------------------------------------------------------- */

static qs_status shape_quantize(const qs__shaping *at) {
    int64_t type;
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs_onnx_attribute_int(at->node, "output_dtype", qs__given(at, 2) ? (int64_t)at->in[2].type : QS_ONNX_UINT8, &type));
    if (type == 0) type = qs__given(at, 2) ? (int64_t)at->in[2].type : QS_ONNX_UINT8;
    if (type < 0 || type >= QS_ONNX_TYPE_COUNT) return qs_fail(QS_UNSUPPORTED, "attribute \"output_dtype\" is %" PRId64, type);
    at->out->type = (qs_onnx_type)type;
    return QS_OK;
}

static qs_status shape_dequantize(const qs__shaping *at) {
    QS_TRY(qs__need(at, 1));
    QS_TRY(qs__shape_like(at));
    at->out->type = at->in[1].type;
    return QS_OK;
}

/* Which step an element has: one for all, one a place of an axis, or one for a block of places of it. */
typedef struct steps {
    int64_t outer, extent, inner, block, count; /* of the steps along the axis */
} steps;

static qs_status steps_of(const qs__evaluation *at, steps *out) {
    const qs_onnx_tensor *in = at->in[0], *scale = at->in[1];
    int64_t axis, block;
    int which = 0;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 1, &axis));
    QS_TRY(qs_onnx_attribute_int(at->node, "block_size", 0, &block));
    if (block < 0 || block > INT32_MAX) return qs_fail(QS_BAD_FILE, "attribute \"block_size\" is %" PRId64, block);
    *out = (steps){1, 1, in->count, 1, 1};
    if (at->inputs > 2 && at->in[2] && at->in[2]->count != scale->count)
        return qs_fail(QS_BAD_FILE, "as many zero points as scales are needed");
    if (scale->count == 1 && scale->rank <= 1 && block == 0) return QS_OK;
    QS_TRY(qs__axis(axis, in->rank, &which));
    *out = (steps){qs__dims_product(in->dim, 0, which), in->dim[which], qs__dims_product(in->dim, which + 1, in->rank), 1, 0};
    if (scale->rank > 1) {
        if (scale->rank != in->rank || block < 1)
            return qs_fail(QS_BAD_FILE, "scales of %d extents with blocks of %" PRId64, scale->rank, block);
        for (int i = 0; i < in->rank; i++) {
            const int64_t expected = i == which ? (in->dim[i] + block - 1) / block : in->dim[i];
            if (scale->dim[i] != expected)
                return qs_fail(QS_BAD_FILE, "%" PRId64 " scales along axis %d, must be %" PRId64, scale->dim[i], i, expected);
        }
        out->block = block;
        out->count = scale->dim[which];
    } else {
        if (scale->count != in->dim[which])
            return qs_fail(QS_BAD_FILE, "%" PRId64 " scales for axis %d of %" PRId64, scale->count, which, in->dim[which]);
        out->count = scale->count;
        out->inner = out->inner > 0 ? out->inner : 1;
    }
    return QS_OK;
}

static int64_t step_at(const steps *by, const qs_onnx_tensor *scale, int64_t i) {
    if (scale->count == 1) return 0;
    const int64_t place = i / by->inner % by->extent;
    return scale->rank <= 1 ? place : (i / by->inner / by->extent * by->count + place / by->block) * by->inner + i % by->inner;
}

/* x / scale rounded to even, plus the zero point, held to the type's range. */
static qs_status evaluate_quantize(const qs__evaluation *at) {
    const qs_onnx_type type = at->out->type;
    const int bits = qs_onnx_type_bits(type);
    const bool is_unsigned = type == QS_ONNX_UINT8 || type == QS_ONNX_UINT16 || type == QS_ONNX_UINT4;
    const double low = is_unsigned ? 0 : -ldexp(1, bits - 1), high = ldexp(1, is_unsigned ? bits : bits - 1) - 1;
    qs__array in = {0}, scale = {0}, zero = {0}, out = {0};
    int64_t saturate;
    steps by;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "saturate", 1, &saturate));
    QS_TRY(steps_of(at, &by));
    QS_GOTO(qs__array_load(at->in[0], &in));
    QS_GOTO(qs__array_load(at->in[1], &scale));
    if (at->inputs > 2 && at->in[2]) QS_GOTO(qs__array_load(at->in[2], &zero));
    if (!scale.real || (!in.real && !in.integer)) QS_GOTO(qs_fail(QS_BAD_FILE, "scales must be reals"));
    QS_GOTO(qs__array_make(type, at->out->count, &out));
    for (int64_t i = 0; i < out.count; i++) {
        const int64_t step = step_at(&by, at->in[1], i);
        const double x = (in.real ? in.real[i] : (double)in.integer[i]);
        if (out.real) {
            out.real[i] = (double)(float)(x / scale.real[step]);
            continue;
        }
        const double value = nearbyint((double)(float)(x / scale.real[step])) + (zero.integer ? (double)zero.integer[step] : 0);
        out.integer[i] = qs__integer_of(value < low ? low : value > high ? high : value);
    }
    QS_GOTO(qs__array_store(&out, saturate != 0, at->out));
done:
    qs__array_release(&in);
    qs__array_release(&scale);
    qs__array_release(&zero);
    qs__array_release(&out);
    return status;
}

/* (code - zero point) · scale, as in ONNX Runtime: the difference as a float, their product rounded once. In pieces, so that a table of
 * any size takes no memory but the result's. */
static qs_status evaluate_dequantize(const qs__evaluation *at) {
    enum { PIECE = 4096 };
    qs__array scale = {0}, zero = {0}, piece = {0};
    const size_t size = qs__element_size(at->out->type);
    steps by;
    qs_status status = QS_OK;
    QS_TRY(steps_of(at, &by));
    QS_GOTO(qs__array_load(at->in[1], &scale));
    if (at->inputs > 2 && at->in[2]) QS_GOTO(qs__array_load(at->in[2], &zero));
    if (!scale.real) QS_GOTO(qs_fail(QS_BAD_FILE, "scales must be reals"));
    QS_GOTO(qs__array_make(QS_ONNX_FLOAT, PIECE, &piece));
    for (int64_t first = 0; first < at->out->count; first += PIECE) {
        qs_onnx_tensor part = *at->out;
        piece.count = at->out->count - first < PIECE ? at->out->count - first : PIECE;
        QS_GOTO(qs_onnx_tensor_doubles(at->in[0], first, piece.count, piece.real));
        for (int64_t i = 0; i < piece.count; i++) {
            const int64_t step = step_at(&by, at->in[1], first + i);
            const double offset = zero.integer ? (double)zero.integer[step] : zero.real ? zero.real[step] : 0;
            piece.real[i] = (double)(float)(piece.real[i] - offset) * scale.real[step];
        }
        part.data = (const char *)at->out->data + (size_t)first * size;
        QS_GOTO(qs__array_store(&piece, false, &part));
    }
done:
    qs__array_release(&scale);
    qs__array_release(&zero);
    qs__array_release(&piece);
    return status;
}

const qs__operator qs__rows_products[] = {
    {"MatMul", 1, 0, shape_matmul, evaluate_matmul, 0, 0},
    {"MatMulInteger", 10, 0, shape_matmul, evaluate_matmul, 0, 0},
    {"Gemm", 7, 0, shape_gemm, evaluate_gemm, 0, 0},
    {"QuantizeLinear", 10, 0, shape_quantize, evaluate_quantize, 0, QS__DEPENDS},
    {"DequantizeLinear", 10, 0, shape_dequantize, evaluate_dequantize, 0, QS__DEPENDS | QS__BY_PIECES},
    {0},
};
