// SPDX-License-Identifier: Apache-2.0
/* Pad and resize, as their kernels see them: along each axis every result is a weighted sum of a few places of the image, so that an image
 * becomes another by weights of its lines and of its columns. Of a sequence [N,C,L] the positions are lines, one column wide.
 *
 * pad       `padding` places in front of the image and `padding` + `padding_more` behind it (less than none: so many are cut off) are, by
 *           the setting `mode`, 0: the number `value`; 1: the image reflected at its first and last place, which are not repeated; 2: its
 *           edge, repeated; 3: the image once more, as if it were a ring
 * resize    Extents of the result are `height` and `width`, or, where they are 0, floor(extent · scale) by `scale_height`, `scale_width`;
 *           where both are 0 an axis keeps its extent. Scale s is the given one, else result extent R over image extent E. Result r lies at
 *           the place
 *             coordinates 0  (r + 1/2) / s - 1/2                                                half_pixel of ONNX
 *                         1  r / s                                                              asymmetric
 *                         2  r (E - 1) / (R - 1); 0 where R is 1                                align_corners
 *                         3  as 0; 0 where R is 1                                               pytorch_half_pixel
 *                         4  as 0, with E/2 (1 - R / (s E)) added, R / s not being whole         half_pixel_symmetric
 *           and is, by `mode`, 0: the value of the nearest place, rounded by `nearest` (0: a half down, 1: a half up, 2: down, 3: up); 1:
 *           on the straight line between the two places beside it; 2: on a piecewise cubic through the four places around it: one at the
 *           distance d counts, with a = `coefficient`,
 *             (a + 2) d³ - (a + 3) d² + 1 up to 1, a d³ - 5 a d² + 8 a d - 4 a up to 2          (Keys, 1981, whose a is -1/2)
 *           3, 4: as 1 and 2, where the result is smaller with distances times s and weights that sum to 1, so that all places between
 *           results count (antialias of ONNX). Places outside count as the image's edge; 5 to 7: as 2 to 4, but places outside count
 *           nothing and the weights of the others sum to 1 (exclude_outside of ONNX)
 * Both have the passes forward src dst and backward diff_dst diff_src, in any float formats; sums are rounded once. */
#ifndef QSYNC_RESAMPLE_H
#define QSYNC_RESAMPLE_H

#include "qsync/op.h"

enum { QS_RESAMPLE_TERMS = 64 };

/* What a result along an axis is made of; no terms: it lies in constant padding. */
typedef struct qs_resample {
    int terms;
    int64_t place[QS_RESAMPLE_TERMS];
    float weight[QS_RESAMPLE_TERMS];
} qs_resample;

/* Lines (axis 0) and columns (axis 1) of an image or a sequence. */
QS_API int64_t qs_resample_extent(const qs_shape *shape, int axis);
/* The a of cubics; not said, it is -0.75, that of ONNX and PyTorch. */
QS_API double qs_resample_coefficient(const qs_attributes *with);
/* Most terms that a result along an axis of a case has. */
QS_API int qs_resample_terms(const qs_case *one, int axis);
/* Result number `result` along an axis of a case of pad or resize, in either pass. */
QS_API qs_resample qs_resample_at(const qs_case *one, int axis, int64_t result);

#endif
