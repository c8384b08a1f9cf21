// SPDX-License-Identifier: Apache-2.0
/* What kernel families ask about cases, and how shapes and formats look to oneDNN. */
#include "cpu.h"

#include <assert.h>
#include <string.h>

const qs_operand *qs__cpu_operand(const qs_case *one, qs_role role) {
    int position = qs_case_position(one, role);
    assert(position >= 0);
    return &one->operand[position];
}

const qs_format *qs__cpu_format(const qs_case *one, qs_role role) {
    return qs__cpu_operand(one, role)->format;
}

bool qs__cpu_has(const qs_case *one, qs_role role) {
    int position = qs_case_position(one, role);
    return position >= 0 && one->operand[position].format;
}

int64_t qs__cpu_count(const qs_case *one, qs_role role) {
    return qs_shape_count(&qs__cpu_operand(one, role)->shape);
}

void *qs__cpu_data(const qs__chain *chain, qs_role role) {
    return qs__cpu_has(&chain->one, role) ? chain->data[qs_case_position(&chain->one, role)] : NULL;
}

bool qs__cpu_is(const qs_case *one, const char *op, const char *pass) {
    return !strcmp(one->op->name, op) && !strcmp(one->pass->name, pass);
}

dnnl_data_type_t qs__cpu_type(const qs_format *format) {
    if (format == qs_format_of("fp32")) return dnnl_f32;
    if (format == qs_format_of("bf16")) return dnnl_bf16;
    if (format->kind == QS_KIND_INTEGER) return dnnl_s8; /* whatever its bits, a code lies in a signed byte */
    return dnnl_data_type_undef;
}

/* The one place that knows which products are safe. Without VNNI oneDNN's 8-bit kernels saturate pairs of products at 16 bits and give
 * wrong sums (measured: 8160 for 64 × 127 × 127); below avx512_core_bf16 its bf16 runs at a third of fp32. */
qs_status qs__cpu_multiplies(const qs__cpu *cpu, const qs_format *format) {
    switch (qs__cpu_type(format)) {
    case dnnl_f32:
        return QS_OK;
    case dnnl_bf16:
        if (cpu->bf16) return QS_OK;
        return qs_fail(QS_UNSUPPORTED, "bf16 products need avx512_core_bf16, which this CPU lacks or the ceiling isa=%s excludes: use fp32",
                       cpu->isa);
    case dnnl_s8:
        if (cpu->vnni) return QS_OK;
        return qs_fail(
            QS_UNSUPPORTED,
            "exact integer products need avx512_core_vnni or avx2_vnni, which this CPU lacks or the ceiling isa=%s excludes: use fp32",
            cpu->isa);
    default:
        return qs_fail(QS_UNSUPPORTED, "the cpu device has no products of %s: use fp32, bf16 or int8", format->name);
    }
}

dnnl_memory_desc_t qs__cpu_activation(const qs_shape *shape, dnnl_data_type_t type) {
    dnnl_memory_desc_t desc;
    dnnl_dims_t dims = {0}, strides = {0};
    int64_t step = 1;
    for (int i = 0; i < shape->axes; i++) {
        dims[i] = shape->dim[i];
    }
    /* channels innermost, then the others from last to first */
    for (int k = 0; k < shape->axes; k++) {
        int axis = shape->axes < 2 ? 0 : k == 0 ? 1 : k < shape->axes - 1 ? shape->axes - k : 0;
        strides[axis] = step;
        step *= dims[axis];
    }
    dnnl_status_t status = dnnl_memory_desc_init_by_strides(&desc, shape->axes, dims, type, strides);
    assert(status == dnnl_success);
    (void)status;
    return desc;
}

dnnl_memory_desc_t qs__cpu_weights(const qs_shape *shape, int groups, dnnl_data_type_t type, bool any) {
    dnnl_memory_desc_t desc;
    int64_t outputs = shape->dim[0] / groups, inputs = shape->dim[1], height = shape->dim[2], width = shape->dim[3];
    dnnl_dims_t dims = {groups, outputs, inputs, height, width};
    dnnl_dims_t strides = {outputs * height * width * inputs, height * width * inputs, 1, width * inputs, inputs};
    int skip = groups == 1;
    dnnl_status_t status = any ? dnnl_memory_desc_init_by_tag(&desc, 5 - skip, dims + skip, type, dnnl_format_tag_any)
                               : dnnl_memory_desc_init_by_strides(&desc, 5 - skip, dims + skip, type, strides + skip);
    assert(status == dnnl_success);
    (void)status;
    return desc;
}

dnnl_memory_desc_t qs__cpu_vector(int64_t count) {
    qs_shape shape = qs_shape_of(1, count);
    return qs__cpu_activation(&shape, dnnl_f32);
}

qs_status qs__cpu_attributes(dnnl_primitive_attr_t *out) {
    QS__DNNL(dnnl_primitive_attr_create(out), "attributes");
    dnnl_status_t status = dnnl_primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success) return QS_OK;
    dnnl_primitive_attr_destroy(*out);
    return qs__dnnl_fail(status, "scratchpad mode");
}
