// SPDX-License-Identifier: Apache-2.0
/* relu: the positive part, below a ceiling where one is given (ReLU6), with a mask of one bit an element for backward. A NaN is not hidden:
 * it passes in both directions. */
#include "internal.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

qs_shape qs__relu_mask(const qs_shape *values) {
    return qs_shape_of(1, (qs_shape_count(values) + 7) / 8);
}

qs_shape qs__relu_beside(const qs_op *op, qs_role role, const qs_shape *dst) {
    (void)op, (void)role;
    return qs__relu_mask(dst);
}

static qs_status check_forward(const qs_case *one) {
    QS_TRY(qs__check_absmax(one));
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    return qs__need_shape(one, QS_MASK, qs__relu_mask(qs__shape(one, QS_SRC)));
}

static qs_status check_backward(const qs_case *one) {
    QS_TRY(qs__check_absmax(one));
    QS_TRY(qs__need_same(one, QS_DIFF_DST2, QS_DIFF_DST));
    QS_TRY(qs__need_same(one, QS_DIFF_SRC, QS_DIFF_DST));
    return qs__need_shape(one, QS_MASK, qs__relu_mask(qs__shape(one, QS_DIFF_DST)));
}

void qs__relu_values(int64_t count, float ceiling, float *values, uint8_t *mask) {
    if (mask) memset(mask, 0, (size_t)(count + 7) / 8);
    for (int64_t i = 0; i < count; i++) {
        if (values[i] <= 0) {
            values[i] = 0;
        } else if (ceiling > 0 && values[i] >= ceiling) {
            values[i] = ceiling;
        } else if (mask) {
            mask[i >> 3] |= (uint8_t)(1u << (i & 7));
        }
    }
}

void qs__relu_behind(const qs_case *one, const qs_tensor *operands, int64_t count, float *values) {
    const bool kept = qs_case_position(one, QS_MASK) >= 0 && qs__present(one, QS_MASK);
    qs_round_array(qs__operand(one, operands, QS_DST)->format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, values,
                   values);
    qs__relu_values(count, (float)one->attributes.ceiling, values, kept ? qs__operand(one, operands, QS_MASK)->data : NULL);
}

void qs__relu_mask_values(int64_t count, const uint8_t *mask, float *values) {
    for (int64_t i = 0; i < count; i++) {
        if (!(mask[i >> 3] >> (i & 7) & 1)) values[i] = 0;
    }
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    uint8_t *mask = qs__present(one, QS_MASK) ? qs__operand(one, operands, QS_MASK)->data : NULL;
    float *values;
    QS_TRY(qs__read(qs__operand(one, operands, QS_SRC), &values));
    qs__relu_values(qs_shape_count(qs__shape(one, QS_SRC)), (float)one->attributes.ceiling, values, mask);
    qs__write(qs__operand(one, operands, QS_DST), values);
    free(values);
    return qs__deliver_absmax(one, operands, QS_DST);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const int64_t count = qs_shape_count(qs__shape(one, QS_DIFF_DST));
    float *values = NULL, *more = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &values));
    if (qs__present(one, QS_DIFF_DST2)) {
        QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST2), &more));
        for (int64_t i = 0; i < count; i++)
            values[i] += more[i];
    }
    qs__relu_mask_values(count, qs__operand(one, operands, QS_MASK)->data, values);
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), values);
    status = qs__deliver_absmax(one, operands, QS_DIFF_SRC);
done:
    free(values);
    free(more);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_MASK, .source = QS_TO_BACKWARD, .optional = true},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_MASK, .source = QS_FROM_FORWARD}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_DST2, .source = QS_FROM_SECOND_GRADIENT, .optional = true},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DIFF_SRC, .optional = true}),
     .reference = backward,
     .check = check_backward},
};

#define EVERY_TO(F, S, M, A) \
    "relu/forward src=" F S " mask=int8[" M "] dst=" F S A, "relu/backward mask=int8[" M "] diff_dst=" F S " diff_src=" F S A
