// SPDX-License-Identifier: Apache-2.0
/* average_pool: mean over the elements of each window that lie inside the image, or, where padding counts (count_padding), over all of
 * them, of which those outside are zeros. */
#include "internal.h"

#include <stdlib.h>

/* The taps of one result inside the image. */
typedef struct window {
    int64_t oh, ow, h_begin, h_end, w_begin, w_end;
} window;

static window window_of(const qs__geometry *g, int64_t oh, int64_t ow) {
    window v = {.oh = oh, .ow = ow};
    qs__pool_taps(g, 0, oh, &v.h_begin, &v.h_end);
    qs__pool_taps(g, 1, ow, &v.w_begin, &v.w_end);
    return v;
}

/* What a sum is divided by. */
static double window_size(const qs_attributes *with, window v) {
    if (with->count_padding) return (double)with->kernel[0] * (double)with->kernel[1];
    return (double)((v.h_end - v.h_begin) * (v.w_end - v.w_begin));
}

static int64_t place_of(const qs__geometry *g, window v, int64_t kh, int64_t kw) {
    return (qs__tap_place(g, 0, v.oh, kh) * g->width + qs__tap_place(g, 1, v.ow, kw)) * g->channels;
}

static double window_sum(const qs__geometry *g, window v, const float *channel) {
    double sum = 0;
    for (int64_t kh = v.h_begin; kh < v.h_end; kh++) {
        for (int64_t kw = v.w_begin; kw < v.w_end; kw++) {
            sum += (double)channel[place_of(g, v, kh, kw)];
        }
    }
    return sum;
}

static void window_spread(const qs__geometry *g, window v, double value, double *channel) {
    for (int64_t kh = v.h_begin; kh < v.h_end; kh++) {
        for (int64_t kw = v.w_begin; kw < v.w_end; kw++) {
            channel[place_of(g, v, kh, kw)] += value;
        }
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    qs__geometry g = qs__pool_geometry(one, QS_SRC, QS_DST);
    const qs_tensor *dst = qs__operand(one, operands, QS_DST);
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&dst->shape), sizeof *values, &values));
    for (int64_t at = 0; at < qs_shape_count(&dst->shape); at++) {
        int64_t position = at / g.channels, row = position / g.out_width;
        window v = window_of(&g, row % g.out_height, position % g.out_width);
        const float *channel = src + row / g.out_height * g.height * g.width * g.channels + at % g.channels;
        values[at] = (float)(window_sum(&g, v, channel) / window_size(&one->attributes, v));
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
    float *values = NULL;
    double *sum = NULL;
    qs_status status;
    QS_GOTO(qs__read(diff_dst, &values));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(&diff_src->shape), sizeof *sum, &sum));
    for (int64_t at = 0; at < qs_shape_count(&diff_dst->shape); at++) {
        int64_t position = at / g.channels, row = position / g.out_width;
        window v = window_of(&g, row % g.out_height, position % g.out_width);
        double *channel = sum + row / g.out_height * g.height * g.width * g.channels + at % g.channels;
        window_spread(&g, v, (double)values[at] / window_size(&one->attributes, v), channel);
    }
    QS_GOTO(qs__write_double(diff_src, sum));
done:
    free(values);
    free(sum);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = qs__pool_flops,
     .check = qs__pool_check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = qs__pool_flops,
     .check = qs__pool_check_backward},
};

#define EVERY(F, S, D, A) "average_pool/forward src=" F S " dst=" F D A, "average_pool/backward diff_dst=" F D " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[2,16,8,8]", "[2,16,4,4]", " kernel=2x2 stride=2x2"),
                                    EVERY("fp32", "[2,5,9,7]", "[2,5,5,4]", " kernel=3x3 stride=2x2 padding=1x1"),
                                    EVERY("fp32", "[1,3,6,6]", "[1,3,5,5]", " kernel=2x2"),
                                    EVERY("bf16", "[2,16,8,8]", "[2,16,4,4]", " kernel=2x2 stride=2x2"),
                                    EVERY("bf16", "[2,5,9,7]", "[2,5,5,4]", " kernel=3x3 stride=2x2 padding=1x1"),
                                    EVERY("fp16", "[2,8,4,4]", "[2,8,2,2]", " kernel=2x2 stride=2x2"),
                                    EVERY("fp32", "[2,5,9,7]", "[2,5,5,4]", " kernel=3x3 stride=2x2 padding=1x1 count_padding"),
                                    EVERY("bf16", "[2,16,8,7]", "[2,16,4,4]", " kernel=3x3 stride=2x2 padding_more=1x2"),
                                    EVERY("fp32", "[2,16,8,7]", "[2,16,4,4]", " kernel=3x3 stride=2x2 padding_more=1x2 count_padding"),
                                    EVERY("fp32", "[1,5,9,8]", "[1,5,8,3]", " kernel=2x3 stride=1x2 dilation=3x2 padding=1x1"),
                                    EVERY("bf16", "[1,37,9,8]", "[1,37,8,3]",
                                          " kernel=2x3 stride=1x2 dilation=3x2 padding=1x1 "
                                          "count_padding"),
                                    NULL};

const qs_op qs__op_average_pool = {.name = "average_pool",
                                   .takes = QS_TAKES_WINDOW | QS_TAKES_COUNT,
                                   .kind = QS_DEPENDENT,
                                   .sign = QS_SIGN_KEPT,
                                   .inputs = 1,
                                   .infer = qs__pool_infer,
                                   .passes = 2,
                                   .pass = passes,
                                   .cases = cases};
