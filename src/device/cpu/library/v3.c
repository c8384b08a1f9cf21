// SPDX-License-Identifier: Apache-2.0
/* oneDNN 3.x: memory is described by handles, primitive descriptors are made in one step. */
#include "cpu/library/version.h"

const dnnl_cpu_isa_t qs__library_isa_all = dnnl_cpu_isa_default;

qs__description qs__description_make(const qs__layout *layout) {
    if (layout->chosen) return layout->chosen;
    dnnl_memory_desc_t made = NULL;
    const dnnl_data_type_t type = qs__library_type(layout->type);
    const dnnl_status_t status = layout->free
                                     ? dnnl_memory_desc_create_with_tag(&made, layout->axes, layout->extent, type, dnnl_format_tag_any)
                                     : dnnl_memory_desc_create_with_strides(&made, layout->axes, layout->extent, type, layout->stride);
    return status == dnnl_success ? made : NULL;
}

void qs__description_release(const qs__layout *layout, qs__description description) {
    if (layout && !layout->chosen && description) dnnl_memory_desc_destroy((dnnl_memory_desc_t)description);
}

dnnl_status_t qs__library_matmul(dnnl_engine_t engine, const qs__described *by, const_dnnl_primitive_attr_t attributes,
                                 dnnl_primitive_desc_t *out) {
    return dnnl_matmul_primitive_desc_create(out, engine, by->src, by->weights, by->bias, by->dst, attributes);
}

static dnnl_status_t forward(dnnl_engine_t engine, const qs__work_request *request, qs__description src, qs__description weights,
                             qs__description bias, qs__description dst, const_dnnl_primitive_attr_t attributes,
                             dnnl_primitive_desc_t *out) {
    return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, dnnl_convolution_direct, src, weights, bias,
                                                          dst, request->step, request->gap, request->padding, request->padding_behind,
                                                          attributes);
}

dnnl_status_t qs__library_convolution(dnnl_engine_t engine, const qs__work_request *request, const qs__described *by,
                                      const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out) {
    dnnl_primitive_desc_t hint = NULL;
    if (request->kind == QS__CONVOLUTION) return forward(engine, request, by->src, by->weights, by->bias, by->dst, attributes, out);
    dnnl_status_t status = forward(engine, request, by->hint_src, by->hint_weights, NULL, by->hint_dst, NULL, &hint);
    if (status != dnnl_success) return status;
    if (request->kind == QS__CONVOLUTION_INPUT_GRADIENT) {
        status = dnnl_convolution_backward_data_primitive_desc_create(out, engine, dnnl_convolution_direct, by->src, by->weights, by->dst,
                                                                      request->step, request->gap, request->padding,
                                                                      request->padding_behind, hint, attributes);
    } else {
        status = dnnl_convolution_backward_weights_primitive_desc_create(out, engine, dnnl_convolution_direct, by->src, by->weights,
                                                                         by->bias, by->dst, request->step, request->gap, request->padding,
                                                                         request->padding_behind, hint, attributes);
    }
    dnnl_primitive_desc_destroy(hint);
    return status;
}