#define EVERY(F, S, M) EVERY_TO(F, S, M, "")
#define DELIVERS(F, S, M, A)                                                  \
    "relu/forward src=" F S " mask=int8[" M "] dst=" F S " absmax=fp32[1]" A, \
        "relu/backward mask=int8[" M "] diff_dst=" F S " diff_src=" F S " absmax=fp32[1]" A
/* A gradient in two parts, of formats F and G. */
#define PARTS(F, G, S, M, E) "relu/backward mask=int8[" M "] diff_dst=" F S " diff_dst2=" G S " diff_src=" F S E

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]", "512"),
                                    EVERY("fp32", "[1,3,5,5]", "10"),
                                    EVERY("fp32", "[3,7]", "3"),
                                    EVERY("bf16", "[4,16,8,8]", "512"),
                                    EVERY("bf16", "[1,3,5,5]", "10"),
                                    EVERY("fp16", "[2,8,4,4]", "32"),
                                    EVERY("tf32", "[1,3,5,5]", "10"),
                                    "relu/forward src=fp32[2,9,3,3] dst=fp32[2,9,3,3]",
                                    "relu/forward src=bf16[2,9,3,3] dst=bf16[2,9,3,3]",
                                    "relu/forward src=fp32[2,9,3,3] mask=int8[21] dst=bf16[2,9,3,3]",
                                    EVERY_TO("fp32", "[4,16,8,8]", "512", " ceiling=6"),
                                    EVERY_TO("fp32", "[1,3,5,5]", "10", " ceiling=1.5"),
                                    EVERY_TO("bf16", "[4,16,8,8]", "512", " ceiling=0.5"),
                                    EVERY_TO("bf16", "[1,3,5,5]", "10", " ceiling=0.5"),
                                    EVERY_TO("fp16", "[2,8,4,4]", "32", " ceiling=0.5"),
                                    "relu/forward src=fp32[2,9,3,3] mask=int8[21] dst=bf16[2,9,3,3] ceiling=0.5",
                                    "relu/forward src=bf16[2,9,3,3] dst=fp32[2,9,3,3] ceiling=1.01171875",
                                    "relu/forward src=bf16[8,9,3,3] mask=int8[81] dst=bf16[8,9,3,3] ceiling=1.01171875",
                                    DELIVERS("fp32", "[5,19,7,3]", "250", ""),
                                    DELIVERS("bf16", "[4,16,8,8]", "512", ""),
                                    DELIVERS("bf16", "[7,5,31,33]", "4476", " ceiling=0.5"),
                                    DELIVERS("fp16", "[2,5,3,3]", "12", ""),
                                    PARTS("fp32", "fp32", "[4,16,8,8]", "512", ""),
                                    PARTS("fp32", "fp32", "[3,7]", "3", " absmax=fp32[1]"),
                                    PARTS("bf16", "bf16", "[7,5,31,33]", "4476", ""),
                                    PARTS("bf16", "bf16", "[1,3,5,5]", "10", " absmax=fp32[1]"),
                                    PARTS("fp16", "fp16", "[2,8,4,4]", "32", ""),
                                    PARTS("bf16", "fp32", "[2,5,3,3]", "12", ""),
                                    "relu/backward mask=int8[12] diff_dst=bf16[2,5,3,3] diff_dst2=bf16[2,5,3,3] diff_src=fp32[2,5,3,3]",
                                    NULL};

const qs_op qs__op_relu = {.name = "relu",
                           .kind = QS_DEPENDENT,
                           .decoding = QS_ONE_POSITION,
                           .sign = QS_SIGN_NEVER_NEGATIVE,
                           .behind_norm = true,
                           .inputs = 1,
                           .beside = qs__relu_beside,
                           .setting = {QS_SETTING(ceiling, 0, 0, FLT_MAX, "the largest result; 0: none")},
                           .passes = 2,
                           .pass = passes,
                           .cases = cases};
