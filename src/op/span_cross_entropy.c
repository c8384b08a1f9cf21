// SPDX-License-Identifier: Apache-2.0
/* span_cross_entropy: the loss of a span, its first and its last position among L: src [N,2,L] (channel 0: logits of the first one, channel
 * 1: of the last one), labels [N,2]. The loss of a sample is the mean of the two cross-entropies; it is right where both are (exact match).
 * Passes: forward src labels loss; backward src labels diff_src. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 3 || src->dim[1] != 2)
        return qs_fail(QS_USAGE, "span_cross_entropy: input %s needs the axes N,2,L", qs_shape_text(src, text));
    *dst = qs_shape_of(1, 2);
    return QS_OK;
}

#define EVERY(F, S, L)                                                      \
    "span_cross_entropy/forward src=" F S " labels=fp32" L " loss=fp32[2]", \
        "span_cross_entropy/backward src=" F S " labels=fp32" L " diff_src=" F S

static const char *const cases[] = {EVERY("fp32", "[4,2,9]", "[4,2]"), EVERY("fp32", "[1,2,2]", "[1,2]"),
                                    EVERY("bf16", "[3,2,17]", "[3,2]"), NULL};

const qs_op qs__op_span_cross_entropy = {.name = "span_cross_entropy",
                                         .kind = QS_FIXED,
                                         .inputs = 1,
                                         .infer = infer,
                                         .class_axis = 2,
                                         .passes = QS__CROSS_ENTROPY_PASSES,
                                         .pass = qs__cross_entropy_passes,
                                         .cases = cases};
