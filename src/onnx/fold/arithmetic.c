// SPDX-License-Identifier: Apache-2.0
/* Operators of two or more operands that are broadcast to each other: arithmetic, comparisons, logic, choice. Reals are computed in double
 * and rounded once to the type, which for the four operations is the result of the type itself; integers wrap. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* ---- Shapes ---------------------------------------------------------------------------------------------------------------------- */

/* All inputs broadcast; where types are known they are equal. */
static qs_status shape_of_all(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    for (int i = 1; i < at->inputs; i++) {
        const qs_onnx_type type = at->in[i].type;
        QS_TRY(qs__need(at, i));
        if (at->out->type == QS_ONNX_UNDEFINED) at->out->type = type;
        if (type != QS_ONNX_UNDEFINED && type != at->out->type)
            return qs_fail(QS_BAD_FILE, "operands of types %s and %s", qs_onnx_type_name(at->out->type), qs_onnx_type_name(type));
        QS_TRY(qs__broadcast(at->out, &at->in[i]));
    }
    return QS_OK;
}

static qs_status shape_of_two(const qs__shaping *at) {
    if (at->inputs != 2) return qs_fail(QS_BAD_FILE, "%d inputs, must be 2", at->inputs);
    return shape_of_all(at);
}

static qs_status shape_compared(const qs__shaping *at) {
    QS_TRY(shape_of_two(at));
    at->out->type = QS_ONNX_BOOL;
    return QS_OK;
}

static qs_status shape_logic(const qs__shaping *at) {
    QS_TRY(shape_of_two(at));
    if (at->out->type != QS_ONNX_UNDEFINED && at->out->type != QS_ONNX_BOOL)
        return qs_fail(QS_BAD_FILE, "operands of type %s, must be bool", qs_onnx_type_name(at->out->type));
    at->out->type = QS_ONNX_BOOL;
    return QS_OK;
}

/* The second operand may have another type, or is a slope that may not make the result larger. */
static qs_status shape_first_type(const qs__shaping *at) {
    if (at->inputs != 2) return qs_fail(QS_BAD_FILE, "%d inputs, must be 2", at->inputs);
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs__need(at, 1));
    return qs__broadcast(at->out, &at->in[1]);
}

static qs_status shape_where(const qs__shaping *at) {
    if (at->inputs != 3) return qs_fail(QS_BAD_FILE, "%d inputs, must be 3", at->inputs);
    for (int i = 0; i < 3; i++)
        QS_TRY(qs__need(at, i));
    if (at->in[0].type != QS_ONNX_UNDEFINED && at->in[0].type != QS_ONNX_BOOL)
        return qs_fail(QS_BAD_FILE, "a condition of type %s, must be bool", qs_onnx_type_name(at->in[0].type));
    if (at->in[1].type != at->in[2].type && at->in[1].type != QS_ONNX_UNDEFINED && at->in[2].type != QS_ONNX_UNDEFINED)
        return qs_fail(QS_BAD_FILE, "a choice of types %s and %s", qs_onnx_type_name(at->in[1].type), qs_onnx_type_name(at->in[2].type));
    *at->out = at->in[0];
    at->out->constant = NULL;
    at->out->type = at->in[1].type != QS_ONNX_UNDEFINED ? at->in[1].type : at->in[2].type;
    QS_TRY(qs__broadcast(at->out, &at->in[1]));
    return qs__broadcast(at->out, &at->in[2]);
}

/* ---- Two operands ---------------------------------------------------------------------------------------------------------------- */

typedef double (*of_reals)(double a, double b);
/* False where there is no result. */
typedef bool (*of_integers)(qs_onnx_type type, int64_t a, int64_t b, int64_t *out);
typedef qs_onnx_extent (*of_extents)(const qs_onnx_extent *a, const qs_onnx_extent *b);

typedef struct rules {
    of_reals reals;
    of_integers integers;
    of_extents extents;
} rules;

/* out = a op b, each broadcast to the shape of out. */
static qs_status apply(const rules *by, const qs_onnx_tensor *shape, const qs__array *a, const qs_onnx_tensor *a_shape, const qs__array *b,
                       const qs_onnx_tensor *b_shape, qs__array *out) {
    qs__walk walk = qs__walk_over(shape->rank, shape->dim);
    qs__walk_broadcast(&walk, 0, a_shape->rank, a_shape->dim);
    qs__walk_broadcast(&walk, 1, b_shape->rank, b_shape->dim);
    if ((out->real && !by->reals) || (out->integer && !by->integers) || (out->symbol && !by->extents))
        return qs_fail(QS_UNSUPPORTED, "it is not computed for operands of type %s", qs_onnx_type_name(a->type));
    for (int64_t i = 0; i < out->count; i++, qs__walk_next(&walk)) {
        const int64_t x = walk.position[0], y = walk.position[1];
        if (out->real)
            out->real[i] = by->reals(a->real[x], b->real ? b->real[y] : (double)b->integer[y]);
        else if (out->symbol)
            out->symbol[i] = by->extents(&a->symbol[x], &b->symbol[y]);
        else if (!by->integers(a->type, a->integer[x], b->integer ? b->integer[y] : qs__integer_of(b->real[y]), &out->integer[i]))
            return qs_fail(QS_BAD_FILE, "there is no result for %" PRId64 " and %" PRId64, a->integer[x],
                           b->integer ? b->integer[y] : qs__integer_of(b->real[y]));
    }
    return QS_OK;
}

