// SPDX-License-Identifier: Apache-2.0
/* What optimisers have in common: their list, their settings, the check and the reference of their passes. */
#include "update.h"

#include <assert.h>
#include <string.h>

enum { KERNELS = sizeof((qs_optimizer *)0)->kernel / sizeof *((qs_optimizer *)0)->kernel };

const char *qs_optimizer_name_at(size_t index) {
    const qs_op *op;
    for (size_t i = 0; (op = qs_op_at(i)) != NULL; i++)
        if (op->optimizer && index-- == 0) return op->name;
    return NULL;
}

qs_status qs_optimizer_find(const char *name, const qs_op **out) {
    size_t known = 0;
    for (; qs_optimizer_name_at(known); known++) {
        if (strcmp(qs_optimizer_name_at(known), name) != 0) continue;
        *out = qs_op_of(name);
        return QS_OK;
    }
    return qs_fail(QS_USAGE, "%s is no optimiser: there are %s", name, qs_names_join(known, qs_optimizer_name_at));
}

enum { FIRST_STATE = 2 }; /* behind src and weights */

qs_role qs_optimizer_state(const qs_op *op, int index) {
    return op->pass[0].operand[FIRST_STATE + index].role;
}

qs_update_kernel qs_optimizer_kernel(const qs_optimizer *optimizer, const char *isa) {
    for (int i = 0; i < KERNELS && optimizer->kernel[i].isa; i++)
        if (strcmp(optimizer->kernel[i].isa, isa) == 0) return optimizer->kernel[i].run;
    assert(false && "no such instruction set");
    return NULL;
}

qs_status qs__update_check(const qs_case *one) {
    const qs_format *fp32 = qs_format_of("fp32");
    QS_TRY(qs__need_axes(one, QS_SRC, 1, 1));
    for (int i = 1; i < FIRST_STATE + one->op->optimizer->states; i++)
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
        state[i] = operands[FIRST_STATE + i].data;
    optimizer->terms(&one->attributes, run, term);
    optimizer->kernel[0].run(qs_shape_count(qs__shape(one, QS_SRC)), term, qs__fp32(one, operands, QS_SRC),
                             qs__fp32(one, operands, QS_WEIGHTS), state);
    return QS_OK;
}
