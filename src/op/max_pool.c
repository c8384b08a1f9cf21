// SPDX-License-Identifier: Apache-2.0
/* max_pool: the largest value of each window; the mask keeps where it stood. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    if ((int64_t)with->kernel[0] * with->kernel[1] > 127) {
        return qs_fail(QS_USAGE, "max_pool: a window of %d x %d has more than 127 elements, its mask no int8", with->kernel[0],
                       with->kernel[1]);
    }
    return qs__pool_infer(with, src, outputs, dst);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__pool_check_forward(one));
    return qs__need_same(one, QS_MASK, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__pool_check_backward(one));
    return qs__need_same(one, QS_MASK, QS_DIFF_DST);
}

/* Largest value of the window of (oh, ow) in channel c of one image; *where its place in the window. */
static float window_maximum(const qs__geometry *g, const float *image, int64_t oh, int64_t ow, int64_t c, int8_t *where) {
    int64_t kh, h_end, w_begin, w_end;
    qs__pool_taps(g, 0, oh, &kh, &h_end);
    qs__pool_taps(g, 1, ow, &w_begin, &w_end);
    float best = -INFINITY;
    *where = (int8_t)(kh * g->kernel[1] + w_begin);
    for (; kh < h_end; kh++) {
        for (int64_t kw = w_begin; kw < w_end; kw++) {
            float value = image[(qs__tap_place(g, 0, oh, kh) * g->width + qs__tap_place(g, 1, ow, kw)) * g->channels + c];
            if (!(value > best || (isnan(value) && !isnan(best)))) continue;
            best = value;
            *where = (int8_t)(kh * g->kernel[1] + kw);
        }
    }
    return best;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    qs__geometry g = qs__pool_geometry(one, QS_SRC, QS_DST);
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    int8_t *mask = qs__present(one, QS_MASK) ? qs__operand(one, operands, QS_MASK)->data : NULL;
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&dst->shape), sizeof *values, &values));
    for (int64_t at = 0; at < qs_shape_count(&dst->shape); at++) {
        int64_t c = at % g.channels, position = at / g.channels;
        int64_t ow = position % g.out_width, row = position / g.out_width;
        const float *image = src + row / g.out_height * g.height * g.width * g.channels;
        int8_t where;
        values[at] = window_maximum(&g, image, row % g.out_height, ow, c, &where);
        if (mask) mask[at] = where;
    }
    qs__write(dst, values);
done:
    free(src);
    free(values);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    qs__geometry g = qs__pool_geometry(one, QS_DIFF_SRC, QS_DIFF_DST);
    const qs_tensor *diff_dst = qs__operand(one, operands, QS_DIFF_DST), *diff_src = qs__operand(one, operands, QS_DIFF_SRC);
    const int8_t *mask = qs__operand(one, operands, QS_MASK)->data;
    float *values = NULL;
    double *sum = NULL;
    qs_status status;
    QS_GOTO(qs__read(diff_dst, &values));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&diff_src->shape), sizeof *sum, &sum));
    for (int64_t at = 0; at < qs_shape_count(&diff_dst->shape); at++) {
        int64_t c = at % g.channels, position = at / g.channels;
        int64_t ow = position % g.out_width, row = position / g.out_width;
        int64_t h = qs__tap_place(&g, 0, row % g.out_height, mask[at] / g.kernel[1]);
        int64_t w = qs__tap_place(&g, 1, ow, mask[at] % g.kernel[1]);
        sum[((row / g.out_height * g.height + h) * g.width + w) * g.channels + c] += (double)values[at];
    }
    QS_GOTO(qs__write_double(diff_src, sum));
done:
    free(values);
    free(sum);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_MASK, .source = QS_TO_BACKWARD, .optional = true},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = qs__pool_flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_MASK, .source = QS_FROM_FORWARD}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = qs__pool_flops,
     .check = check_backward},
};

#define EVERY(F, S, D, A) \
    "max_pool/forward src=" F S " mask=int8" D " dst=" F D A, "max_pool/backward mask=int8" D " diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[2,16,8,8]", "[2,16,4,4]", " kernel=2x2 stride=2x2"),
                                    EVERY("fp32", "[2,5,9,7]", "[2,5,4,3]", " kernel=3x3 stride=2x2"),
                                    EVERY("fp32", "[1,16,8,8]", "[1,16,4,4]", " kernel=3x3 stride=2x2 padding=1x1"),
                                    EVERY("fp32", "[1,3,5,5]", "[1,3,5,5]", " kernel=3x3 padding=1x1"),
                                    EVERY("bf16", "[2,16,8,8]", "[2,16,4,4]", " kernel=2x2 stride=2x2"),
                                    EVERY("bf16", "[1,16,8,8]", "[1,16,4,4]", " kernel=3x3 stride=2x2 padding=1x1"),
                                    EVERY("fp16", "[2,8,4,4]", "[2,8,2,2]", " kernel=2x2 stride=2x2"),
                                    EVERY("fp32", "[2,16,8,7]", "[2,16,4,4]", " kernel=3x3 stride=2x2 padding_more=1x2"),
                                    EVERY("bf16", "[1,64,8,7]", "[1,64,4,4]", " kernel=3x3 stride=2x2 padding=0x1 padding_more=1x0"),
                                    EVERY("fp32", "[1,5,9,8]", "[1,5,8,3]", " kernel=2x3 stride=1x2 dilation=3x2 padding=1x1"),
                                    EVERY("bf16", "[2,32,7,9]", "[2,32,5,3]", " kernel=2x2 stride=1x2 dilation=2x3"),
                                    EVERY("bf16", "[2,21,6,6]", "[2,21,3,6]",
                                          " kernel=3x2 stride=2x1 dilation=2x2 padding=2x1 "
                                          "padding_more=-1x0"),
                                    "max_pool/forward src=fp32[2,16,8,8] dst=fp32[2,16,4,4] kernel=2x2 stride=2x2",
                                    "max_pool/forward src=bf16[2,16,8,8] dst=bf16[2,16,4,4] kernel=2x2 stride=2x2",
                                    NULL};

/* One index for each output. */
static qs_shape beside(const qs_op *op, qs_role role, const qs_shape *dst) {
    (void)op, (void)role;
    return *dst;
}

const qs_op qs__op_max_pool = {.name = "max_pool",
                               .takes = QS_TAKES_WINDOW,
                               .kind = QS_DEPENDENT,
                               .sign = QS_SIGN_KEPT,
                               .inputs = 1,
                               .infer = infer,
                               .beside = beside,
                               .passes = 2,
                               .pass = passes,
                               .cases = cases};
