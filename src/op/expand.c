// SPDX-License-Identifier: Apache-2.0
/* expand: a value whose extents of 1 become those of the settings, what it has repeated along them; other extents must be those already. A
 * result of more axes than the input has takes it as [N,C,1,1]. Passes: forward src dst; backward diff_dst diff_src: sums over what was
 * repeated, in double, rounded once. */
#include "broadcast.h"

#include <math.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    int64_t extent[3];
    if (src->axes < 2) return qs_fail(QS_USAGE, "expand: the input has no channels");
    for (int i = 0; i < 3; i++) {
        if (with->extent[i] < 0 || with->extent[i] != floor(with->extent[i]))
            return qs_fail(QS_USAGE, "expand: height %g, width %g, channels %g: whole numbers", with->extent[0], with->extent[1],
                           with->extent[2]);
        const int axis = i == 2 ? 1 : 2 + i;
        extent[i] = with->extent[i] == 0 && axis < src->axes ? src->dim[axis] : (int64_t)with->extent[i];
    }
    QS_TRY(qs__sample_shape("expand", with, src->dim[0], extent, dst));
    return qs__need_broadcast("expand", dst, src);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return qs__broadcast_apply(one, operands, QS_ROLE_COUNT, QS_SRC, QS_DST, qs__broadcast_second);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return qs__broadcast_sum(one, operands, QS_DIFF_DST, QS_ROLE_COUNT, QS_DIFF_SRC, qs__broadcast_first);
}

static qs_status check_forward(const qs_case *one) {
    return qs__need_inferred(one, QS_SRC, 0, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return qs__need_inferred(one, QS_DIFF_SRC, 0, QS_DIFF_DST);
}

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static const qs_pass passes[] = {QS__MOVING_PASSES(flops_forward, check_forward, check_backward)};

#define EVERY(F, S, D, A) "expand/forward src=" F S " dst=" F D A, "expand/backward diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[4,16,1,1]", "[4,16,8,8]", " height=8 width=8"),
                                    EVERY("fp32", "[3,7]", "[3,7,5]", " height=5"),
                                    EVERY("fp32", "[3,1,5]", "[3,9,5]", " channels=9"),
                                    EVERY("fp32", "[3,7,1,5]", "[3,7,4,5]", " height=4"),
                                    EVERY("fp32", "[3,1,5,1]", "[3,6,5,2]", " width=2 channels=6"),
                                    EVERY("fp32", "[3,1,1,5]", "[3,6,3,5]", " height=3 channels=6"),
                                    EVERY("fp32", "[3,1]", "[3,33]", " channels=33"),
                                    EVERY("bf16", "[4,16,1,1]", "[4,16,8,8]", " height=8 width=8"),
                                    EVERY("bf16", "[3,33,1]", "[3,33,7]", " height=7"),
                                    EVERY("fp16", "[2,1,4]", "[2,8,4]", " channels=8"),
                                    NULL};

const qs_op qs__op_expand = {.name = "expand",
                             .kind = QS_DEPENDENT,
                             .sign = QS_SIGN_KEPT,
                             .inputs = 1,
                             .infer = infer,
                             .setting = {QS_SETTING_AS("height", extent[0], 0, 0, 2147483647, "of the result, or its length; 0: as it is"),
                                         QS_SETTING_AS("width", extent[1], 0, 0, 2147483647, "of the result; 0: as it is"),
                                         QS_SETTING_AS("channels", extent[2], 0, 0, 2147483647, "of the result; 0: as they are")},
                             .passes = 2,
                             .pass = passes,
                             .cases = cases};
