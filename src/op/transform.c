// SPDX-License-Identifier: Apache-2.0
/* Hadamard transforms of what absmax and quantize see, along the axis over which a product will sum. */
#include "internal.h"

qs_status qs__check_transform(const qs_case *one, qs_role values) {
    const qs_attributes *with = &one->attributes;
    const qs_shape *shape = qs__shape(one, values);
    if (with->hadamard == 0) return QS_OK;
    if (with->per_channel) return qs__refuse(one, "hadamard=%d mixes channels: one step for all, not per_channel", with->hadamard);
    QS_TRY(qs__need_axes(one, values, with->axis + 1, QS_MAX_AXES));
    if (shape->dim[with->axis] % with->hadamard == 0) return QS_OK;
    return qs__refuse(one, "hadamard=%d: blocks do not divide the %lld of axis %d", with->hadamard, (long long)shape->dim[with->axis],
                      with->axis);
}

void qs__transform(const qs_case *one, qs_role role, float *values) {
    const qs_shape *shape = qs__shape(one, role);
    const int64_t count = qs_shape_count(shape), row = count / shape->dim[0];
    const int block = one->attributes.hadamard;
    if (block == 0) return;
    if (one->attributes.axis == 1) {
        qs_hadamard_array(block, count, values);
        return;
    }
    for (int64_t first = 0; first < shape->dim[0]; first += block)
        qs_hadamard_rows(block, row, values + first * row);
}
