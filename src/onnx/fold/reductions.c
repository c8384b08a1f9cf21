// SPDX-License-Identifier: Apache-2.0
/* Operators along axes: reductions, the places of extremes, sums that run, softmax. Sums are taken in double in row-major order. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* ---- Reductions -------------------------------------------------------------------------------------------------------------------- */

/* Axes as bits, and whether they stay with extent 1. Axes are an input since version 18 (ReduceSum: 13), an attribute before. */
static qs_status reduced_axes(const qs__shaping *at, int rank, unsigned *axes, int64_t *keep, bool *known) {
    int64_t list[QS__MOST_INTS], nothing;
    int count;
    QS_TRY(qs_onnx_attribute_int(at->node, "keepdims", 1, keep));
    QS_TRY(qs_onnx_attribute_int(at->node, "noop_with_empty_axes", 0, &nothing));
    QS_TRY(qs__ints(at, 1, "axes", list, &count, known));
    if (!*known) return QS_OK;
    if (count > 0) return qs__axes(list, count, rank, axes);
    *axes = nothing ? 0 : (1u << rank) - 1;
    return QS_OK;
}

static qs_status shape_reduce(const qs__shaping *at) {
    unsigned axes;
    int64_t keep;
    bool known;
    QS_TRY(qs__need(at, 0));
    const qs__fact *in = &at->in[0];
    at->out->type = in->type;
    if (in->rank < 0) return QS_OK;
    QS_TRY(reduced_axes(at, in->rank, &axes, &keep, &known));
    if (!known && !keep) return QS_OK;
    int rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (!known)
            at->out->extent[rank++] = qs__extent_unknown;
        else if (!(axes >> i & 1))
            at->out->extent[rank++] = in->extent[i];
        else if (keep)
            at->out->extent[rank++] = qs_onnx_extent_of(1);
    }
    at->out->rank = rank;
    return QS_OK;
}

/* What a result begins with, how an element joins it, and what becomes of it at the end. */
typedef struct reduction {
    double start;
    double (*join)(double sum, double x);
    double (*end)(double sum, double count);
    bool by_largest; /* exponents relative to the largest element, so that none overflows */
} reduction;

static double join_sum(double sum, double x) {
    return sum + x;
}
static double join_square(double sum, double x) {
    return sum + x * x;
}
static double join_absolute(double sum, double x) {
    return sum + fabs(x);
}
static double join_product(double sum, double x) {
    return sum * x;
}
static double join_least(double sum, double x) {
    return isnan(sum) || isnan(x) ? sum + x : x < sum ? x : sum;
}
static double join_most(double sum, double x) {
    return isnan(sum) || isnan(x) ? sum + x : x > sum ? x : sum;
}
static double join_exponential(double sum, double x) {
    return sum + exp(x);
}
static double end_same(double sum, double count) {
    (void)count;
    return sum;
}
static double end_mean(double sum, double count) {
    return sum / count;
}
static double end_root(double sum, double count) {
    (void)count;
    return sqrt(sum);
}
static double end_log(double sum, double count) {
    (void)count;
    return log(sum);
}

/* Integers whose sums a double may not hold are taken exactly, modulo 2^64. */
static void join_integers(const char *op, int64_t *sum, int64_t x, bool u64) {
    if (strcmp(op, "ReduceProd") == 0)
        *sum = (int64_t)((uint64_t)*sum * (uint64_t)x);
    else if (strcmp(op, "ReduceMin") == 0)
        *sum = (u64 ? (uint64_t)x < (uint64_t)*sum : x < *sum) ? x : *sum;
    else if (strcmp(op, "ReduceMax") == 0)
        *sum = (u64 ? (uint64_t)x > (uint64_t)*sum : x > *sum) ? x : *sum;
    else if (strcmp(op, "ReduceSumSquare") == 0)
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)x * (uint64_t)x);
    else
        *sum = (int64_t)((uint64_t)*sum + (strcmp(op, "ReduceL1") == 0 && x < 0 && !u64 ? 0 - (uint64_t)x : (uint64_t)x));
}

