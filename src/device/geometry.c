// SPDX-License-Identifier: Apache-2.0
/* See geometry.h. */
#include "geometry.h"

qs__geometry qs__geometry_reversed(const qs__geometry *forward) {
    qs__geometry out = *forward;
    out.channels = forward->outputs, out.height = forward->out_height, out.width = forward->out_width;
    out.outputs = forward->channels, out.out_height = forward->height, out.out_width = forward->width;
    return out;
}

qs__geometry qs__geometry_turned(const qs__geometry *forward) {
    qs__geometry out = qs__geometry_reversed(forward);
    for (int axis = 0; axis < 2; axis++)
        out.padding[axis] = (forward->kernel[axis] - 1) * forward->dilation[axis] - forward->padding[axis];
    return out;
}

static int64_t results_of(const qs__geometry *view, int axis) {
    return axis ? view->out_width : view->out_height;
}

int64_t qs__phases(const qs__geometry *view, bool gradient, int axis) {
    const int64_t stride = view->stride[axis], results = results_of(view, axis);
    return !gradient ? 1 : stride < results ? stride : results;
}

static int64_t divisor_of(int64_t a, int64_t b) {
    return b ? divisor_of(b, a % b) : a;
}

/* Tap k of an input gradient takes result r from place (r + padding - k · dilation) / stride of the source, where that is whole: of taps
 * every stride / d-th, d the common divisor of stride and dilation, whose places lie dilation / d apart. */
qs__phase qs__phase_at(const qs__geometry *view, bool gradient, int axis, int64_t index) {
    const int64_t results = results_of(view, axis), stride = view->stride[axis], padding = view->padding[axis];
    const int64_t dilation = view->dilation[axis], common = divisor_of(stride, dilation);
    if (!gradient)
        return (qs__phase){
            .step = 1, .count = results, .move = stride, .tap_step = 1, .taps = view->kernel[axis], .offset = -padding, .spread = dilation};
    qs__phase out = {.first = index,
                     .step = stride,
                     .count = (results - index + stride - 1) / stride,
                     .move = 1,
                     .tap_step = -stride / common,
                     .spread = dilation / common};
    for (int64_t k = 0; k < view->kernel[axis]; k++)
        if ((index + padding - k * dilation) % stride == 0) {
            out.tap = k;
            out.taps++;
        }
    if (out.taps) out.offset = (index + padding - out.tap * dilation) / stride;
    return out;
}

void qs__phases_reach(const qs__geometry *view, bool gradient, int axis, int64_t *low, int64_t *high) {
    *low = *high = 0;
    for (int64_t i = 0; i < qs__phases(view, gradient, axis); i++) {
        const qs__phase phase = qs__phase_at(view, gradient, axis, i);
        const int64_t end = phase.offset + (phase.taps - 1) * phase.spread + 1 + (phase.count - 1) * phase.move;
        if (!phase.taps) continue;
        if (phase.offset < *low) *low = phase.offset;
        if (end > *high) *high = end;
    }
}
