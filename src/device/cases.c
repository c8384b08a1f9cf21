// SPDX-License-Identifier: Apache-2.0
/* Operands, passes and extents of cases. */
#include "cases.h"

#include <assert.h>
#include <string.h>

const qs_operand *qs__case_operand(const qs_case *one, qs_role role) {
    int position = qs_case_position(one, role);
    assert(position >= 0);
    return &one->operand[position];
}

const qs_format *qs__case_format(const qs_case *one, qs_role role) {
    return qs__case_operand(one, role)->format;
}

bool qs__case_has(const qs_case *one, qs_role role) {
    int position = qs_case_position(one, role);
    return position >= 0 && one->operand[position].format;
}

int64_t qs__case_count(const qs_case *one, qs_role role) {
    return qs_shape_count(&qs__case_operand(one, role)->shape);
}

qs__pass qs__case_pass(const qs_case *one) {
    if (!strcmp(one->pass->name, "forward")) return QS__FORWARD;
    return strcmp(one->pass->name, "input_gradient") ? QS__WEIGHT_GRADIENT : QS__INPUT_GRADIENT;
}

qs__geometry qs__case_geometry(const qs_case *one) {
    const qs_shape *src = &qs__case_operand(one, qs_case_position(one, QS_DIFF_SRC) >= 0 ? QS_DIFF_SRC : QS_SRC)->shape;
    const qs_shape *dst = &qs__case_operand(one, qs_case_position(one, QS_DIFF_DST) >= 0 ? QS_DIFF_DST : QS_DST)->shape;
    const qs_attributes *with = &one->attributes;
    const bool rows = one->op->kind == QS_ADJUSTABLE && src->axes == 3; /* linear over positions */
    const bool line = src->axes > 2 && !rows, image = src->axes > 3;
    qs__geometry out = {.batch = rows ? src->dim[0] * src->dim[2] : src->dim[0],
                        .channels = src->dim[1],
                        .height = line ? src->dim[2] : 1,
                        .width = image ? src->dim[3] : 1,
                        .outputs = dst->dim[1],
                        .out_height = line ? dst->dim[2] : 1,
                        .out_width = image ? dst->dim[3] : 1,
                        .groups = with->groups,
                        .count_padding = with->count_padding};
    for (int axis = 0; axis < 2; axis++) {
        out.kernel[axis] = with->kernel[axis] ? with->kernel[axis] : 1;
        out.stride[axis] = with->stride[axis];
        out.dilation[axis] = with->dilation[axis];
        out.padding[axis] = with->padding[axis];
    }
    return out;
}