/* Two operands, or more from left to right; each partial result is rounded to the type. */
static qs_status evaluate(const qs__evaluation *at, const rules *by) {
    qs_onnx_tensor *out = at->out;
    qs__array left = {0}, right = {0}, result = {0};
    qs_onnx_tensor shape = *at->in[0];
    qs_status status = QS_OK;
    QS_GOTO(qs__array_load(at->in[0], &left));
    for (int i = 1; i < at->inputs; i++) {
        QS_GOTO(qs__array_load(at->in[i], &right));
        QS_GOTO(qs__array_make(out->type, out->count, &result));
        QS_GOTO(apply(by, out, &left, &shape, &right, at->in[i], &result));
        QS_GOTO(qs__array_store(&result, false, out));
        qs__array_release(&left);
        qs__array_release(&right);
        qs__array_release(&result);
        if (i + 1 == at->inputs) break;
        QS_GOTO(qs__array_load(out, &left));
        shape = *out;
    }
    if (at->inputs == 1) QS_GOTO(qs__array_store(&left, false, out));
done:
    qs__array_release(&left);
    qs__array_release(&right);
    qs__array_release(&result);
    return status;
}

static bool is_u64(qs_onnx_type type) {
    return type == QS_ONNX_UINT64;
}

static double real_add(double a, double b) {
    return a + b;
}
static double real_subtract(double a, double b) {
    return a - b;
}
static double real_multiply(double a, double b) {
    return a * b;
}
static double real_divide(double a, double b) {
    return a / b;
}
static double real_least(double a, double b) {
    return isnan(a) || isnan(b) ? a + b : a < b ? a : b;
}
static double real_most(double a, double b) {
    return isnan(a) || isnan(b) ? a + b : a > b ? a : b;
}
static double real_prelu(double a, double b) {
    return a < 0 ? a * b : a;
}

static bool integer_add(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = (int64_t)((uint64_t)a + (uint64_t)b);
    return true;
}
static bool integer_subtract(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = (int64_t)((uint64_t)a - (uint64_t)b);
    return true;
}
static bool integer_multiply(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = (int64_t)((uint64_t)a * (uint64_t)b);
    return true;
}
static bool integer_divide(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    if (b == 0) return false;
    *out = is_u64(type) ? (int64_t)((uint64_t)a / (uint64_t)b) : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
    return true;
}
static bool integer_least(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    *out = (is_u64(type) ? (uint64_t)a < (uint64_t)b : a < b) ? a : b;
    return true;
}
static bool integer_most(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    *out = (is_u64(type) ? (uint64_t)a > (uint64_t)b : a > b) ? a : b;
    return true;
}
/* By squaring; a negative power of an integer is that of the reciprocal, cut to an integer. */
static bool integer_power(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    uint64_t result = 1, factor = (uint64_t)a;
    if (b < 0 && !is_u64(type)) {
        if (a == 0) return false;
        *out = a == 1 || a == -1 ? (b % 2 ? a : 1) : 0;
        return true;
    }
    for (uint64_t power = (uint64_t)b; power > 0; power >>= 1, factor *= factor)
        if (power & 1) result *= factor;
    *out = (int64_t)result;
    return true;
}
/* The sign of the divisor, as in Python, or of the dividend where fmod is wanted. */
static bool integer_modulo(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    if (b == 0) return false;
    *out = is_u64(type) ? (int64_t)((uint64_t)a % (uint64_t)b) : b == -1 ? 0 : a % b;
    if (!is_u64(type) && *out != 0 && (*out < 0) != (b < 0)) *out += b;
    return true;
}
static bool integer_remainder(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    if (b == 0) return false;
    *out = is_u64(type) ? (int64_t)((uint64_t)a % (uint64_t)b) : b == -1 ? 0 : a % b;
    return true;
}
static bool integer_and(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = a & b;
    return true;
}
static bool integer_or(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = a | b;
    return true;
}
static bool integer_xor(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = a ^ b;
    return true;
}
static bool integer_left(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
    return true;
}
static bool integer_right(qs_onnx_type type, int64_t a, int64_t b, int64_t *out) {
    (void)type;
    *out = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a >> b);
    return true;
}

