// SPDX-License-Identifier: Apache-2.0
/* global_average_pool: mean of every channel over the whole image, [N,C,H,W] to [N,C,1,1], or sequence, [N,C,L] to [N,C,1]. */
#include "internal.h"

#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 3 && src->axes != 4)
        return qs_fail(QS_USAGE, "global_average_pool: input %s needs the axes N,C,H,W or N,C,L", qs_shape_text(src, text));
    *dst = src->axes == 3 ? qs_shape_of(3, src->dim[0], src->dim[1], 1) : qs_shape_of(4, src->dim[0], src->dim[1], 1, 1);
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    int64_t channels = shape->dim[1], positions = qs_shape_count(shape) / (shape->dim[0] * channels);
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs_allocate((size_t)(shape->dim[0] * channels), sizeof *values, &values));
    for (int64_t at = 0; at < shape->dim[0] * channels; at++) {
        const float *channel = src + at / channels * positions * channels + at % channels;
        double sum = 0;
        for (int64_t i = 0; i < positions; i++) {
            sum += (double)channel[i * channels];
        }
        values[at] = (float)(sum / (double)positions);
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(src);
    free(values);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_DIFF_SRC);
    int64_t channels = shape->dim[1], count = qs_shape_count(shape), positions = count / (shape->dim[0] * channels);
    float *diff_dst = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &diff_dst));
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    for (int64_t i = 0; i < count; i++) {
        int64_t sample = i / (positions * channels);
        values[i] = (float)((double)diff_dst[sample * channels + i % channels] / (double)positions);
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
done:
    free(diff_dst);
    free(values);
    return status;
}

static double flops_backward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DIFF_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .check = qs__pool_check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = qs__pool_check_backward},
};

#define EVERY(F, S, D) "global_average_pool/forward src=" F S " dst=" F D, "global_average_pool/backward diff_dst=" F D " diff_src=" F S

static const char *const cases[] = {
    EVERY("fp32", "[4,64,8,8]", "[4,64,1,1]"), EVERY("fp32", "[1,5,7,3]", "[1,5,1,1]"), EVERY("fp32", "[3,10,1,1]", "[3,10,1,1]"),
    EVERY("bf16", "[4,64,8,8]", "[4,64,1,1]"), EVERY("bf16", "[1,5,7,3]", "[1,5,1,1]"), EVERY("fp16", "[2,8,4,4]", "[2,8,1,1]"),
    EVERY("fp32", "[3,6,11]", "[3,6,1]"),      EVERY("bf16", "[2,16,8]", "[2,16,1]"),   NULL};

const qs_op qs__op_global_average_pool = {.name = "global_average_pool",
                                          .kind = QS_DEPENDENT,
                                          .sign = QS_SIGN_KEPT,
                                          .inputs = 1,
                                          .infer = infer,
                                          .passes = 2,
                                          .pass = passes,
                                          .cases = cases};
