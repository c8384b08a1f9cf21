// SPDX-License-Identifier: Apache-2.0
/* From storage to fp32 and back, for reference kernels. */
#include "internal.h"

#include <assert.h>
#include <stdlib.h>

const qs_tensor *qs__operand(const qs_case *one, const qs_tensor *operands, qs_role role) {
    int position = qs_case_position(one, role);
    assert(position >= 0);
    return &operands[position];
}

float *qs__fp32(const qs_case *one, const qs_tensor *operands, qs_role role) {
    return qs__operand(one, operands, role)->data;
}

int32_t qs__place_read(const qs_case *one, const qs_tensor *operands) {
    return qs__present(one, QS_PLACE) ? *(const int32_t *)qs__operand(one, operands, QS_PLACE)->data : 0;
}

qs_status qs__read(const qs_tensor *tensor, float **out) {
    int64_t count = qs_shape_count(&tensor->shape);
    float *values;
    QS_TRY(qs_allocate((size_t)count, sizeof *values, &values));
    if (tensor->format->kind == QS_KIND_INTEGER) {
        qs_dequantize_array(1.0f, count, tensor->data, values);
    } else {
        qs_convert_to_fp32(tensor->format, count, tensor->data, values);
    }
    *out = values;
    return QS_OK;
}

void qs__write(const qs_tensor *tensor, const float *values) {
    qs_convert_from_fp32(tensor->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, qs_shape_count(&tensor->shape),
                         values, tensor->data);
}

qs_status qs__write_double(const qs_tensor *tensor, const double *values) {
    int64_t count = qs_shape_count(&tensor->shape);
    float *rounded;
    QS_TRY(qs_allocate((size_t)count, sizeof *rounded, &rounded));
    for (int64_t i = 0; i < count; i++) {
        rounded[i] = (float)values[i];
    }
    qs__write(tensor, rounded);
    free(rounded);
    return QS_OK;
}

qs_status qs__deliver_absmax(const qs_case *one, const qs_tensor *operands, qs_role written) {
    const qs_tensor *tensor = qs__operand(one, operands, written);
    float *values;
    if (qs_case_position(one, QS_ABSMAX) < 0 || !qs__present(one, QS_ABSMAX)) return QS_OK;
    QS_TRY(qs__read(tensor, &values));
    *qs__fp32(one, operands, QS_ABSMAX) = qs_absmax_array(qs_shape_count(&tensor->shape), values);
    free(values);
    return QS_OK;
}

static qs_status move(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role to, bool taking, qs__place place) {
    const qs_shape *whole = qs__shape(one, taking ? from : to), *part = qs__shape(one, taking ? to : from);
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, from), &src));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(qs__shape(one, to)), sizeof *values, &values)); /* zeros */
    const int64_t count = qs_shape_count(part);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = place(&one->attributes, whole, part, i);
        values[taking ? i : at] = src[taking ? at : i];
    }
    qs__write(qs__operand(one, operands, to), values);
done:
    free(src);
    free(values);
    return status;
}

qs_status qs__take(const qs_case *one, const qs_tensor *operands, qs_role whole, qs_role part, qs__place place) {
    return move(one, operands, whole, part, true, place);
}

qs_status qs__put(const qs_case *one, const qs_tensor *operands, qs_role part, qs_role whole, qs__place place) {
    return move(one, operands, part, whole, false, place);
}
