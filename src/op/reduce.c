// SPDX-License-Identifier: Apache-2.0
/* What the reductions share. The axes that are reduced stay, with an extent of 1: [N,C,H,W] becomes [N,C,1,1], [N,1,H,W] or [N,1,1,1].
 * Passes: forward src dst; backward diff_dst diff_src (reduce_max: src diff_dst diff_src). */
#include "reduce.h"

#include <stdlib.h>

qs_status qs__reduce_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (with->over != 0 && with->over != 1 && with->over != 2)
        return qs_fail(QS_USAGE, "a reduction over %g: must be 0 (positions), 1 (channels) or 2 (both)", with->over);
    if (src->axes < 2 + (with->over == 0))
        return qs_fail(QS_USAGE, "a reduction over %s: input %s has none", with->over == 0 ? "positions" : "channels",
                       qs_shape_text(src, text));
    *dst = *src;
    for (int axis = 1; axis < src->axes; axis++)
        if (with->over == 2 || (axis == 1) == (with->over == 1)) dst->dim[axis] = 1;
    return QS_OK;
}

bool qs__reduce_takes_all(const qs_attributes *with) {
    return with->over != 1;
}

qs_status qs__reduce_check_forward(const qs_case *one) {
    return qs__need_inferred(one, QS_SRC, 0, QS_DST);
}

qs_status qs__reduce_check_backward(const qs_case *one) {
    if (qs_case_position(one, QS_SRC) >= 0) QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    return qs__need_inferred(one, QS_DIFF_SRC, 0, QS_DIFF_DST);
}

double qs__reduce_flops_backward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DIFF_SRC));
}

static double divisor(const qs_case *one, qs_role whole, qs_role part, bool mean) {
    return mean ? (double)(qs_shape_count(qs__shape(one, whole)) / qs_shape_count(qs__shape(one, part))) : 1;
}

qs_status qs__reduce_sum(const qs_case *one, const qs_tensor *operands, bool mean) {
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC)), results = qs_shape_count(qs__shape(one, QS_DST));
    const double by = divisor(one, QS_SRC, QS_DST, mean);
    float *values = NULL;
    double *sum = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs_allocate((size_t)results, sizeof *sum, &sum)); /* zeros */
    for (int64_t i = 0; i < count; i++)
        sum[qs__broadcast_place(&map, i)] += (double)values[i];
    for (int64_t i = 0; i < results; i++)
        sum[i] /= by;
    status = qs__write_double(qs__operand(one, operands, QS_DST), sum);
done:
    free(values);
    free(sum);
    return status;
}

qs_status qs__reduce_sum_backward(const qs_case *one, const qs_tensor *operands, bool mean) {
    const qs_broadcast map = qs_case_broadcast(one);
    const int64_t count = qs_shape_count(qs__shape(one, QS_DIFF_SRC));
    const double by = divisor(one, QS_DIFF_SRC, QS_DIFF_DST, mean);
    float *each = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &each));
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((double)each[qs__broadcast_place(&map, i)] / by);
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
done:
    free(each);
    free(values);
    return status;
}
