// SPDX-License-Identifier: Apache-2.0
/* Operators of one operand, element by element: functions, activations, tests, and conversions between types. Reals are computed in double
 * and rounded once to the type. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"

/* ---- Shapes ---------------------------------------------------------------------------------------------------------------------- */

static qs_status shape_tested(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    at->out->type = QS_ONNX_BOOL;
    return QS_OK;
}

static qs_status shape_cast(const qs__shaping *at) {
    int64_t to;
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs_onnx_attribute_int(at->node, "to", 0, &to));
    if (to < 1 || to >= QS_ONNX_TYPE_COUNT) return qs_fail(QS_UNSUPPORTED, "attribute \"to\" is %" PRId64 ", no known type", to);
    at->out->type = (qs_onnx_type)to;
    return QS_OK;
}

static qs_status shape_cast_like(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    QS_TRY(qs__need(at, 1));
    at->out->type = at->in[1].type;
    return QS_OK;
}

/* Dropout: the values, and which of them stay. */
static qs_status shape_dropout(const qs__shaping *at) {
    QS_TRY(qs__shape_like(at));
    if (at->outputs < 2) return QS_OK;
    at->out[1] = at->out[0];
    at->out[1].type = QS_ONNX_BOOL;
    return QS_OK;
}

/* ---- Reals ------------------------------------------------------------------------------------------------------------------------ */

/* A function of an element and up to three settings of the node. */
typedef double (*function)(double x, const double *setting);

/* Settings are attributes with their standard values; -1 types: integers stay as they are by `integers`. */
typedef struct setting {
    const char *name;
    double standard;
} setting;

static qs_status evaluate(const qs__evaluation *at, function of, const setting *settings) {
    qs__array array = {0};
    double value[3] = {0};
    qs_status status = QS_OK;
    for (int i = 0; i < 3 && settings && settings[i].name; i++) {
        float given;
        QS_TRY(qs_onnx_attribute_float(at->node, settings[i].name, (float)settings[i].standard, &given));
        value[i] = given;
    }
    QS_GOTO(qs__array_load(at->in[0], &array));
    for (int64_t i = 0; i < array.count; i++)
        if (array.real)
            array.real[i] = of(array.real[i], value);
        else if (array.integer)
            array.integer[i] = qs__integer_of(of((double)array.integer[i], value));
        else
            QS_GOTO(qs_fail(QS_UNSUPPORTED, "it is not computed for extents"));
    QS_GOTO(qs__array_store(&array, false, at->out));
done:
    qs__array_release(&array);
    return status;
}

