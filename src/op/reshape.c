// SPDX-License-Identifier: Apache-2.0
/* reshape: the values of a sample, in memory order, seen in other extents: [N,channels], [N,channels,height], or [N,channels,height,width],
 * the shortest that the settings say. One of them may be -1: what follows from the number of values, for samples of several lengths. Moves
 * no data, has no passes. */
#include "internal.h"

#include <math.h>

qs_status qs__sample_shape(const char *name, const qs_attributes *with, int64_t samples, const int64_t extent[3], qs_shape *dst) {
    const int64_t height = extent[0], width = extent[1], channels = extent[2];
    if (channels == 0 || (height == 0 && width != 0))
        return qs_fail(QS_USAGE, "%s: height %g, width %g, channels %g: there are always channels, and a width stands beside a height",
                       name, with->extent[0], with->extent[1], with->extent[2]);
    *dst = height == 0  ? qs_shape_of(2, samples, channels)
           : width == 0 ? qs_shape_of(3, samples, channels, height)
                        : qs_shape_of(4, samples, channels, height, width);
    return QS_OK;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 1) return qs_fail(QS_USAGE, "reshape: input %s needs the axis N", qs_shape_text(src, text));
    const int64_t count = qs_shape_count(src) / src->dim[0];
    int64_t extent[3];
    double product = 1;
    int open = -1;
    for (int i = 0; i < 3; i++) {
        if (with->extent[i] != floor(with->extent[i]) || with->extent[i] < -1 || (with->extent[i] == -1 && open >= 0))
            return qs_fail(QS_USAGE, "reshape: extents of %g, %g and %g: whole numbers, and one of them may be -1", with->extent[0],
                           with->extent[1], with->extent[2]);
        extent[i] = (int64_t)with->extent[i];
        if (extent[i] > 0) product *= with->extent[i];
        if (extent[i] == -1) open = i;
    }
    if (open >= 0 && product <= (double)count) extent[open] = count / (int64_t)product;
    if (open >= 0) product *= (double)extent[open];
    if (product != (double)count)
        return qs_fail(QS_USAGE, "reshape: a sample of %s has %lld values, which are not height %g, width %g, channels %g",
                       qs_shape_text(src, text), (long long)count, with->extent[0], with->extent[1], with->extent[2]);
    return qs__sample_shape("reshape", with, src->dim[0], extent, dst);
}

static const char *const cases[] = {NULL};

const qs_op qs__op_reshape = {
    .name = "reshape",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_KEPT,
    .inputs = 1,
    .infer = infer,
    .alias = true,
    .setting = {QS_SETTING_AS("height", extent[0], 0, -1, 2147483647, "of a sample, or its length; 0: none, -1: what is left"),
                QS_SETTING_AS("width", extent[1], 0, -1, 2147483647, "of a sample; 0: none, -1: what is left"),
                QS_SETTING_AS("channels", extent[2], 0, -1, 2147483647, "of a sample; -1: what is left")},
    .cases = cases};
