// SPDX-License-Identifier: Apache-2.0
/* Integer factors of products: codes with steps, and shift groups of channels (docs/method.md §9.1, §9.2). */
#include "internal.h"

#include <math.h>

typedef struct companions {
    qs_role factor, step, group; /* group QS_ROLE_COUNT: none */
} companions;

static const companions known[] = {{QS_SRC, QS_SRC_STEP, QS_SRC_GROUP},
                                   {QS_SRC2, QS_SRC2_STEP, QS_ROLE_COUNT},
                                   {QS_WEIGHTS, QS_WEIGHTS_STEP, QS_ROLE_COUNT},
                                   {QS_DIFF_DST, QS_DIFF_DST_STEP, QS_DIFF_DST_GROUP}};

static const companions *companions_of(qs_role factor) {
    size_t i = 0;
    while (known[i].factor != factor)
        i++;
    return &known[i];
}

static bool has(const qs_case *one, qs_role role) {
    return role != QS_ROLE_COUNT && qs_case_position(one, role) >= 0 && qs__present(one, role);
}

static qs_status check_step(const qs_case *one, const companions *of, bool integer) {
    if (qs__present(one, of->step) != integer)
        return qs__refuse(one, "%s comes with an integer %s, and only with it", qs_role_name(of->step), qs_role_name(of->factor));
    if (of->factor != QS_WEIGHTS) return qs__need_shape(one, of->step, qs_shape_of(1, (int64_t)1));
    bool many = integer && qs_shape_count(qs__shape(one, of->step)) > 1;
    /* Outputs in the forward pass, inputs in the gradient's. */
    int axis = qs_case_position(one, QS_DST) >= 0 ? 0 : 1;
    return qs__need_shape(one, of->step, qs_shape_of(1, many ? qs__shape(one, QS_WEIGHTS)->dim[axis] : 1));
}

static qs_status check_group(const qs_case *one, const companions *of, bool integer) {
    if (!has(one, of->group)) return QS_OK;
    if (!integer) return qs__refuse(one, "%s is for an integer %s", qs_role_name(of->group), qs_role_name(of->factor));
    return qs__need_shape(one, of->group, qs_shape_of(1, qs__shape(one, of->factor)->dim[1]));
}

qs_status qs__check_factors(const qs_case *one, const qs_role factor[2], qs_role inner) {
    const companions *a = companions_of(factor[0]), *b = companions_of(factor[1]);
    bool integer = qs__is_integer(one, a->factor);
    if (integer != qs__is_integer(one, b->factor))
        return qs__refuse(one, "%s and %s must both be integer or both be float", qs_role_name(a->factor), qs_role_name(b->factor));
    QS_TRY(check_step(one, a, integer));
    QS_TRY(check_step(one, b, integer));
    QS_TRY(check_group(one, a, integer));
    QS_TRY(check_group(one, b, integer));
    bool grouped = inner != QS_ROLE_COUNT && has(one, companions_of(inner)->group);
    if ((one->attributes.shifts > 0) == grouped) return QS_OK;
    return qs__refuse(one, "shifts=%d: the number of groups is said where the sum runs over channels in groups, and only there",
                      one->attributes.shifts);
}

qs_status qs__read_factor(const qs_case *one, const qs_tensor *operands, qs_role factor, float **out) {
    const qs_tensor *tensor = qs__operand(one, operands, factor);
    const qs_role role = companions_of(factor)->group;
    QS_TRY(qs__read(tensor, out));
    if (!has(one, role)) return QS_OK;
    const int8_t *group = qs__operand(one, operands, role)->data;
    const int64_t channels = tensor->shape.dim[1], count = qs_shape_count(&tensor->shape);
    for (int64_t i = 0; i < count; i++) {
        (*out)[i] = ldexpf((*out)[i], -group[i % channels]);
    }
    return QS_OK;
}

double qs__factor_step(const qs_case *one, const qs_tensor *operands, qs_role factor, int64_t column) {
    const qs_role role = companions_of(factor)->step;
    if (!qs__present(one, role)) return 1;
    return (double)qs__fp32(one, operands, role)[column % qs_shape_count(qs__shape(one, role))];
}
