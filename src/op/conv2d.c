// SPDX-License-Identifier: Apache-2.0
/* conv2d: two-dimensional convolution (cross-correlation) with stride, dilation, zero padding and groups. */
#include "internal.h"

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    char text[96];
    if (src->axes != 4) return qs_fail(QS_USAGE, "conv2d: input %s needs the axes N,C,H,W", qs_shape_text(src, text));
    int64_t groups = with->groups ? with->groups : 1, height, width;
    if (outputs < 1) return qs_fail(QS_USAGE, "conv2d: %lld output channels: at least 1", (long long)outputs);
    if (groups < 1 || src->dim[1] % groups != 0 || outputs % groups != 0) {
        return qs_fail(QS_USAGE, "conv2d: %lld groups must divide %lld input and %lld output channels", (long long)groups,
                       (long long)src->dim[1], (long long)outputs);
    }
    QS_TRY(qs_fail_within(qs__window(with, 0, src->dim[2], &height), "conv2d"));
    QS_TRY(qs_fail_within(qs__window(with, 1, src->dim[3], &width), "conv2d"));
    const qs_shape weights = qs_shape_of(4, outputs, src->dim[1] / groups, with->kernel[0], with->kernel[1]);
    QS_TRY(qs_shape_check(&weights, "conv2d weights"));
    qs_shape result = qs_shape_of(4, src->dim[0], outputs, height, width);
    QS_TRY(qs_shape_check(&result, "conv2d output"));
    *dst = result;
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    int groups = with->groups ? with->groups : 1;
    qs_shape shape = qs_shape_of(4, outputs, src->dim[1] / groups, with->kernel[0], with->kernel[1]);
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, shape, 0, shape.dim[1] * shape.dim[2] * shape.dim[3]};
    if (bias) out[1] = (qs_parameter_rule){"bias", QS_BIAS, QS_DIFF_BIAS, qs_shape_of(1, outputs), 0, 0};
    return bias ? 2 : 1;
}

/* One layer in all its passes: S, W, D are the shapes of src, weights, dst, O their output channels, A the attributes. */
#define LAYER(F, S, W, D, O, A)                                                   \
    "conv2d/forward src=" F S " weights=" F W " bias=fp32[" O "] dst=" F D A,     \
        "conv2d/input_gradient weights=" F W " diff_dst=" F D " diff_src=" F S A, \
        "conv2d/weight_gradient src=" F S " diff_dst=" F D " diff_weights=fp32" W " diff_bias=fp32[" O "]" A
/* An integer layer with steps of the weights [K], result in format F. */
#define INTEGER(F, S, W, D, K, A) "conv2d/forward src=int8" S " src_step=fp32[1] weights=int8" W " weights_step=fp32[" K "] dst=" F D A
/* Odd sizes, channels of no multiple of 16, pixels that no window covers, maps of one pixel. */
#define DEPTHWISE(F)                                                                                              \
    LAYER(F, "[2,32,6,6]", "[32,1,3,3]", "[2,32,6,6]", "32", " kernel=3x3 padding=1x1 groups=32"),                \
        LAYER(F, "[1,21,7,5]", "[21,1,3,3]", "[1,21,7,5]", "21", " kernel=3x3 padding=1x1 groups=21"),            \
        LAYER(F, "[1,37,9,6]", "[37,1,3,3]", "[1,37,5,3]", "37", " kernel=3x3 stride=2x2 padding=1x1 groups=37"), \
        LAYER(F, "[2,24,6,8]", "[24,1,3,3]", "[2,24,2,3]", "24", " kernel=3x3 stride=2x2 groups=24"),             \
        LAYER(F, "[3,16,1,1]", "[16,1,3,3]", "[3,16,1,1]", "16", " kernel=3x3 padding=1x1 groups=16"),            \
        LAYER(F, "[1,19,4,5]", "[19,1,3,3]", "[1,19,6,5]", "19", " kernel=3x3 padding=2x1 groups=19"),            \
        LAYER(F, "[1,19,4,5]", "[19,1,3,3]", "[1,19,2,4]", "19", " kernel=3x3 stride=2x2 padding=1x2 groups=19")
