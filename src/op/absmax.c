// SPDX-License-Identifier: Apache-2.0
/* absmax: largest magnitude of a tensor, or of each channel along axis 1; what a quantize pass derives its step from. */
#include "internal.h"

#include <stdlib.h>

static qs_status check(const qs_case *one) {
    if (one->attributes.per_channel && one->attributes.axis == 0)
        return qs__refuse(one, "rows find their maxima where they are quantized: only channels along axis 1 have theirs before");
    QS_TRY(qs__need_steps(one, QS_ABSMAX, QS_SRC));
    return qs__check_transform(one, QS_SRC);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    float *absmax = qs__fp32(one, operands, QS_ABSMAX), *values;
    const int64_t count = qs_shape_count(&src->shape), channels = qs_shape_count(qs__shape(one, QS_ABSMAX));
    QS_TRY(qs__read(src, &values));
    qs__transform(one, QS_SRC, values);
    if (one->attributes.per_channel)
        qs_channel_ranges(qs_format_of("int8"), (qs_channel_layout){count / channels, channels, 1}, values, absmax, NULL);
    else
        *absmax = qs_absmax_array(count, values);
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {{.name = "forward",
                                  QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN}, {.role = QS_ABSMAX, .source = QS_MADE}),
                                  .reference = forward,
                                  .check = check}};

static const char *const cases[] = {"absmax/forward src=fp32[4,16,8,8] absmax=fp32[1]",
                                    "absmax/forward src=bf16[4,16,8,8] absmax=fp32[1]",
                                    "absmax/forward src=fp32[1,3,5,7] absmax=fp32[1]",
                                    "absmax/forward src=bf16[1,3,5,7] absmax=fp32[1]",
                                    "absmax/forward src=fp16[2,8,4,4] absmax=fp32[1]",
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
