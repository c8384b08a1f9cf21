// SPDX-License-Identifier: Apache-2.0
/* conv_transpose: the convolution that conv2d is the other way around, from [N,I,H,W] to [N,O,(H - 1) stride + (kernel - 1) dilation + 1 -
 * padding - (padding + padding_more), ...], weights [I, O/groups, kh, kw] as PyTorch and ONNX have them. What those call output padding is
 * less `padding_more`. Every place of the input adds its channels times the filter to the results under the window that stands there: so
 * its forward pass is conv2d's input gradient, its input gradient conv2d's forward pass, and its weight gradient conv2d's with both factors
 * exchanged. It has no kernels of its own; a case of it is run as the case of conv2d that qs_case_mirror makes of it.
 *
 * Passes as conv2d, without bias (an operator behind it adds one): sums, steps and narrow accumulators are those of the pass that runs, so
 * that weights_step is [1] or [O/groups] forward and [1] or [I] in the input gradient. */
#include "internal.h"

#include <assert.h>

/* ---- The mirror ---- */

static qs_role mirrored_role(qs_role role) {
    static const qs_role pair[][2] = {
        {QS_SRC, QS_DIFF_DST}, {QS_SRC_STEP, QS_DIFF_DST_STEP}, {QS_SRC_GROUP, QS_DIFF_DST_GROUP}, {QS_DST, QS_DIFF_SRC}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        if (pair[i][0] == role || pair[i][1] == role) return pair[i][pair[i][0] == role];
    return role;
}

bool qs_case_mirror(const qs_case *one, qs_case *out, int place[QS_MAX_OPERANDS]) {
    static const qs_gemm mirrored[QS_GEMMS] = {QS_GEMM_INPUT_GRADIENT, QS_GEMM_FORWARD, QS_GEMM_WEIGHT_GRADIENT};
    static const char *const pass[QS_GEMMS] = {"forward", "input_gradient", "weight_gradient"};
    if (!one->op->mirror) return false;
    const qs_op *op = qs_op_of(one->op->mirror);
    qs_case_start(out, op, qs_op_pass(op, pass[mirrored[one->pass->product->gemm]]), &one->attributes);
    for (int i = 0; i < out->operands; i++) {
        place[i] = qs_case_position(one, mirrored_role(out->operand[i].role));
        if (place[i] < 0) continue;
        out->operand[i].shape = one->operand[place[i]].shape;
        out->operand[i].format = one->operand[place[i]].format;
    }
    return true;
}

/* ---- Shapes ---- */

static qs_status extent_infer(const qs_attributes *with, int axis, int64_t extent, int64_t *out) {
    const char *name = axis ? "width" : "height";
    const int64_t kernel = with->kernel[axis], stride = with->stride[axis] ? with->stride[axis] : 1,
                  dilation = with->dilation[axis] ? with->dilation[axis] : 1, padding = with->padding[axis];
    if (kernel < 1 || stride < 1 || dilation < 1 || padding < 0)
        return qs_fail(QS_USAGE,
                       "kernel %lld, stride %lld, padding %lld, dilation %lld along %s: kernel, stride and dilation must be positive, "
                       "padding not negative",
                       (long long)kernel, (long long)stride, (long long)padding, (long long)dilation, name);
    *out = (extent - 1) * stride + (kernel - 1) * dilation + 1 - 2 * padding - with->padding_more[axis];
    if (*out >= 1) return QS_OK;
    return qs_fail(QS_USAGE, "a %s of %lld would become %lld: use less padding, or a larger image, kernel or stride", name,
                   (long long)extent, (long long)*out);
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    char text[96];
    const int64_t groups = with->groups ? with->groups : 1;
    if (src->axes != 4) return qs_fail(QS_USAGE, "conv_transpose: input %s needs the axes N,C,H,W", qs_shape_text(src, text));
    if (outputs < 1) return qs_fail(QS_USAGE, "conv_transpose: %lld output channels: at least 1", (long long)outputs);
    if (groups < 1 || src->dim[1] % groups != 0 || outputs % groups != 0)
        return qs_fail(QS_USAGE, "conv_transpose: %lld groups must divide %lld input and %lld output channels", (long long)groups,
                       (long long)src->dim[1], (long long)outputs);
    qs_shape result = qs_shape_of(4, src->dim[0], outputs, (int64_t)1, (int64_t)1);
    for (int axis = 0; axis < 2; axis++)
        QS_TRY(qs_fail_within(extent_infer(with, axis, src->dim[axis + 2], &result.dim[axis + 2]), "conv_transpose"));
    const qs_shape weights = qs_shape_of(4, src->dim[1], outputs / groups, with->kernel[0], with->kernel[1]);
    QS_TRY(qs_shape_check(&weights, "conv_transpose weights"));
    QS_TRY(qs_shape_check(&result, "conv_transpose output"));
    *dst = result;
    return QS_OK;
}

/* A result is a sum over the places whose windows reach it: about one in stride of a window's. */
static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)bias;
    const int groups = with->groups ? with->groups : 1;
    const qs_shape shape = qs_shape_of(4, src->dim[1], outputs / groups, with->kernel[0], with->kernel[1]);
    int64_t terms = src->dim[1] / groups;
    for (int i = 0; i < 2; i++)
        terms *= (with->kernel[i] + (with->stride[i] ? with->stride[i] : 1) - 1) / (with->stride[i] ? with->stride[i] : 1);
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, shape, 0, terms};
    return 1;
}

