// SPDX-License-Identifier: Apache-2.0
/* class_token: a learned vector in front of a sequence: src [N,C,L], weights [1,C]: dst [N,C,L+1] with the weights at position 0. Passes:
 * forward src weights dst; backward diff_dst diff_src diff_weights.
 *
 * Values are moved as they are, so src and dst have one format. The gradient of the vector is the sum of diff_dst at position 0 over the
 * samples, in fp32, from 0, in their order: the same bits on every device, for any threads. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char text[96];
    if (src->axes != 3) return qs_fail(QS_USAGE, "class_token: input %s needs the axes N,C,L", qs_shape_text(src, text));
    *dst = qs_shape_of(3, src->dim[0], src->dim[1], src->dim[2] + 1);
    return QS_OK;
}

static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) {
    (void)with, (void)outputs, (void)bias;
    out[0] = (qs_parameter_rule){"weights", QS_WEIGHTS, QS_DIFF_WEIGHTS, qs_shape_of(2, (int64_t)1, src->dim[1]), 0, 0};
    return 1;
}

static qs_status check(const qs_case *one, qs_role part, qs_role whole, qs_role token) {
    const qs_format *a = one->operand[qs_case_position(one, part)].format, *b = one->operand[qs_case_position(one, whole)].format;
    QS_TRY(qs__need_inferred(one, part, 0, whole));
    if (a != b)
        return qs__refuse(one, "%s is %s and %s is %s: values are moved as they are", qs_role_name(part), a->name, qs_role_name(whole),
                          b->name);
    return qs__need_shape(one, token, qs_shape_of(2, (int64_t)1, qs__shape(one, part)->dim[1]));
}

static qs_status check_forward(const qs_case *one) {
    return check(one, QS_SRC, QS_DST, QS_WEIGHTS);
}

static qs_status check_backward(const qs_case *one) {
    return check(one, QS_DIFF_SRC, QS_DIFF_DST, QS_DIFF_WEIGHTS);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *src = qs__shape(one, QS_SRC), *dst = qs__shape(one, QS_DST);
    const int64_t channels = src->dim[1], from = channels * src->dim[2], to = channels * dst->dim[2];
    float *token = NULL, *values = NULL, *joined = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_WEIGHTS), &token));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &values));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(dst), sizeof *joined, &joined));
    for (int64_t n = 0; n < src->dim[0]; n++) {
        memcpy(joined + n * to, token, (size_t)channels * sizeof *token);
        memcpy(joined + n * to + channels, values + n * from, (size_t)from * sizeof *values);
    }
    qs__write(qs__operand(one, operands, QS_DST), joined);
done:
    free(token);
    free(values);
    free(joined);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *part = qs__shape(one, QS_DIFF_SRC), *whole = qs__shape(one, QS_DIFF_DST);
    const int64_t channels = part->dim[1], to = channels * part->dim[2], from = channels * whole->dim[2];
    float *token = qs__fp32(one, operands, QS_DIFF_WEIGHTS), *values = NULL, *rest = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &values));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(part), sizeof *rest, &rest));
    memset(token, 0, (size_t)channels * sizeof *token);
    for (int64_t n = 0; n < part->dim[0]; n++) {
        for (int64_t c = 0; c < channels; c++)
            token[c] += values[n * from + c];
        memcpy(rest + n * to, values + n * from + channels, (size_t)to * sizeof *values);
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), rest);
done:
    free(values);
    free(rest);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_WEIGHTS, .source = QS_TO_PARAMETER_GRADIENT}),
     .reference = backward,
     .check = check_backward},
};

#define EVERY(F, S, C, D)                                             \
    "class_token/forward src=" F S " weights=fp32[1," C "] dst=" F D, \
        "class_token/backward diff_dst=" F D " diff_src=" F S " diff_weights=fp32[1," C "]"

static const char *const cases[] = {EVERY("fp32", "[4,16,8]", "16", "[4,16,9]"),
                                    EVERY("fp32", "[3,7,5]", "7", "[3,7,6]"),
                                    EVERY("fp32", "[1,1,1]", "1", "[1,1,2]"),
                                    EVERY("bf16", "[9,300,31]", "300", "[9,300,32]"),
                                    EVERY("fp16", "[2,8,5]", "8", "[2,8,6]"),
                                    "class_token/forward src=bf16[3,12,5] weights=bf16[1,12] dst=bf16[3,12,6]",
                                    NULL};

const qs_op qs__op_class_token = {.name = "class_token",
                                  .kind = QS_DEPENDENT,
                                  .inputs = 1,
                                  .infer = infer,
                                  .parameters = parameters,
                                  .passes = 2,
                                  .pass = passes,
                                  .cases = cases};
