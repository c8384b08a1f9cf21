// SPDX-License-Identifier: Apache-2.0
/* sequence: an image [N,C,H,W] seen as the sequence [N,C,H·W] of its pixels, row by row, which is how it lies in memory; moves no data, has
 * no passes. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 4) return qs_fail(QS_USAGE, "sequence: input %s needs the axes N,C,H,W", qs_shape_text(src, text));
    *dst = qs_shape_of(3, src->dim[0], src->dim[1], src->dim[2] * src->dim[3]);
    return QS_OK;
}

static const char *const cases[] = {NULL};

const qs_op qs__op_sequence = {
    .name = "sequence", .kind = QS_DEPENDENT, .sign = QS_SIGN_KEPT, .inputs = 1, .infer = infer, .alias = true, .cases = cases};
