// SPDX-License-Identifier: Apache-2.0
/* oneDNN 2.x: memory and operations are described by value. */
#include "cpu/library/version.h"

#include <stdlib.h>

const dnnl_cpu_isa_t qs__library_isa_all = dnnl_cpu_isa_all;

qs__description qs__description_make(const qs__layout *layout) {
    if (layout->chosen) return layout->chosen;
    dnnl_memory_desc_t *made = NULL;
    if (qs_allocate(1, sizeof *made, &made) != QS_OK) return NULL;
    const dnnl_data_type_t type = qs__library_type(layout->type);
    const dnnl_status_t status = layout->free ? dnnl_memory_desc_init_by_tag(made, layout->axes, layout->extent, type, dnnl_format_tag_any)
                                              : dnnl_memory_desc_init_by_strides(made, layout->axes, layout->extent, type, layout->stride);
    if (status == dnnl_success) return made;
    free(made);
    return NULL;
}

void qs__description_release(const qs__layout *layout, qs__description description) {
    if (layout && !layout->chosen) free((void *)description);
}

dnnl_status_t qs__library_matmul(dnnl_engine_t engine, const qs__described *by, const_dnnl_primitive_attr_t attributes,
                                 dnnl_primitive_desc_t *out) {
    dnnl_matmul_desc_t operation;
    const dnnl_status_t status = dnnl_matmul_desc_init(&operation, by->src, by->weights, by->bias, by->dst);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) : status;
}

static dnnl_status_t forward(dnnl_engine_t engine, const qs__work_request *request, qs__description src, qs__description weights,
                             qs__description bias, qs__description dst, const_dnnl_primitive_attr_t attributes,
                             dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t operation;
    const dnnl_status_t status =
        dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, src, weights, bias, dst,
                                                   request->step, request->gap, request->padding, request->padding_behind);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &operation, attributes, engine, NULL) : status;
}

dnnl_status_t qs__library_convolution(dnnl_engine_t engine, const qs__work_request *request, const qs__described *by,
                                      const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t operation;
    dnnl_primitive_desc_t hint = NULL;
    if (request->kind == QS__CONVOLUTION) return forward(engine, request, by->src, by->weights, by->bias, by->dst, attributes, out);
    dnnl_status_t status = forward(engine, request, by->hint_src, by->hint_weights, NULL, by->hint_dst, NULL, &hint);
    if (status != dnnl_success) return status;
    if (request->kind == QS__CONVOLUTION_INPUT_GRADIENT) {
        status = dnnl_dilated_convolution_backward_data_desc_init(&operation, dnnl_convolution_direct, by->src, by->weights, by->dst,
                                                                  request->step, request->gap, request->padding, request->padding_behind);
    } else {
        status = dnnl_dilated_convolution_backward_weights_desc_init(&operation, dnnl_convolution_direct, by->src, by->weights, by->bias,
                                                                     by->dst, request->step, request->gap, request->padding,
                                                                     request->padding_behind);
    }
    if (status == dnnl_success) status = dnnl_primitive_desc_create(out, &operation, attributes, engine, hint);
    dnnl_primitive_desc_destroy(hint);
    return status;
}
