// SPDX-License-Identifier: Apache-2.0
/* Elements of tensors: types, and elements of every type as fp32, double or int64. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"
#include "qsync/number.h"

/* ---- Types --------------------------------------------------------------------------------------------------------------- */

#define TYPE_NAME(id, number, text, bits) [number] = text,
#define TYPE_BITS(id, number, text, bits) [number] = (bits),
static const char *const type_names[QS_ONNX_TYPE_COUNT] = {QS_ONNX_TYPE_LIST(TYPE_NAME)};
static const int type_bits[QS_ONNX_TYPE_COUNT] = {QS_ONNX_TYPE_LIST(TYPE_BITS)};

const char *qs_onnx_type_name(qs_onnx_type type) {
    if (type == QS_ONNX_EXTENTS) return "extents";
    return (unsigned)type < QS_ONNX_TYPE_COUNT ? type_names[type] : "unknown";
}

int qs_onnx_type_bits(qs_onnx_type type) {
    if (type == QS_ONNX_EXTENTS) return 8 * (int)sizeof(qs_onnx_extent);
    return (unsigned)type < QS_ONNX_TYPE_COUNT ? type_bits[type] : 0;
}

bool qs_onnx_type_is_float(qs_onnx_type type) {
    return type == QS_ONNX_FLOAT || type == QS_ONNX_DOUBLE || type == QS_ONNX_FLOAT16 || type == QS_ONNX_FLOAT4E2M1 ||
           (type >= QS_ONNX_BFLOAT16 && type <= QS_ONNX_FLOAT8E5M2FNUZ);
}

double qs_onnx_decimal(float value) {
    char text[32];
    double number = (double)value;
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        number = strtod(text, NULL);
        if ((float)number == value) break;
    }
    return number;
}

bool qs_onnx_type_is_integer(qs_onnx_type type) {
    return (type >= QS_ONNX_UINT8 && type <= QS_ONNX_INT64) || type == QS_ONNX_BOOL || type == QS_ONNX_UINT32 || type == QS_ONNX_UINT64 ||
           type == QS_ONNX_UINT4 || type == QS_ONNX_INT4;
}

bool qs__tensor_count(int rank, const int64_t *dim, int64_t *count) {
    const int64_t most = INT64_C(1) << 40;
    int64_t product = 1; /* of those that are not 0: parts of the shape are multiplied, too */
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dim[i] < 0 || dim[i] > most / product) return false;
        if (dim[i] > 0) product *= dim[i];
        empty = empty || dim[i] == 0;
    }
    *count = empty ? 0 : product;
    return true;
}

size_t qs__tensor_bytes(qs_onnx_type type, int64_t count) {
    const size_t bits = (size_t)qs_onnx_type_bits(type);
    return bits >= 8 ? (size_t)count * (bits / 8) : ((size_t)count * bits + 7) / 8;
}

const char *qs_onnx_tensor_text(const qs_onnx_tensor *tensor, char text[QS_ONNX_SHAPE_TEXT]) {
    size_t used = (size_t)snprintf(text, QS_ONNX_SHAPE_TEXT, "%s [", qs_onnx_type_name(tensor->type));
    for (int i = 0; i < tensor->rank; i++)
        used += (size_t)snprintf(text + used, QS_ONNX_SHAPE_TEXT - used, "%s%" PRId64, i ? "," : "", tensor->dim[i]);
    snprintf(text + used, QS_ONNX_SHAPE_TEXT - used, "]");
    return text;
}

/* ---- Elements -------------------------------------------------------------------------------------------------------------- */

/* A float of 4 or 8 bits: sign, exponent, mantissa of so many bits. */
static float small_float(unsigned code, int bits, int mantissa_bits, int bias) {
    const unsigned magnitude = code & ((1u << (bits - 1)) - 1);
    const int exponent = (int)(magnitude >> mantissa_bits);
    const int mantissa = (int)(magnitude & ((1u << mantissa_bits) - 1));
    const int fraction = exponent ? mantissa + (1 << mantissa_bits) : mantissa;
    const int power = (exponent ? exponent : 1) - bias - mantissa_bits;
    const float value = (float)fraction * (power < 0 ? 1.0f / (float)(1 << -power) : (float)(1 << power));
    return code >> (bits - 1) ? -value : value;
}

/* Those without infinities ("fnuz") have one NaN, the code of -0; e4m3fn has NaN at the top of each sign. */
static float float8(qs_onnx_type type, unsigned code) {
    const float nan = qs_decode_value(qs_format_of("e5m2"), 0x7f);
    switch (type) {
    case QS_ONNX_FLOAT8E4M3FN:
        return (code & 127) == 127 ? nan : small_float(code, 8, 3, 7);
    case QS_ONNX_FLOAT8E4M3FNUZ:
        return code == 128 ? nan : small_float(code, 8, 3, 8);
    case QS_ONNX_FLOAT8E5M2FNUZ:
        return code == 128 ? nan : small_float(code, 8, 2, 16);
    default:
        return qs_decode_value(qs_format_of("e5m2"), code);
    }
}

static unsigned nibble(const uint8_t *data, int64_t index) {
    return (unsigned)(data[index / 2] >> (index % 2 * 4)) & 15;
}