/* ---- Passes ---- */

static qs_status check(const qs_case *one) {
    qs_case mirror;
    int place[QS_MAX_OPERANDS];
    const bool backward = qs_case_position(one, QS_DIFF_SRC) >= 0;
    const qs_role src = backward ? QS_DIFF_SRC : QS_SRC, dst = qs_case_position(one, QS_DST) >= 0 ? QS_DST : QS_DIFF_DST;
    QS_TRY(qs__need_axes(one, dst, 4, 4));
    QS_TRY(qs__need_inferred(one, src, qs__shape(one, dst)->dim[1], dst));
    const bool made = qs_case_mirror(one, &mirror, place);
    assert(made), (void)made;
    return qs_fail_within(mirror.pass->check(&mirror), "%s/%s, which is run as", one->op->name, one->pass->name);
}

static double flops(const qs_case *one) {
    qs_case mirror;
    int place[QS_MAX_OPERANDS];
    const bool made = qs_case_mirror(one, &mirror, place);
    assert(made), (void)made;
    return qs_case_flops(&mirror);
}

static qs_status reference(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    qs_case mirror;
    int place[QS_MAX_OPERANDS];
    qs_tensor as[QS_MAX_OPERANDS] = {{.data = NULL}};
    const bool made = qs_case_mirror(one, &mirror, place);
    assert(made), (void)made;
    for (int i = 0; i < mirror.operands; i++)
        if (place[i] >= 0) as[i] = operands[place[i]];
    return qs_case_reference(&mirror, as, run);
}