#define EVERY(F)                                                                                                                \
    LAYER(F, "[2,3,9,9]", "[16,3,3,3]", "[2,16,9,9]", "16", " kernel=3x3 padding=1x1"),                                         \
        LAYER(F, "[4,32,8,8]", "[32,32,3,3]", "[4,32,8,8]", "32", " kernel=3x3 padding=1x1"),                                   \
        LAYER(F, "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding=1x1"),                        \
        LAYER(F, "[2,16,8,8]", "[32,16,1,1]", "[2,32,4,4]", "32", " kernel=1x1 stride=2x2"),                                    \
        LAYER(F, "[1,64,5,5]", "[16,64,1,1]", "[1,16,5,5]", "16", " kernel=1x1"),                                               \
        LAYER(F, "[1,5,7,9]", "[7,5,3,3]", "[1,7,4,5]", "7", " kernel=3x3 stride=2x2 padding=1x1"),                             \
        LAYER(F, "[2,16,6,6]", "[24,8,3,3]", "[2,24,6,6]", "24", " kernel=3x3 padding=1x1 groups=2"),                           \
        LAYER(F, "[2,16,7,7]", "[16,1,3,3]", "[2,16,4,4]", "16", " kernel=3x3 stride=2x2 padding=1x1 groups=16"), DEPTHWISE(F), \
        LAYER(F, "[1,3,20,20]", "[16,3,7,7]", "[1,16,10,10]", "16", " kernel=7x7 stride=2x2 padding=3x3")

/* Dilation with and without stride, also where no result meets some pixels; padding that is not alike on both sides, and less behind than
 * before, as the input gradient of a stride with a rest has it. */
#define UNEVEN(F)                                                                                                        \
    LAYER(F, "[2,32,9,8]", "[16,32,3,3]", "[2,16,9,8]", "16", " kernel=3x3 dilation=2x2 padding=2x2"),                   \
        LAYER(F, "[2,16,11,9]", "[32,16,3,3]", "[2,32,5,3]", "32", " kernel=3x3 stride=2x3 dilation=2x2 padding=1x2"),   \
        LAYER(F, "[1,16,10,9]", "[16,16,3,2]", "[1,16,3,4]", "16", " kernel=3x2 stride=2x2 dilation=3x1 padding=1x0"),   \
        LAYER(F, "[1,20,9,10]", "[12,10,3,3]", "[1,12,9,8]", "12", " kernel=3x3 dilation=1x3 padding=1x2 groups=2"),     \
        LAYER(F, "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding_more=1x1"),            \
        LAYER(F, "[2,32,7,6]", "[16,32,3,3]", "[2,16,7,6]", "16", " kernel=3x3 padding=0x2 padding_more=2x-2"),          \
        LAYER(F, "[2,16,6,5]", "[8,16,1,1]", "[2,8,7,5]", "8", " kernel=1x1 padding_more=1x0"),                          \
        LAYER(F, "[2,16,8,8]", "[8,16,3,3]", "[2,8,4,3]", "8", " kernel=3x3 stride=2x2 padding=1x1 padding_more=-1x-2"), \
        LAYER(F, "[2,32,8,8]", "[32,1,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding_more=1x1 groups=32"),   \
        LAYER(F, "[2,21,6,7]", "[21,1,3,3]", "[2,21,6,7]", "21", " kernel=3x3 padding=0x1 padding_more=2x0 groups=21"),  \
        LAYER(F, "[2,32,7,8]", "[32,1,3,3]", "[2,32,7,8]", "32", " kernel=3x3 dilation=2x2 padding=2x2 groups=32")

/* The same of codes, in all passes; weights have W, their steps of input channels I. */
#define UNEVEN_CODES(T, F, S, W, D, O, I, A)                                                                                     \
    "conv2d/forward src=" T S " src_step=fp32[1] weights=" T W " weights_step=fp32[" O "] bias=fp32[" O "] dst=" F D A,          \
        "conv2d/input_gradient weights=" T W " weights_step=fp32[" I "] diff_dst=" T D " diff_dst_step=fp32[1] diff_src=" F S A, \
        "conv2d/weight_gradient src=" T S " src_step=fp32[1] diff_dst=" T D " diff_dst_step=fp32[1] diff_weights=fp32" W         \
        " diff_bias=fp32[" O "]" A