static qs_status reduce_symbols(const qs__evaluation *at, const qs__walk *shape, const qs__array *in, qs__array *out) {
    const bool product = strcmp(at->node->op, "ReduceProd") == 0;
    qs__walk walk = *shape;
    if (!product && strcmp(at->node->op, "ReduceSum") != 0) return qs_fail(QS_UNSUPPORTED, "it is not computed for extents");
    for (int64_t i = 0; i < out->count; i++)
        out->symbol[i] = qs_onnx_extent_of(product);
    for (int64_t i = 0; i < in->count; i++, qs__walk_next(&walk)) {
        qs_onnx_extent *sum = &out->symbol[walk.position[0]];
        *sum = product ? qs__extent_multiply(sum, &in->symbol[i]) : qs__extent_add(sum, &in->symbol[i]);
    }
    return QS_OK;
}

static qs_status reduce_integers(const qs__evaluation *at, const qs__walk *shape, const qs__array *in, qs__array *out) {
    const char *op = at->node->op;
    const bool u64 = in->type == QS_ONNX_UINT64, extreme = strcmp(op, "ReduceMin") == 0 || strcmp(op, "ReduceMax") == 0;
    const bool mean = strcmp(op, "ReduceMean") == 0;
    qs__walk walk = *shape;
    if (!extreme && !mean && strcmp(op, "ReduceProd") != 0 && strcmp(op, "ReduceSum") != 0 && strcmp(op, "ReduceSumSquare") != 0 &&
        strcmp(op, "ReduceL1") != 0)
        return qs_fail(QS_UNSUPPORTED, "it is not computed for integers");
    if (extreme && in->count == 0 && out->count > 0) return qs_fail(QS_UNSUPPORTED, "an extreme of no integers");
    char *begun = NULL;
    QS_TRY(qs_allocate((size_t)out->count, 1, &begun));
    for (int64_t i = 0; i < out->count; i++)
        out->integer[i] = strcmp(op, "ReduceProd") == 0;
    for (int64_t i = 0; i < in->count; i++, qs__walk_next(&walk)) {
        const int64_t to = walk.position[0];
        if (extreme && !begun[to])
            out->integer[to] = in->integer[i];
        else
            join_integers(op, &out->integer[to], in->integer[i], u64);
        begun[to] = 1;
    }
    for (int64_t i = 0; mean && i < out->count; i++)
        out->integer[i] /= in->count / out->count > 0 ? in->count / out->count : 1;
    free(begun);
    return QS_OK;
}

static void reduce_reals(const reduction *by, const qs__walk *shape, const qs__array *in, qs__array *out, double *largest) {
    qs__walk walk = *shape;
    for (int64_t i = 0; i < out->count; i++) {
        out->real[i] = by->start;
        largest[i] = -INFINITY;
    }
    for (int64_t i = 0; by->by_largest && i < in->count; i++, qs__walk_next(&walk))
        largest[walk.position[0]] = join_most(largest[walk.position[0]], in->real[i]);
    walk = *shape;
    for (int64_t i = 0; i < in->count; i++, qs__walk_next(&walk)) {
        const int64_t to = walk.position[0];
        const double from = by->by_largest && isfinite(largest[to]) ? largest[to] : 0;
        out->real[to] = by->join(out->real[to], in->real[i] - from);
    }
    for (int64_t i = 0; i < out->count; i++) {
        const double from = by->by_largest && isfinite(largest[i]) ? largest[i] : 0;
        out->real[i] = by->end(out->real[i], (double)in->count / (double)out->count) + from;
    }
}

static qs_status reduce(const qs__evaluation *at, const reduction *by) {
    qs__fact facts[2];
    bool present[2], known;
    unsigned axes = 0;
    int64_t keep;
    double *largest = NULL;
    qs__array in = {0}, out = {0};
    qs_status status = QS_OK;
    for (int i = 0; i < 2; i++) {
        present[i] = i < at->inputs && at->in[i];
        facts[i] = present[i] ? qs__fact_of(at->in[i]) : qs__fact_none();
    }
    const qs__shaping shaping = {.node = at->node, .inputs = at->inputs < 2 ? at->inputs : 2, .in = facts, .present = present};
    QS_TRY(reduced_axes(&shaping, at->in[0]->rank, &axes, &keep, &known));
    qs__walk walk = qs__walk_over(at->in[0]->rank, at->in[0]->dim);
    int64_t stride = 1; /* position 0 of the walk: where an element goes */
    for (int axis = walk.rank - 1; axis >= 0; axis--)
        if (!(axes >> axis & 1)) {
            walk.stride[0][axis] = stride;
            stride *= walk.dim[axis];
        }
    QS_GOTO(qs__array_load(at->in[0], &in));
    QS_GOTO(qs__array_make(at->out->type, at->out->count, &out));
    if (in.symbol)
        QS_GOTO(reduce_symbols(at, &walk, &in, &out));
    else if (in.integer)
        QS_GOTO(reduce_integers(at, &walk, &in, &out));
    else {
        QS_GOTO(qs_allocate((size_t)out.count, sizeof *largest, &largest));
        reduce_reals(by, &walk, &in, &out, largest);
    }
    QS_GOTO(qs__array_store(&out, false, at->out));
done:
    free(largest);
    qs__array_release(&in);
    qs__array_release(&out);
    return status;
}

