// SPDX-License-Identifier: Apache-2.0
/* What elementwise functions of two values of one shape share: passes are forward src src2 dst absmax?, and backward src src2 diff_dst
 * diff_src diff_src2. Each result is computed in double and rounded to fp32 first. */
#include "internal.h"

#include <stdlib.h>

qs_status qs__pair_check(const qs_case *one) {
    for (int i = 1; i < one->operands; i++)
        if (one->operand[i].role != QS_ABSMAX) QS_TRY(qs__need_same(one, one->operand[i].role, QS_SRC));
    return qs_case_position(one, QS_ABSMAX) < 0 ? QS_OK : qs__check_absmax(one);
}

double qs__pair_flops_backward(const qs_case *one) {
    return 2 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

qs_status qs__pair_forward(const qs_case *one, const qs_tensor *operands, qs__pair function) {
    float *left = NULL, *right = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &left));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC2), &right));
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++)
        left[i] = (float)function((double)left[i], (double)right[i]);
    qs__write(qs__operand(one, operands, QS_DST), left);
    status = qs__deliver_absmax(one, operands, QS_DST);
done:
    free(left);
    free(right);
    return status;
}

qs_status qs__pair_backward(const qs_case *one, const qs_tensor *operands, qs__pair by_first, qs__pair by_second) {
    float *left = NULL, *right = NULL, *gradient = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &left));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC2), &right));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++) {
        const double a = (double)left[i], b = (double)right[i], dy = (double)gradient[i];
        left[i] = (float)(dy * by_first(a, b));
        right[i] = (float)(dy * by_second(a, b));
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), left);
    qs__write(qs__operand(one, operands, QS_DIFF_SRC2), right);
done:
    free(left);
    free(right);
    free(gradient);
    return status;
}
