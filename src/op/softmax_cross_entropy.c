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

const qs_op qs__op_softmax_cross_entropy = {.name = "softmax_cross_entropy",
                                            .kind = QS_FIXED,
                                            .inputs = 1,
                                            .infer = infer,
                                            .class_axis = 1,
                                            .passes = QS__CROSS_ENTROPY_PASSES,
                                            .pass = qs__cross_entropy_passes,
                                            .cases = cases};