/* The remainder of what b divides for every N and L is 0; of equal extents, too. */
static qs_onnx_extent extent_modulo(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    const qs_onnx_extent quotient = qs__extent_divide(a, b);
    return qs_onnx_extent_is_known(&quotient) ? qs_onnx_extent_of(0) : qs__extent_unknown;
}
static qs_onnx_extent extent_least(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    int order;
    return !qs__extent_compare(a, b, &order) ? qs__extent_unknown : order < 0 ? *a : *b;
}
static qs_onnx_extent extent_most(const qs_onnx_extent *a, const qs_onnx_extent *b) {
    int order;
    return !qs__extent_compare(a, b, &order) ? qs__extent_unknown : order > 0 ? *a : *b;
}

#define EVALUATOR(name, ...)                          \
    static qs_status name(const qs__evaluation *at) { \
        static const rules by = {__VA_ARGS__};        \
        return evaluate(at, &by);                     \
    }
EVALUATOR(evaluate_add, real_add, integer_add, qs__extent_add)
EVALUATOR(evaluate_subtract, real_subtract, integer_subtract, qs__extent_subtract)
EVALUATOR(evaluate_multiply, real_multiply, integer_multiply, qs__extent_multiply)
EVALUATOR(evaluate_divide, real_divide, integer_divide, qs__extent_divide)
EVALUATOR(evaluate_least, real_least, integer_least, extent_least)
EVALUATOR(evaluate_most, real_most, integer_most, extent_most)
EVALUATOR(evaluate_power, pow, integer_power, NULL)
EVALUATOR(evaluate_prelu, real_prelu, NULL, NULL)
EVALUATOR(evaluate_and, NULL, integer_and, NULL)
EVALUATOR(evaluate_or, NULL, integer_or, NULL)
EVALUATOR(evaluate_xor, NULL, integer_xor, NULL)

static qs_status evaluate_modulo(const qs__evaluation *at) {
    static const rules whole = {NULL, integer_modulo, extent_modulo}, cut = {fmod, integer_remainder, NULL};
    int64_t by_fmod;
    QS_TRY(qs_onnx_attribute_int(at->node, "fmod", 0, &by_fmod));
    return evaluate(at, by_fmod ? &cut : &whole);
}

static qs_status evaluate_shift(const qs__evaluation *at) {
    static const rules left = {NULL, integer_left, NULL}, right = {NULL, integer_right, NULL};
    const char *direction;
    QS_TRY(qs_onnx_attribute_string(at->node, "direction", "", &direction));
    if (strcmp(direction, "LEFT") != 0 && strcmp(direction, "RIGHT") != 0)
        return qs_fail(QS_BAD_FILE, "attribute \"direction\" is \"%.20s\", must be LEFT or RIGHT", direction);
    return evaluate(at, *direction == 'L' ? &left : &right);
}

/* The sum divided by how many they are. */
static qs_status evaluate_mean(const qs__evaluation *at) {
    qs__array sum = {0};
    qs_status status = QS_OK;
    QS_TRY(evaluate_add(at));
    QS_GOTO(qs__array_load(at->out, &sum));
    for (int64_t i = 0; sum.real && i < sum.count; i++)
        sum.real[i] /= at->inputs;
    QS_GOTO(qs__array_store(&sum, false, at->out));
done:
    qs__array_release(&sum);
    return status;
}

/* ---- Comparisons ------------------------------------------------------------------------------------------------------------------ */

/* -1, 0, 1; 2 where a NaN has no order. */
static bool order_of(const qs__array *a, int64_t x, const qs__array *b, int64_t y, int *order) {
    *order = 0;
    if (a->symbol) return qs__extent_compare(&a->symbol[x], &b->symbol[y], order);
    if (a->real)
        *order = a->real[x] < b->real[y] ? -1 : a->real[x] > b->real[y] ? 1 : a->real[x] == b->real[y] ? 0 : 2;
    else if (is_u64(a->type))
        *order = (uint64_t)a->integer[x] < (uint64_t)b->integer[y] ? -1 : a->integer[x] != b->integer[y];
    else
        *order = a->integer[x] < b->integer[y] ? -1 : a->integer[x] != b->integer[y];
    return true;
}