#define FUNCTION(name, expression, ...)                   \
    static double name##_of(double x, const double *s) {  \
        (void)s;                                          \
        return expression;                                \
    }                                                     \
    static qs_status name(const qs__evaluation *at) {     \
        static const setting settings[4] = {__VA_ARGS__}; \
        return evaluate(at, name##_of, settings);         \
    }
FUNCTION(f_sqrt, sqrt(x), {0})
FUNCTION(f_exp, exp(x), {0})
FUNCTION(f_log, log(x), {0})
FUNCTION(f_erf, erf(x), {0})
FUNCTION(f_sin, sin(x), {0})
FUNCTION(f_cos, cos(x), {0})
FUNCTION(f_tan, tan(x), {0})
FUNCTION(f_asin, asin(x), {0})
FUNCTION(f_acos, acos(x), {0})
FUNCTION(f_atan, atan(x), {0})
FUNCTION(f_sinh, sinh(x), {0})
FUNCTION(f_cosh, cosh(x), {0})
FUNCTION(f_tanh, tanh(x), {0})
FUNCTION(f_asinh, asinh(x), {0})
FUNCTION(f_acosh, acosh(x), {0})
FUNCTION(f_atanh, atanh(x), {0})
FUNCTION(f_reciprocal, 1 / x, {0})
FUNCTION(f_sigmoid, 1 / (1 + exp(-x)), {0})
FUNCTION(f_softplus, x > 30 ? x + exp(-x) : log1p(exp(x)), {0})
FUNCTION(f_softsign, x / (1 + fabs(x)), {0})
FUNCTION(f_relu, x < 0 ? 0 : x, {0})
FUNCTION(f_mish, x *tanh(x > 30 ? x : log1p(exp(x))), {0})
FUNCTION(f_round, nearbyint(x), {0})
FUNCTION(f_leaky_relu, x < 0 ? s[0] * x : x, {"alpha", 0.01})
FUNCTION(f_elu, x < 0 ? s[0] * expm1(x) : x, {"alpha", 1})
FUNCTION(f_celu, fmax(0, x) + fmin(0, s[0] * expm1(x / s[0])), {"alpha", 1})
FUNCTION(f_selu, x > 0 ? s[1] * x : s[1] * s[0] * expm1(x), {"alpha", 1.67326319217681884765625}, {"gamma", 1.05070102214813232421875})
FUNCTION(f_thresholded, x > s[0] ? x : 0, {"alpha", 1})
FUNCTION(f_hard_sigmoid, fmax(0, fmin(1, s[0] * x + s[1])), {"alpha", 0.2}, {"beta", 0.5})
FUNCTION(f_hard_swish, x *fmax(0, fmin(1, x / 6 + 0.5)), {0})
FUNCTION(f_shrink, x<-s[0] ? x + s[1] : x> s[0] ? x - s[1] : 0, {"lambd", 0.5}, {"bias", 0})
FUNCTION(f_swish, x / (1 + exp(-s[0] * x)), {"alpha", 1})

static double gelu_exact(double x, const double *s) {
    (void)s;
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double gelu_tanh(double x, const double *s) {
    (void)s;
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
}
static qs_status f_gelu(const qs__evaluation *at) {
    const char *approximate;
    QS_TRY(qs_onnx_attribute_string(at->node, "approximate", "none", &approximate));
    if (strcmp(approximate, "none") != 0 && strcmp(approximate, "tanh") != 0)
        return qs_fail(QS_UNSUPPORTED, "attribute \"approximate\" is \"%.20s\": none and tanh are known", approximate);
    return evaluate(at, *approximate == 't' ? gelu_tanh : gelu_exact, NULL);
}

/* ---- Reals, integers and extents --------------------------------------------------------------------------------------------------- */

static qs_status signs(const qs__evaluation *at, double (*real)(double), int64_t (*integer)(int64_t)) {
    qs__array array = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__array_load(at->in[0], &array));
    for (int64_t i = 0; i < array.count; i++)
        if (array.real)
            array.real[i] = real(array.real[i]);
        else if (array.integer)
            array.integer[i] = integer(array.integer[i]);
        else if (integer) {
            int order; /* extents: where the sign is the same for all N and L */
            const qs_onnx_extent zero = qs_onnx_extent_of(0);
            const bool ordered = qs__extent_compare(&array.symbol[i], &zero, &order);
            const int64_t sign = !ordered ? 0 : order == 0 ? 1 : integer(order) * order;
            const qs_onnx_extent factor = qs_onnx_extent_of(sign);
            array.symbol[i] = ordered ? qs__extent_multiply(&array.symbol[i], &factor) : qs__extent_unknown;
        }
    QS_GOTO(qs__array_store(&array, false, at->out));
done:
    qs__array_release(&array);
    return status;
}

static double real_negative(double x) {
    return -x;
}
static double real_sign(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}
static int64_t integer_negative(int64_t x) {
    return (int64_t)(0 - (uint64_t)x);
}
static int64_t integer_absolute(int64_t x) {
    return x < 0 ? integer_negative(x) : x;
}
static int64_t integer_same(int64_t x) {
    return x;
}
static int64_t integer_sign(int64_t x) {
    return (x > 0) - (x < 0);
}
static int64_t integer_not(int64_t x) {
    return ~x;
}

static qs_status evaluate_negative(const qs__evaluation *at) {
    return signs(at, real_negative, integer_negative);
}
static qs_status evaluate_absolute(const qs__evaluation *at) {
    if (at->in[0]->type == QS_ONNX_UINT64) return signs(at, fabs, integer_same);
    return signs(at, fabs, integer_absolute);
}
static qs_status evaluate_floor(const qs__evaluation *at) {
    return signs(at, floor, integer_same);
}
static qs_status evaluate_ceil(const qs__evaluation *at) {
    return signs(at, ceil, integer_same);
}
static qs_status evaluate_sign(const qs__evaluation *at) {
    if (at->in[0]->type == QS_ONNX_EXTENTS) return qs_fail(QS_UNSUPPORTED, "it is not computed for extents");
    return signs(at, real_sign, integer_sign);
}
static qs_status evaluate_bitwise_not(const qs__evaluation *at) {
    return signs(at, real_negative, integer_not);
}

static qs_status evaluate_not(const qs__evaluation *at) {
    char *bytes;
    QS_TRY(qs__bytes_load(at->in[0], &bytes));
    for (int64_t i = 0; i < at->out->count; i++)
        bytes[i] = !bytes[i];
    qs__bytes_store(bytes, at->out);
    free(bytes);
    return QS_OK;
}

/* Bounds are inputs since version 11, attributes before; an absent one bounds nothing. */
static qs_status evaluate_clip(const qs__evaluation *at) {
    qs__array array = {0}, bound = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__array_load(at->in[0], &array));
    for (int side = 0; side < 2; side++) {
        const qs_onnx_attribute *attribute = qs_onnx_attribute_find(at->node, side ? "max" : "min");
        if (side + 1 < at->inputs && at->in[side + 1]) {
            if (at->in[side + 1]->count != 1) QS_GOTO(qs_fail(QS_BAD_FILE, "a bound of %" PRId64 " elements", at->in[side + 1]->count));
            QS_GOTO(qs__array_load(at->in[side + 1], &bound));
        } else if (attribute && attribute->type == QS_ONNX_ATTRIBUTE_FLOAT && array.real) {
            QS_GOTO(qs__array_make(QS_ONNX_FLOAT, 1, &bound));
            bound.real[0] = attribute->f;
        } else
            continue;
        if (!array.real != !bound.real) QS_GOTO(qs_fail(QS_BAD_FILE, "a bound of type %s", qs_onnx_type_name(bound.type)));
        for (int64_t i = 0; i < array.count; i++) {
            if (array.real && (side ? array.real[i] > bound.real[0] : array.real[i] < bound.real[0])) array.real[i] = bound.real[0];
            const bool u64 = array.type == QS_ONNX_UINT64;
            if (array.integer &&
                (side ? (u64 ? (uint64_t)array.integer[i] > (uint64_t)bound.integer[0] : array.integer[i] > bound.integer[0])
                      : (u64 ? (uint64_t)array.integer[i] < (uint64_t)bound.integer[0] : array.integer[i] < bound.integer[0])))
                array.integer[i] = bound.integer[0];
        }
        qs__array_release(&bound);
    }
    QS_GOTO(qs__array_store(&array, false, at->out));
done:
    qs__array_release(&array);
    qs__array_release(&bound);
    return status;
}

