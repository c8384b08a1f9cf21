// SPDX-License-Identifier: Apache-2.0
/* sgd: stochastic gradient descent with momentum and weight decay. Every operation is fp32 and rounded, so that master weights are
 * bit-identical on unlike devices. */
#include "internal.h"

static qs_status check(const qs_case *one) {
    const qs_format *fp32 = qs_format_of("fp32");
    QS_TRY(qs__need_axes(one, QS_SRC, 1, 1));
    QS_TRY(qs__need_same(one, QS_WEIGHTS, QS_SRC));
    QS_TRY(qs__need_same(one, QS_MOMENTUM, QS_SRC));
    QS_TRY(qs__need_shape(one, QS_FLAG, qs_shape_of(1, 1)));
    if (one->operand[0].format != fp32 || one->operand[1].format != fp32) return qs__refuse(one, "gradient and weights must be fp32");
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const float *gradient = qs__fp32(one, operands, QS_SRC);
    float *weights = qs__fp32(one, operands, QS_WEIGHTS), *velocity = qs__fp32(one, operands, QS_MOMENTUM);
    if (qs__present(one, QS_FLAG) && *qs__fp32(one, operands, QS_FLAG) == 0) return QS_OK;
    float momentum = (float)one->attributes.value, decay = (float)one->attributes.value2;
    float rate = (float)run->learning_rate, unscale = (float)(1 / run->loss_scale);
    int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++) {
        float step = gradient[i] * unscale + decay * weights[i];
        velocity[i] = momentum * velocity[i] + step;
        weights[i] = weights[i] - rate * velocity[i];
    }
    return QS_OK;
}

static double flops(const qs_case *one) {
    return 7 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {{.name = "forward",
                                  .roles = 4,
                                  .role = {QS_SRC, QS_WEIGHTS, QS_MOMENTUM, QS_FLAG},
                                  .optional = QS__BIT(3),
                                  .written = QS__BIT(1) | QS__BIT(2),
                                  .reference = forward,
                                  .flops = flops,
                                  .check = check}};

static const char *const cases[] = {"sgd/forward src=fp32[4096] weights=fp32[4096] momentum=fp32[4096] value=0.9 value2=0.0005",
                                    "sgd/forward src=fp32[77] weights=fp32[77] momentum=fp32[77] flag=fp32[1] value=0.9 value2=0.0005",
                                    "sgd/forward src=fp32[33] weights=fp32[33] momentum=fp32[33]", NULL};

const qs_op qs__op_sgd = {.name = "sgd", .kind = QS_AUXILIARY, .passes = 1, .pass = passes, .cases = cases};
