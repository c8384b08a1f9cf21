// SPDX-License-Identifier: Apache-2.0
/* local_response_norm: dst = src s^-beta with s = bias + alpha / size · Σ src² over `size` channels of the position around each one, those
 * from c - (size - 1) / 2 (rounded down) to c + size / 2 (rounded down) that there are (Krizhevsky et al., 2012; LRN of ONNX). Passes:
 * forward src dst; backward src diff_dst diff_src. Nothing is kept between them: backward reads src anyway. With r = diff_dst src s^(-beta
 * - 1): diff_src = diff_dst s^-beta - 2 alpha beta / size · src · Σ r over the channels whose sums have this one. Sums are double. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes < 2)
        return qs_fail(QS_USAGE, "local_response_norm: input %s needs the axes N,C, N,C,L or N,C,H,W", qs_shape_text(src, text));
    if (with->size != floor(with->size)) return qs_fail(QS_USAGE, "local_response_norm: size is %g: a whole number", with->size);
    *dst = *src;
    return QS_OK;
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_axes(one, QS_SRC, 2, 4));
    for (int i = 1; i < one->operands; i++)
        QS_TRY(qs__need_same(one, one->operand[i].role, QS_SRC));
    return qs__need_inferred(one, QS_SRC, 0, QS_SRC);
}

/* Σ of values over the channels c - before ... c + behind that there are. */
static double window_sum(int64_t channels, int64_t c, int64_t before, int64_t behind, const double *values) {
    const int64_t first = c < before ? 0 : c - before, last = channels - 1 - c < behind ? channels - 1 : c + behind;
    double sum = 0;
    for (int64_t i = first; i <= last; i++)
        sum += values[i];
    return sum;
}

/* s of every channel of a position. */
static void sums_of(const qs_attributes *with, int64_t channels, const float *x, double *squares, double *sums) {
    const int64_t size = (int64_t)with->size;
    for (int64_t c = 0; c < channels; c++)
        squares[c] = (double)x[c] * (double)x[c];
    for (int64_t c = 0; c < channels; c++)
        sums[c] = with->bias + with->alpha / with->size * window_sum(channels, c, (size - 1) / 2, size / 2, squares);
}

static void position_forward(const qs_attributes *with, int64_t channels, double *room, float *x) {
    double *sums = room + channels;
    sums_of(with, channels, x, room, sums);
    for (int64_t c = 0; c < channels; c++)
        x[c] = (float)((double)x[c] * pow(sums[c], -with->beta));
}

static void position_backward(const qs_attributes *with, int64_t channels, double *room, const float *x, float *dy) {
    const int64_t size = (int64_t)with->size;
    double *sums = room + channels;
    sums_of(with, channels, x, room, sums);
    for (int64_t c = 0; c < channels; c++)
        room[c] = (double)dy[c] * (double)x[c] * pow(sums[c], -with->beta - 1);
    for (int64_t c = 0; c < channels; c++) {
        const double others = window_sum(channels, c, size / 2, (size - 1) / 2, room);
        dy[c] = (float)((double)dy[c] * pow(sums[c], -with->beta) - 2 * with->alpha * with->beta / with->size * (double)x[c] * others);
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t channels = shape->dim[1], count = qs_shape_count(shape);
    float *values = NULL;
    double *room = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs_allocate(2 * (size_t)channels, sizeof *room, &room));
    for (float *x = values; x < values + count; x += channels)
        position_forward(&one->attributes, channels, room, x);
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(values);
    free(room);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *shape = qs__shape(one, QS_SRC);
    const int64_t channels = shape->dim[1], count = qs_shape_count(shape);
    float *values = NULL, *gradient = NULL;
    double *room = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    QS_GOTO(qs_allocate(2 * (size_t)channels, sizeof *room, &room));
    for (int64_t at = 0; at < count; at += channels)
        position_backward(&one->attributes, channels, room, values + at, gradient + at);
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), gradient);
done:
    free(values);
    free(gradient);
    free(room);
    return status;
}

/* Operations an element: a square, a window of sums, a power and two products; and twice as many backward. */
static double flops_forward(const qs_case *one) {
    return (one->attributes.size + 4) * (double)qs_shape_count(qs__shape(one, QS_SRC));
}

static double flops_backward(const qs_case *one) {
    return 2 * flops_forward(one);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check},
    {.name = "backward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = check},
};

#define EVERY(F, S, A) \
    "local_response_norm/forward src=" F S " dst=" F S A, "local_response_norm/backward src=" F S " diff_dst=" F S " diff_src=" F S A

static const char *const cases[] = {EVERY("fp32", "[2,16,4,4]", " size=5 alpha=0.0001 beta=0.75 bias=1"),
                                    EVERY("fp32", "[2,5,7,3]", " size=3 alpha=0.5 beta=0.75 bias=2"),
                                    EVERY("fp32", "[3,37,5]", " size=4 alpha=1 beta=0.6 bias=1"),
                                    EVERY("bf16", "[2,33,4,3]", " size=5 alpha=0.3 beta=0.75 bias=1"),
                                    EVERY("fp16", "[4,16]", " size=7 alpha=0.1 beta=0.5 bias=1"),
                                    EVERY("bf16", "[2,3,5,5]", " size=9 alpha=2 beta=1 bias=1"),
                                    "local_response_norm/forward src=bf16[2,9,3,3] dst=fp32[2,9,3,3] size=5 alpha=0.0001 beta=0.75 bias=1",
                                    NULL};

const qs_op qs__op_local_response_norm = {
    .name = "local_response_norm",
    .kind = QS_DEPENDENT,
    .sign = QS_SIGN_KEPT,
    .decoding = QS_ONE_POSITION,
    .inputs = 1,
    .infer = infer,
    .setting = {QS_SETTING(size, 5, 1, 0x1p30, "channels of a sum"), QS_SETTING(alpha, 1e-4, 0, INFINITY, "factor of the mean of squares"),
                QS_SETTING(beta, 0.75, 0, INFINITY, "power of the sum"), QS_SETTING(bias, 1, 1e-30, INFINITY, "added to the sum")},
    .passes = 2,
    .pass = passes,
    .cases = cases};
