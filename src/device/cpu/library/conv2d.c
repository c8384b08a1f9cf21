// SPDX-License-Identifier: Apache-2.0
/* Convolution by oneDNN: forward, input gradient and weight gradient. Weights change every step, so each run packs them into scratch.
 * Two families: activations used as they lie (channels-last), or repacked into the library's own blocks. */
#include "cpu/cpu.h"
#include "cpu/library/gemm.h"
#include "cpu/integer/shift_groups.h"

#include <string.h>

/* A linear operator is a 1 × 1 convolution of one image, 1 wide: its rows are the pixels, the memory is the same. */
static qs_shape image(const qs_case *one, qs_role role) {
    qs_shape shape = qs__case_operand(one, role)->shape;
    if (shape.axes == 4) return shape;
    bool weights = role == QS_WEIGHTS || role == QS_DIFF_WEIGHTS;
    return weights ? qs_shape_of(4, shape.dim[0], shape.dim[1], (int64_t)1, (int64_t)1)
                   : qs_shape_of(4, (int64_t)1, shape.dim[1], qs_shape_count(&shape) / shape.dim[1], (int64_t)1);
}

static qs__layout activation(const qs_case *one, qs_role role, qs__type type) {
    qs_shape shape = image(one, role);
    return qs__cpu_activation(&shape, type);
}

static qs__layout weights(const qs_case *one, qs_role role, qs__type type, bool any) {
    qs_shape shape = image(one, role);
    return qs__cpu_weights(&shape, one->attributes.groups, type, any);
}

/* What oneDNN is asked for: the layout at hand, or its own choice. */
static qs__layout asked(const qs__layout *own, bool blocked) {
    return blocked ? qs__layout_of(own->axes, own->extent, own->type, NULL) : *own;
}

static qs__work_request request_of(const qs_case *one, qs__work_kind kind, const qs__layout *src, const qs__layout *weights,
                                   const qs__layout *bias, const qs__layout *dst) {
    const qs_attributes *with = &one->attributes;
    return (qs__work_request){.kind = kind,
                              .src = src,
                              .weights = weights,
                              .bias = bias,
                              .dst = dst,
                              .step = {with->stride[0], with->stride[1]},
                              .gap = {with->dilation[0] - 1, with->dilation[1] - 1},
                              .padding = {with->padding[0], with->padding[1]},
                              .padding_behind = {with->padding[0] + with->padding_more[0], with->padding[1] + with->padding_more[1]}};
}

/* A slot that holds an operand as the planned work asks for it. */
static qs_status given_slot(qs__chain *chain, int from, qs__argument argument, int *slot) {
    const qs__layout wanted = qs__chain_layout(chain, argument);
    return qs__chain_as(chain, from, &wanted, slot);
}

static qs_status given(qs__chain *chain, qs_role role, const qs__layout *own, qs__argument argument, int *slot) {
    return given_slot(chain, qs__chain_operand(chain, role, own), argument, slot);
}

/* oneDNN 2.6.3 gives wrong sums for 8-bit channels that stand alone under avx2_vnni, where they are no multiple of 8. */
static qs_status trap_check(const qs__chain *chain, const qs__gemm_types *types) {
    const bool alone = chain->one.attributes.groups > 1 && qs__case_operand(&chain->one, QS_WEIGHTS)->shape.dim[1] == 1;
    if (types->operands != QS__INT8 || !alone || qs__library_has("avx512_core_vnni")) return QS_OK;
    return qs_fail(QS_UNSUPPORTED, "oneDNN's depthwise convolutions of 8-bit integers need avx512_core_vnni to be exact");
}

