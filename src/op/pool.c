// SPDX-License-Identifier: Apache-2.0
/* What max_pool and average_pool share: shape rule, window ranges, cost. */
#include "internal.h"

/* Whether every window has a tap in the image, along an axis: a window without would have no maximum, and no mean. */
static qs_status check_windows(const qs_attributes *with, int axis, int64_t extent, int64_t results) {
    qs__geometry g = {.height = extent, .width = extent};
    qs__window_take(with, &g);
    if (g.dilation[axis] == 1 && with->padding_more[axis] <= 0) return QS_OK; /* the padding is smaller than the kernel */
    for (int64_t at = 0; at < results; at++) {
        int64_t begin, end;
        qs__pool_taps(&g, axis, at, &begin, &end);
        if (begin >= end)
            return qs_fail(QS_USAGE, "pool: window %lld along the %s of %lld has no place in the image: it needs less padding or dilation",
                           (long long)at, axis ? "width" : "height", (long long)extent);
    }
    return QS_OK;
}

qs_status qs__pool_infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    int64_t height, width;
    if (src->axes != 4) return qs_fail(QS_USAGE, "pool: input %s needs the axes N,C,H,W", qs_shape_text(src, text));
    for (int i = 0; i < 2; i++) {
        const int64_t reach = (int64_t)(with->kernel[i] - 1) * (with->dilation[i] > 0 ? with->dilation[i] : 1) + 1;
        if (with->padding[i] < reach || with->kernel[i] < 1) continue; /* the window rule names a missing kernel */
        return qs_fail(QS_USAGE, "pool: padding %d needs a kernel larger than %lld: every window must reach the image", with->padding[i],
                       (long long)reach);
    }
    QS_TRY(qs_fail_within(qs__window(with, 0, src->dim[2], &height), "pool"));
    QS_TRY(qs_fail_within(qs__window(with, 1, src->dim[3], &width), "pool"));
    QS_TRY(check_windows(with, 0, src->dim[2], height));
    QS_TRY(check_windows(with, 1, src->dim[3], width));
    *dst = qs_shape_of(4, src->dim[0], src->dim[1], height, width);
    return QS_OK;
}

qs__geometry qs__pool_geometry(const qs_case *one, qs_role image, qs_role result) {
    const qs_shape *src = qs__shape(one, image), *dst = qs__shape(one, result);
    qs__geometry g = {.batch = src->dim[0],
                      .channels = src->dim[1],
                      .height = src->dim[2],
                      .width = src->dim[3],
                      .outputs = src->dim[1],
                      .out_height = dst->dim[2],
                      .out_width = dst->dim[3],
                      .groups = 1};
    qs__window_take(&one->attributes, &g);
    return g;
}

void qs__pool_taps(const qs__geometry *g, int axis, int64_t at, int64_t *begin, int64_t *end) {
    const int64_t extent = axis ? g->width : g->height, step = g->dilation[axis], start = qs__tap_place(g, axis, at, 0);
    *begin = start < 0 ? (step - 1 - start) / step : 0;
    *end = start < extent ? (extent - start + step - 1) / step : 0;
    if (*end > g->kernel[axis]) *end = g->kernel[axis];
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
