// SPDX-License-Identifier: Apache-2.0
/* What functions of one number share, activation functions and others. They read their input in both directions: passes are forward src dst
 * absmax?, and backward src diff_dst diff_src absmax?. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

double qs__sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

qs_status qs__activation_check(const qs_case *one) {
    qs_shape same;
    QS_TRY(qs_op_infer(one->op, &one->attributes, qs__shape(one, QS_SRC), 0, &same));
    for (int i = 1; i < one->operands; i++)
        if (one->operand[i].role != QS_ABSMAX) QS_TRY(qs__need_same(one, one->operand[i].role, QS_SRC));
    return qs__check_absmax(one);
}

qs_status qs__activation_apply(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role to, qs__curve function) {
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, from), &values));
    const int64_t count = qs_shape_count(qs__shape(one, from));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)function(&one->attributes, (double)values[i]);
    qs__write(qs__operand(one, operands, to), values);
    free(values);
    return qs__deliver_absmax(one, operands, to);
}

qs_status qs__activation_backward(const qs_case *one, const qs_tensor *operands, qs__curve derivative) {
    float *values = NULL, *gradient = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++)
        gradient[i] = (float)((double)gradient[i] * derivative(&one->attributes, (double)values[i]));
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), gradient);
    status = qs__deliver_absmax(one, operands, QS_DIFF_SRC);
done:
    free(values);
    free(gradient);
    return status;
}

/* One exponential and a few products an element. */
double qs__activation_flops(const qs_case *one) {
    return 6 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}
