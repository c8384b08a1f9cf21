// SPDX-License-Identifier: Apache-2.0
/* gather: positions of a sequence by their numbers. src [N,C,L], ids [N,K]: dst [N,C,K], position ids[n,k] of sample n at position k:
 * masked ones, say, which a loss then goes over without the others. Passes: forward src ids dst; backward ids diff_dst diff_src.
 *
 * Values are moved as they are. The gradient of a position is the sum of diff_dst over the k that take it, in fp32, from 0, in their order,
 * rounded to its format: the same bits on every device, for any threads. One that nobody takes has the gradient 0. Ids that are no
 * positions are refused. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    char first[96], second[96];
    if (src[0].axes != 3 || src[1].axes != 2 || src[0].dim[0] != src[1].dim[0])
        return qs_fail(QS_USAGE, "gather: input %s and ids %s need the axes N,C,L and N,K", qs_shape_text(&src[0], first),
                       qs_shape_text(&src[1], second));
    *dst = qs_shape_of(3, src[0].dim[0], src[0].dim[1], src[1].dim[1]);
    return QS_OK;
}

static qs_status check(const qs_case *one, qs_role whole, qs_role part) {
    const qs_format *a = one->operand[qs_case_position(one, whole)].format, *b = one->operand[qs_case_position(one, part)].format;
    qs_shape src[2] = {*qs__shape(one, whole), *qs__shape(one, QS_IDS)}, dst;
    if (a != b)
        return qs__refuse(one, "%s is %s and %s is %s: values are moved as they are", qs_role_name(whole), a->name, qs_role_name(part),
                          b->name);
    QS_TRY(infer(&one->attributes, src, 0, &dst));
    return qs__need_shape(one, part, dst);
}

static qs_status check_forward(const qs_case *one) {
    return check(one, QS_SRC, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return check(one, QS_DIFF_SRC, QS_DIFF_DST);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *whole = qs__shape(one, QS_SRC), *part = qs__shape(one, QS_DST);
    const int64_t channels = whole->dim[1], rows = part->dim[0] * part->dim[2];
    int32_t *ids = NULL;
    float *src = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__ids_read(one, operands, &ids));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &src));
    QS_GOTO(qs_allocate((size_t)(rows * channels), sizeof *values, &values));
    for (int64_t i = 0; i < rows; i++)
        memcpy(values + i * channels, src + (i / part->dim[2] * whole->dim[2] + ids[i]) * channels, (size_t)channels * sizeof *values);
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(ids);
    free(src);
    free(values);
    return status;
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const qs_shape *whole = qs__shape(one, QS_DIFF_SRC), *part = qs__shape(one, QS_DIFF_DST);
    const int64_t channels = whole->dim[1], rows = part->dim[0] * part->dim[2];
    int32_t *ids = NULL;
    float *gradient = NULL, *sums = NULL;
    qs_status status;
    QS_GOTO(qs__ids_read(one, operands, &ids));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_DIFF_DST), &gradient));
    QS_GOTO(qs_allocate((size_t)qs_shape_count(whole), sizeof *sums, &sums)); /* zeros */
    for (int64_t i = 0; i < rows; i++) {
        float *sum = sums + (i / part->dim[2] * whole->dim[2] + ids[i]) * channels;
        for (int64_t c = 0; c < channels; c++)
            sum[c] += gradient[i * channels + c];
    }
    qs__write(qs__operand(one, operands, QS_DIFF_SRC), sums);
done:
    free(ids);
    free(gradient);
    free(sums);
    return status;
}

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static double flops_backward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DIFF_DST));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_IDS, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_IDS, .source = QS_FROM_INPUT, .of = 1}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT},
                 {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),
     .reference = backward,
     .flops = flops_backward,
     .check = check_backward},
};

#define EVERY(F, S, K, D) \
    "gather/forward src=" F S " ids=fp32" K " dst=" F D, "gather/backward ids=fp32" K " diff_dst=" F D " diff_src=" F S

static const char *const cases[] = {EVERY("fp32", "[4,16,8]", "[4,3]", "[4,16,3]"), EVERY("fp32", "[3,7,5]", "[3,12]", "[3,7,12]"),
                                    EVERY("fp32", "[1,1,1]", "[1,1]", "[1,1,1]"),   EVERY("bf16", "[5,300,9]", "[5,9]", "[5,300,9]"),
                                    EVERY("fp16", "[2,8,5]", "[2,4]", "[2,8,4]"),   NULL};

const qs_op qs__op_gather = {
    .name = "gather", .kind = QS_DEPENDENT, .sign = QS_SIGN_KEPT, .inputs = 2, .infer = infer, .passes = 2, .pass = passes, .cases = cases};
