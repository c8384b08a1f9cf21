// SPDX-License-Identifier: Apache-2.0
/* Tools of evaluators: elements in their widest form and back, elements as bytes, walks over shapes. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fold/fold.h"
#include "qsync/number.h"

/* ---- Elements in their widest form ---------------------------------------------------------------------------------------------- */

qs_status qs__array_make(qs_onnx_type type, int64_t count, qs__array *out) {
    qs__array array = {.type = type, .count = count};
    const size_t most = QS__ONNX_MEMORY_LIMIT / sizeof(double);
    if ((uint64_t)count > most) return qs_fail(QS_UNSUPPORTED, "%" PRId64 " elements: at most %zu are computed", count, most);
    if (type == QS_ONNX_EXTENTS)
        QS_TRY(qs_allocate((size_t)count, sizeof *array.symbol, &array.symbol));
    else if (qs_onnx_type_is_float(type))
        QS_TRY(qs_allocate((size_t)count, sizeof *array.real, &array.real));
    else if (qs_onnx_type_is_integer(type))
        QS_TRY(qs_allocate((size_t)count, sizeof *array.integer, &array.integer));
    else
        return qs_fail(QS_UNSUPPORTED, "nothing is computed with elements of type %s", qs_onnx_type_name(type));
    *out = array;
    return QS_OK;
}

qs_status qs__array_load(const qs_onnx_tensor *tensor, qs__array *out) {
    QS_TRY(qs__array_make(tensor->type, tensor->count, out));
    if (out->symbol) {
        for (int64_t i = 0; i < tensor->count; i++)
            out->symbol[i] = *qs_onnx_tensor_extent(tensor, i);
        return QS_OK;
    }
    return out->real ? qs_onnx_tensor_doubles(tensor, 0, tensor->count, out->real)
                     : qs_onnx_tensor_integers(tensor, 0, tensor->count, out->integer);
}

void qs__array_release(qs__array *array) {
    free(array->real);
    free(array->integer);
    free(array->symbol);
    *array = (qs__array){0};
}

int64_t qs__integer_of(double value) {
    const double end = 9223372036854775808.0; /* 2^63 */
    return isnan(value) ? 0 : value >= end ? INT64_MAX : value < -end ? INT64_MIN : (int64_t)value;
}

/* Floats of 4 and 8 bits by their codes: largest finite code of a sign, and what is beyond it. -1: there is none. */
struct small {
    int sign, largest, infinity, nan;
};

static struct small small_of(qs_onnx_type type) {
    switch (type) {
    case QS_ONNX_FLOAT8E4M3FN:
        return (struct small){0x80, 0x7e, -1, 0x7f};
    case QS_ONNX_FLOAT8E5M2:
        return (struct small){0x80, 0x7b, 0x7c, 0x7f};
    case QS_ONNX_FLOAT4E2M1:
        return (struct small){0x08, 0x07, -1, -1};
    default: /* fnuz: one NaN, no infinity, no negative zero */
        return (struct small){0x80, 0x7f, -1, 0x80};
    }
}

static double small_value(qs_onnx_type type, int code) {
    const uint8_t byte = (uint8_t)code;
    const qs_onnx_tensor one = {.name = "", .type = type, .count = 1, .data = &byte};
    double value = 0;
    qs_onnx_tensor_doubles(&one, 0, 1, &value);
    return value;
}

/* The nearest code, the even one of two; codes of a sign ascend with their values. */
static uint8_t small_code(qs_onnx_type type, double value, bool saturate) {
    const struct small about = small_of(type);
    const double magnitude = fabs(value);
    const int sign = signbit(value) ? about.sign : 0;
    const bool one_zero = about.nan == 0x80;
    if (isnan(value)) return (uint8_t)(about.nan < 0 ? about.largest : one_zero ? about.nan : about.nan | sign);
    int low = 0, high = about.largest; /* largest code whose value is not above the magnitude */
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (small_value(type, middle) <= magnitude)
            low = middle;
        else
            high = middle - 1;
    }
    /* Beyond the largest the grid is thought to go on by one step, which tells what still rounds to it. */
    const double at = small_value(type, low);
    const double next = low < about.largest ? small_value(type, low + 1) : at + (at - small_value(type, low - 1));
    const bool up = magnitude - at > next - magnitude || (magnitude - at == next - magnitude && (low & 1));
    if (low == about.largest && up && !saturate && about.nan >= 0)
        return (uint8_t)(about.infinity >= 0 ? about.infinity | sign : one_zero ? about.nan : about.nan | sign);
    const int code = low + (up && low < about.largest);
    return (uint8_t)(code == 0 && one_zero ? 0 : code | sign);
}

static void nibble_put(uint8_t *data, int64_t index, unsigned code) {
    const int shift = (int)(index % 2) * 4;
    data[index / 2] = (uint8_t)((data[index / 2] & ~(15u << shift)) | (code & 15) << shift);
}

