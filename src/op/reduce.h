// SPDX-License-Identifier: Apache-2.0
/* What the reductions share (reduce.c): reduce_sum, reduce_mean, reduce_max. */
#ifndef QSYNC_OP_REDUCE_H
#define QSYNC_OP_REDUCE_H

#include "broadcast.h"

qs_status qs__reduce_infer(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst);
bool qs__reduce_takes_all(const qs_attributes *attributes);
qs_status qs__reduce_check_forward(const qs_case *one);
qs_status qs__reduce_check_backward(const qs_case *one);
double qs__reduce_flops_backward(const qs_case *one);
/* Passes of sums, and of means: those divide by how many values there are. */
qs_status qs__reduce_sum(const qs_case *one, const qs_tensor *operands, bool mean);
qs_status qs__reduce_sum_backward(const qs_case *one, const qs_tensor *operands, bool mean);

/* Cases: EVERY(format, shape, shape of the result, settings). */
#define QS__REDUCE_CASES(EVERY)                                                                            \
    EVERY("fp32", "[4,16,8,8]", "[4,16,1,1]", ""), EVERY("fp32", "[3,7,5]", "[3,7,1]", ""),                \
        EVERY("fp32", "[3,7,5]", "[3,1,5]", " over=1"), EVERY("fp32", "[3,11]", "[3,1]", " over=1"),       \
        EVERY("fp32", "[3,7,5,2]", "[3,1,1,1]", " over=2"), EVERY("bf16", "[4,16,8,8]", "[4,16,1,1]", ""), \
        EVERY("bf16", "[3,33,5]", "[3,1,5]", " over=1"), EVERY("bf16", "[3,33,5]", "[3,1,1]", " over=2"),  \
        EVERY("fp16", "[2,8,4]", "[2,8,1]", ""), EVERY("fp32", "[2,303]", "[2,1]", " over=1"), EVERY("fp32", "[2,3,700]", "[2,3,1]", "")
/* All of a reduction behind its passes, and its cases. */
#define QS__REDUCE(NAME)                                                                                                                   \
    static const char *const cases[] = {QS__REDUCE_CASES(EVERY), NULL};                                                                    \
    const qs_op qs__op_##NAME = {.name = #NAME,                                                                                            \
                                 .kind = QS_DEPENDENT,                                                                                     \
                                 .decoding = QS_ONE_POSITION,                                                                              \
                                 .takes_all = qs__reduce_takes_all,                                                                        \
                                 .sign = QS_SIGN_KEPT,                                                                                     \
                                 .inputs = 1,                                                                                              \
                                 .infer = qs__reduce_infer,                                                                                \
                                 .setting = {QS_SETTING(over, 0, 0, 2,                                                                     \
                                                        "what becomes one: 0: the positions of a channel, 1: the channels of a position, " \
                                                        "2: all of a sample")},                                                            \
                                 .passes = 2,                                                                                              \
                                 .pass = passes,                                                                                           \
                                 .cases = cases}
/* The whole of reduce_sum and reduce_mean. */
#define QS__REDUCE_SUMS(NAME, mean)                                                                                             \
    static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {                                \
        (void)run;                                                                                                              \
        return qs__reduce_sum(one, operands, mean);                                                                             \
    }                                                                                                                           \
    static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {                               \
        (void)run;                                                                                                              \
        return qs__reduce_sum_backward(one, operands, mean);                                                                    \
    }                                                                                                                           \
    static const qs_pass passes[] = {                                                                                           \
        {.name = "forward",                                                                                                     \
         QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),                      \
         .reference = forward,                                                                                                  \
         .check = qs__reduce_check_forward},                                                                                    \
        {.name = "backward",                                                                                                    \
         QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}), \
         .reference = backward,                                                                                                 \
         .flops = qs__reduce_flops_backward,                                                                                    \
         .check = qs__reduce_check_backward}};                                                                                  \
    QS__REDUCE(NAME)

#endif
