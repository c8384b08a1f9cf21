// SPDX-License-Identifier: Apache-2.0
/* instance_norm: every channel of a sample normalised over its positions, in training and evaluation alike (Ulyanov et al., 2016): a
 * group_norm of as many groups as there are channels, whose passes it has. */
#include "norm.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 3) return qs_fail(QS_USAGE, "instance_norm: input %s needs the axes N,C,L or N,C,H,W", qs_shape_text(src, text));
    *dst = *src;
    return QS_OK;
}

#define EVERY(F, S, C, A) QS__GROUP_NORM_CASES("instance_norm", F, S, C, A)

static const char *const cases[] = {
    EVERY("fp32", "[2,16,4,4]", "16", " epsilon=1e-05"), EVERY("fp32", "[3,5,7,3]", "5", " epsilon=1e-05"),
    EVERY("fp32", "[2,35,9]", "35", " epsilon=0.001"),   EVERY("bf16", "[2,48,5,5]", "48", " epsilon=1e-05"),
    EVERY("fp16", "[1,8,17,19]", "8", " epsilon=1e-05"), NULL};

const qs_op qs__op_instance_norm = {.name = "instance_norm",
                                    .kind = QS_DEPENDENT,
                                    .inputs = 1,
                                    .infer = infer,
                                    .parameters = qs__norm_layer_parameters,
                                    .setting = {QS__NORM_EPSILON},
                                    .passes = QS__GROUP_NORM_PASSES,
                                    .pass = qs__group_norm_passes,
                                    .cases = cases};
