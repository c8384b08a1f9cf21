// SPDX-License-Identifier: Apache-2.0
/* gain: a value times a parameter, each product rounded once: one number a channel, or what the setting `over` says. Passes: forward src
 * scale dst absmax?; backward src scale diff_dst diff_src diff_scale, diff_src = diff_dst scale and diff_scale the sums of diff_dst src, in
 * double. */
#include "broadcast.h"

QS__OVER_RULES("gain", "scale", QS_SCALE, QS_DIFF_SCALE, 1)

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_SRC, QS_SCALE, QS_DST, qs__broadcast_product));
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_DIFF_DST, QS_SCALE, QS_DIFF_SRC, qs__broadcast_product));
    return qs__broadcast_sum(one, operands, QS_DIFF_DST, QS_SRC, QS_DIFF_SCALE, qs__broadcast_product);
}

static const qs_pass passes[] = {QS__OVER_PASSES};

#define EVERY(F, S, P, A) QS__SCALE_CASES("gain", F, S, P, A)

QS__OVER_OPERATOR(gain, "scale", .sign = QS_SIGN_ANY);
