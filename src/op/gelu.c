// SPDX-License-Identifier: Apache-2.0
/* gelu: x Φ(x), Φ the distribution function of the standard normal distribution (Hendrycks and Gimpel, 2016), by the error function and not
 * by its approximation with tanh. Passes: forward src dst; backward src diff_dst diff_src, with diff_src = diff_dst (Φ(x) + x φ(x)), φ the
 * density. The reference computes in double. A minus infinity gives a NaN. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static const double root_half = 0.70710678118654752440, density_scale = 0.39894228040143267794; /* 1/sqrt(2), 1/sqrt(2 pi) */

static double below(double x) {
    return erfc(-x * root_half) / 2;
}

static qs_status check_forward(const qs_case *one) {
    return qs__need_same(one, QS_DST, QS_SRC);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DIFF_DST, QS_SRC));
    return qs__need_same(one, QS_DIFF_SRC, QS_SRC);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((double)values[i] * below((double)values[i]));
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    float *values = NULL, *gradient = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)values[i], density = density_scale * exp(-x * x / 2);
        gradient[i] = (float)((double)gradient[i] * (below(x) + x * density));
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), gradient);
done:
    free(values);
    free(gradient);
    return status;
}

static double flops_forward(const qs_case *one) {
    return 3 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static double flops_backward(const qs_case *one) {
    return 7 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

#define EVERY(F, S) "gelu/forward src=" F S " dst=" F S, "gelu/backward src=" F S " diff_dst=" F S " diff_src=" F S

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]"),
                                    EVERY("fp32", "[1,3,5,5]"),
                                    EVERY("fp32", "[3,7]"),
                                    EVERY("bf16", "[4,16,8,8]"),
                                    EVERY("bf16", "[1,3,5,5]"),
                                    EVERY("fp16", "[2,8,4,4]"),
                                    "gelu/forward src=bf16[2,9,3,3] dst=fp32[2,9,3,3]",
                                    NULL};

const qs_op qs__op_gelu = {.name = "gelu", .kind = QS_DEPENDENT, .inputs = 1, .passes = 2, .pass = passes, .cases = cases};
