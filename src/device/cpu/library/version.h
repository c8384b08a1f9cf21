// SPDX-License-Identifier: Apache-2.0
/* Where oneDNN 2.x and 3.x differ: v2.c or v3.c implements this. */
#ifndef QSYNC_DEVICE_CPU_LIBRARY_VERSION_H
#define QSYNC_DEVICE_CPU_LIBRARY_VERSION_H

#include <dnnl.h>

#include "cpu/library/library.h"

/* A description of memory as functions of the library take it. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t qs__description;
#else
typedef const dnnl_memory_desc_t *qs__description;
#endif

/* Of a layout; NULL: out of memory, or oneDNN refuses it. Release those that layouts have not chosen. */
qs__description qs__description_make(const qs__layout *layout);
void qs__description_release(const qs__layout *layout, qs__description description);

static inline dnnl_data_type_t qs__library_type(qs__type type) {
    switch (type) {
    case QS__FP32:
        return dnnl_f32;
    case QS__BF16:
        return dnnl_bf16;
    case QS__INT8:
        return dnnl_s8;
    default:
        return dnnl_data_type_undef;
    }
}

extern const dnnl_cpu_isa_t qs__library_isa_all;

/* Descriptions of a request's operands, those it lacks NULL. `hint` ones are what a forward pass of the same shape would have. */
typedef struct qs__described {
    qs__description src, weights, bias, dst, hint_src, hint_weights, hint_dst;
} qs__described;

/* Primitive descriptors, made as the version wants them. */
dnnl_status_t qs__library_matmul(dnnl_engine_t engine, const qs__described *by, const_dnnl_primitive_attr_t attributes,
                                 dnnl_primitive_desc_t *out);
dnnl_status_t qs__library_convolution(dnnl_engine_t engine, const qs__work_request *request, const qs__described *by,
                                      const_dnnl_primitive_attr_t attributes, dnnl_primitive_desc_t *out);

#endif
