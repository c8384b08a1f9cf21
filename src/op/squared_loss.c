// SPDX-License-Identifier: Apache-2.0
/* squared_loss: mean squared error, the loss of R real numbers a sample: src [N,R], target [N,R], the mean of (src - target)² over the
 * numbers, summed over the samples. No answer is right or wrong: loss[1] is 0. Samples from run->samples on (a padded evaluation batch)
 * count for nothing. Passes: forward src target loss; backward src target diff_src. The reference computes in double. */
#include "internal.h"

#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 2) return qs_fail(QS_USAGE, "squared_loss: input %s needs the axes N,C", qs_shape_text(src, text));
    *dst = qs_shape_of(1, 2);
    return QS_OK;
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__need_inferred(one, QS_SRC, 0, QS_LOSS));
    return qs__need_same(one, QS_TARGET, QS_SRC);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 2));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_SRC));
    return qs__need_same(one, QS_TARGET, QS_SRC);
}

/* Values of the samples that count. */
static int64_t counted(const qs_case *one, const qs_run *run) {
    const qs_shape *src = qs__shape(one, QS_SRC);
    return (run->samples < src->dim[0] ? run->samples : src->dim[0]) * src->dim[1];
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const float *target = qs__fp32(one, operands, QS_TARGET);
    const int64_t numbers = qs__shape(one, QS_SRC)->dim[1], count = counted(one, run);
    float *src = NULL, *loss = qs__fp32(one, operands, QS_LOSS);
    double sum = 0;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &src));
    for (int64_t i = 0; i < count; i += numbers) {
        double sample = 0;
        for (int64_t k = i; k < i + numbers; k++)
            sample += ((double)src[k] - (double)target[k]) * ((double)src[k] - (double)target[k]);
        sum += sample / (double)numbers;
    }
    loss[0] = (float)sum;
    loss[1] = 0;
    free(src);
    return QS_OK;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const float *target = qs__fp32(one, operands, QS_TARGET);
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t count = counted(one, run), all = qs_shape_count(shape);
    const double factor = 2 * run->loss_scale / ((double)run->global_samples * (double)shape->dim[1]);
    float *values = NULL;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (int64_t i = 0; i < all; i++)
        values[i] = i < count ? (float)(((double)values[i] - (double)target[i]) * factor) : 0;
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
    free(values);
    return QS_OK;
}

static double flops(const qs_case *one) {
    return 3 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_TARGET, .source = QS_FROM_TARGET},
                 {.role = QS_LOSS, .source = QS_TO_LOSS}),
     .reference = forward,
     .flops = flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_TARGET, .source = QS_FROM_TARGET},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops,
     .check = check_backward},
};

#define EVERY(F, S) \
    "squared_loss/forward src=" F S " target=fp32" S " loss=fp32[2]", "squared_loss/backward src=" F S " target=fp32" S " diff_src=" F S

static const char *const cases[] = {EVERY("fp32", "[8,3]"), EVERY("fp32", "[1,1]"), EVERY("bf16", "[5,33]"), NULL};

const qs_op qs__op_squared_loss = {
    .name = "squared_loss", .kind = QS_FIXED, .inputs = 1, .infer = infer, .passes = 2, .pass = passes, .cases = cases};