static void real_put(qs_onnx_type type, uint8_t *data, int64_t index, double value, bool saturate) {
    const float narrow = (float)value;
    if (type == QS_ONNX_DOUBLE)
        memcpy(data + index * 8, &value, 8);
    else if (type == QS_ONNX_FLOAT)
        memcpy(data + index * 4, &narrow, 4);
    else if (type == QS_ONNX_FLOAT16 || type == QS_ONNX_BFLOAT16)
        qs_convert_from_fp32(qs_format_of(type == QS_ONNX_FLOAT16 ? "fp16" : "bf16"), QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT,
                             (qs_random_stream){0}, 1, &narrow, data + index * 2);
    else if (type == QS_ONNX_FLOAT4E2M1)
        nibble_put(data, index, small_code(type, value, saturate));
    else
        data[index] = small_code(type, value, saturate);
}

static void integer_put(qs_onnx_type type, uint8_t *data, int64_t index, int64_t value) {
    const int bits = qs_onnx_type_bits(type);
    if (type == QS_ONNX_BOOL)
        data[index] = value != 0;
    else if (bits == 4)
        nibble_put(data, index, (unsigned)value);
    else
        for (int i = 0; i < bits / 8; i++)
            data[index * (bits / 8) + i] = (uint8_t)((uint64_t)value >> (8 * i));
}

qs_status qs__array_store(const qs__array *array, bool saturate, qs_onnx_tensor *out) {
    uint8_t *data = (uint8_t *)(uintptr_t)out->data; /* the results' memory: its evaluator may write it */
    if (array->symbol) {
        if (array->count > 0) memcpy(data, array->symbol, (size_t)array->count * sizeof *array->symbol);
        return QS_OK;
    }
    const bool real = qs_onnx_type_is_float(out->type);
    if (real != (array->real != NULL)) return qs_fail(QS_UNSUPPORTED, "a result of type %s", qs_onnx_type_name(out->type));
    for (int64_t i = 0; i < array->count; i++)
        if (real)
            real_put(out->type, data, i, array->real[i], saturate);
        else
            integer_put(out->type, data, i, array->integer[i]);
    return QS_OK;
}

/* ---- Elements as bytes ------------------------------------------------------------------------------------------------------------- */

size_t qs__element_size(qs_onnx_type type) {
    const int bits = qs_onnx_type_bits(type);
    return type == QS_ONNX_STRING ? sizeof(const char *) : bits >= 8 ? (size_t)bits / 8 : 1;
}

qs_status qs__bytes_load(const qs_onnx_tensor *tensor, char **out) {
    const size_t size = qs__element_size(tensor->type);
    const char *data = tensor->data;
    char *bytes;
    if ((uint64_t)tensor->count > QS__ONNX_MEMORY_LIMIT / size)
        return qs_fail(QS_UNSUPPORTED, "%" PRId64 " elements: at most %zu are computed", tensor->count, QS__ONNX_MEMORY_LIMIT / size);
    QS_TRY(qs_allocate((size_t)tensor->count, size, &bytes));
    if (qs_onnx_type_bits(tensor->type) == 4)
        for (int64_t i = 0; i < tensor->count; i++) {
            const int64_t at = tensor->uniform ? 0 : i;
            bytes[i] = (char)((uint8_t)data[at / 2] >> (at % 2 * 4) & 15);
        }
    else if (tensor->uniform)
        for (int64_t i = 0; i < tensor->count; i++)
            memcpy(bytes + (size_t)i * size, data, size);
    else if (tensor->count > 0)
        memcpy(bytes, data, (size_t)tensor->count * size);
    *out = bytes;
    return QS_OK;
}

void qs__bytes_store(const char *bytes, qs_onnx_tensor *out) {
    uint8_t *data = (uint8_t *)(uintptr_t)out->data;
    if (qs_onnx_type_bits(out->type) == 4)
        for (int64_t i = 0; i < out->count; i++)
            nibble_put(data, i, (unsigned)bytes[i]);
    else if (out->count > 0)
        memcpy(data, bytes, (size_t)out->count * qs__element_size(out->type));
}

/* ---- Walks ------------------------------------------------------------------------------------------------------------------------- */

qs__walk qs__walk_over(int rank, const int64_t *dim) {
    qs__walk walk = {.rank = rank};
    for (int i = 0; i < rank; i++)
        walk.dim[i] = dim[i];
    return walk;
}

void qs__walk_broadcast(qs__walk *walk, int which, int rank, const int64_t *dim) {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        walk->stride[which][i + walk->rank - rank] = dim[i] == 1 ? 0 : stride;
        stride *= dim[i];
    }
}

void qs__walk_next(qs__walk *walk) {
    for (int axis = walk->rank - 1; axis >= 0; axis--) {
        for (int k = 0; k < 3; k++)
            walk->position[k] += walk->stride[k][axis];
        if (++walk->at[axis] < walk->dim[axis]) return;
        for (int k = 0; k < 3; k++)
            walk->position[k] -= walk->stride[k][axis] * walk->dim[axis];
        walk->at[axis] = 0;
    }
}

int64_t qs__dims_product(const int64_t *dim, int first, int end) {
    int64_t product = 1;
    for (int i = first; i < end; i++)
        product *= dim[i];
    return product;
}
