// SPDX-License-Identifier: Apache-2.0
/* resize: an image or a sequence of other extents, by nearest places, straight lines or cubics between them, as Resize of ONNX and
 * interpolate of PyTorch have them. qsync/resample.h says where a result lies, and has the passes. */
#include "internal.h"

#include "qsync/resample.h"

#include <math.h>

static qs_status axis_infer(const qs_attributes *with, int axis, int64_t extent, int64_t *out) {
    const char *name = axis ? "width" : "height";
    const double given = axis ? with->width : with->height, scale = axis ? with->scale_width : with->scale_height;
    const double results = given > 0 ? given : scale > 0 ? floor((double)extent * scale) : (double)extent;
    if (results != floor(results) || results < 1 || results > 0x1p30)
        return qs_fail(QS_USAGE, "resize: the %s of %lld would become %g: a whole number from 1 to 2^30", name, (long long)extent, results);
    *out = (int64_t)results;
    return QS_OK;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 3) return qs_fail(QS_USAGE, "resize: input %s needs the axes N,C,L or N,C,H,W", qs_shape_text(src, text));
    if (src->axes == 3 && (with->width > 0 || with->scale_width > 0))
        return qs_fail(QS_USAGE, "resize: input %s has no width", qs_shape_text(src, text));
    const double whole[] = {with->mode, with->coordinates, with->nearest};
    for (int i = 0; i < 3; i++)
        if (whole[i] != floor(whole[i]))
            return qs_fail(QS_USAGE, "resize: mode %g, coordinates %g, nearest %g: they are whole numbers", whole[0], whole[1], whole[2]);
    qs_shape result = *src;
    for (int axis = 0; axis + 2 < src->axes; axis++)
        QS_TRY(axis_infer(with, axis, src->dim[axis + 2], &result.dim[axis + 2]));
    for (int axis = 0; axis + 2 < src->axes; axis++) {
        const double places = qs__resample_reach(with, axis, src->dim[axis + 2], result.dim[axis + 2]);
        if (places > QS_RESAMPLE_TERMS)
            return qs_fail(QS_USAGE,
                           "resize: mode %g from %lld to %lld would sum %g places for each result: at most %d; modes below 3 sum 4",
                           with->mode, (long long)src->dim[axis + 2], (long long)result.dim[axis + 2], places, QS_RESAMPLE_TERMS);
    }
    QS_TRY(qs_shape_check(&result, "resize output"));
    *dst = result;
    return QS_OK;
}

#define EVERY(F, S, D, A) "resize/forward src=" F S " dst=" F D A, "resize/backward diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[2,16,4,5]", "[2,16,8,10]", " scale_height=2 scale_width=2"),
                                    EVERY("bf16", "[2,21,4,5]", "[2,21,8,10]", " height=8 width=10 coordinates=1 nearest=2"),
                                    EVERY("fp32", "[1,5,7,9]", "[1,5,3,13]", " height=3 width=13 coordinates=2 nearest=1"),
                                    EVERY("fp16", "[2,8,6,6]", "[2,8,4,9]", " scale_height=0.7 scale_width=1.6 coordinates=1 nearest=3"),
                                    EVERY("fp32", "[2,16,4,5]", "[2,16,8,10]", " mode=1 scale_height=2 scale_width=2"),
                                    EVERY("bf16", "[2,37,4,5]", "[2,37,7,10]", " mode=1 height=7 width=10 coordinates=2"),
                                    EVERY("fp32", "[1,24,7,9]", "[1,24,3,1]", " mode=1 height=3 width=1 coordinates=3"),
                                    EVERY("bf16", "[2,16,6,7]", "[2,16,4,8]", " mode=1 scale_height=0.7 scale_width=1.2 coordinates=4"),
                                    EVERY("fp32", "[2,5,6,5]", "[2,5,9,5]", " mode=1 height=9 coordinates=1"),
                                    EVERY("fp32", "[3,19,6]", "[3,19,15]", " mode=1 scale_height=2.5"),
                                    EVERY("fp32", "[2,16,4,5]", "[2,16,8,10]", " mode=2 scale_height=2 scale_width=2"),
                                    EVERY("bf16", "[2,21,6,7]", "[2,21,9,4]", " mode=2 height=9 width=4 coordinates=2 coefficient=-0.5"),
                                    EVERY("fp32", "[1,5,7,2]", "[1,5,11,5]", " mode=5 height=11 width=5"),
                                    EVERY("fp32", "[2,8,9,7]", "[2,8,4,14]", " mode=3 height=4 width=14"),
                                    EVERY("fp16", "[2,8,11,9]", "[2,8,3,5]", " mode=7 scale_height=0.3 scale_width=0.6"),
                                    EVERY("fp32", "[3,19,6]", "[3,19,13]", " mode=2 height=13 coordinates=1"),
                                    "resize/forward src=bf16[2,9,3,3] dst=fp32[2,9,6,6] mode=1 height=6 width=6",
                                    NULL};

const qs_op qs__op_resize = {
    .name = "resize",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_KEPT,
    .inputs = 1,
    .infer = infer,
    .setting = {QS_SETTING(
                    mode, 0, 0, 7,
                    "0: the nearest place, 1: linear, 2: cubic; against aliasing 3: linear, 4: cubic; 5 to 7: as 2 to 4, nothing outside"),
                QS_SETTING(height, 0, 0, 0x1p30, "of the result; 0: by its scale"),
                QS_SETTING(width, 0, 0, 0x1p30, "of the result; 0: by its scale"),
                QS_SETTING(scale_height, 0, 0, 0x1p30, "result over image; 0: what the heights say"),
                QS_SETTING(scale_width, 0, 0, 0x1p30, "result over image; 0: what the widths say"),
                QS_SETTING(coordinates, 0, 0, 4,
                           "0 half_pixel, 1 asymmetric, 2 align_corners, 3 pytorch_half_pixel, 4 half_pixel_symmetric"),
                QS_SETTING(nearest, 0, 0, 3, "a half goes 0 down, 1 up; all go 2 down, 3 up"),
                QS_SETTING_AS("coefficient", constant[0], 0, -4, 0, "of cubics, their slope one place away; 0: -0.75")},
    .passes = QS__RESAMPLE_PASSES,
    .pass = qs__resample_passes,
    .cases = cases};
