// SPDX-License-Identifier: Apache-2.0
/* offset: a value plus a parameter, each sum rounded once: one number a channel, or what the setting `over` says; a frozen parameter is a
 * constant, a mask that is added to scores for one. Passes: forward src shift dst absmax?; backward diff_dst diff_src diff_shift, diff_src
 * = diff_dst as it is, and diff_shift its sums, in double. */
#include "broadcast.h"

#include <stdlib.h>

QS__OVER_RULES("offset", "shift", QS_SHIFT, QS_DIFF_SHIFT, 0)

static double sum(double x, double shift) {
    return x + shift;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_SRC, QS_SHIFT, QS_DST, sum));
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_DIFF_DST), &values));
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
    free(values);
    return qs__broadcast_sum(one, operands, QS_DIFF_DST, QS_ROLE_COUNT, QS_DIFF_SHIFT, qs__broadcast_first);
}

static qs_status check_backward(const qs_case *one) {
    const qs_format *diff = one->operand[0].format, *given = one->operand[1].format;
    if (diff != given) return qs__refuse(one, "diff_dst is %s and diff_src is %s: it is handed on as it is", diff->name, given->name);
    return qs__over_check(one);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SHIFT, .source = QS_FROM_PARAMETER},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .check = qs__over_check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SHIFT, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = backward,
     .check = check_backward},
};

#define EVERY(F, S, P, A) \
    "offset/forward src=" F S " shift=fp32" P " dst=" F S A, "offset/backward diff_dst=" F S " diff_src=" F S " diff_shift=fp32" P A

QS__OVER_OPERATOR(offset, "shift", .sign = QS_SIGN_ANY);
