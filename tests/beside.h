// SPDX-License-Identifier: Apache-2.0
/* The optional operand absmax, which passes write beside a result. Include after cmocka.h. */
#ifndef QSYNC_TESTS_BESIDE_H
#define QSYNC_TESTS_BESIDE_H

#include <math.h>
#include <stdlib.h>

#include "qsync/op.h"

static inline bool is_absmax_beside(const qs_case *one, int position) {
    return one->operand[position].role == QS_ABSMAX && one->op->kind != QS_AUXILIARY;
}

/* Where a case has it, it must be the largest magnitude of what the pass stored, whatever that is. */
static inline void check_absmax_beside(const qs_case *one, const qs_tensor *operands, const char *what) {
    const int absmax = qs_case_position(one, QS_ABSMAX), dst = qs_case_position(one, QS_DST);
    if (absmax < 0 || !one->operand[absmax].format || !is_absmax_beside(one, absmax)) return;
    const qs_tensor *stored = &operands[dst >= 0 ? dst : qs_case_position(one, QS_DIFF_SRC)];
    const int64_t count = qs_shape_count(&stored->shape);
    float *values = malloc((size_t)count * sizeof *values), largest = 0;
    assert_non_null(values);
    qs_convert_to_fp32(stored->format, count, stored->data, values);
    for (int64_t i = 0; i < count; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    free(values);
    const float found = *(const float *)operands[absmax].data;
    if (found != largest) fail_msg("%s: absmax is %.9g, of what is stored %.9g", what, (double)found, (double)largest);
}

#endif
