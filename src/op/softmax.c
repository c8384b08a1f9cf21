// SPDX-License-Identifier: Apache-2.0
/* softmax over the channels of every position: dst[k] = exp(scale · src[k] - m) / Σ exp(scale · src[l] - m), m their maximum. Of scores
 * [N,K,H,M] these are the keys of every query. With `causal` the position m of the last axis, which is as long as there are channels, has
 * the channels up to m only; with a `window` w, those less than w away from m; keep [N,C] says by 0 which channels of a sample are left
 * out, keep [N,M·C] which of each of the M positions of the last axis. What is left out is 0, and so are positions of which all is left
 * out.
 *
 * Passes: forward src keep? dst; backward src keep? diff_dst diff_src, diff_src[k] = scale · y[k] (diff_dst[k] - Σ y[l] diff_dst[l]) where
 * y is the result, not rounded to its format. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

/* keep says of each position of the last axis which channels it has. */
static bool masked_by_position(const qs_case *one, const qs_shape *src) {
    const int64_t channels = src->dim[1], last = src->dim[src->axes - 1];
    const qs_shape needed = qs_shape_of(2, src->dim[0], channels * last);
    return src->axes > 2 && last > 1 && qs_shape_equal(qs__shape(one, QS_KEEP), &needed);
}

static qs_status check(const qs_case *one, qs_role src) {
    QS_TRY(qs__need_axes(one, src, 2, 4));
    const qs_shape *shape = qs__shape(one, src);
    QS_TRY(one->op->infer(&one->attributes, shape, 0, &(qs_shape){0}));
    if (qs__present(one, QS_KEEP) && masked_by_position(one, shape)) return QS_OK;
    return qs__need_shape(one, QS_KEEP, qs_shape_of(2, shape->dim[0], shape->dim[1]));
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 2) return qs_fail(QS_USAGE, "softmax: input %s has no channels", qs_shape_text(src, text));
    if (with->window != floor(with->window)) return qs_fail(QS_USAGE, "softmax: a window of %g: a whole number", with->window);
    if ((with->causal != 0 || with->window != 0) && (src->axes == 2 || src->dim[src->axes - 1] != src->dim[1]))
        return qs_fail(QS_USAGE, "softmax: input %s: %s needs as many positions along the last axis as there are channels",
                       qs_shape_text(src, text), with->causal != 0 ? "causal" : "a window");
    *dst = src[0];
    return QS_OK;
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(check(one, QS_SRC));
    return qs__need_same(one, QS_DST, QS_SRC);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(check(one, QS_SRC));
    QS_TRY(qs__need_same(one, QS_DIFF_DST, QS_SRC));
    return qs__need_same(one, QS_DIFF_SRC, QS_SRC);
}

typedef struct rows {
    const qs_case *one;
    int64_t count, of_sample, channels, positions;
    const int32_t *keep;
    bool masked;       /* keep is of each position */
    float *src, *diff; /* diff NULL: forward */
    double *result;
} rows;

/* exp(scale · x - maximum) of the channels that row r keeps, 0 of the others; their sum. */
static double row_powers(const rows *w, int64_t r, double *to) {
    const double scale = w->one->attributes.scale;
    const int64_t place = r % w->positions, window = w->one->attributes.window > 0 ? (int64_t)w->one->attributes.window : INT64_MAX / 2;
    const int64_t first = place - window < 0 ? 0 : place - window + 1;
    const int64_t last = w->one->attributes.causal != 0 ? place : place + window < w->channels ? place + window - 1 : w->channels - 1;
    const int64_t kept_row = w->masked ? r / w->of_sample * w->positions + place : r / w->of_sample;
    const int32_t *keep = w->keep ? w->keep + kept_row * w->channels : NULL;
    const float *x = w->src + r * w->channels;
    double maximum = -HUGE_VAL, sum = 0;
    for (int64_t c = first; c <= last; c++)
        if ((!keep || keep[c] != 0) && !(scale * (double)x[c] <= maximum)) maximum = scale * (double)x[c];
    for (int64_t c = 0; c < w->channels; c++) {
        to[c] = c >= first && c <= last && (!keep || keep[c] != 0) ? exp(scale * (double)x[c] - maximum) : 0;
        sum += to[c];
    }
    return sum;
}

