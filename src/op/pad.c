// SPDX-License-Identifier: Apache-2.0
/* pad: places around an image or a sequence that are a constant, its reflection, its edge or the image again; with less than no padding
 * behind, places are cut off there. qsync/resample.h says which, and has the passes. */
#include "internal.h"

#include "qsync/resample.h"

#include <math.h>

static qs_status axis_infer(const qs_attributes *with, int axis, int64_t extent, int64_t *out) {
    const char *name = axis ? "width" : "height";
    const int64_t before = with->padding[axis], behind = before + with->padding_more[axis], most = before > behind ? before : behind;
    if (before < 0) return qs_fail(QS_USAGE, "pad: padding %lld along the %s is negative: cut with a slice", (long long)before, name);
    if (behind + extent < 0 || before + extent + behind < 1)
        return qs_fail(QS_USAGE, "pad: %lld before and %lld behind the %s of %lld leave nothing", (long long)before, (long long)behind,
                       name, (long long)extent);
    if ((with->mode == 1 && most >= extent) || (with->mode == 3 && most > extent))
        return qs_fail(QS_USAGE, "pad: %lld places beside the %s of %lld, of which there are not so many to %s", (long long)most, name,
                       (long long)extent, with->mode == 1 ? "reflect" : "repeat");
    *out = before + extent + behind;
    return QS_OK;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 3) return qs_fail(QS_USAGE, "pad: input %s needs the axes N,C,L or N,C,H,W", qs_shape_text(src, text));
    if (src->axes == 3 && (with->padding[1] || with->padding_more[1]))
        return qs_fail(QS_USAGE, "pad: input %s has no width to pad", qs_shape_text(src, text));
    if (with->mode != floor(with->mode)) return qs_fail(QS_USAGE, "pad: mode is %g: 0, 1, 2 or 3", with->mode);
    qs_shape result = *src;
    for (int axis = 0; axis + 2 < src->axes; axis++)
        QS_TRY(axis_infer(with, axis, src->dim[axis + 2], &result.dim[axis + 2]));
    QS_TRY(qs_shape_check(&result, "pad output"));
    *dst = result;
    return QS_OK;
}

#define EVERY(F, S, D, A) "pad/forward src=" F S " dst=" F D A, "pad/backward diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[2,5,4,6]", "[2,5,7,8]", " padding=1x2 padding_more=1x-2 value=0.5"),
                                    EVERY("bf16", "[2,16,5,4]", "[2,16,7,6]", " padding=1x1"),
                                    EVERY("fp32", "[1,24,4,6]", "[1,24,9,11]", " padding=3x2 padding_more=-1x1 mode=1"),
                                    EVERY("bf16", "[2,21,4,3]", "[2,21,12,5]", " padding=4x0 padding_more=0x2 mode=2"),
                                    EVERY("fp16", "[2,7,4,5]", "[2,7,8,11]", " padding=1x3 padding_more=2x0 mode=3"),
                                    EVERY("fp32", "[3,19,9]", "[3,19,8]", " padding=2x0 padding_more=-5x0 mode=1"),
                                    EVERY("bf16", "[2,33,6]", "[2,33,9]", " padding_more=3x0 value=-1"),
                                    "pad/forward src=bf16[2,9,3,3] dst=fp32[2,9,5,5] padding=1x1 mode=2",
                                    NULL};

const qs_op qs__op_pad = {
    .name = "pad",
    .takes = QS_TAKES_PADDING,
    .kind = QS_DEPENDENT,
    .inputs = 1,
    .infer = infer,
    .setting = {QS_SETTING(mode, 0, 0, 3, "what lies around: 0 a constant, 1 the reflection, 2 the edge, 3 the image again"),
                QS_SETTING(value, 0, -INFINITY, INFINITY, "the constant")},
    .passes = QS__RESAMPLE_PASSES,
    .pass = qs__resample_passes,
    .cases = cases};
