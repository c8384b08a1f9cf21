// SPDX-License-Identifier: Apache-2.0
/* oneDNN 2.x: memory and operations are described by value. */
#include "cpu/library/version.h"

#include <stdlib.h>
#include <string.h>

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

/* Convolutions of oneDNN 2.6.3 in tile registers read outside their memory where a window lies in the padding alone, and give wrong
 * gradients of weights where lines of taps are apart and channels no multiple of 16. */
static bool tiles_fail(const qs__work_request *request) {
    const int64_t *weights = request->weights->extent + request->weights->axes - 3; /* channels, height, width */
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (weights[1 + i] - 1) * (request->gap[i] + 1);
        if (request->padding[i] > reach || request->padding_behind[i] > reach) return true;
    }
    return request->kind == QS__CONVOLUTION_WEIGHT_GRADIENT && request->gap[0] > 0 && weights[0] % 16 != 0;
}

static bool is_tiled(const_dnnl_primitive_desc_t planned) {
    const char *name = NULL;
    return dnnl_primitive_desc_query(planned, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success && name && strstr(name, "amx");
}

/* The library's first kernel, or its first one without tile registers where those fail. */
static dnnl_status_t plan(dnnl_engine_t engine, const qs__work_request *request, const dnnl_convolution_desc_t *operation,
                          const_dnnl_primitive_attr_t attributes, const_dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *out) {
    if (!tiles_fail(request)) return dnnl_primitive_desc_create(out, operation, attributes, engine, hint);
    dnnl_primitive_desc_iterator_t kernels = NULL;
    dnnl_status_t status = dnnl_primitive_desc_iterator_create(&kernels, operation, attributes, engine, hint);
    if (status != dnnl_success) return status;
    for (; status == dnnl_success; status = dnnl_primitive_desc_iterator_next(kernels)) {
        *out = dnnl_primitive_desc_iterator_fetch(kernels);
        if (!*out || !is_tiled(*out)) break;
        dnnl_primitive_desc_destroy(*out);
        *out = NULL;
    }
    dnnl_primitive_desc_iterator_destroy(kernels);
    if (status == dnnl_iterator_ends) return dnnl_unimplemented;
    return status == dnnl_success && !*out ? dnnl_out_of_memory : status;
}

static dnnl_status_t forward(dnnl_engine_t engine, const qs__work_request *request, qs__description src, qs__description weights,
                             qs__description bias, qs__description dst, const_dnnl_primitive_attr_t attributes,
                             dnnl_primitive_desc_t *out) {
    dnnl_convolution_desc_t operation;
    const dnnl_status_t status =
        dnnl_dilated_convolution_forward_desc_init(&operation, dnnl_forward_training, dnnl_convolution_direct, src, weights, bias, dst,
                                                   request->step, request->gap, request->padding, request->padding_behind);
    return status == dnnl_success ? plan(engine, request, &operation, attributes, NULL, out) : status;
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
    if (status == dnnl_success) status = plan(engine, request, &operation, attributes, hint, out);
    dnnl_primitive_desc_destroy(hint);
    return status;
}
