// SPDX-License-Identifier: Apache-2.0
/* softmax_cross_entropy: the loss over classes: one a sample (src [N,C], labels [N]), or one for each of L positions (src [N,C,L], labels
 * [N,L]), where a negative label counts for nothing. Passes: forward src labels loss; backward src labels diff_src. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 2 && src->axes != 3)
        return qs_fail(QS_USAGE, "softmax_cross_entropy: input %s needs the axes N,C or N,C,L", qs_shape_text(src, text));
    *dst = qs_shape_of(1, 2);
    return QS_OK;
}

static qs_shape labels_of(const qs_case *one) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    return src->axes == 3 ? qs_shape_of(2, src->dim[0], src->dim[2]) : qs_shape_of(1, src->dim[0]);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_SRC, 0, QS_LOSS));
    return qs__need_shape(one, QS_LABELS, labels_of(one));
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 3));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    return qs__need_shape(one, QS_LABELS, labels_of(one));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_TARGET},
                 {.role = QS_LOSS, .source = QS_TO_LOSS}),
     .reference = qs__cross_entropy_forward,
     .flops = qs__cross_entropy_flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_LABELS, .source = QS_FROM_TARGET},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = qs__cross_entropy_backward,
     .flops = qs__cross_entropy_flops,
     .check = check_backward},
};

#define EVERY(F, S, L)                                                         \
    "softmax_cross_entropy/forward src=" F S " labels=fp32" L " loss=fp32[2]", \
        "softmax_cross_entropy/backward src=" F S " labels=fp32" L " diff_src=" F S

static const char *const cases[] = {EVERY("fp32", "[8,10]", "[8]"),
                                    EVERY("fp32", "[1,2]", "[1]"),
                                    EVERY("fp32", "[5,103]", "[5]"),
                                    EVERY("fp32", "[3,1000]", "[3]"),
                                    EVERY("fp32", "[3,7,11]", "[3,11]"),
                                    EVERY("bf16", "[2,5,4]", "[2,4]"),
                                    NULL};

const qs_op qs__op_softmax_cross_entropy = {
    .name = "softmax_cross_entropy", .kind = QS_FIXED, .inputs = 1, .infer = infer, .passes = 2, .pass = passes, .cases = cases};
