// SPDX-License-Identifier: Apache-2.0
/* slice: the channels from `offset` on, as many as the result has; with the setting `along` positions of a sequence [N,C,L]. The gradient
 * of those left out is 0. Passes: forward src dst; backward diff_dst diff_src; values are moved as they are. A split is slices beside each
 * other: their gradients are summed. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    char text[96];
    const int axis = qs__along(with);
    if (src->axes < 2 || (axis == 2 && src->axes != 3))
        return qs_fail(QS_USAGE, "slice: input %s has no %s", qs_shape_text(src, text), axis == 2 ? "axes N,C,L" : "channels");
    if (outputs < 1 || with->offset < 0 || with->offset > src->dim[axis] - outputs) {
        return qs_fail(QS_USAGE, "slice: input %s has no %lld %ss from %s %d on", qs_shape_text(src, text), (long long)outputs,
                       axis == 2 ? "position" : "channel", axis == 2 ? "position" : "channel", with->offset);
    }
    *dst = *src;
    dst->dim[axis] = outputs;
    return QS_OK;
}

static qs_status check_sliced(const qs_case *one, qs_role whole, qs_role part) {
    const int axis = qs__along(&one->attributes);
    QS_TRY(qs__need_axes(one, part, axis + 1, QS_MAX_AXES));
    QS_TRY(qs__need_inferred(one, whole, qs__shape(one, part)->dim[axis], part));
    return qs__need_one_format(one);
}

static qs_status check_forward(const qs_case *one) {
    return check_sliced(one, QS_SRC, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return check_sliced(one, QS_DIFF_SRC, QS_DIFF_DST);
}

static int64_t place_of(const qs_attributes *with, const qs_shape *whole, const qs_shape *part, int64_t i) {
    const int64_t run = qs__moved_run(with, part);
    return i / run * qs__moved_run(with, whole) + with->offset * (with->along != 0 ? part->dim[1] : 1) + i % run;
}

QS__MOVING_KERNELS(place_of)

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static const qs_pass passes[] = {QS__MOVING_PASSES(flops_forward, check_forward, check_backward)};

#define EVERY(F, S, D, O) "slice/forward src=" F S " dst=" F D O, "slice/backward diff_dst=" F D " diff_src=" F S O

static const char *const cases[] = {EVERY("fp32", "[4,32,8,8]", "[4,16,8,8]", " offset=16"),
                                    EVERY("fp32", "[2,13,5,7]", "[2,10,5,7]", ""),
                                    EVERY("fp32", "[3,12]", "[3,1]", " offset=7"),
                                    EVERY("bf16", "[4,24,8,8]", "[4,8,8,8]", " offset=8"),
                                    EVERY("bf16", "[1,61,5,7]", "[1,29,5,7]", " offset=32"),
                                    EVERY("fp16", "[2,12,4,4]", "[2,12,4,4]", ""),
                                    EVERY("fp32", "[3,7,9]", "[3,7,4]", " offset=2 along=1"),
                                    EVERY("bf16", "[2,33,17]", "[2,33,1]", " offset=16 along=1"),
                                    EVERY("fp16", "[2,8,5]", "[2,8,5]", " along=1"),
                                    NULL};

const qs_op qs__op_slice = {.name = "slice",
                            .takes = QS_TAKES_OFFSET | QS_TAKES_OUTPUTS,
                            .kind = QS_DEPENDENT,
                            .decoding = QS_ONE_POSITION,
                            .sign = QS_SIGN_KEPT,
                            .inputs = 1,
                            .infer = infer,
                            .setting = {QS__ALONG},
                            .passes = 2,
                            .pass = passes,
                            .cases = cases};