/* ---- Tests ------------------------------------------------------------------------------------------------------------------------- */

static qs_status evaluate_is_nan(const qs__evaluation *at) {
    qs__array array;
    uint8_t *out = (uint8_t *)(uintptr_t)at->out->data;
    QS_TRY(qs__array_load(at->in[0], &array));
    for (int64_t i = 0; i < array.count; i++)
        out[i] = array.real && isnan(array.real[i]);
    qs__array_release(&array);
    return QS_OK;
}

static qs_status evaluate_is_inf(const qs__evaluation *at) {
    qs__array array;
    uint8_t *out = (uint8_t *)(uintptr_t)at->out->data;
    int64_t negative, positive;
    QS_TRY(qs_onnx_attribute_int(at->node, "detect_negative", 1, &negative));
    QS_TRY(qs_onnx_attribute_int(at->node, "detect_positive", 1, &positive));
    QS_TRY(qs__array_load(at->in[0], &array));
    for (int64_t i = 0; i < array.count; i++)
        out[i] = array.real && isinf(array.real[i]) && (array.real[i] > 0 ? positive : negative);
    qs__array_release(&array);
    return QS_OK;
}

/* ---- Types ------------------------------------------------------------------------------------------------------------------------- */

/* A real cut to an integer; what int64 does not hold, and NaN, has no meaning: the nearest that it holds, 0. Integers of 4 bits are rounded
 * and held to their range, as ONNX's cases have it. */
static int64_t cut(double x, qs_onnx_type type) {
    if (type == QS_ONNX_BOOL) return x != 0;
    if (type == QS_ONNX_INT4 || type == QS_ONNX_UINT4) {
        const double low = type == QS_ONNX_INT4 ? -8 : 0, high = type == QS_ONNX_INT4 ? 7 : 15;
        return qs__integer_of(nearbyint(x < low ? low : x > high ? high : x));
    }
    if (type == QS_ONNX_UINT64 && x >= 9223372036854775808.0) return x >= 18446744073709551616.0 ? -1 : (int64_t)(uint64_t)x;
    return qs__integer_of(x);
}

static qs_status evaluate_cast(const qs__evaluation *at) {
    qs__array from = {0}, to = {0};
    int64_t saturate;
    qs_status status = QS_OK;
    QS_TRY(qs_onnx_attribute_int(at->node, "saturate", 1, &saturate));
    QS_GOTO(qs__array_load(at->in[0], &from));
    QS_GOTO(qs__array_make(at->out->type, from.count, &to));
    for (int64_t i = 0; i < from.count; i++)
        if (to.symbol)
            to.symbol[i] = from.symbol[i];
        else if (to.real && from.real)
            to.real[i] = from.real[i];
        else if (to.real)
            to.real[i] = from.type == QS_ONNX_UINT64 ? (double)(uint64_t)from.integer[i] : (double)from.integer[i];
        else
            to.integer[i] = from.real ? cut(from.real[i], at->out->type) : from.integer[i];
    QS_GOTO(qs__array_store(&to, saturate != 0, at->out));
done:
    qs__array_release(&from);
    qs__array_release(&to);
    return status;
}

