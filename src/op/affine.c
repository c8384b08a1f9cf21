// SPDX-License-Identifier: Apache-2.0
/* affine: factor x + term, with constants, rounded once. Passes: forward src dst absmax?; backward diff_dst diff_src absmax?: the gradient
 * is factor times diff_dst, so no value is kept for it. */
#include "internal.h"

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_same(one, one->operand[1].role, one->operand[0].role));
    return qs__check_absmax(one);
}

static double line(const qs_attributes *with, double x) {
    return with->constant[0] * x + with->constant[1];
}

static double slope(const qs_attributes *with, double dy) {
    return with->constant[0] * dy;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return qs__activation_apply(one, operands, QS_SRC, QS_DST, line);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return qs__activation_apply(one, operands, QS_DIFF_DST, QS_DIFF_SRC, slope);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT},
                 {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .check = check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DIFF_SRC, .optional = true}),
     .reference = backward,
     .check = check},
};

#define EVERY(F, S, M, A) "affine/forward src=" F S " dst=" F S M A, "affine/backward diff_dst=" F S " diff_src=" F S M A

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]", "", " factor=0.5 term=-0.75"),
                                    EVERY("fp32", "[3,7,5]", "", " factor=-1"),
                                    EVERY("fp32", "[3,7]", "", " factor=1 term=0.3"),
                                    EVERY("bf16", "[4,16,8,8]", "", " factor=1.7 term=2"),
                                    EVERY("fp16", "[2,8,4,4]", "", " factor=0.125"),
                                    EVERY("bf16", "[3,33,5]", " absmax=fp32[1]", " factor=-3 term=1"),
                                    "affine/forward src=bf16[2,9,3,3] dst=fp32[2,9,3,3] factor=0.7 term=0.1",
                                    NULL};

const qs_op qs__op_affine = {.name = "affine",
                             .kind = QS_DEPENDENT,
                             .decoding = QS_ONE_POSITION,
                             .inputs = 1,
                             .setting = {QS_SETTING_AS("factor", constant[0], 1, -1e30, 1e30, "what x is multiplied by; 0: 1"),
                                         QS_SETTING_AS("term", constant[1], 0, -1e30, 1e30, "what is added then")},
                             .passes = 2,
                             .pass = passes,
                             .cases = cases};
