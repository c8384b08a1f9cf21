// SPDX-License-Identifier: Apache-2.0
/* add: elementwise sum of two activations or two gradients, with a relu behind it or none. dst may be src or src2. */
#include "internal.h"

#include <stdlib.h>

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)with, (void)outputs;
    return qs__infer_alike("add", src, dst);
}

static qs_status check(const qs_case *one) {
    QS_TRY(qs__need_same(one, QS_SRC2, QS_SRC));
    QS_TRY(qs__need_same(one, QS_DST, QS_SRC));
    QS_TRY(qs__need_shape(one, QS_MASK, qs__relu_mask(qs__shape(one, QS_SRC))));
    if (qs__present(one, QS_MASK) && !one->attributes.relu) return qs__refuse(one, "operand mask: it needs the attribute relu");
    return qs__check_absmax(one);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    float *left = NULL, *right = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &left));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC2), &right));
    int64_t count = qs_shape_count(qs__shape(one, QS_SRC));
    for (int64_t i = 0; i < count; i++) {
        left[i] += right[i];
    }
    if (one->attributes.relu) qs__relu_behind(one, operands, count, left);
    qs__write(qs__operand(one, operands, QS_DST), left);
    status = qs__deliver_absmax(one, operands, QS_DST);
done:
    free(left);
    free(right);
    return status;
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_MASK, .source = QS_TO_BACKWARD, .optional = true}, {.role = QS_DST, .source = QS_TO_OUTPUT},
                 {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),
     .reference = forward,
     .check = check}};

#define SUM(F, S) "add/forward src=" F S " src2=" F S " dst=" F S
/* With a relu behind; M mask. */
#define RELU(F, S, M) "add/forward src=" F S " src2=" F S " mask=int8[" M "] dst=" F S

static const char *const cases[] = {SUM("fp32", "[4,16,8,8]"),
                                    SUM("fp32", "[1,3,5,7]"),
                                    SUM("fp32", "[3,11]"),
                                    SUM("bf16", "[4,16,8,8]"),
                                    SUM("bf16", "[1,3,5,7]"),
                                    SUM("fp16", "[2,8,4,4]"),
                                    SUM("tf32", "[2,3,5,7]"),
                                    SUM("fp32", "[5,19,7,3]") " absmax=fp32[1]",
                                    SUM("bf16", "[4,16,8,8]") " absmax=fp32[1]",
                                    SUM("bf16", "[7,5,31,33]") " absmax=fp32[1]",
                                    SUM("fp16", "[2,5,3,3]") " absmax=fp32[1]",
                                    "add/forward src=bf16[2,5,3,3] src2=bf16[2,5,3,3] dst=fp32[2,5,3,3]",
                                    "add/forward src=bf16[2,5,3,3] src2=fp32[2,5,3,3] dst=fp32[2,5,3,3]",
                                    RELU("fp32", "[4,16,8,8]", "512") " relu",
                                    RELU("fp32", "[1,3,5,7]", "14") " ceiling=1.5 relu",
                                    RELU("bf16", "[7,5,31,33]", "4476") " relu",
                                    RELU("bf16", "[4,16,8,8]", "512") " absmax=fp32[1] ceiling=0.5 relu",
                                    RELU("bf16", "[3,11]", "5") " relu",
                                    RELU("fp16", "[2,5,3,3]", "12") " absmax=fp32[1] relu",
                                    RELU("tf32", "[2,3,5,7]", "27") " relu",
                                    SUM("fp32", "[3,11]") " absmax=fp32[1] relu",
                                    SUM("bf16", "[7,5,31,33]") " ceiling=6 relu",
                                    "add/forward src=bf16[2,5,3,3] src2=fp32[2,5,3,3] mask=int8[12] dst=bf16[2,5,3,3] relu",
                                    "add/forward src=bf16[2,5,3,3] src2=bf16[2,5,3,3] mask=int8[12] dst=fp32[2,5,3,3] relu",
                                    NULL};

const qs_op qs__op_add = {.name = "add",
                          .kind = QS_DEPENDENT,
                          .decoding = QS_ONE_POSITION,
                          .sign = QS_SIGN_KEPT,
                          .does_relu = true,
                          .inputs = 2,
                          .beside = qs__relu_beside,
                          .infer = infer,
                          .passes = 1,
                          .pass = passes,
                          .cases = cases};
