// SPDX-License-Identifier: Apache-2.0
/* What max_pool and average_pool share: shape rule, window ranges, cost. */
#include "internal.h"

qs_status qs__pool_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    int64_t height, width;
    if (src->axes != 4) return qs_fail(QS_USAGE, "pool: input %s needs the axes N,C,H,W", qs_shape_text(src, text));
    for (int i = 0; i < 2; i++) {
        if (with->padding[i] < with->kernel[i] || with->kernel[i] < 1) continue; /* the window rule names a missing kernel */
        return qs_fail(QS_USAGE, "pool: padding %d needs a kernel larger than %d: every window must reach the image", with->padding[i],
                       with->kernel[i]);
    }
    QS_TRY(qs_fail_within(qs__window(src->dim[2], with->kernel[0], with->stride[0], with->padding[0], "height", &height), "pool"));
    QS_TRY(qs_fail_within(qs__window(src->dim[3], with->kernel[1], with->stride[1], with->padding[1], "width", &width), "pool"));
    *dst = qs_shape_of(4, src->dim[0], src->dim[1], height, width);
    return QS_OK;
}

qs__geometry qs__pool_geometry(const qs_case *one, qs_role image, qs_role result) {
    const qs_shape *src = qs__shape(one, image), *dst = qs__shape(one, result);
    const qs_attributes *with = &one->attributes;
    return (qs__geometry){.batch = src->dim[0],
                          .channels = src->dim[1],
                          .height = src->dim[2],
                          .width = src->dim[3],
                          .outputs = src->dim[1],
                          .out_height = dst->dim[2],
                          .out_width = dst->dim[3],
                          .kernel = {with->kernel[0], with->kernel[1]},
                          .stride = {with->stride[0], with->stride[1]},
                          .padding = {with->padding[0], with->padding[1]},
                          .groups = 1};
}

void qs__pool_range(int64_t at, int64_t kernel, int64_t stride, int64_t padding, int64_t extent, int64_t *begin, int64_t *end) {
    *begin = at * stride - padding;
    *end = *begin + kernel;
    if (*begin < 0) *begin = 0;
    if (*end > extent) *end = extent;
}

double qs__pool_flops(const qs_case *one) {
    bool forward = qs_case_position(one, QS_DST) >= 0;
    double results = (double)qs_shape_count(qs__shape(one, forward ? QS_DST : QS_DIFF_DST));
    return results * (double)one->attributes.kernel[0] * (double)one->attributes.kernel[1];
}

qs_status qs__pool_check_forward(const qs_case *one) {
    return qs__need_inferred(one, QS_SRC, 0, QS_DST);
}

qs_status qs__pool_check_backward(const qs_case *one) {
    return qs__need_inferred(one, QS_DIFF_SRC, 0, QS_DIFF_DST);
}