static void rows_range(void *context, int64_t begin, int64_t end) {
    const rows *w = context;
    for (int64_t r = begin; r < end; r++) {
        double *to = w->result + r * w->channels, dot = 0;
        const double sum = row_powers(w, r, to);
        for (int64_t c = 0; c < w->channels; c++) {
            to[c] = sum == 0 ? 0 : to[c] / sum;
            if (w->diff) dot += to[c] * (double)w->diff[r * w->channels + c];
        }
        for (int64_t c = 0; w->diff && c < w->channels; c++)
            to[c] *= w->one->attributes.scale * ((double)w->diff[r * w->channels + c] - dot);
    }
}

static qs_status run_rows(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const bool backward = qs_case_position(one, QS_DIFF_DST) >= 0;
    rows w = {.one = one, .channels = shape->dim[1], .count = qs_shape_count(shape) / shape->dim[1]};
    w.of_sample = w.count / shape->dim[0];
    w.positions = shape->dim[shape->axes - 1];
    if (qs__present(one, QS_KEEP)) w.keep = qs__operand(one, operands, QS_KEEP)->data;
    w.masked = w.keep && masked_by_position(one, shape);
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &w.src));
    if (backward) QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &w.diff));
    QS_GOTO(qs_allocate((size_t)(w.count * w.channels), sizeof *w.result, &w.result));
    qs_parallel(w.count, 1, rows_range, &w);
    QS_GOTO(qs__write_double(qs__operand(one, operands, backward ? QS_DIFF_SRC : QS_DST), w.result));
done:
    free(w.src);
    free(w.diff);
    free(w.result);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_KEEP, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = run_rows,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_KEEP, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = run_rows,
     .check = check_backward},
};

#define EVERY(F, S, K, A) "softmax/forward src=" F S K " dst=" F S A, "softmax/backward src=" F S K " diff_dst=" F S " diff_src=" F S A
#define SHAPES(F)                                                                                                                 \
    EVERY(F, "[2,9,4,7]", "", " scale=0.25"), EVERY(F, "[2,9,4,7]", " keep=fp32[2,9]", " scale=0.125"),                           \
        EVERY(F, "[2,19,3,19]", "", " scale=0.5 causal=1"), EVERY(F, "[1,40,2,40]", " keep=fp32[1,40]", " scale=0.125 causal=1"), \
        EVERY(F, "[5,33]", "", " scale=1"), EVERY(F, "[2,19,3,19]", " keep=fp32[2,19]", " scale=0.5 window=4"),                   \
        EVERY(F, "[1,40,2,40]", "", " scale=0.125 causal=1 window=18")

static const char *const cases[] = {SHAPES("fp32"),
                                    SHAPES("bf16"),
                                    EVERY("fp16", "[2,9,4,7]", "", " scale=0.25"),
                                    EVERY("fp32", "[3,1,2]", "", " scale=1"),
                                    EVERY("fp32", "[3,9,2,5]", " keep=fp32[3,45]", " scale=0.5"),
                                    EVERY("bf16", "[3,33,7]", " keep=fp32[3,231]", " scale=1"),
                                    NULL};

const qs_op qs__op_softmax = {
    .name = "softmax",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_NEVER_NEGATIVE,
    .inputs = 2,
    .optional = 1,
    .infer = infer,
    .setting = {QS_SETTING(scale, 1, 1e-30, 1e30, "what values are multiplied by before"),
                QS_SETTING(causal, 0, 0, 1, "1: position m has the channels up to m only"),
                QS_SETTING(window, 0, 0, 2147483647, "position m has the channels less than so many away; 0: all")},
    .passes = 2,
    .pass = passes,
    .cases = cases};