static const qs_pass passes[] = {
    {.name = "forward", QS__GEMM_FORWARD({.role = QS_DST, .source = QS_TO_OUTPUT}), .reference = reference, .flops = flops, .check = check},
    {.name = "input_gradient", QS__GEMM_INPUT_GRADIENT, .reference = reference, .flops = flops, .check = check},
    {.name = "weight_gradient",
     QS__GEMM_WEIGHT_GRADIENT({.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = reference,
     .flops = flops,
     .check = check},
};

/* One layer in all its passes: S, W, D are the shapes of src, weights, dst, A the attributes. */
#define LAYER(F, S, W, D, A)                                                              \
    "conv_transpose/forward src=" F S " weights=" F W " dst=" F D A,                      \
        "conv_transpose/input_gradient weights=" F W " diff_dst=" F D " diff_src=" F S A, \
        "conv_transpose/weight_gradient src=" F S " diff_dst=" F D " diff_weights=fp32" W A
/* The same of codes, result in format F; J is an output channel's share of the weights, I are input channels. */
#define CODES(T, F, S, W, D, J, I, A)                                                                                                    \
    "conv_transpose/forward src=" T S " src_step=fp32[1] weights=" T W " weights_step=fp32[" J "] dst=" F D A,                           \
        "conv_transpose/input_gradient weights=" T W " weights_step=fp32[" I "] diff_dst=" T D " diff_dst_step=fp32[1] diff_src=" F S A, \
        "conv_transpose/weight_gradient src=" T S " src_step=fp32[1] diff_dst=" T D " diff_dst_step=fp32[1] diff_weights=fp32" W A

static const char *const cases[] = {
    LAYER("fp32", "[2,16,4,4]", "[16,8,2,2]", "[2,8,8,8]", " kernel=2x2 stride=2x2"),
    LAYER("fp32", "[2,16,5,4]", "[16,32,3,3]", "[2,32,10,8]", " kernel=3x3 stride=2x2 padding=1x1 padding_more=-1x-1"),
    LAYER("fp32", "[1,5,4,5]", "[5,7,3,4]", "[1,7,6,8]", " kernel=3x4"),
    LAYER("fp32", "[2,16,6,6]", "[16,16,3,3]", "[2,16,6,6]", " kernel=3x3 padding=1x1"),
    LAYER("fp32", "[1,16,4,5]", "[16,6,3,3]", "[1,12,8,9]", " kernel=3x3 stride=1x2 dilation=2x1 padding=0x1 groups=2"),
    LAYER("fp32", "[2,32,4,4]", "[32,1,3,3]", "[2,32,9,8]", " kernel=3x3 stride=2x2 padding_more=0x1 groups=32"),
    LAYER("bf16", "[2,16,4,4]", "[16,8,2,2]", "[2,8,8,8]", " kernel=2x2 stride=2x2"),
    LAYER("bf16", "[2,32,5,4]", "[32,16,4,4]", "[2,16,10,8]", " kernel=4x4 stride=2x2 padding=1x1"),
    LAYER("fp16", "[2,16,4,4]", "[16,8,3,3]", "[2,8,9,9]", " kernel=3x3 stride=2x2"),
    CODES("int8", "bf16", "[2,16,4,4]", "[16,8,2,2]", "[2,8,8,8]", "8", "16", " kernel=2x2 stride=2x2"),
    CODES("int8", "fp32", "[2,16,5,4]", "[16,32,3,3]", "[2,32,10,8]", "32", "16", " kernel=3x3 stride=2x2 padding=1x1 padding_more=-1x-1"),
    CODES("int8", "fp32", "[1,16,4,5]", "[16,6,3,3]", "[1,12,8,9]", "6", "1", " kernel=3x3 stride=1x2 dilation=2x1 padding=0x1 groups=2"),
    CODES("int4", "fp32", "[2,16,6,6]", "[16,24,3,3]", "[2,24,6,6]", "1", "16", " kernel=3x3 padding=1x1"),
    "conv_transpose/forward src=int4[2,16,6,6] src_step=fp32[1] src_group=int8[16] weights=int4[16,8,3,3] weights_step=fp32[8] "
    "dst=fp32[2,8,6,6] kernel=3x3 padding=1x1 shifts=3",
    "conv_transpose/forward src=bf16[2,16,4,4] weights=bf16[16,8,2,2] dst=fp32[2,8,8,8] kernel=2x2 stride=2x2",
    NULL};

const qs_op qs__op_conv_transpose = {.name = "conv_transpose",
                                     .takes = QS_TAKES_WINDOW | QS_TAKES_GROUPS | QS_TAKES_OUTPUTS,
                                     .kind = QS_ADJUSTABLE,
                                     .mirror = "conv2d",
                                     .inputs = 1,
                                     .infer = infer,
                                     .parameters = parameters,
                                     .passes = 3,
                                     .pass = passes,
                                     .cases = cases};