static qs_status forward(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    qs__gemm_types types;
    QS_TRY(qs__gemm_forward_types(chain, &types));
    QS_TRY(trap_check(chain, &types));
    const qs__layout src = activation(one, QS_SRC, types.operands), dst = activation(one, QS_DST, types.dst);
    const qs__layout plain = weights(one, QS_WEIGHTS, types.operands, false), any = weights(one, QS_WEIGHTS, types.operands, true);
    const qs__layout bias = qs__cpu_vector(dst.extent[1]), asked_src = asked(&src, blocked), asked_dst = asked(&dst, blocked);
    qs__gemm_epilogue epilogue;
    QS_TRY(qs__gemm_epilogue_start(chain, &types, 4, &epilogue));
    QS_TRY(qs__gemm_epilogue_plan(chain, &epilogue,
                                  request_of(one, QS__CONVOLUTION, &asked_src, &any, types.bias_inside ? &bias : NULL, &asked_dst)));
    int src_slot, weights_slot;
    QS_TRY(given_slot(chain, qs__shift_groups_left(chain, &src), QS__ARGUMENT_SRC, &src_slot));
    QS_TRY(given_slot(chain, qs__shift_groups_right(chain, &plain), QS__ARGUMENT_WEIGHTS, &weights_slot));
    const qs__layout written = qs__chain_layout(chain, QS__ARGUMENT_DST);
    const int dst_slot = qs__gemm_result(chain, QS_DST, &types, &dst, &written);
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, src_slot);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, weights_slot);
    qs__chain_bind(chain, QS__ARGUMENT_DST, dst_slot);
    if (types.bias_inside) qs__chain_bind(chain, QS__ARGUMENT_BIAS, qs__chain_operand(chain, QS_BIAS, &bias));
    return qs__gemm_epilogue_finish(chain, &types, &epilogue);
}

/* oneDNN has no integer gradients, but with stride 1 the gradient is a forward convolution with the weights turned around. */
static qs_status turned_gradient(qs__chain *chain, const qs__gemm_types *types) {
    const qs_case *one = &chain->one;
    const qs_attributes *with = &one->attributes;
    const qs_shape shape = image(one, QS_WEIGHTS), turned = qs_shape_of(4, shape.dim[1], shape.dim[0], shape.dim[2], shape.dim[3]);
    int64_t padding[2], behind[2];
    for (int axis = 0; axis < 2; axis++) {
        const int64_t reach = (shape.dim[2 + axis] - 1) * with->dilation[axis];
        padding[axis] = reach - with->padding[axis];
        behind[axis] = padding[axis] - with->padding_more[axis];
    }
    const bool fits = padding[0] >= 0 && padding[1] >= 0 && behind[0] >= 0 && behind[1] >= 0;
    if (with->stride[0] > 1 || with->stride[1] > 1 || with->groups > 1 || !fits)
        return qs_fail(QS_UNSUPPORTED, "integer input gradients of oneDNN are for stride 1, one group and padding below the kernel");
    const qs__layout diff_dst = activation(one, QS_DIFF_DST, types->operands), diff_src = activation(one, QS_DIFF_SRC, types->dst);
    const qs__layout plain = qs__cpu_weights(&turned, 1, types->operands, false), any = qs__cpu_weights(&turned, 1, types->operands, true);
    qs__work_request request = request_of(one, QS__CONVOLUTION, &diff_dst, &any, NULL, &diff_src);
    memcpy(request.padding, padding, sizeof padding);
    memcpy(request.padding_behind, behind, sizeof behind);
    qs__gemm_epilogue epilogue;
    QS_TRY(qs__gemm_epilogue_start(chain, types, 4, &epilogue));
    QS_TRY(qs__gemm_epilogue_plan(chain, &epilogue, request));
    int left, right;
    QS_TRY(given_slot(chain, qs__shift_groups_left(chain, &diff_dst), QS__ARGUMENT_SRC, &left));
    QS_TRY(given_slot(chain, qs__shift_groups_turned(chain, &plain), QS__ARGUMENT_WEIGHTS, &right));
    const qs__layout written = qs__chain_layout(chain, QS__ARGUMENT_DST);
    const int result = qs__gemm_result(chain, QS_DIFF_SRC, types, &diff_src, &written);
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, left);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, right);
    qs__chain_bind(chain, QS__ARGUMENT_DST, result);
    return qs__gemm_epilogue_finish(chain, types, &epilogue);
}