#define REDUCTION(name, ...)                          \
    static qs_status name(const qs__evaluation *at) { \
        static const reduction by = {__VA_ARGS__};    \
        return reduce(at, &by);                       \
    }
REDUCTION(reduce_sum, 0, join_sum, end_same, false)
REDUCTION(reduce_mean, 0, join_sum, end_mean, false)
REDUCTION(reduce_product, 1, join_product, end_same, false)
REDUCTION(reduce_least, INFINITY, join_least, end_same, false)
REDUCTION(reduce_most, -INFINITY, join_most, end_same, false)
REDUCTION(reduce_squares, 0, join_square, end_same, false)
REDUCTION(reduce_l1, 0, join_absolute, end_same, false)
REDUCTION(reduce_l2, 0, join_square, end_root, false)
REDUCTION(reduce_log_sum, 0, join_sum, end_log, false)
REDUCTION(reduce_log_sum_exp, 0, join_exponential, end_log, true)

/* ---- One axis ---------------------------------------------------------------------------------------------------------------------- */

/* A tensor as outer × extent × inner. */
typedef struct along {
    int axis;
    int64_t outer, extent, inner;
} along;

static along along_axis(const qs_onnx_tensor *tensor, int axis) {
    return (along){axis, qs__dims_product(tensor->dim, 0, axis), tensor->dim[axis], qs__dims_product(tensor->dim, axis + 1, tensor->rank)};
}

static qs_status shape_arg(const qs__shaping *at) {
    int64_t axis, keep;
    int which = 0;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs_onnx_attribute_int(at->node, "keepdims", 1, &keep));
    at->out->type = QS_ONNX_INT64;
    if (at->in[0].rank < 0) return QS_OK;
    QS_TRY(qs__axis(axis, at->in[0].rank, &which));
    int rank = 0;
    for (int i = 0; i < at->in[0].rank; i++)
        if (i != which || keep) at->out->extent[rank++] = i == which ? qs_onnx_extent_of(1) : at->in[0].extent[i];
    at->out->rank = rank;
    return QS_OK;
}

/* Whether element a is before b in descending order of values; NaN after all. */
static bool larger(const qs__array *array, int64_t a, int64_t b) {
    if (array->real) return array->real[a] > array->real[b] || (isnan(array->real[b]) && !isnan(array->real[a]));
    if (array->type == QS_ONNX_UINT64) return (uint64_t)array->integer[a] > (uint64_t)array->integer[b];
    return array->integer[a] > array->integer[b];
}

static qs_status evaluate_arg(const qs__evaluation *at) {
    const bool most = strcmp(at->node->op, "ArgMax") == 0;
    qs__array in;
    int64_t axis, last;
    int which = 0;
    char *out = (char *)(uintptr_t)at->out->data;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", 0, &axis));
    QS_TRY(qs_onnx_attribute_int(at->node, "select_last_index", 0, &last));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &which));
    const along by = along_axis(at->in[0], which);
    if (by.extent == 0 && at->out->count > 0) return qs_fail(QS_BAD_FILE, "an extreme of nothing");
    QS_TRY(qs__array_load(at->in[0], &in));
    for (int64_t i = 0; i < at->out->count; i++) {
        const int64_t base = i / by.inner * by.extent * by.inner + i % by.inner;
        int64_t best = 0;
        for (int64_t k = 1; k < by.extent; k++) {
            const int64_t a = base + k * by.inner, b = base + best * by.inner;
            const bool better = most ? larger(&in, a, b) : larger(&in, b, a), worse = most ? larger(&in, b, a) : larger(&in, a, b);
            if (better || (last && !worse)) best = k;
        }
        memcpy(out + i * 8, &best, 8);
    }
    qs__array_release(&in);
    return QS_OK;
}

