// SPDX-License-Identifier: Apache-2.0
/* Convolution by oneDNN: forward, input gradient and weight gradient. Weights change every step, so each run packs them into scratch.
 * Two families: activations used as they lie (channels-last), or repacked into the library's own blocks. */
#include "cpu.h"
#include "gemm.h"

#include <string.h>

typedef struct geometry {
    dnnl_dims_t strides, padding;
} geometry;

static geometry geometry_of(const qs_case *one) {
    const qs_attributes *with = &one->attributes;
    return (geometry){.strides = {with->stride[0], with->stride[1]}, .padding = {with->padding[0], with->padding[1]}};
}

/* The rows of a linear operator are the pixels of one image, N high and 1 wide, that a 1 × 1 kernel walks over: the same memory. */
static qs_shape image(const qs_case *one, qs_role role) {
    qs_shape shape = qs__cpu_operand(one, role)->shape;
    if (shape.axes == 4) return shape;
    bool weights = role == QS_WEIGHTS || role == QS_DIFF_WEIGHTS;
    return weights ? qs_shape_of(4, shape.dim[0], shape.dim[1], (int64_t)1, (int64_t)1)
                   : qs_shape_of(4, (int64_t)1, shape.dim[1], shape.dim[0], (int64_t)1);
}

static dnnl_memory_desc_t activation(const qs_case *one, qs_role role, dnnl_data_type_t type) {
    qs_shape shape = image(one, role);
    return qs__cpu_activation(&shape, type);
}

static dnnl_memory_desc_t weights(const qs_case *one, qs_role role, dnnl_data_type_t type, bool any) {
    qs_shape shape = image(one, role);
    return qs__cpu_weights(&shape, one->attributes.groups, type, any);
}

/* What oneDNN is asked for: the layout at hand, or its own choice. */
static dnnl_memory_desc_t asked(const dnnl_memory_desc_t *own, bool blocked) {
    dnnl_memory_desc_t desc = *own;
    if (blocked) dnnl_memory_desc_init_by_tag(&desc, own->ndims, own->dims, own->data_type, dnnl_format_tag_any);
    return desc;
}

static qs_status forward(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    geometry g = geometry_of(one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_forward_types(chain, &types));
    dnnl_memory_desc_t src = activation(one, QS_SRC, types.operands), dst = activation(one, QS_DST, types.dst);
    dnnl_memory_desc_t plain = weights(one, QS_WEIGHTS, types.operands, false), any = weights(one, QS_WEIGHTS, types.operands, true);
    dnnl_memory_desc_t bias = qs__cpu_vector(dst.dims[1]), asked_src = asked(&src, blocked), asked_dst = asked(&dst, blocked);
    dnnl_convolution_desc_t operation;
    QS__DNNL(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, &asked_src, &any,
                                                types.bias_inside ? &bias : NULL, &asked_dst, g.strides, g.padding, g.padding),
             "convolution forward");
    qs__gemm_epilogue epilogue;
    QS_TRY(qs__gemm_epilogue_start(chain, &types, 4, &epilogue));
    QS_TRY(qs__gemm_epilogue_plan(chain, &epilogue, &operation));
    int src_slot, weights_slot;
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_SRC, &src), qs__chain_layout(chain, DNNL_ARG_SRC), &src_slot));
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_WEIGHTS, &plain), qs__chain_layout(chain, DNNL_ARG_WEIGHTS), &weights_slot));
    int dst_slot = qs__gemm_result(chain, QS_DST, &types, &dst, qs__chain_layout(chain, DNNL_ARG_DST));
    qs__chain_place(chain);
    qs__chain_bind(chain, DNNL_ARG_SRC, src_slot);
    qs__chain_bind(chain, DNNL_ARG_WEIGHTS, weights_slot);
    qs__chain_bind(chain, DNNL_ARG_DST, dst_slot);
    if (types.bias_inside) qs__chain_bind(chain, DNNL_ARG_BIAS, qs__chain_operand(chain, QS_BIAS, &bias));
    return qs__gemm_epilogue_finish(chain, &types, &epilogue);
}

static qs_status hint(const qs__chain *chain, const geometry *g, const dnnl_memory_desc_t *src, const dnnl_memory_desc_t *filter,
                      const dnnl_memory_desc_t *dst, dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t operation;
    QS__DNNL(dnnl_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, src, filter, NULL, dst,
                                                g->strides, g->padding, g->padding),
             "convolution hint");
    QS__DNNL(dnnl_primitive_desc_create(out, &operation, NULL, chain->cpu->engine, NULL), "convolution hint");
    return QS_OK;
}

