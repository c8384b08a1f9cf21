// SPDX-License-Identifier: Apache-2.0
/* dequantize: integer codes times their step, which shift groups halve by channel, to float storage. */
#include "internal.h"

#include <stdlib.h>

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    QS_TRY(qs__need_steps(one, QS_SRC_STEP, QS_SRC));
    if (qs__present(one, QS_SRC_GROUP)) {
        if (one->attributes.per_channel) return qs__refuse(one, "shift groups and a step per channel exclude each other");
        QS_TRY(qs__need_axes(one, QS_SRC, 2, QS_MAX_AXES));
        QS_TRY(qs__need_shape(one, QS_SRC_GROUP, qs_shape_of(1, qs__shape(one, QS_SRC)->dim[1])));
    }
    if (one->attributes.axis != 0) return qs__refuse(one, "steps of channels lie along axis 0");
    if (!qs__is_integer(one, QS_SRC)) return qs__refuse(one, "src must have an integer format: a float one is a cast");
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_tensor *src = qs__operand(one, operands, QS_SRC);
    const float *steps = qs__fp32(one, operands, QS_SRC_STEP);
    int64_t rows = qs_shape_count(qs__shape(one, QS_SRC_STEP)), per_row = qs_shape_count(&src->shape) / rows;
    float *values;
    QS_TRY(qs_allocate((size_t)(rows * per_row), sizeof *values, &values));
    if (qs__present(one, QS_SRC_GROUP)) {
        const qs_shift_codes codes = {.format = src->format, .step = steps[0], .group = qs__operand(one, operands, QS_SRC_GROUP)->data};
        const int64_t channels = src->shape.dim[1];
        qs_shift_dequantize(&codes, (qs_channel_layout){per_row / channels, channels, 1}, src->data, values);
        rows = 0;
    }
    for (int64_t row = 0; row < rows; row++) {
        qs_dequantize_array(steps[row], per_row, (const int8_t *)src->data + row * per_row, values + row * per_row);
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return QS_OK;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_GIVEN, .integer = true}, {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC},
                 {.role = QS_SRC_GROUP, .source = QS_GROUPS_OF, .of = QS_SRC, .optional = true}, {.role = QS_DST, .source = QS_MADE}),
     .reference = forward,
     .check = check}};

static const char *const cases[] = {"dequantize/forward src=int8[4,16,8,8] src_step=fp32[1] dst=fp32[4,16,8,8]",
                                    "dequantize/forward src=int8[4,16,8,8] src_step=fp32[1] dst=bf16[4,16,8,8]",
                                    "dequantize/forward src=int8[1,3,5,7] src_step=fp32[1] dst=bf16[1,3,5,7]",
                                    "dequantize/forward src=int8[16,5,3,3] src_step=fp32[16] dst=fp32[16,5,3,3] per_channel",
                                    "dequantize/forward src=int8[7,33] src_step=fp32[7] dst=bf16[7,33] per_channel",
                                    "dequantize/forward src=uint4[4,16,8,8] src_step=fp32[1] src_group=int8[16] dst=bf16[4,16,8,8]",
                                    "dequantize/forward src=int6[3,37] src_step=fp32[1] src_group=int8[37] dst=fp32[3,37]",
                                    NULL};

const qs_op qs__op_dequantize = {.name = "dequantize", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
