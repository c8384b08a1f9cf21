// SPDX-License-Identifier: Apache-2.0
/* What kernel families ask about cases, and how shapes and formats look to the kernel library. */
#include "cpu/cpu.h"

#include <string.h>

void *qs__cpu_data(const qs__chain *chain, qs_role role) {
    return qs__case_has(&chain->one, role) ? chain->data[qs_case_position(&chain->one, role)] : NULL;
}

qs__type qs__cpu_type(const qs_format *format) {
    if (format == qs_format_of("fp32")) return QS__FP32;
    if (format == qs_format_of("bf16")) return QS__BF16;
    if (format->kind == QS_KIND_INTEGER) return QS__INT8; /* whatever its bits, a code lies in a signed byte */
    return QS__OTHER;
}

/* The one place that knows which products are safe. Without VNNI oneDNN's 8-bit kernels saturate pairs of products at 16 bits and give
 * wrong sums (measured: 8160 for 64 × 127 × 127); below avx512_core_bf16 its bf16 runs at a third of fp32. */
qs_status qs__cpu_multiplies(const qs__cpu *cpu, const qs_format *format) {
    switch (qs__cpu_type(format)) {
    case QS__FP32:
        return QS_OK;
    case QS__BF16:
        if (cpu->bf16) return QS_OK;
        return qs_fail(QS_UNSUPPORTED, "bf16 products need avx512_core_bf16, which this CPU lacks or the ceiling isa=%s excludes: use fp32",
                       cpu->isa);
    case QS__INT8:
        if (cpu->vnni) return QS_OK;
        return qs_fail(
            QS_UNSUPPORTED,
            "exact integer products need avx512_core_vnni, avx2_vnni or AArch64's dot products, which this CPU lacks or the ceiling isa=%s "
            "excludes: use fp32",
            cpu->isa);
    default:
        return qs_fail(QS_UNSUPPORTED, "the cpu device has no products of %s: use fp32, bf16 or int8", format->name);
    }
}

qs_status qs__cpu_multiplies_factors(const qs__cpu *cpu, const qs_case *one) {
    if (!one->pass->product || one->attributes.accumulator.adder) return QS_OK;
    QS_TRY(qs__cpu_multiplies(cpu, qs__case_format(one, one->pass->product->factor[0])));
    return qs__cpu_multiplies(cpu, qs__case_format(one, one->pass->product->factor[1]));
}

qs__layout qs__layout_of(int axes, const int64_t *extent, qs__type type, const int64_t *stride) {
    qs__layout layout = {.axes = axes, .type = type, .free = !stride};
    memcpy(layout.extent, extent, (size_t)axes * sizeof *extent);
    if (stride) memcpy(layout.stride, stride, (size_t)axes * sizeof *stride);
    return layout;
}

/* The library keeps what it has planned, and takes it again for layouts that differ in strides of axes of one index alone; but the scratch
 * that it plans depends on these. So such an axis has the stride that follows from the others: what those behind it span. */
qs__layout qs__cpu_matrices(const int64_t extent[4], qs__type type, const int64_t stride[4]) {
    int64_t all[4];
    for (int a = 3; a >= 0; a--) {
        all[a] = stride[a];
        for (int b = a + 1; b < 4 && extent[a] == 1; b++)
            if (b == a + 1 || all[b] * extent[b] > all[a]) all[a] = all[b] * extent[b];
        if (a == 3 && extent[a] == 1) all[a] = 1;
    }
    return qs__layout_of(4, extent, type, all);
}

qs__layout qs__cpu_activation(const qs_shape *shape, qs__type type) {
    int64_t stride[QS_MAX_AXES] = {0}, step = 1;
    /* channels innermost, then the others from last to first */
    for (int k = 0; k < shape->axes; k++) {
        int axis = shape->axes < 2 ? 0 : k == 0 ? 1 : k < shape->axes - 1 ? shape->axes - k : 0;
        stride[axis] = step;
        step *= shape->dim[axis];
    }
    return qs__layout_of(shape->axes, shape->dim, type, stride);
}

qs__layout qs__cpu_weights(const qs_shape *shape, int groups, qs__type type, bool any) {
    const int64_t outputs = shape->dim[0] / groups, inputs = shape->dim[1], height = shape->dim[2], width = shape->dim[3];
    const int64_t extent[] = {groups, outputs, inputs, height, width};
    const int64_t stride[] = {outputs * height * width * inputs, height * width * inputs, 1, width * inputs, inputs};
    const int skip = groups == 1;
    return qs__layout_of(5 - skip, extent + skip, type, any ? NULL : stride + skip);
}

qs__layout qs__cpu_vector(int64_t count) {
    qs_shape shape = qs_shape_of(1, count);
    return qs__cpu_activation(&shape, QS__FP32);
}