static qs_status input_gradient(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    geometry g = geometry_of(one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_WEIGHTS, QS_DIFF_DST, QS_DIFF_SRC, &types));
    dnnl_memory_desc_t diff_dst = activation(one, QS_DIFF_DST, types.operands), diff_src = activation(one, QS_DIFF_SRC, types.dst);
    dnnl_memory_desc_t plain = weights(one, QS_WEIGHTS, types.operands, false), any = weights(one, QS_WEIGHTS, types.operands, true);
    dnnl_memory_desc_t asked_src = asked(&diff_src, blocked), asked_dst = asked(&diff_dst, blocked);
    dnnl_memory_desc_t hint_src = asked_src;
    hint_src.data_type = types.operands;
    dnnl_convolution_desc_t operation;
    QS__DNNL(dnnl_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, &asked_src, &any, &asked_dst, g.strides,
                                                      g.padding, g.padding),
             "convolution input gradient");
    dnnl_primitive_desc_t forward_hint = NULL;
    QS_TRY(hint(chain, &g, &hint_src, &any, &asked_dst, &forward_hint));
    qs_status status = qs__chain_plan(chain, &operation, NULL, forward_hint);
    dnnl_primitive_desc_destroy(forward_hint);
    QS_TRY(status);
    int dst_slot, weights_slot;
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_DIFF_DST, &diff_dst), qs__chain_layout(chain, DNNL_ARG_DIFF_DST), &dst_slot));
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_WEIGHTS, &plain), qs__chain_layout(chain, DNNL_ARG_WEIGHTS), &weights_slot));
    int src_slot = qs__gemm_result(chain, QS_DIFF_SRC, &types, &diff_src, qs__chain_layout(chain, DNNL_ARG_DIFF_SRC));
    qs__chain_place(chain);
    qs__chain_bind(chain, DNNL_ARG_DIFF_DST, dst_slot);
    qs__chain_bind(chain, DNNL_ARG_WEIGHTS, weights_slot);
    qs__chain_bind(chain, DNNL_ARG_DIFF_SRC, src_slot);
    return qs__gemm_finish(chain, &types);
}

static qs_status weight_gradient(qs__chain *chain, bool blocked) {
    const qs_case *one = &chain->one;
    geometry g = geometry_of(one);
    qs__gemm_types types;
    QS_TRY(qs__gemm_gradient_types(chain, QS_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS, &types));
    dnnl_memory_desc_t src = activation(one, QS_SRC, types.operands), diff_dst = activation(one, QS_DIFF_DST, types.operands);
    dnnl_memory_desc_t plain = weights(one, QS_DIFF_WEIGHTS, dnnl_f32, false), any = weights(one, QS_DIFF_WEIGHTS, dnnl_f32, true);
    dnnl_memory_desc_t bias = qs__cpu_vector(diff_dst.dims[1]), asked_src = asked(&src, blocked), asked_dst = asked(&diff_dst, blocked);
    dnnl_memory_desc_t hint_weights = any;
    hint_weights.data_type = types.operands;
    bool with_bias = qs__cpu_has(one, QS_DIFF_BIAS);
    dnnl_convolution_desc_t operation;
    QS__DNNL(dnnl_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, &asked_src, &any, with_bias ? &bias : NULL,
                                                         &asked_dst, g.strides, g.padding, g.padding),
             "convolution weight gradient");
    dnnl_primitive_desc_t forward_hint = NULL;
    QS_TRY(hint(chain, &g, &asked_src, &hint_weights, &asked_dst, &forward_hint));
    qs_status status = qs__chain_plan(chain, &operation, NULL, forward_hint);
    dnnl_primitive_desc_destroy(forward_hint);
    QS_TRY(status);
    int src_slot, dst_slot;
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_SRC, &src), qs__chain_layout(chain, DNNL_ARG_SRC), &src_slot));
    QS_TRY(qs__chain_as(chain, qs__chain_operand(chain, QS_DIFF_DST, &diff_dst), qs__chain_layout(chain, DNNL_ARG_DIFF_DST), &dst_slot));
    int weights_slot = qs__chain_result(chain, QS_DIFF_WEIGHTS, &plain, qs__chain_layout(chain, DNNL_ARG_DIFF_WEIGHTS));
    qs__chain_place(chain);
    qs__chain_bind(chain, DNNL_ARG_SRC, src_slot);
    qs__chain_bind(chain, DNNL_ARG_DIFF_DST, dst_slot);
    qs__chain_bind(chain, DNNL_ARG_DIFF_WEIGHTS, weights_slot);
    if (with_bias) qs__chain_bind(chain, DNNL_ARG_DIFF_BIAS, qs__chain_operand(chain, QS_DIFF_BIAS, &bias));
    return qs__chain_finish(chain);
}

static qs_status build(qs__chain *chain, bool blocked) {
    const char *pass = chain->one.pass->name;
    if (!strcmp(pass, "forward")) return forward(chain, blocked);
    if (!strcmp(pass, "input_gradient")) return input_gradient(chain, blocked);
    return weight_gradient(chain, blocked);
}

qs_status qs__build_conv2d_channels_last(qs__chain *chain) {
    return build(chain, false);
}

/* Where matmul has only allocating kernels (below AVX-512). */
qs_status qs__build_linear_convolution(qs__chain *chain) {
    return build(chain, false);
}

qs_status qs__build_conv2d_blocked(qs__chain *chain) {
    return build(chain, true);
}