static qs_status shape_top_k(const qs__shaping *at) {
    int64_t axis, k = -1;
    int which = 0;
    QS_TRY(qs__need(at, 0));
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    at->out[0].type = at->in[0].type;
    if (at->outputs > 1) at->out[1].type = QS_ONNX_INT64;
    if (at->in[0].rank < 0) return QS_OK;
    QS_TRY(qs__axis(axis, at->in[0].rank, &which));
    if (at->node->opset < 10)
        QS_TRY(qs_onnx_attribute_int(at->node, "k", -1, &k));
    else {
        QS_TRY(qs__need(at, 1));
        const qs_onnx_tensor *given = at->in[1].constant;
        if (given && given->count == 1 && qs_onnx_type_is_integer(given->type)) QS_TRY(qs_onnx_tensor_integers(given, 0, 1, &k));
    }
    int64_t extent;
    if (qs_onnx_extent_is_fixed(&at->in[0].extent[which], &extent) && k > extent)
        return qs_fail(QS_BAD_FILE, "the first %" PRId64 " of %" PRId64, k, extent);
    for (int i = 0; i < at->outputs && i < 2; i++) {
        at->out[i].rank = at->in[0].rank;
        memcpy(at->out[i].extent, at->in[0].extent, sizeof at->in[0].extent);
        at->out[i].extent[which] = k < 0 ? qs__extent_unknown : qs_onnx_extent_of(k);
    }
    return QS_OK;
}

/* By a heap-free selection: the k first of a row are found by inserting each element where it belongs among the best so far. */
static qs_status evaluate_top_k(const qs__evaluation *at) {
    qs__array in = {0}, values = {0};
    int64_t axis, largest, *best = NULL;
    int which = 0;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", -1, &axis));
    QS_TRY(qs_onnx_attribute_int(at->node, "largest", 1, &largest));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &which));
    const along by = along_axis(at->in[0], which);
    const int64_t k = at->out[0].dim[which];
    if (k > 0 && at->in[0]->count > (1 << 26) / k) return qs_fail(QS_UNSUPPORTED, "the first %" PRId64 " of so many", k);
    QS_GOTO(qs__array_load(at->in[0], &in));
    QS_GOTO(qs__array_make(at->out[0].type, at->out[0].count, &values));
    QS_GOTO(qs_allocate((size_t)k + 1, sizeof *best, &best));
    for (int64_t row = 0; row < by.outer * by.inner; row++) {
        const int64_t base = row / by.inner * by.extent * by.inner + row % by.inner;
        int64_t found = 0;
        for (int64_t i = 0; i < by.extent; i++) {
            int64_t place = found;
            while (place > 0 && (largest ? larger(&in, base + i * by.inner, base + best[place - 1] * by.inner)
                                         : larger(&in, base + best[place - 1] * by.inner, base + i * by.inner)))
                place--;
            if (place >= k) continue;
            memmove(best + place + 1, best + place, (size_t)((found < k ? found : k - 1) - place) * sizeof *best);
            best[place] = i;
            found += found < k;
        }
        for (int64_t i = 0; i < k; i++) {
            const int64_t to = row / by.inner * k * by.inner + i * by.inner + row % by.inner, from = base + best[i] * by.inner;
            if (values.real)
                values.real[to] = in.real[from];
            else
                values.integer[to] = in.integer[from];
            if (at->outputs > 1) memcpy((char *)(uintptr_t)at->out[1].data + to * 8, &best[i], 8);
        }
    }
    QS_GOTO(qs__array_store(&values, false, &at->out[0]));
done:
    qs__array_release(&in);
    qs__array_release(&values);
    free(best);
    return status;
}

static qs_status evaluate_cum_sum(const qs__evaluation *at) {
    qs__array in = {0};
    int64_t exclusive, reverse, axis;
    int which = 0;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "exclusive", 0, &exclusive));
    QS_TRY(qs_onnx_attribute_int(at->node, "reverse", 0, &reverse));
    if (at->inputs < 2 || !at->in[1] || at->in[1]->count != 1) return qs_fail(QS_BAD_FILE, "input 1 must be one axis");
    QS_TRY(qs_onnx_tensor_integers(at->in[1], 0, 1, &axis));
    QS_TRY(qs__axis(axis, at->in[0]->rank, &which));
    const along by = along_axis(at->in[0], which);
    QS_GOTO(qs__array_load(at->in[0], &in));
    for (int64_t row = 0; by.extent > 0 && row < by.outer * by.inner; row++) {
        const int64_t base = row / by.inner * by.extent * by.inner + row % by.inner;
        double real = 0;
        uint64_t integer = 0;
        for (int64_t i = 0; i < by.extent; i++) {
            const int64_t place = base + (reverse ? by.extent - 1 - i : i) * by.inner;
            if (in.real) {
                const double before = real;
                real += in.real[place];
                in.real[place] = exclusive ? before : real;
            } else if (in.integer) {
                const uint64_t before = integer;
                integer += (uint64_t)in.integer[place];
                in.integer[place] = (int64_t)(exclusive ? before : integer);
            }
        }
    }
    QS_GOTO(qs__array_store(&in, false, at->out));
