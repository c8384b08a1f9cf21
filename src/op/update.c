// SPDX-License-Identifier: Apache-2.0
/* What optimisers have in common: the check and the reference of their passes. */
#include "update.h"

qs_status qs__update_check(const qs_case *one) {
    const qs_format *fp32 = qs_format_of("fp32");
    QS_TRY(qs__need_axes(one, QS_SRC, 1, 1));
    for (int i = 1; i < QS__FIRST_STATE + one->op->optimizer->states; i++)
        QS_TRY(qs__need_same(one, one->operand[i].role, QS_SRC));
    QS_TRY(qs__need_shape(one, QS_FLAG, qs_shape_of(1, 1)));
    for (int i = 0; i < one->operands; i++)
        if (one->operand[i].format && one->operand[i].format != fp32)
            return qs__refuse(one, "%s is %s: gradients, weights and what optimisers keep are fp32", qs_role_name(one->operand[i].role),
                              one->operand[i].format->name);
    return QS_OK;
}

qs_status qs__update_reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const qs_optimizer *optimizer = one->op->optimizer;
    float term[QS_UPDATE_TERMS], *state[QS_MOST_STATES];
    if (qs__present(one, QS_FLAG) && *qs__fp32(one, operands, QS_FLAG) == 0) return QS_OK;
    for (int i = 0; i < optimizer->states; i++)
        state[i] = operands[QS__FIRST_STATE + i].data;
    optimizer->terms(&one->attributes, run, term);
    optimizer->kernel[0].run(qs_shape_count(qs__shape(one, QS_SRC)), term, qs__fp32(one, operands, QS_SRC),
                             qs__fp32(one, operands, QS_WEIGHTS), state);
    return QS_OK;
}
