// SPDX-License-Identifier: Apache-2.0
/* prelu: x where it is positive, else slope x with a parameter, one number a channel or what the setting `over` says (He et al. 2015).
 * Passes: forward src scale dst absmax?; backward src scale diff_dst diff_src diff_scale: the sums of diff_dst x where x is not positive,
 * in double. */
#include "broadcast.h"

#include <stdlib.h>

QS__OVER_RULES("prelu", "scale", QS_SCALE, QS_DIFF_SCALE, 0.25f)

static double bent(double x, double slope) {
    return x > 0 ? x : slope * x;
}

/* Of the slope. */
static double below(double dy, double x) {
    return x > 0 ? 0 : dy * x;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__broadcast_apply(one, operands, QS_SRC, QS_SCALE, QS_DST, bent));
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    const float *slope = qs__fp32(one, operands, QS_SCALE);
    float *x = NULL, *dy = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &x));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &dy));
    for (int64_t i = 0; i < count; i++)
        if (!(x[i] > 0)) dy[i] *= slope[qs__broadcast_place(&map, i)];
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), dy);
    status = qs__broadcast_sum(one, operands, QS_DIFF_DST, QS_SRC, QS_DIFF_SCALE, below);
done:
    free(x);
    free(dy);
    return status;
}

static const qs_pass passes[] = {QS__OVER_PASSES};

#define EVERY(F, S, P, A) QS__SCALE_CASES("prelu", F, S, P, A)

QS__OVER_OPERATOR(prelu, "scale", .sign = QS_SIGN_KEPT);
