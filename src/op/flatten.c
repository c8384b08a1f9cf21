// SPDX-License-Identifier: Apache-2.0
/* flatten: [N,C,H,W] seen as [N, H·W·C] in memory order; moves no data, has no passes. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 1) return qs_fail(QS_USAGE, "flatten: input %s needs the axis N", qs_shape_text(src, text));
    *dst = qs_shape_of(2, src->dim[0], qs_shape_count(src) / src->dim[0]);
    return QS_OK;
}

static const char *const cases[] = {NULL};

const qs_op qs__op_flatten = {.name = "flatten",
                              .kind = QS_DEPENDENT,
                              .sign = QS_SIGN_KEPT,
                              .inputs = 1,
                              .infer = infer,
                              .alias = true,
                              .image_features = true,
                              .cases = cases};
