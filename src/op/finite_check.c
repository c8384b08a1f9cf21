// SPDX-License-Identifier: Apache-2.0
/* finite_check: lowers a flag to 0 when a tensor holds an infinity or a NaN. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status check(const qs_case *one) {
    return qs__need_shape(one, QS_FLAG, qs_shape_of(1, 1));
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    float *flag = qs__fp32(one, operands, QS_FLAG), *values;
    QS_TRY(qs__read(src, &values));
    if (!isfinite(qs_absmax_array(qs_shape_count(&src->shape), values))) *flag = 0;
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_FLAG, .source = QS_UPDATED}),
                                  .reference = forward,
                                  .check = check}};

static const char *const cases[] = {"finite_check/forward src=fp32[4097] flag=fp32[1]", "finite_check/forward src=fp32[5] flag=fp32[1]",
                                    "finite_check/forward src=bf16[3,33] flag=fp32[1]", "finite_check/forward src=fp16[3,33] flag=fp32[1]",
                                    NULL};

const qs_op qs__op_finite_check = {.name = "finite_check", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