/* True at the orders that a set of bits names: 1 below, 2 equal, 4 above. */
static qs_status compare(const qs__evaluation *at, unsigned wanted) {
    qs__array a = {0}, b = {0};
    uint8_t *out = (uint8_t *)(uintptr_t)at->out->data;
    qs_status status = QS_OK;
    QS_GOTO(qs__array_load(at->in[0], &a));
    QS_GOTO(qs__array_load(at->in[1], &b));
    qs__walk walk = qs__walk_over(at->out->rank, at->out->dim);
    qs__walk_broadcast(&walk, 0, at->in[0]->rank, at->in[0]->dim);
    qs__walk_broadcast(&walk, 1, at->in[1]->rank, at->in[1]->dim);
    for (int64_t i = 0; i < at->out->count; i++, qs__walk_next(&walk)) {
        int order;
        if (!order_of(&a, walk.position[0], &b, walk.position[1], &order))
            QS_GOTO(qs_fail(QS_UNSUPPORTED, "the order of two extents depends on the batch or the length"));
        out[i] = order < 2 && (wanted >> (order + 1) & 1);
    }
done:
    qs__array_release(&a);
    qs__array_release(&b);
    return status;
}

static qs_status evaluate_less(const qs__evaluation *at) {
    return compare(at, 1);
}
static qs_status evaluate_equal(const qs__evaluation *at) {
    return compare(at, 2);
}
static qs_status evaluate_greater(const qs__evaluation *at) {
    return compare(at, 4);
}
static qs_status evaluate_less_or_equal(const qs__evaluation *at) {
    return compare(at, 3);
}
static qs_status evaluate_greater_or_equal(const qs__evaluation *at) {
    return compare(at, 6);
}

static qs_status evaluate_where(const qs__evaluation *at) {
    const size_t size = qs__element_size(at->out->type);
    char *yes = NULL, *no = NULL, *result = NULL, *condition = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs__bytes_load(at->in[0], &condition));
    QS_GOTO(qs__bytes_load(at->in[1], &yes));
    QS_GOTO(qs__bytes_load(at->in[2], &no));
    QS_GOTO(qs_allocate((size_t)at->out->count, size, &result));
    qs__walk walk = qs__walk_over(at->out->rank, at->out->dim);
    for (int i = 0; i < 3; i++)
        qs__walk_broadcast(&walk, i, at->in[i]->rank, at->in[i]->dim);
    for (int64_t i = 0; i < at->out->count; i++, qs__walk_next(&walk)) {
        const char *from = condition[walk.position[0]] ? yes + (size_t)walk.position[1] * size : no + (size_t)walk.position[2] * size;
        memcpy(result + (size_t)i * size, from, size);
    }
    qs__bytes_store(result, at->out);
done:
    free(condition);
    free(yes);
    free(no);
    free(result);
    return status;
}

/* Versions before 7 broadcast by attributes. */
const qs__operator qs__rows_arithmetic[] = {
    {"Add", 7, 0, shape_of_two, evaluate_add, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Sub", 7, 0, shape_of_two, evaluate_subtract, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Mul", 7, 0, shape_of_two, evaluate_multiply, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Div", 7, 0, shape_of_two, evaluate_divide, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Mod", 10, 0, shape_of_two, evaluate_modulo, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Pow", 7, 0, shape_first_type, evaluate_power, 0, QS__SAMPLEWISE},
    {"PRelu", 7, 0, shape_first_type, evaluate_prelu, 0, QS__SAMPLEWISE},
    {"BitShift", 11, 0, shape_of_two, evaluate_shift, 0, QS__SAMPLEWISE},
    {"BitwiseAnd", 18, 0, shape_of_two, evaluate_and, 0, QS__SAMPLEWISE},
    {"BitwiseOr", 18, 0, shape_of_two, evaluate_or, 0, QS__SAMPLEWISE},
    {"BitwiseXor", 18, 0, shape_of_two, evaluate_xor, 0, QS__SAMPLEWISE},
    {"And", 7, 0, shape_logic, evaluate_and, 0, QS__SAMPLEWISE},
    {"Or", 7, 0, shape_logic, evaluate_or, 0, QS__SAMPLEWISE},
    {"Xor", 7, 0, shape_logic, evaluate_xor, 0, QS__SAMPLEWISE},
    {"Sum", 6, 0, shape_of_all, evaluate_add, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Mean", 6, 0, shape_of_all, evaluate_mean, 0, QS__SAMPLEWISE},
    {"Min", 6, 0, shape_of_all, evaluate_least, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Max", 6, 0, shape_of_all, evaluate_most, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Less", 7, 0, shape_compared, evaluate_less, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"LessOrEqual", 12, 0, shape_compared, evaluate_less_or_equal, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Equal", 7, 0, shape_compared, evaluate_equal, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Greater", 7, 0, shape_compared, evaluate_greater, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"GreaterOrEqual", 12, 0, shape_compared, evaluate_greater_or_equal, QS__ALL_INPUTS, QS__SAMPLEWISE},
    {"Where", 9, 0, shape_where, evaluate_where, 6, QS__SAMPLEWISE},
    {0},
};
