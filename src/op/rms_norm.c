// SPDX-License-Identifier: Apache-2.0
/* rms_norm: dst = n scale[c] with n = src / sqrt(mean of src² over the channels of the position + epsilon) (Zhang and Sennrich, 2019): a
 * layer norm without mean and shift. Passes: forward src scale dst absmax?; backward src scale diff_dst diff_src diff_scale absmax?.
 * Nothing is kept between them: backward reads src anyway. With r = 1 / sqrt(...) and g = diff_dst scale: diff_src = r (g - n mean(g n)),
 * means over the channels of the position; diff_scale = Σ diff_dst n over all positions. Sums are double. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "rms_norm: input %s needs the axes N,C, N,C,L or N,C,H,W", qs_shape_text(src, text));
    *dst = *src;
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    out[0] = (qs_parameter_rule){"scale", QS_SCALE, QS_DIFF_SCALE, qs_shape_of(1, src->dim[1]), 1, 0};
    return 1;
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 4));
    const qs_shape vector = qs_shape_of(1, qs__shape(one, QS_SRC)->dim[1]);
    for (int i = 1; i < one->operands; i++) {
        const qs_role role = one->operand[i].role;
        if (role == QS_ABSMAX) continue;
        QS_TRY(qs__need_shape(one, role, role == QS_SCALE || role == QS_DIFF_SCALE ? vector : *qs__shape(one, QS_SRC)));
    }
    return qs__check_absmax(one);
}

/* 1 / sqrt(mean of squares + epsilon) of a position. */
static double inverse_of(const qs_case *one, int64_t channels, const float *x) {
    double sum = 0;
    for (int64_t c = 0; c < channels; c++)
        sum += (double)x[c] * (double)x[c];
    return 1 / sqrt(sum / (double)channels + one->attributes.epsilon);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t channels = shape->dim[1], count = qs_shape_count(shape);
    const float *scale = qs__fp32(one, operands, QS_SCALE);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    for (float *x = values; x < values + count; x += channels) {
        const double inverse = inverse_of(one, channels, x);
        for (int64_t c = 0; c < channels; c++)
            x[c] = (float)((double)x[c] * inverse * (double)scale[c]);
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t channels = shape->dim[1], count = qs_shape_count(shape);
    const float *scale = qs__fp32(one, operands, QS_SCALE);
    float *values = NULL, *gradient = NULL, *diff_scale = qs__fp32(one, operands, QS_DIFF_SCALE);
    double *sums = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    QS_GOTO(qs_allocate((size_t)channels, sizeof *sums, &sums)); /* zeros */
    for (int64_t at = 0; at < count; at += channels) {
        const float *x = values + at;
        float *dy = gradient + at;
        const double inverse = inverse_of(one, channels, x);
        double product = 0;
        for (int64_t c = 0; c < channels; c++) {
            const double n = (double)x[c] * inverse;
            product += (double)dy[c] * (double)scale[c] * n;
            sums[c] += (double)dy[c] * n;
        }
        for (int64_t c = 0; c < channels; c++)
            dy[c] = (float)(inverse * ((double)dy[c] * (double)scale[c] - (double)x[c] * inverse * product / (double)channels));
    }
    for (int64_t c = 0; c < channels; c++)
        diff_scale[c] = (float)sums[c];
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), gradient);
    status = qs__deliver_absmax(one, operands, QS_DIFF_SRC);
done:
    free(values);
    free(gradient);
    free(sums);
    return status;
}

/* Operations an element: square, sum and two products; and twice as many backward. */
static double flops_forward(const qs_case *one) {
    return 4 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static double flops_backward(const qs_case *one) {
    return 8 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .flops = flops_forward,
     .check = check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SCALE, .source = QS_TO_PARAMETER_GRADIENT},
                 {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DIFF_SRC, .optional = true}),
     .reference = backward,
     .flops = flops_backward,
     .check = check},
};

#define EVERY(F, S, C, E)                                                         \
    "rms_norm/forward src=" F S " scale=fp32[" C "] dst=" F S E " epsilon=1e-05", \
        "rms_norm/backward src=" F S " scale=fp32[" C "] diff_dst=" F S " diff_src=" F S " diff_scale=fp32[" C "]" E " epsilon=1e-05"

static const char *const cases[] = {EVERY("fp32", "[8,16,64]", "16", ""),
                                    EVERY("fp32", "[2,5,7,3]", "5", ""),
                                    EVERY("fp32", "[16,33]", "33", ""),
                                    EVERY("fp32", "[3,257]", "257", ""),
                                    EVERY("bf16", "[8,16,64]", "16", ""),
                                    EVERY("bf16", "[16,33]", "33", ""),
                                    EVERY("fp16", "[2,16,4]", "16", ""),
                                    EVERY("fp32", "[5,37,35]", "37", " absmax=fp32[1]"),
                                    EVERY("bf16", "[16,33]", "33", " absmax=fp32[1]"),
                                    "rms_norm/forward src=bf16[3,24] scale=fp32[24] dst=fp32[3,24] epsilon=1e-05",
                                    NULL};

const qs_op qs__op_rms_norm = {.name = "rms_norm",
                               .kind = QS_DEPENDENT,
                               .decoding = QS_ONE_POSITION,
                               .inputs = 1,
                               .infer = infer,
                               .parameters = parameters,
                               .setting = {QS_SETTING(epsilon, 1e-5, 1e-30, INFINITY, "added to the mean of squares")},
                               .passes = 2,
                               .pass = passes,
                               .cases = cases};
