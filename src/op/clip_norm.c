// SPDX-License-Identifier: Apache-2.0
/* clip_norm: scales the whole gradient down where its global L2 norm is above a bound (Pascanu, Mikolov, Bengio 2013, algorithm 1). */
#include "internal.h"

#include <math.h>

static qs_status check(const qs_case *one) {
    const double bound = one->attributes.clip_norm;
    const qs_format *format = one->operand[0].format;
    QS_TRY(qs__need_axes(one, QS_SRC, 1, 1));
    QS_TRY(qs__need_shape(one, QS_FLAG, qs_shape_of(1, 1)));
    if (format != qs_format_of("fp32")) return qs__refuse(one, "src is %s: gradients are fp32", format->name);
    return bound > 0 && isfinite(bound) ? QS_OK : qs__refuse(one, "a bound of %g: must be positive and finite", bound);
}

/* Gradients that are not finite stay as they are: what happens then is decided by those who look for such values. */
float qs_clip_norm_factor(double bound, double squares, double loss_scale) {
    const double norm = sqrt(squares) / loss_scale;
    return isfinite(norm) && norm > bound ? (float)(bound / norm) : 1;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    const int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    float *gradient = qs__fp32(one, operands, QS_SRC);
    if (qs__present(one, QS_FLAG) && *qs__fp32(one, operands, QS_FLAG) == 0) return QS_OK;
    const float factor = qs_clip_norm_factor(one->attributes.clip_norm, qs_norm2_array(count, gradient), run->loss_scale);
    for (int64_t i = 0; i < count && factor < 1; i++)
        gradient[i] *= factor;
    return QS_OK;
}

/* A multiply-add an element for the norm, a product for the scaling. */
static double flops(const qs_case *one) {
    return 3 * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_UPDATED}, {.role = QS_FLAG, .source = QS_GIVEN, .optional = true}),
     .reference = forward,
     .flops = flops,
     .check = check}};

static const char *const cases[] = {"clip_norm/forward src=fp32[4096] clip_norm=0.5",
                                    "clip_norm/forward src=fp32[20011] flag=fp32[1] clip_norm=2",
                                    "clip_norm/forward src=fp32[77] clip_norm=99", NULL};

const qs_op qs__op_clip_norm = {.name = "clip_norm",
                                .kind = QS_AUXILIARY,
                                .updates = true,
                                .setting = {QS_SETTING(clip_norm, 1, 0, INFINITY, "largest norm of the whole gradient")},
                                .passes = 1,
                                .pass = passes,
                                .cases = cases};
