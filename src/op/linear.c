// SPDX-License-Identifier: Apache-2.0
/* linear: dst = src · weightsᵀ + bias on matrices; a convolution of 1 × 1 images. Of a sequence [N,I,L] every position is a row: memory is
 * N,L,I, a matrix of N·L rows. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    char text[96];
    if (with->kernel[0] || with->kernel[1] || with->padding[0] || with->padding[1] || with->padding_more[0] || with->padding_more[1] ||
        with->dilation[0] > 1 || with->dilation[1] > 1 || with->groups > 1) {
        return qs_fail(QS_USAGE, "linear: kernel, padding, dilation and groups have no meaning here");
    }
    if (src->axes != 2 && src->axes != 3) {
        return qs_fail(QS_USAGE, "linear: input %s needs the axes N,C or N,C,L: put a flatten before it", qs_shape_text(src, text));
    }
    if (outputs < 1) return qs_fail(QS_USAGE, "linear: %lld output features: at least 1", (long long)outputs);
    qs_shape result = *src;
    result.dim[1] = outputs;
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

/* A layer [N, I] -> [N, O] in all its passes, in format F. */
#define LAYER(F, N, I, O)                                                                                           \
    "linear/forward src=" F "[" N "," I "] weights=" F "[" O "," I "] bias=fp32[" O "] dst=" F "[" N "," O "]",     \
        "linear/input_gradient weights=" F "[" O "," I "] diff_dst=" F "[" N "," O "] diff_src=" F "[" N "," I "]", \
        "linear/weight_gradient src=" F "[" N "," I "] diff_dst=" F "[" N "," O "] diff_weights=fp32[" O "," I "] diff_bias=fp32[" O "]"
/* The same on N sequences of L positions. */
#define POSITIONS(F, N, I, O, L)                                                                                                \
    "linear/forward src=" F "[" N "," I "," L "] weights=" F "[" O "," I "] bias=fp32[" O "] dst=" F "[" N "," O "," L "]",     \
        "linear/input_gradient weights=" F "[" O "," I "] diff_dst=" F "[" N "," O "," L "] diff_src=" F "[" N "," I "," L "]", \
        "linear/weight_gradient src=" F "[" N "," I "," L "] diff_dst=" F "[" N "," O "," L "] diff_weights=fp32[" O "," I      \
        "] diff_bias=fp32[" O "]"
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
    LAYER("tf32", "8", "64", "10"),
    LAYER("tf32", "7", "33", "5"),
    "linear/forward src=fp32[4,20] weights=fp32[12,20] dst=fp32[4,12]",
    "linear/forward src=bf16[4,20] weights=bf16[12,20] dst=fp32[4,12]",
    "linear/weight_gradient src=bf16[4,20] diff_dst=bf16[4,12] diff_weights=fp32[12,20]",
    "linear/forward src=int8[8,64] src_step=fp32[1] weights=int8[10,64] weights_step=fp32[10] bias=fp32[10] dst=fp32[8,10]",
    INTEGER("fp32", "8", "64", "10", "1"),
    INTEGER("bf16", "16", "128", "96", "96"),
    INTEGER("bf16", "1", "33", "7", "7"),
    "linear/weight_gradient src=int4[32,20] src_step=fp32[1] diff_dst=int4[32,12] diff_dst_step=fp32[1] diff_weights=fp32[12,20] "
    "diff_bias=fp32[12] hadamard=16",
    POSITIONS("fp32", "2", "32", "24", "7"),
    POSITIONS("fp32", "3", "5", "9", "1"),
    POSITIONS("bf16", "2", "32", "24", "7"),
    POSITIONS("bf16", "1", "33", "7", "19"),
    POSITIONS("fp16", "2", "16", "8", "5"),
    POSITIONS("tf32", "2", "16", "8", "5"),
    "linear/forward src=int8[2,64,5] src_step=fp32[1] weights=int8[24,64] weights_step=fp32[24] bias=fp32[24] dst=bf16[2,24,5]",
    "linear/forward src=int8[3,33,2] src_step=fp32[1] weights=int8[7,33] weights_step=fp32[1] dst=fp32[3,7,2]",
    "linear/forward src=int4[2,20,5] src_step=fp32[1] src_group=int8[20] weights=int4[12,20] weights_step=fp32[12] bias=fp32[12] "
    "dst=fp32[2,12,5] shifts=4",
    "linear/input_gradient weights=int4[12,20] weights_step=fp32[1] diff_dst=int4[2,12,5] diff_dst_step=fp32[1] diff_dst_group=int8[12] "
    "diff_src=fp32[2,20,5] shifts=4",
    "linear/weight_gradient src=int4[2,20,5] src_step=fp32[1] src_group=int8[20] diff_dst=int4[2,12,5] diff_dst_step=fp32[1] "
    "diff_dst_group=int8[12] diff_weights=fp32[12,20] diff_bias=fp32[12]",
    "linear/weight_gradient src=int4[4,20,3] src_step=fp32[1] diff_dst=int4[4,12,3] diff_dst_step=fp32[1] diff_weights=fp32[12,20] "
    "diff_bias=fp32[12] hadamard=4",
    NULL};

const qs_op qs__op_linear = {.name = "linear",
                             .takes = QS_TAKES_OUTPUTS | QS_TAKES_BIAS,
                             .kind = QS_ADJUSTABLE,
                             .decoding = QS_ONE_POSITION,
                             .inputs = 1,
                             .infer = infer,
                             .parameters = parameters,
                             .passes = QS__GEMM_PASSES,
                             .pass = qs__gemm_passes,
                             .cases = cases};
