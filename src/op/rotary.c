// SPDX-License-Identifier: Apache-2.0
/* rotary: positions as rotations (Su et al., 2021), in the form of Hugging Face's models: src [N,C,L] of `heads` heads of d = C / heads
 * channels, of which i and i + d/2 are a pair (x, y), i < d/2. At position l dst has (x cos a - y sin a, y cos a + x sin a) with a = l
 * base^(-2i/d). Passes: forward src place? dst; backward diff_dst place? diff_src, the rotation back. With the input `place`, of one
 * sample, the positions at hand stand at place, place + 1, ... of their sequence, and l is that. The reference computes in double. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    char text[96];
    if (src->axes != 3) return qs_fail(QS_USAGE, "rotary: input %s needs the axes N,C,L", qs_shape_text(src, text));
    if (with->heads != (double)(int64_t)with->heads || src->dim[1] % (2 * (int64_t)with->heads))
        return qs_fail(QS_USAGE, "rotary: the %lld channels of input %s do not make pairs in %g heads: take heads that divide half of them",
                       (long long)src->dim[1], qs_shape_text(src, text), with->heads);
    *dst = *src;
    return QS_OK;
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__check_place(one));
    return qs__need_inferred(one, QS_SRC, 0, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__check_place(one));
    return qs__need_inferred(one, QS_DIFF_DST, 0, QS_DIFF_SRC);
}

/* sign 1: forward, -1: back. */
static qs_status rotate(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role to, double sign) {
    const qs_shape *shape = qs__shape(one, from);
    const int64_t channels = shape->dim[1], positions = shape->dim[2], heads = (int64_t)one->attributes.heads, half = channels / heads / 2;
    const int64_t place = qs__place_read(one, operands);
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, from), &values));
    for (int64_t row = 0; row < shape->dim[0] * positions; row++)
        for (int64_t pair = 0; pair < heads * half; pair++) {
            const double angle = (double)(place + row % positions) * pow(one->attributes.base, -(double)(pair % half) / (double)half);
            float *x = values + row * channels + pair / half * 2 * half + pair % half, *y = x + half;
            const double cosine = cos(angle), sine = sign * sin(angle), first = (double)*x, second = (double)*y;
            *x = (float)(first * cosine - second * sine);
            *y = (float)(second * cosine + first * sine);
        }
    qs__write(qs__operand(one, operands, to), values);
    free(values);
    return QS_OK;
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return rotate(one, operands, QS_SRC, QS_DST, 1);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    return rotate(one, operands, QS_DIFF_DST, QS_DIFF_SRC, -1);
}

static double flops(const qs_case *one) {
    return 3 * (double)qs_shape_count(&one->operand[0].shape);
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_PLACE, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_PLACE, .source = QS_FROM_INPUT, .of = 1, .optional = true},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops,
     .check = check_backward},
};

#define EVERY(F, S, H, B) \
    "rotary/forward src=" F S " dst=" F S " heads=" H " base=" B, "rotary/backward diff_dst=" F S " diff_src=" F S " heads=" H " base=" B

static const char *const cases[] = {EVERY("fp32", "[4,24,8]", "2", "10000"),
                                    EVERY("fp32", "[2,64,67]", "2", "10000"),
                                    EVERY("fp32", "[1,2,3]", "1", "500000"),
                                    EVERY("bf16", "[3,64,33]", "1", "10000"),
                                    EVERY("bf16", "[2,40,9]", "2", "100"),
                                    EVERY("fp16", "[2,8,5]", "4", "10000"),
                                    "rotary/forward src=bf16[3,12,5] dst=fp32[3,12,5] heads=1 base=10000",
                                    "rotary/forward src=fp32[1,24,1] place=fp32[1,1] dst=fp32[1,24,1] heads=2 base=10000",
                                    "rotary/forward src=bf16[1,24,19] place=fp32[1,1] dst=bf16[1,24,19] heads=2 base=10000",
                                    "rotary/backward diff_dst=fp32[1,24,19] place=fp32[1,1] diff_src=fp32[1,24,19] heads=2 base=10000",
                                    NULL};

const qs_op qs__op_rotary = {.name = "rotary",
                             .kind = QS_DEPENDENT,
                             .decoding = QS_PLACED_POSITION,
                             .inputs = 2,
                             .optional = 1,
                             .infer = infer,
                             .setting = {QS_SETTING(heads, 1, 1, 65536, "that lie side by side in the channels"),
                                         QS_SETTING(base, 10000, 1, 1e12, "of the wave lengths")},
                             .passes = 2,
                             .pass = passes,
                             .cases = cases};
