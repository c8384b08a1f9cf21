// SPDX-License-Identifier: Apache-2.0
/* linear: dst = src · weightsᵀ + bias on matrices; a convolution of 1 × 1 images. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with;
    char text[96];
    if (src->axes != 2) {
        return qs_fail(QS_USAGE, "linear: input %s needs the axes N,C: put a flatten before it", qs_shape_text(src, text));
    }
    if (outputs < 1) return qs_fail(QS_USAGE, "linear: %lld output features: at least 1", (long long)outputs);
    qs_shape result = qs_shape_of(2, src->dim[0], outputs);
    QS_TRY(qs_shape_check(&result, "linear output"));
    *dst = result;
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with;
    qs_shape shape = qs_shape_of(2, outputs, src->dim[1]);
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, shape, 0, src->dim[1]};
    if (bias) out[1] = (qs_parameter_rule){"bias", QS_BIAS, QS_DIFF_BIAS, qs_shape_of(1, outputs), 0, 0};
    return bias ? 2 : 1;
}

static qs_status check_shapes(const qs_case *one, qs_role src, qs_role weights, qs_role dst) {
    const qs_attributes *with = &one->attributes;
    if (with->kernel[0] || with->kernel[1] || with->padding[0] || with->padding[1] || with->groups != 1) {
        return qs__refuse(one, "kernel, padding and groups have no meaning here");
    }
    QS_TRY(qs__need_axes(one, src, 2, 2));
    QS_TRY(qs__need_axes(one, dst, 2, 2));
    int64_t outputs = qs__shape(one, dst)->dim[1];
    QS_TRY(qs__need_inferred(one, src, outputs, dst));
    return qs__need_shape(one, weights, qs_shape_of(2, outputs, qs__shape(one, src)->dim[1]));
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(check_shapes(one, QS_SRC, QS_WEIGHTS, QS_DST));
    return qs__gemm_check_forward(one, qs__shape(one, QS_DST)->dim[1]);
}

static qs_status check_input_gradient(const qs_case *one) {
    return check_shapes(one, QS_DIFF_SRC, QS_WEIGHTS, QS_DIFF_DST);
}

static qs_status check_weight_gradient(const qs_case *one) {
    QS_TRY(check_shapes(one, QS_SRC, QS_DIFF_WEIGHTS, QS_DIFF_DST));
    return qs__need_shape(one, QS_DIFF_BIAS, qs_shape_of(1, qs__shape(one, QS_DIFF_DST)->dim[1]));
}

static const qs_pass passes[] = {
    {.name = "forward",
     .roles = 6,
     .role = {QS_SRC, QS_SRC_STEP, QS_WEIGHTS, QS_WEIGHTS_STEP, QS_BIAS, QS_DST},
     .optional = QS__BIT(1) | QS__BIT(3) | QS__BIT(4),
     .written = QS__BIT(5),
     .integer = QS__BIT(0) | QS__BIT(2),
     .reference = qs__gemm_forward,
     .flops = qs__gemm_flops,
     .check = check_forward},
    {.name = "input_gradient",
     .roles = 3,
     .role = {QS_WEIGHTS, QS_DIFF_DST, QS_DIFF_SRC},
     .written = QS__BIT(2),
     .reference = qs__gemm_input_gradient,
     .flops = qs__gemm_flops,
     .check = check_input_gradient},
    {.name = "weight_gradient",
     .roles = 4,
     .role = {QS_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS, QS_DIFF_BIAS},
     .optional = QS__BIT(3),
     .written = QS__BIT(2) | QS__BIT(3),
     .reference = qs__gemm_weight_gradient,
     .flops = qs__gemm_flops,
     .check = check_weight_gradient},
};

/* A layer [N, I] -> [N, O] in all its passes, in format F. */
#define LAYER(F, N, I, O)                                                                                           \
    "linear/forward src=" F "[" N "," I "] weights=" F "[" O "," I "] bias=fp32[" O "] dst=" F "[" N "," O "]",     \
        "linear/input_gradient weights=" F "[" O "," I "] diff_dst=" F "[" N "," O "] diff_src=" F "[" N "," I "]", \
        "linear/weight_gradient src=" F "[" N "," I "] diff_dst=" F "[" N "," O "] diff_weights=fp32[" O "," I "] diff_bias=fp32[" O "]"
#define INTEGER(F, N, I, O, K) \
    "linear/forward src=int8[" N "," I "] src_step=fp32[1] weights=int8[" O "," I "] weights_step=fp32[" K "] dst=" F "[" N "," O "]"

static const char *const cases[] = {
    LAYER("fp32", "8", "64", "10"),
    LAYER("fp32", "1", "33", "7"),
    LAYER("fp32", "16", "128", "96"),
    LAYER("fp32", "3", "1", "1"),
    LAYER("bf16", "8", "64", "10"),
    LAYER("bf16", "1", "33", "7"),
    LAYER("bf16", "16", "128", "96"),
    LAYER("fp16", "8", "64", "10"),
    "linear/forward src=fp32[4,20] weights=fp32[12,20] dst=fp32[4,12]",
    "linear/forward src=bf16[4,20] weights=bf16[12,20] dst=fp32[4,12]",
    "linear/weight_gradient src=bf16[4,20] diff_dst=bf16[4,12] diff_weights=fp32[12,20]",
    "linear/forward src=int8[8,64] src_step=fp32[1] weights=int8[10,64] weights_step=fp32[10] bias=fp32[10] dst=fp32[8,10]",
    INTEGER("fp32", "8", "64", "10", "1"),
    INTEGER("bf16", "16", "128", "96", "96"),
    INTEGER("bf16", "1", "33", "7", "7"),
    NULL};

const qs_op qs__op_linear = {.name = "linear",
                             .kind = QS_ADJUSTABLE,
                             .inputs = 1,
                             .infer = infer,
                             .parameters = parameters,
                             .saves_src = true,
                             .passes = 3,
                             .pass = passes,
                             .cases = cases};