static qs_status evaluate_identity(const qs__evaluation *at) {
    char *bytes;
    QS_TRY(qs__bytes_load(at->in[0], &bytes));
    qs__bytes_store(bytes, at->out);
    free(bytes);
    return QS_OK;
}

/* Of inference: what it drops nothing of, all of it. Of training it draws, which is not computed. */
static qs_status evaluate_dropout(const qs__evaluation *at) {
    int64_t training = 0;
    if (at->inputs > 2 && at->in[2]) QS_TRY(qs_onnx_tensor_integers(at->in[2], 0, 1, &training));
    double ratio = 0.5;
    if (at->inputs > 1 && at->in[1]) QS_TRY(qs_onnx_tensor_doubles(at->in[1], 0, 1, &ratio));
    if (training && ratio != 0) return qs_fail(QS_UNSUPPORTED, "what Dropout of training draws is not computed");
    if (at->outputs > 1) memset((char *)(uintptr_t)at->out[1].data, 1, (size_t)at->out[1].count);
    return evaluate_identity(at);
}

#define ROW(name, first, evaluate) \
    { name, first, 0, qs__shape_like, evaluate, 0, QS__SAMPLEWISE }
const qs__operator qs__rows_functions[] = {
    ROW("Sqrt", 6, f_sqrt),
    ROW("Exp", 6, f_exp),
    ROW("Log", 6, f_log),
    ROW("Erf", 9, f_erf),
    ROW("Sin", 7, f_sin),
    ROW("Cos", 7, f_cos),
    ROW("Tan", 7, f_tan),
    ROW("Asin", 7, f_asin),
    ROW("Acos", 7, f_acos),
    ROW("Atan", 7, f_atan),
    ROW("Sinh", 9, f_sinh),
    ROW("Cosh", 9, f_cosh),
    ROW("Tanh", 6, f_tanh),
    ROW("Asinh", 9, f_asinh),
    ROW("Acosh", 9, f_acosh),
    ROW("Atanh", 9, f_atanh),
    ROW("Reciprocal", 6, f_reciprocal),
    ROW("Sigmoid", 6, f_sigmoid),
    ROW("Softplus", 1, f_softplus),
    ROW("Softsign", 1, f_softsign),
    ROW("Relu", 6, f_relu),
    ROW("Mish", 18, f_mish),
    ROW("Round", 11, f_round),
    ROW("LeakyRelu", 6, f_leaky_relu),
    ROW("Elu", 6, f_elu),
    ROW("Celu", 12, f_celu),
    ROW("Selu", 6, f_selu),
    ROW("ThresholdedRelu", 10, f_thresholded),
    ROW("HardSigmoid", 6, f_hard_sigmoid),
    ROW("HardSwish", 14, f_hard_swish),
    ROW("Shrink", 9, f_shrink),
    ROW("Swish", 24, f_swish),
    ROW("Gelu", 20, f_gelu),
    ROW("Clip", 6, evaluate_clip),
    ROW("Sign", 9, evaluate_sign),
    ROW("BitwiseNot", 18, evaluate_bitwise_not),
    ROW("Not", 1, evaluate_not),
    {"Neg", 6, 0, qs__shape_like, evaluate_negative, 1, QS__SAMPLEWISE},
    {"Abs", 6, 0, qs__shape_like, evaluate_absolute, 1, QS__SAMPLEWISE},
    {"Floor", 6, 0, qs__shape_like, evaluate_floor, 1, QS__SAMPLEWISE},
    {"Ceil", 6, 0, qs__shape_like, evaluate_ceil, 1, QS__SAMPLEWISE},
    {"IsNaN", 9, 0, shape_tested, evaluate_is_nan, 0, QS__SAMPLEWISE},
    {"IsInf", 10, 0, shape_tested, evaluate_is_inf, 0, QS__SAMPLEWISE},
    {"Cast", 6, 0, shape_cast, evaluate_cast, 1, QS__SAMPLEWISE},
    {"CastLike", 15, 0, shape_cast_like, evaluate_cast, 1, QS__SAMPLEWISE},
    {"Identity", 1, 0, qs__shape_like, evaluate_identity, 1, QS__SAMPLEWISE | QS__REARRANGES},
    {"Dropout", 7, 0, shape_dropout, evaluate_dropout, 0, QS__SAMPLEWISE},
    {0},
};
