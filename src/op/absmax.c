// SPDX-License-Identifier: Apache-2.0
/* absmax: largest magnitude of a tensor, or of each index of an axis; what a quantize pass derives its step from. */
#include "internal.h"

#include <stdlib.h>

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_steps(one, QS_ABSMAX, QS_SRC));
    return qs__check_transform(one, QS_SRC);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    float *absmax = qs__fp32(one, operands, QS_ABSMAX), *values;
    int64_t rows = qs_shape_count(qs__shape(one, QS_ABSMAX)), per_row = qs_shape_count(&src->shape) / rows;
    QS_TRY(qs__read(src, &values));
    qs__transform(one, QS_SRC, values);
    if (one->attributes.per_channel && one->attributes.axis == 1) {
        qs_channel_ranges(qs_format_of("int8"), (qs_channel_layout){per_row, rows, 1}, values, absmax, NULL);
        free(values);
        return QS_OK;
    }
    for (int64_t row = 0; row < rows; row++) {
        absmax[row] = qs_absmax_array(per_row, values + row * per_row);
    }
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {
    {.name = "forward", .roles = 2, .role = {QS_SRC, QS_ABSMAX}, .written = QS__BIT(1), .reference = forward, .check = check}};

static const char *const cases[] = {"absmax/forward src=fp32[4,16,8,8] absmax=fp32[1]",
                                    "absmax/forward src=bf16[4,16,8,8] absmax=fp32[1]",
                                    "absmax/forward src=fp32[1,3,5,7] absmax=fp32[1]",
                                    "absmax/forward src=bf16[1,3,5,7] absmax=fp32[1]",
                                    "absmax/forward src=fp32[10,33] absmax=fp32[10] per_channel",
                                    "absmax/forward src=fp32[16,5,3,3] absmax=fp32[16] per_channel",
                                    "absmax/forward src=fp16[2,8,4,4] absmax=fp32[1]",
                                    "absmax/forward src=bf16[7,5,3,3] absmax=fp32[7] per_channel",
                                    "absmax/forward src=fp32[4,16,8,8] absmax=fp32[16] axis=1 per_channel",
                                    "absmax/forward src=bf16[2,37,5,3] absmax=fp32[37] axis=1 per_channel",
                                    "absmax/forward src=fp32[10,33] absmax=fp32[33] axis=1 per_channel",
                                    "absmax/forward src=fp32[4,16,8,8] absmax=fp32[1] axis=1 hadamard=16",
                                    "absmax/forward src=bf16[3,24,5,3] absmax=fp32[1] axis=1 hadamard=8",
                                    "absmax/forward src=fp32[16,5,3,3] absmax=fp32[1] hadamard=16",
                                    "absmax/forward src=bf16[12,5,7,3] absmax=fp32[1] hadamard=4",
                                    "absmax/forward src=fp32[64,70] absmax=fp32[1] hadamard=64",
                                    NULL};

const qs_op qs__op_absmax = {.name = "absmax", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