static qs_status input_gradient(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_WEIGHTS, QS_DIFF_DST, QS_DIFF_SRC, &types));
    if (types.operands == QS__INT8) return turned_gradient(chain, &types);
    const qs__layout diff_dst = activation(one, QS_DIFF_DST, types.operands), diff_src = activation(one, QS_DIFF_SRC, types.dst);
    const qs__layout plain = weights(one, QS_WEIGHTS, types.operands, false), any = weights(one, QS_WEIGHTS, types.operands, true);
    const qs__layout asked_src = asked(&diff_src, blocked), asked_dst = asked(&diff_dst, blocked);
    const qs__work_request request = request_of(one, QS__CONVOLUTION_INPUT_GRADIENT, &asked_src, &any, NULL, &asked_dst);
    QS_TRY(qs__chain_plan(chain, &request));
    int dst_slot, weights_slot;
    QS_TRY(given(chain, QS_DIFF_DST, &diff_dst, QS__ARGUMENT_DST, &dst_slot));
    QS_TRY(given(chain, QS_WEIGHTS, &plain, QS__ARGUMENT_WEIGHTS, &weights_slot));
    const qs__layout written = qs__chain_layout(chain, QS__ARGUMENT_SRC);
    const int src_slot = qs__gemm_result(chain, QS_DIFF_SRC, &types, &diff_src, &written);
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_DST, dst_slot);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, weights_slot);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, src_slot);
    return qs__gemm_finish(chain, &types);
}

static qs_status weight_gradient(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS, &types));
    const qs__layout src = activation(one, QS_SRC, types.operands), diff_dst = activation(one, QS_DIFF_DST, types.operands);
    const qs__layout plain = weights(one, QS_DIFF_WEIGHTS, QS__FP32, false), any = weights(one, QS_DIFF_WEIGHTS, QS__FP32, true);
    const qs__layout bias = qs__cpu_vector(diff_dst.extent[1]), asked_src = asked(&src, blocked), asked_dst = asked(&diff_dst, blocked);
    const bool with_bias = qs__case_has(one, QS_DIFF_BIAS);
    const qs__work_request request =
        request_of(one, QS__CONVOLUTION_WEIGHT_GRADIENT, &asked_src, &any, with_bias ? &bias : NULL, &asked_dst);
    QS_TRY(qs__chain_plan(chain, &request));
    int src_slot, dst_slot;
    QS_TRY(given(chain, QS_SRC, &src, QS__ARGUMENT_SRC, &src_slot));
    QS_TRY(given(chain, QS_DIFF_DST, &diff_dst, QS__ARGUMENT_DST, &dst_slot));
    const qs__layout written = qs__chain_layout(chain, QS__ARGUMENT_WEIGHTS);
    const int weights_slot = qs__chain_result(chain, QS_DIFF_WEIGHTS, &plain, &written);
    qs__chain_place(chain);
    qs__chain_bind(chain, QS__ARGUMENT_SRC, src_slot);
    qs__chain_bind(chain, QS__ARGUMENT_DST, dst_slot);
    qs__chain_bind(chain, QS__ARGUMENT_WEIGHTS, weights_slot);
    if (with_bias) qs__chain_bind(chain, QS__ARGUMENT_BIAS, qs__chain_operand(chain, QS_DIFF_BIAS, &bias));
    return qs__chain_finish(chain);
}

static qs_status build(qs__chain *chain, bool blocked) {
    switch (qs__case_pass(&chain->one)) {
    case QS__FORWARD:
        return forward(chain, blocked);
    case QS__INPUT_GRADIENT:
        return input_gradient(chain, blocked);
    default:
        return weight_gradient(chain, blocked);
    }
}

/* The library's name of a kernel does not tell how it is used. */
static qs_status build_named(qs__chain *chain, bool blocked, const char *use) {
    QS_TRY(build(chain, blocked));
    const size_t used = strlen(chain->name);
    snprintf(chain->name + used, sizeof chain->name - used, ":%s", use);
    return QS_OK;
}

qs_status qs__build_conv2d_channels_last(qs__chain *chain) {
    return build(chain, false);
}

/* Where matmul has only allocating kernels (below AVX-512). Codes are ours there: measured on Zen 5 under avx2_vnni, our own product takes
 * half of this one's time where inputs or outputs are no multiple of 8, and as much where they are. */
qs_status qs__build_linear_as_convolution(qs__chain *chain) {
    const bool forward = qs__case_pass(&chain->one) == QS__FORWARD;
    chain->behind = qs__cpu_type(qs__case_format(&chain->one, forward ? QS_SRC : QS_DIFF_DST)) == QS__INT8;
    return build_named(chain, false, "convolution");
}

qs_status qs__build_conv2d_blocked(qs__chain *chain) {
    return build_named(chain, true, "blocked");
}