done:
    qs__array_release(&in);
    return status;
}

/* Before version 13 everything from the axis on is one row, and the axis is 1 where nothing is said. */
static qs_status evaluate_softmax(const qs__evaluation *at) {
    const bool logarithm = strcmp(at->node->op, "LogSoftmax") == 0, rows = at->node->opset < 13;
    qs__array in = {0};
    int64_t axis;
    int which = 0;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "axis", rows ? 1 : -1, &axis));
    if (at->in[0]->rank > 0) QS_TRY(qs__axis(axis, at->in[0]->rank, &which));
    along by = at->in[0]->rank > 0 ? along_axis(at->in[0], which) : (along){0, 1, 1, 1};
    if (rows) by = (along){which, by.outer, by.extent * by.inner, 1};
    QS_GOTO(qs__array_load(at->in[0], &in));
    if (!in.real) QS_GOTO(qs_fail(QS_UNSUPPORTED, "it is computed for reals alone"));
    for (int64_t row = 0; row < by.outer * by.inner && by.extent > 0; row++) {
        double *at_row = in.real + row / by.inner * by.extent * by.inner + row % by.inner, most = -INFINITY, sum = 0;
        for (int64_t i = 0; i < by.extent; i++)
            most = join_most(most, at_row[i * by.inner]);
        for (int64_t i = 0; i < by.extent; i++)
            sum += exp(at_row[i * by.inner] - most);
        for (int64_t i = 0; i < by.extent; i++) {
            double *x = &at_row[i * by.inner];
            *x = logarithm ? *x - most - log(sum) : exp(*x - most) / sum;
        }
    }
    QS_GOTO(qs__array_store(&in, false, at->out));
done:
    qs__array_release(&in);
    return status;
}

const qs__operator qs__rows_reductions[] = {
    {"ReduceSum", 1, 0, shape_reduce, reduce_sum, 1, QS__SAMPLEWISE},
    {"ReduceMean", 1, 0, shape_reduce, reduce_mean, 0, QS__SAMPLEWISE},
    {"ReduceProd", 1, 0, shape_reduce, reduce_product, 1, QS__SAMPLEWISE},
    {"ReduceMin", 1, 0, shape_reduce, reduce_least, 0, QS__SAMPLEWISE},
    {"ReduceMax", 1, 0, shape_reduce, reduce_most, 0, QS__SAMPLEWISE},
    {"ReduceSumSquare", 1, 0, shape_reduce, reduce_squares, 0, QS__SAMPLEWISE},
    {"ReduceL1", 1, 0, shape_reduce, reduce_l1, 0, QS__SAMPLEWISE},
    {"ReduceL2", 1, 0, shape_reduce, reduce_l2, 0, QS__SAMPLEWISE},
    {"ReduceLogSum", 1, 0, shape_reduce, reduce_log_sum, 0, QS__SAMPLEWISE},
    {"ReduceLogSumExp", 1, 0, shape_reduce, reduce_log_sum_exp, 0, QS__SAMPLEWISE},
    {"ArgMax", 1, 0, shape_arg, evaluate_arg, 0, QS__SAMPLEWISE},
    {"ArgMin", 1, 0, shape_arg, evaluate_arg, 0, QS__SAMPLEWISE},
    {"TopK", 1, 0, shape_top_k, evaluate_top_k, 0, QS__SELECTS},
    {"CumSum", 11, 0, qs__shape_like, evaluate_cum_sum, 0, 0},
    {"Softmax", 1, 0, qs__shape_like, evaluate_softmax, 0, 0},
    {"LogSoftmax", 1, 0, qs__shape_like, evaluate_softmax, 0, 0},
    {0},
};