/* Element `index` of a type of real numbers other than the fast ones below. */
static double real_at(qs_onnx_type type, const void *data, int64_t index) {
    const uint8_t *bytes = data;
    double wide;
    float narrow;
    switch (type) {
    case QS_ONNX_DOUBLE:
        memcpy(&wide, bytes + index * 8, 8);
        return wide;
    case QS_ONNX_FLOAT:
        memcpy(&narrow, bytes + index * 4, 4);
        return narrow;
    case QS_ONNX_FLOAT16:
    case QS_ONNX_BFLOAT16:
        qs_convert_to_fp32(qs_format_of(type == QS_ONNX_FLOAT16 ? "fp16" : "bf16"), 1, bytes + index * 2, &narrow);
        return narrow;
    case QS_ONNX_FLOAT4E2M1:
        return small_float(nibble(data, index), 4, 1, 1);
    default:
        return float8(type, bytes[index]);
    }
}

static int64_t integer_at(qs_onnx_type type, const void *data, int64_t index) {
    const uint8_t *bytes = data;
    uint16_t two;
    uint32_t four;
    int64_t eight;
    switch (type) {
    case QS_ONNX_UINT4:
        return nibble(data, index);
    case QS_ONNX_INT4:
        return (int64_t)(nibble(data, index) ^ 8) - 8;
    case QS_ONNX_UINT8:
        return bytes[index];
    case QS_ONNX_BOOL:
        return bytes[index] != 0;
    case QS_ONNX_INT8:
        return (int8_t)bytes[index];
    case QS_ONNX_UINT16:
    case QS_ONNX_INT16:
        memcpy(&two, bytes + index * 2, 2);
        return type == QS_ONNX_INT16 ? (int64_t)(int16_t)two : two;
    case QS_ONNX_UINT32:
    case QS_ONNX_INT32:
        memcpy(&four, bytes + index * 4, 4);
        return type == QS_ONNX_INT32 ? (int64_t)(int32_t)four : four;
    default:
        memcpy(&eight, bytes + index * 8, 8);
        return eight;
    }
}

static qs_status range_check(const qs_onnx_tensor *tensor, int64_t first, int64_t count, bool known, const char *wanted) {
    char text[QS_ONNX_SHAPE_TEXT];
    if (!known)
        return qs_fail(QS_USAGE, "tensor \"%.64s\", %s: its elements are no %s", tensor->name, qs_onnx_tensor_text(tensor, text), wanted);
    if (first < 0 || count < 0 || first > tensor->count - count)
        return qs_fail(QS_USAGE, "tensor \"%.64s\", %s: elements %" PRId64 " and %" PRId64 " behind it are not in it", tensor->name,
                       qs_onnx_tensor_text(tensor, text), first, count - 1);
    return QS_OK;
}

qs_status qs_onnx_tensor_floats(const qs_onnx_tensor *tensor, int64_t first, int64_t count, float *out) {
    const bool real = qs_onnx_type_is_float(tensor->type);
    QS_TRY(range_check(tensor, first, count, real || qs_onnx_type_is_integer(tensor->type), "numbers"));
    const char *data = tensor->data;
    const qs_onnx_type type = tensor->type;
    if (count > 0 && !tensor->uniform && (type == QS_ONNX_FLOAT || type == QS_ONNX_FLOAT16 || type == QS_ONNX_BFLOAT16)) {
        const qs_format *format = qs_format_of(type == QS_ONNX_FLOAT ? "fp32" : type == QS_ONNX_FLOAT16 ? "fp16" : "bf16");
        qs_convert_to_fp32(format, count, data + qs__tensor_bytes(type, first), out);
        return QS_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = tensor->uniform ? 0 : first + i;
        if (real)
            out[i] = (float)real_at(type, data, at);
        else if (type == QS_ONNX_UINT64)
            out[i] = (float)(uint64_t)integer_at(type, data, at);
        else
            out[i] = (float)integer_at(type, data, at);
    }
    return QS_OK;
}

qs_status qs_onnx_tensor_doubles(const qs_onnx_tensor *tensor, int64_t first, int64_t count, double *out) {
    const bool real = qs_onnx_type_is_float(tensor->type);
    QS_TRY(range_check(tensor, first, count, real || qs_onnx_type_is_integer(tensor->type), "numbers"));
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = tensor->uniform ? 0 : first + i;
        if (real)
            out[i] = real_at(tensor->type, tensor->data, at);
        else if (tensor->type == QS_ONNX_UINT64)
            out[i] = (double)(uint64_t)integer_at(tensor->type, tensor->data, at);
        else
            out[i] = (double)integer_at(tensor->type, tensor->data, at);
    }
    return QS_OK;
}

const qs_onnx_extent *qs_onnx_tensor_extent(const qs_onnx_tensor *tensor, int64_t index) {
    return &((const qs_onnx_extent *)tensor->data)[tensor->uniform ? 0 : index];
}

qs_onnx_tensor qs_onnx_tensor_distinct(const qs_onnx_tensor *tensor, int64_t *each) {
    qs_onnx_tensor out = *tensor;
    *each = 1;
    if (!tensor->uniform || tensor->count < 2) return out;
    *each = tensor->count;
    out.count = out.dim[0] = out.rank = 1;
    return out;
}

qs_status qs_onnx_tensor_integers(const qs_onnx_tensor *tensor, int64_t first, int64_t count, int64_t *out) {
    QS_TRY(range_check(tensor, first, count, qs_onnx_type_is_integer(tensor->type), "integers"));
    for (int64_t i = 0; i < count; i++)
        out[i] = integer_at(tensor->type, tensor->data, tensor->uniform ? 0 : first + i);
    return QS_OK;
}
