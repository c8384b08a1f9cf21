// SPDX-License-Identifier: Apache-2.0
/* concat: two activations side by side along the channels: those of src, then those of src2. Channels are last in memory, so a position of
 * the result is a position of each input, one behind the other. With the setting `along` two sequences [N,C,L], one behind the other.
 * Passes: forward src src2 dst; backward diff_dst diff_src diff_src2; values are moved as they are. */
#include "internal.h"

#include <stdlib.h>

static bool joinable(const qs_shape *left, const qs_shape *right, int along) {
    if (left->axes <= along || left->axes != right->axes || (along == 2 && left->axes != 3)) return false;
    for (int axis = 0; axis < left->axes; axis++) {
        if (axis != along && left->dim[axis] != right->dim[axis]) return false;
    }
    return true;
}

static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {
    (void)outputs;
    const int along = qs__along(with);
    char first[96], second[96];
    if (!joinable(&src[0], &src[1], along)) {
        return qs_fail(QS_USAGE, "concat: inputs %s and %s %s only", qs_shape_text(&src[0], first), qs_shape_text(&src[1], second),
                       along == 2 ? "must be sequences that differ in their positions" : "may differ in their channels");
    }
    *dst = src[0];
    dst->dim[along] += src[1].dim[along];
    return QS_OK;
}

static qs_status check_joined(const qs_case *one, qs_role left, qs_role right, qs_role joined) {
    qs_shape src[2] = {*qs__shape(one, left), *qs__shape(one, right)}, dst;
    QS_TRY(infer(&one->attributes, src, 0, &dst));
    QS_TRY(qs__need_shape(one, joined, dst));
    return qs__need_one_format(one);
}

static qs_status check_forward(const qs_case *one) {
    return check_joined(one, QS_SRC, QS_SRC2, QS_DST);
}

static qs_status check_backward(const qs_case *one) {
    return check_joined(one, QS_DIFF_SRC, QS_DIFF_SRC2, QS_DIFF_DST);
}

static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    const int64_t left = qs__moved_run(&one->attributes, qs__shape(one, QS_SRC)),
                  right = qs__moved_run(&one->attributes, qs__shape(one, QS_SRC2)), both = left + right;
    const int64_t count = qs_shape_count(qs__shape(one, QS_DST));
    float *first = NULL, *second = NULL, *values = NULL;
    qs_status status;
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC), &first));
    QS_GOTO(qs__read(qs__operand(one, operands, QS_SRC2), &second));
    QS_GOTO(qs_allocate((size_t)count, sizeof *values, &values));
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / both, channel = i % both;
        values[i] = channel < left ? first[row * left + channel] : second[row * right + channel - left];
    }
    qs__write(qs__operand(one, operands, QS_DST), values);
done:
    free(first);
    free(second);
    free(values);
    return status;
}

static int64_t place_of_first(const qs_attributes *with, const qs_shape *joined, const qs_shape *part, int64_t i) {
    const int64_t run = qs__moved_run(with, part);
    return i / run * qs__moved_run(with, joined) + i % run;
}

static int64_t place_of_second(const qs_attributes *with, const qs_shape *joined, const qs_shape *part, int64_t i) {
    return place_of_first(with, joined, part, i) + qs__moved_run(with, joined) - qs__moved_run(with, part);
}

static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {
    (void)run;
    QS_TRY(qs__take(one, operands, QS_DIFF_DST, QS_DIFF_SRC, place_of_first));
    return qs__take(one, operands, QS_DIFF_DST, QS_DIFF_SRC2, place_of_second);
}

static double flops_forward(const qs_case *one) {
    return (double)qs_shape_count(qs__shape(one, QS_DST));
}

static const qs_pass passes[] = {
    {.name = "forward",
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},
                 {.role = QS_DST, .source = QS_TO_OUTPUT}),
     .reference = forward,
     .flops = flops_forward,
     .check = check_forward},
    {.name = "backward",
     QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},
                 {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1}),
     .reference = backward,
     .check = check_backward}};

#define EVERY(F, A, B, D) SETTING(F, A, B, D, "")
#define SETTING(F, A, B, D, S) \
    "concat/forward src=" F A " src2=" F B " dst=" F D S, "concat/backward diff_dst=" F D " diff_src=" F A " diff_src2=" F B S

static const char *const cases[] = {EVERY("fp32", "[4,16,8,8]", "[4,16,8,8]", "[4,32,8,8]"),
                                    EVERY("fp32", "[2,3,5,7]", "[2,10,5,7]", "[2,13,5,7]"),
                                    EVERY("fp32", "[3,11]", "[3,1]", "[3,12]"),
                                    EVERY("bf16", "[4,16,8,8]", "[4,8,8,8]", "[4,24,8,8]"),
                                    EVERY("bf16", "[1,3,5,7]", "[1,58,5,7]", "[1,61,5,7]"),
                                    EVERY("fp16", "[2,8,4,4]", "[2,4,4,4]", "[2,12,4,4]"),
                                    SETTING("fp32", "[3,7,5]", "[3,7,1]", "[3,7,6]", " along=1"),
                                    SETTING("bf16", "[2,33,9]", "[2,33,40]", "[2,33,49]", " along=1"),
                                    NULL};

const qs_op qs__op_concat = {.name = "concat",
                             .kind = QS_DEPENDENT,
                             .decoding = QS_ONE_POSITION,
                             .sign = QS_SIGN_KEPT,
                             .inputs = 2,
                             .infer = infer,
                             .setting = {QS__ALONG},
                             .passes = 2,
                             .pass = passes,
                             .cases = cases};
