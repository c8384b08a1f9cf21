// SPDX-License-Identifier: Apache-2.0
/* gate: a value times a smaller one, each product rounded once; the extents of the second, [N,C], [N,C,1,1], [N,1,H,W] and so on, are those
 * of the first or 1, and where they are 1 it is repeated (squeeze and excitation: Hu et al. 2018). Passes: forward src src2 dst absmax?;
 * backward src src2 diff_dst diff_src diff_src2, diff_src = diff_dst src2 and diff_src2 the sums of diff_dst src, in double. */
#include "broadcast.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    *dst = src[0];
    QS_TRY(qs__need_broadcast("gate", &src[0], &src[1]));
    if (src[0].dim[0] == src[1].dim[0]) return QS_OK;
    return qs_fail(QS_USAGE, "gate: %lld samples and %lld", (long long)src[0].dim[0], (long long)src[1].dim[0]);
}

static qs_status check(const qs_case *one) {
    const qs_shape src[2] = {*qs__shape(one, QS_SRC), *qs__shape(one, QS_SRC2)};
    QS_TRY(infer(&one->attributes, src, 0, &(qs_shape){0}));
    for (int i = 2; i < one->operands; i++) {
        const qs_role role = one->operand[i].role;
        if (role != QS_ABSMAX) QS_TRY(qs__need_shape(one, role, src[role == QS_DIFF_SRC2]));
    }
    return qs_case_position(one, QS_ABSMAX) < 0 ? QS_OK : qs__check_absmax(one);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_SRC, QS_SRC2, QS_DST, qs__broadcast_product));
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_DIFF_DST, QS_SRC2, QS_DIFF_SRC, qs__broadcast_product));
    return qs__broadcast_sum(one, operands, QS_DIFF_DST, QS_SRC, QS_DIFF_SRC2, qs__broadcast_product);
}

static const qs_pass passes[] = {QS__PAIR_PASSES(forward, backward, check)};

#define EVERY(F, S, G)                                \
    "gate/forward src=" F S " src2=" F G " dst=" F S, \
        "gate/backward src=" F S " src2=" F G " diff_dst=" F S " diff_src=" F S " diff_src2=" F G

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]", "[4,16]"),
                                    EVERY("fp32", "[4,72,3,3]", "[4,72,1,1]"),
                                    EVERY("fp32", "[3,7,5,2]", "[3,1,5,2]"),
                                    EVERY("fp32", "[3,7,5,2]", "[3,7,5,1]"),
                                    EVERY("fp32", "[3,7,5,2]", "[3,1,1,2]"),
                                    EVERY("fp32", "[3,7,5]", "[3,1,5]"),
                                    EVERY("fp32", "[3,7,5]", "[3,1]"),
                                    EVERY("bf16", "[4,40,8,8]", "[4,40,1,1]"),
                                    EVERY("bf16", "[3,33,5]", "[3,1,5]"),
                                    EVERY("fp16", "[2,8,4,4]", "[2,8]"),
                                    "gate/forward src=bf16[7,5,31] src2=bf16[7,5,1] dst=bf16[7,5,31] absmax=fp32[1]",
                                    "gate/forward src=bf16[2,5,3,3] src2=fp32[2,5] dst=fp32[2,5,3,3]",
                                    NULL};

const qs_op qs__op_gate = {.name = "gate",
                           .kind = QS_DEPENDENT,
                           .decoding = QS_ONE_POSITION,
                           .sign = QS_SIGN_KEPT,
                           .inputs = 2,
                           .infer = infer,
                           .passes = 2,
                           .pass = passes,
                           .cases = cases};
