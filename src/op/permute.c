// SPDX-License-Identifier: Apache-2.0
/* permute: the values of a sample, in memory order, seen as an array of `extent1` × `extent2` × ..., the last axis fastest, in another
 * order of its axes: `order` 132 puts them as axes 1, 3, 2. One extent may be -1: what follows from the number of values. Of the result the
 * last axis are the channels, the first of the others the height (or the length), and those between the width: [N,C], [N,C,L] or
 * [N,C,H,W]. Passes: forward src dst; backward diff_dst diff_src, the inverse; values are moved as they are. */
#include "internal.h"
#include "qsync/views.h"

#include <math.h>

enum { MOST = 5 };

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    const int64_t count = src->axes > 0 ? qs_shape_count(src) / src->dim[0] : 0;
    double product = 1;
    int axes = 0, open = 0, seen = 0;
    for (; axes < MOST && with->extent[axes] != 0; axes++) {
        if (with->extent[axes] != floor(with->extent[axes]) || with->extent[axes] < -1)
            return qs_fail(QS_USAGE, "permute: extent%d is %g, must be a whole number, or -1", axes + 1, with->extent[axes]);
        if (with->extent[axes] > 0) product *= with->extent[axes];
        if (with->extent[axes] == -1) open++;
    }
    for (int i = axes; i < MOST; i++)
        if (with->extent[i] != 0) return qs_fail(QS_USAGE, "permute: there is an extent%d, but no extent%d", i + 1, axes + 1);
    for (int64_t digits = (int64_t)with->order, i = 0; i < axes; i++, digits /= 10)
        if (digits % 10 >= 1 && digits % 10 <= axes) seen |= 1 << digits % 10;
    if (axes == 0 || seen != (2 << axes) - 2 || with->order != floor(with->order) || with->order >= pow(10, axes))
        return qs_fail(QS_USAGE, "permute: order %.0f is no order of %d extents: each digit from 1 on once", with->order, axes);
    const int64_t rest = product <= (double)count ? count / (int64_t)product : 0;
    if (open > 1 || product * (double)rest != (double)count || (open == 0 && rest != 1))
        return qs_fail(QS_USAGE, "permute: a sample of %s has %lld values, the extents say %.0f%s", qs_shape_text(src, text),
                       (long long)count, product,
                       open == 1 ? " times a whole number"
                       : open    ? ", and only one of them may be -1"
                                 : "");
    int64_t extent[MOST], last, first, between = 1;
    int order[MOST];
    qs_permute_axes(with, count, extent, order);
    first = extent[order[0]], last = extent[order[axes - 1]];
    for (int i = 1; i < axes - 1; i++)
        between *= extent[order[i]];
    *dst = axes == 1   ? qs_shape_of(2, src->dim[0], last)
           : axes == 2 ? qs_shape_of(3, src->dim[0], last, first)
                       : qs_shape_of(4, src->dim[0], last, first, between);
    return QS_OK;
}

int qs_permute_axes(const qs_attributes *with, int64_t count, int64_t extent[5], int order[5]) {
    int axes = 0;
    int64_t product = 1, digits = (int64_t)with->order;
    for (; axes < MOST && with->extent[axes] != 0; axes++)
        if (with->extent[axes] > 0) product *= (int64_t)with->extent[axes];
    for (int i = 0; i < axes; i++)
        extent[i] = with->extent[i] > 0 ? (int64_t)with->extent[i] : count / product;
    for (int i = axes - 1; i >= 0; i--, digits /= 10)
        order[i] = (int)(digits % 10) - 1;
    return axes;
}

/* Where element i of the result lies in the input. */
static int64_t place_of(const qs_attributes *with, const qs_shape *src, const qs_shape *dst, int64_t i) {
    const int64_t count = qs_shape_count(src) / src->dim[0];
    int64_t extent[MOST], index[MOST], left = i % count, place = 0;
    int order[MOST];
    const int axes = qs_permute_axes(with, count, extent, order);
    (void)dst;
    for (int a = axes - 1; a >= 0; a--) {
        index[order[a]] = left % extent[order[a]];
        left /= extent[order[a]];
    }
    for (int a = 0; a < axes; a++)
        place = place * extent[a] + index[a];
    return i - i % count + place;
}

QS__MOVING_KERNELS(place_of)

static const qs_pass passes[] = {QS__MOVING_PASSES(NULL, qs__moving_forward_check, qs__moving_backward_check)};

#define EVERY(F, S, D, A) "permute/forward src=" F S " dst=" F D A, "permute/backward diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {
    EVERY("fp32", "[2,16,8,9]", "[2,72,16]", " extent1=72 extent2=16 order=21"),
    EVERY("fp32", "[3,5,7]", "[3,7,5]", " extent1=7 extent2=5 order=21"),
    EVERY("bf16", "[2,72,64]", "[2,64,72]", " extent1=64 extent2=72 order=21"),
    EVERY("bf16", "[3,35,37]", "[3,37,35]", " extent1=-1 extent2=35 order=21"),
    EVERY("fp16", "[2,8,6]", "[2,6,2,4]", " extent1=6 extent2=2 extent3=4 order=231"),
    EVERY("fp32", "[2,48,10]", "[2,16,3,10]", " extent1=-1 extent2=3 extent3=16 order=213"),
    EVERY("bf16", "[2,60,14]", "[2,12,2,35]", " extent1=7 extent2=2 extent3=5 extent4=12 order=2134"),
    EVERY("fp32", "[2,6,20]", "[2,4,2,15]", " extent1=5 extent2=4 extent3=3 extent4=2 order=4312"),
    EVERY("bf16", "[2,96,16]", "[2,96,2,8]", " extent1=2 extent2=2 extent3=2 extent4=2 extent5=96 order=13245"),
    EVERY("fp32", "[2,11,30]", "[2,5,2,33]", " extent1=3 extent2=5 extent3=2 extent4=11 order=3142"),
    EVERY("fp32", "[4,7]", "[4,7]", " extent1=-1 order=1"),
    NULL};

const qs_op qs__op_permute = {
    .name = "permute",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_KEPT,
    .inputs = 1,
    .infer = infer,
    .setting = {QS_SETTING_AS("extent1", extent[0], 0, -1, 2147483647, "of the slowest axis of a sample; -1: what is left"),
                QS_SETTING_AS("extent2", extent[1], 0, -1, 2147483647, "of the next one; 0: there is none"),
                QS_SETTING_AS("extent3", extent[2], 0, -1, 2147483647, "the same"),
                QS_SETTING_AS("extent4", extent[3], 0, -1, 2147483647, "the same"),
                QS_SETTING_AS("extent5", extent[4], 0, -1, 2147483647, "the same"),
                QS_SETTING(order, 0, 1, 54321, "of the axes in the result: a digit each, the slowest first")},
    .passes = 2,
    .pass = passes,
    .cases = cases};
