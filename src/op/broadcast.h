// SPDX-License-Identifier: Apache-2.0
/* Operands that have one element for several of a value: gate, expand, the reductions, and gain, offset and prelu, whose parameters are so
 * (broadcast.c). */
#ifndef QSYNC_OP_BROADCAST_H
#define QSYNC_OP_BROADCAST_H

#include "internal.h"
#include "qsync/views.h"

/* QS_USAGE, in the name of the operator, unless the extents of `part` are those of `whole` or 1; behind its last axis they are 1. */
qs_status qs__need_broadcast(const char *name, const qs_shape *whole, const qs_shape *part);
/* The element of the part for element i of the whole. */
int64_t qs__broadcast_place(const qs_broadcast *map, int64_t i);
/* to[i] = f(from[i], part of i), rounded to fp32 first; from QS_ROLE_COUNT: f(0, part of i). */
qs_status qs__broadcast_apply(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role part, qs_role to, qs__pair function);
/* to = Σ f(a[i], b[i]) over all i of which it is part, in double; b QS_ROLE_COUNT: f(a[i], 0). */
qs_status qs__broadcast_sum(const qs_case *one, const qs_tensor *operands, qs_role a, qs_role b, qs_role to, qs__pair function);
double qs__broadcast_product(double a, double b);
double qs__broadcast_first(double a, double b);
double qs__broadcast_second(double a, double b);

/* ---- gain, offset, prelu ---- */

/* What the setting `over` of gain, offset and prelu says (qs__over_takes_all: numbers that positions have by themselves need all of them):
 * the shape of their parameter for an input; QS_USAGE where it is none of those. */
#define QS__OVER                                                                                                         \
    QS_SETTING(over, 0, 0, 3,                                                                                            \
               "numbers of its own have 0: the channels, 1: positions and channels, as a sample is shaped, 2: nothing, " \
               "there is one, 3: the positions")
qs_status qs__over_shape(const char *name, const qs_attributes *with, const qs_shape *src, qs_shape *out);
bool qs__over_takes_all(const qs_attributes *with);
/* Their functions `infer` and `parameters`, from the parameter's name, role and start value. */
#define QS__OVER_RULES(operator_name, name, role, gradient, initial)                                                            \
    static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {                    \
        qs_shape parameter;                                                                                                     \
        (void)outputs;                                                                                                          \
        *dst = *src;                                                                                                            \
        return qs__over_shape(operator_name, with, src, &parameter);                                                            \
    }                                                                                                                           \
    static int parameters(const qs_attributes *with, const qs_shape *src, int64_t outputs, bool bias, qs_parameter_rule *out) { \
        (void)outputs, (void)bias;                                                                                              \
        out[0] = (qs_parameter_rule){name, role, gradient, {0}, initial, 0};                                                    \
        return qs__over_shape(operator_name, with, src, &out[0].shape) == QS_OK;                                                \
    }
/* Passes and cases of those whose backward reads the input and the parameter, which is called scale. */
#define QS__SCALE_CASES(NAME, F, S, P, A)                   \
    NAME "/forward src=" F S " scale=fp32" P " dst=" F S A, \
        NAME "/backward src=" F S " scale=fp32" P " diff_dst=" F S " diff_src=" F S " diff_scale=fp32" P A
#define QS__OVER_PASSES                                                                                                                  \
    {.name = "forward",                                                                                                                  \
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},                             \
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}), \
     .reference = forward,                                                                                                               \
     .check = qs__over_check},                                                                                                           \
    {                                                                                                                                    \
        .name = "backward",                                                                                                              \
        QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SCALE, .source = QS_FROM_PARAMETER},                          \
                    {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},            \
                    {.role = QS_DIFF_SCALE, .source = QS_TO_PARAMETER_GRADIENT}),                                                        \
        .reference = backward, .flops = qs__pair_flops_backward, .check = qs__over_check                                                 \
    }
/* Their cases: EVERY(format, shape, shape of the parameter, settings). */
#define QS__OVER_CASES(EVERY)                                                                                                   \
    EVERY("fp32", "[4,16,8,8]", "[16]", ""), EVERY("fp32", "[3,7,5]", "[7]", ""), EVERY("fp32", "[3,7,5]", "[5,7]", " over=1"), \
        EVERY("fp32", "[3,7,5,2]", "[10,7]", " over=1"), EVERY("fp32", "[3,11]", "[1]", " over=2"),                             \
        EVERY("fp32", "[3,7,5,2]", "[10]", " over=3"), EVERY("bf16", "[4,16,8,8]", "[16]", ""),                                 \
        EVERY("bf16", "[3,33,5]", "[5,33]", " over=1"), EVERY("bf16", "[3,33,5]", "[1]", " over=2"),                            \
        EVERY("bf16", "[3,33,5]", "[5]", " over=3"), EVERY("fp16", "[2,8,4]", "[8]", "")
/* The rule of a pass of these operators: all but the parameter (of one of two roles) and absmax are shaped as the first operand. */
qs_status qs__over_check(const qs_case *one);
/* All of such an operator behind `forward`, `backward` and `passes`; P: its parameter; the rest: what else it has. */
#define QS__OVER_OPERATOR(NAME, P, ...)                                                                                  \
    static const char *const cases[] = {QS__OVER_CASES(EVERY),                                                           \
                                        #NAME "/forward src=bf16[7,5,31] " P "=fp32[5] dst=bf16[7,5,31] absmax=fp32[1]", \
                                        #NAME "/forward src=bf16[2,5,3,3] " P "=fp32[5] dst=fp32[2,5,3,3]", NULL};       \
    const qs_op qs__op_##NAME = {.name = #NAME,                                                                          \
                                 .kind = QS_DEPENDENT,                                                                   \
                                 .decoding = QS_ONE_POSITION,                                                            \
                                 .takes_all = qs__over_takes_all,                                                        \
                                 .inputs = 1,                                                                            \
                                 .infer = infer,                                                                         \
                                 .parameters = parameters,                                                               \
                                 .setting = {QS__OVER},                                                                  \
                                 .passes = 2,                                                                            \
                                 .pass = passes,                                                                         \
                                 .cases = cases,                                                                         \
                                 __VA_ARGS__}

#endif
