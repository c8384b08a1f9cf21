// SPDX-License-Identifier: Apache-2.0
/* multiply: elementwise product of two values, each product rounded once. Passes: forward src src2 dst absmax?; backward src src2 diff_dst
 * diff_src diff_src2, with diff_src = diff_dst src2 and diff_src2 = diff_dst src. */
#include "internal.h"

#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    return qs__infer_alike("multiply", src, dst);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_SRC2, QS_SRC));
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    return qs__check_absmax(one);
}

static qs_status check_backward(const qs_case *one) {
    for (int i = 1; i < one->operands; i++)
        QS_TRY(qs__need_same(one, one->operand[i].role, QS_SRC));
    return QS_OK;
}

/* The product of two operands into a third. */
static qs_status product(const qs_case *one, const qs_tensor *operands, qs_role a, qs_role b, qs_role to) {
    float *left = NULL, *right = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, a), &left));
    QS_GOTO(qs__read(qs__operand(one, operands, b), &right));
    const int64_t count = qs_shape_count(qs__shape(one, a));
    for (int64_t i = 0; i < count; i++)
        left[i] *= right[i];
    qs__write(qs__operand(one, operands, to), left);
done:
    free(left);
    free(right);
    return status;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(product(one, operands, QS_SRC, QS_SRC2, QS_DST));
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(product(one, operands, QS_DIFF_DST, QS_SRC2, QS_DIFF_SRC));
    return product(one, operands, QS_DIFF_DST, QS_SRC, QS_DIFF_SRC2);
}

static double flops_backward(const qs_case *one) {
    return 2 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

#define EVERY(F, S)                                       \
    "multiply/forward src=" F S " src2=" F S " dst=" F S, \
        "multiply/backward src=" F S " src2=" F S " diff_dst=" F S " diff_src=" F S " diff_src2=" F S

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]"),
                                    EVERY("fp32", "[3,7,5]"),
                                    EVERY("fp32", "[3,11]"),
                                    EVERY("bf16", "[4,16,8,8]"),
                                    EVERY("bf16", "[1,3,5]"),
                                    EVERY("fp16", "[2,8,4]"),
                                    "multiply/forward src=bf16[7,5,31] src2=bf16[7,5,31] dst=bf16[7,5,31] absmax=fp32[1]",
                                    "multiply/forward src=bf16[2,5,3,3] src2=fp32[2,5,3,3] dst=fp32[2,5,3,3]",
                                    NULL};

const qs_op qs__op_multiply = {.name = "multiply",
                               .kind = QS_DEPENDENT,
                               .decoding = QS_ONE_POSITION,
                               .sign = QS_SIGN_KEPT,
                               .inputs = 2,
                               .infer = infer,
                               .passes = 2,
                               .pass = passes,
                               .cases = cases};