/* Gradients of a depthwise layer of codes. */
#define DEPTHWISE_CODES(F, C, S, D, A)                                                                                               \
    "conv2d/input_gradient weights=int8[" C ",1,3,3] weights_step=fp32[1] diff_dst=int8" D " diff_dst_step=fp32[1] diff_src=" F S A, \
        "conv2d/weight_gradient src=int8" S " src_step=fp32[1] diff_dst=int8" D " diff_dst_step=fp32[1] diff_weights=fp32[" C ",1,3,3]" A

static const char *const cases[] = {
    EVERY("fp32"),
    EVERY("bf16"),
    UNEVEN("fp32"),
    UNEVEN("bf16"),
    LAYER("fp16", "[2,16,9,8]", "[8,16,3,3]", "[2,8,5,3]", "8", " kernel=3x3 stride=2x2 dilation=1x2 padding=0x1 padding_more=2x0"),
    LAYER("fp32", "[2,1,12,12]", "[6,1,5,5]", "[2,6,8,8]", "6", " kernel=5x5"),
    LAYER("fp32", "[1,3,31,31]", "[8,3,11,11]", "[1,8,7,7]", "8", " kernel=11x11 stride=4x4 padding=2x2"),
    LAYER("fp32", "[1,8,6,5]", "[8,8,3,1]", "[1,8,6,5]", "8", " kernel=3x1 padding=1x0"),
    LAYER("fp16", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding=1x1"),
    LAYER("tf32", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding=1x1"),
    "conv2d/forward src=fp32[2,16,8,8] weights=fp32[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/forward src=bf16[2,16,8,8] weights=bf16[16,16,3,3] dst=fp32[2,16,8,8] kernel=3x3 padding=1x1",
    "conv2d/weight_gradient src=bf16[2,16,8,8] diff_dst=bf16[2,16,8,8] diff_weights=fp32[16,16,3,3] kernel=3x3 padding=1x1",
    "conv2d/forward src=int8[2,16,8,8] src_step=fp32[1] weights=int8[16,16,3,3] weights_step=fp32[16] bias=fp32[16] dst=bf16[2,16,8,8] "
    "kernel=3x3 padding=1x1",
    INTEGER("fp32", "[2,3,9,9]", "[16,3,3,3]", "[2,16,9,9]", "1", " kernel=3x3 padding=1x1"),
    INTEGER("bf16", "[4,32,8,8]", "[32,32,3,3]", "[4,32,8,8]", "1", " kernel=3x3 padding=1x1"),
    INTEGER("bf16", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", " kernel=3x3 stride=2x2 padding=1x1"),
    INTEGER("fp32", "[2,16,8,8]", "[32,16,1,1]", "[2,32,4,4]", "32", " kernel=1x1 stride=2x2"),
    INTEGER("fp32", "[1,5,7,9]", "[7,5,3,3]", "[1,7,4,5]", "7", " kernel=3x3 stride=2x2 padding=1x1"),
    INTEGER("fp32", "[2,16,6,6]", "[24,8,3,3]", "[2,24,6,6]", "24", " kernel=3x3 padding=1x1 groups=2"),
    INTEGER("bf16", "[2,16,7,7]", "[16,1,3,3]", "[2,16,4,4]", "16", " kernel=3x3 stride=2x2 padding=1x1 groups=16"),
    INTEGER("bf16", "[2,32,6,6]", "[32,1,3,3]", "[2,32,6,6]", "32", " kernel=3x3 padding=1x1 groups=32"),
    INTEGER("fp32", "[1,21,7,5]", "[21,1,3,3]", "[1,21,7,5]", "1", " kernel=3x3 padding=1x1 groups=21"),
    INTEGER("bf16", "[1,37,9,6]", "[37,1,3,3]", "[1,37,5,3]", "37", " kernel=3x3 stride=2x2 padding=1x1 groups=37"),
    "conv2d/forward src=int8[3,24,5,5] src_step=fp32[1] weights=int8[24,1,3,3] weights_step=fp32[24] bias=fp32[24] dst=fp32[3,24,5,5] "
    "kernel=3x3 padding=1x1 groups=24",
    DEPTHWISE_CODES("bf16", "21", "[2,21,7,5]", "[2,21,7,5]", " kernel=3x3 padding=1x1 groups=21"),
    DEPTHWISE_CODES("fp32", "32", "[2,32,6,6]", "[2,32,6,6]", " kernel=3x3 padding=1x1 groups=32"),
    DEPTHWISE_CODES("bf16", "37", "[1,37,9,6]", "[1,37,5,3]", " kernel=3x3 stride=2x2 padding=1x1 groups=37"),
    DEPTHWISE_CODES("fp32", "24", "[2,24,6,8]", "[2,24,2,3]", " kernel=3x3 stride=2x2 groups=24"),
    DEPTHWISE_CODES("fp32", "16", "[3,16,1,1]", "[3,16,1,1]", " kernel=3x3 padding=1x1 groups=16"),
    DEPTHWISE_CODES("fp32", "19", "[1,19,4,5]", "[1,19,2,4]", " kernel=3x3 stride=2x2 padding=1x2 groups=19"),
    UNEVEN_CODES("int8", "bf16", "[2,16,9,8]", "[24,16,3,3]", "[2,24,9,8]", "24", "16", " kernel=3x3 dilation=2x2 padding=2x2"),
    UNEVEN_CODES("int8", "fp32", "[2,8,11,9]", "[16,8,3,3]", "[2,16,5,3]", "16", "8", " kernel=3x3 stride=2x3 dilation=2x2 padding=1x2"),
    UNEVEN_CODES("int4", "fp32", "[1,16,10,9]", "[16,16,3,2]", "[1,16,3,4]", "16", "16", " kernel=3x2 stride=2x2 dilation=3x1 padding=1x0"),
    UNEVEN_CODES("int8", "bf16", "[2,16,8,8]", "[32,16,3,3]", "[2,32,4,4]", "32", "16", " kernel=3x3 stride=2x2 padding_more=1x1"),
    UNEVEN_CODES("int8", "fp32", "[2,16,7,6]", "[16,16,3,3]", "[2,16,7,6]", "16", "16", " kernel=3x3 padding=0x2 padding_more=2x-2"),
    UNEVEN_CODES("int8", "fp32", "[2,16,6,5]", "[8,16,1,1]", "[2,8,7,5]", "8", "16", " kernel=1x1 padding_more=1x0"),
    UNEVEN_CODES("int8", "bf16", "[2,32,8,8]", "[32,1,3,3]", "[2,32,4,4]", "32", "1", " kernel=3x3 stride=2x2 padding_more=1x1 groups=32"),
    UNEVEN_CODES("int8", "fp32", "[2,21,6,7]", "[21,1,3,3]", "[2,21,6,7]", "21", "1", " kernel=3x3 padding=0x1 padding_more=2x0 groups=21"),
    "conv2d/weight_gradient src=int4[2,21,7,5] src_step=fp32[1] src_group=int8[21] diff_dst=int4[2,21,7,5] diff_dst_step=fp32[1] "
    "diff_dst_group=int8[21] diff_weights=fp32[21,1,3,3] kernel=3x3 padding=1x1 groups=21",
    "conv2d/weight_gradient src=int4[4,16,6,6] src_step=fp32[1] diff_dst=int4[4,8,3,3] diff_dst_step=fp32[1] diff_weights=fp32[8,16,3,3] "
    "diff_bias=fp32[8] kernel=3x3 stride=2x2 padding=1x1 hadamard=4",
    NULL};

const qs_op qs__op_conv2d = {.name = "conv2d",
                             .takes = QS_TAKES_WINDOW | QS_TAKES_GROUPS | QS_TAKES_OUTPUTS | QS_TAKES_BIAS,
                             .kind = QS_ADJUSTABLE,
                             .inputs = 1,
                             .infer = infer,
                             .parameters = parameters,
                             .passes = QS__GEMM_PASSES,
                             .pass = qs__gemm_passes,
                             .cases = cases};
