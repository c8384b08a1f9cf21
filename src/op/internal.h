// SPDX-License-Identifier: Apache-2.0
/* Shared inside op: rules that several operators' checks use, and the reference kernels' way from storage to fp32 and back. Reference
 * kernels are the only kernels that may allocate. */
#ifndef QSYNC_OP_INTERNAL_H
#define QSYNC_OP_INTERNAL_H

#include "qsync/op.h"

/* ---- Rules (rules.c) ---- */

/* The operand's shape; asserts that the pass has the role. */
const qs_shape *qs__shape(const qs_case *one, qs_role role);
bool qs__present(const qs_case *one, qs_role role);
bool qs__is_integer(const qs_case *one, qs_role role);
/* QS_USAGE naming case and operand unless the operand (when present) has this shape. */
qs_status qs__need_shape(const qs_case *one, qs_role role, qs_shape expected);
/* The same unless it has as many axes. */
qs_status qs__need_axes(const qs_case *one, qs_role role, int least, int most);
/* dst and src of an elementwise pass agree. */
qs_status qs__need_same(const qs_case *one, qs_role role, qs_role as);
/* The shape rule of elementwise operators of two inputs, which must have one shape. */
qs_status qs__infer_alike(const char *name, const qs_shape *src, qs_shape *dst);
/* Every operand has the format of the first: passes that move values as they are. */
qs_status qs__need_one_format(const qs_case *one);
/* The shape an operator's infer gives for operand `src` is that of operand `dst`. */
qs_status qs__need_inferred(const qs_case *one, qs_role src, int64_t outputs, qs_role dst);
/* A shape rule's message: "max_pool: <text>". */
qs_status qs__refuse(const qs_case *one, const char *format, ...) QS_PRINTF(2, 3);
/* Output extent of the attributes' window along an axis (0: height, 1: width) of an image; QS_USAGE when the window does not fit. */
qs_status qs__window(const qs_attributes *with, int axis, int64_t extent, int64_t *out);
/* The attributes' window, with what is left out: kernel, stride and dilation are 1 at least. */
typedef struct qs__geometry qs__geometry;
void qs__window_take(const qs_attributes *with, qs__geometry *out);
/* Steps and absolute maxima: [1], or with per_channel [extent of `axis` of `values`]. */
qs_status qs__need_steps(const qs_case *one, qs_role steps, qs_role values);

/* ---- conv2d and linear as one product (gemm.c) ---- */

/* Extents of an image operator; a linear operator has 1 × 1 images and kernels. */
struct qs__geometry {
    int64_t batch, channels, height, width; /* src */
    int64_t outputs, out_height, out_width; /* dst */
    int64_t kernel[2], stride[2], dilation[2], padding[2], groups;
};
/* Place of the image that tap k of the window of result `at` reads along an axis; it may lie outside. */
static inline int64_t qs__tap_place(const qs__geometry *g, int axis, int64_t at, int64_t k) {
    return at * g->stride[axis] - g->padding[axis] + k * g->dilation[axis];
}
/* Forward, input gradient and weight gradient of both. */
enum { QS__GEMM_PASSES = 3 };
extern const qs_pass qs__gemm_passes[QS__GEMM_PASSES];
extern const qs_product qs__gemm_products[QS__GEMM_PASSES]; /* by qs_gemm */
/* What the passes of a product by weights read and write, and the product itself; `...` ends the list with the results, and a bias before
 * or a bias gradient behind them where the operator has one. */
#define QS__GEMM_FORWARD(...)                                                                                      \
    QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},                                        \
                {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},                       \
                {.role = QS_SRC_GROUP, .source = QS_GROUPS_OF, .of = QS_SRC, .optional = true},                    \
                {.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER, .integer = true},                                \
                {.role = QS_WEIGHTS_STEP, .source = QS_STEP_OF, .of = QS_WEIGHTS, .optional = true}, __VA_ARGS__), \
        .product = &qs__gemm_products[QS_GEMM_FORWARD]
#define QS__GEMM_INPUT_GRADIENT                                                                           \
    QS_OPERANDS({.role = QS_WEIGHTS, .source = QS_FROM_PARAMETER, .integer = true},                       \
                {.role = QS_WEIGHTS_STEP, .source = QS_STEP_OF, .of = QS_WEIGHTS, .optional = true},      \
                {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT, .integer = true},                       \
                {.role = QS_DIFF_DST_STEP, .source = QS_STEP_OF, .of = QS_DIFF_DST, .optional = true},    \
                {.role = QS_DIFF_DST_GROUP, .source = QS_GROUPS_OF, .of = QS_DIFF_DST, .optional = true}, \
                {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}),                                   \
        .product = &qs__gemm_products[QS_GEMM_INPUT_GRADIENT]
#define QS__GEMM_WEIGHT_GRADIENT(...)                                                                                   \
    QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT, .integer = true},                                             \
                {.role = QS_SRC_STEP, .source = QS_STEP_OF, .of = QS_SRC, .optional = true},                            \
                {.role = QS_SRC_GROUP, .source = QS_GROUPS_OF, .of = QS_SRC, .optional = true},                         \
                {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT, .integer = true},                                     \
                {.role = QS_DIFF_DST_STEP, .source = QS_STEP_OF, .of = QS_DIFF_DST, .optional = true},                  \
                {.role = QS_DIFF_DST_GROUP, .source = QS_GROUPS_OF, .of = QS_DIFF_DST, .optional = true}, __VA_ARGS__), \
        .product = &qs__gemm_products[QS_GEMM_WEIGHT_GRADIENT]

/* ---- Integer factors of products (integer.c) ---- */

/* A factor and its step and groups go together: both factors are integer with steps, or both float without; groups, one a channel, come
 * with integers only, and `shifts` with the groups of the `inner` factor (QS_ROLE_COUNT: the sum runs over no channels). */
qs_status qs__check_factors(const qs_case *one, const qs_role factor[2], qs_role inner);
/* Decoded copy, codes as integers × 2^-group where the factor has groups; exact. */
qs_status qs__read_factor(const qs_case *one, const qs_tensor *operands, qs_role factor, float **out);
/* What sums are multiplied by: the product of the factors' steps; those of weights by column, `column` counted modulo their number. */
double qs__factor_step(const qs_case *one, const qs_tensor *operands, qs_role factor, int64_t column);

/* ---- Hadamard transforms (transform.c) ---- */

/* The case transforms nothing, or the values of the role along an axis that its blocks divide, with one step for all. */
qs_status qs__check_transform(const qs_case *one, qs_role values);
/* Transforms a decoded copy as the attributes say. */
void qs__transform(const qs_case *one, qs_role role, float *values);

/* Sums of a case with a narrow accumulator, of its decoded operands, into the shape of its result (gemm_narrow.c). */
qs_status qs__narrow_product(const qs_case *one, const qs_run *run, const qs__geometry *g, const float *left, const float *right,
                             double *sum);
/* QS_USAGE unless such a case, its shapes being right, can be computed; QS_OK for a case without one. */
qs_status qs__check_accumulator(const qs_case *one, const qs__geometry *g);

/* ---- Pools (pool.c) ---- */

/* Geometry of a pool from its image and its result. */
qs__geometry qs__pool_geometry(const qs_case *one, qs_role image, qs_role result);
qs_status qs__pool_infer(const qs_attributes *attributes, const qs_shape *src, int64_t outputs, qs_shape *dst);
/* Taps of the window of result `at` that lie inside the image along an axis: [*begin, *end). */
void qs__pool_taps(const qs__geometry *g, int axis, int64_t at, int64_t *begin, int64_t *end);
double qs__pool_flops(const qs_case *one);
/* Shapes of image and result. */
qs_status qs__pool_check_forward(const qs_case *one);
qs_status qs__pool_check_backward(const qs_case *one);

/* ---- Pad and resize (resample.c) ---- */

enum { QS__RESAMPLE_PASSES = 2 };
/* How wide the stretch of the image is, in places, whose places a result of resize counts. */
double qs__resample_reach(const qs_attributes *with, int axis, int64_t extent, int64_t results);
extern const qs_pass qs__resample_passes[QS__RESAMPLE_PASSES];

/* ---- Losses over classes (cross_entropy.c) ---- */

enum { QS__CROSS_ENTROPY_PASSES = 2 };
extern const qs_pass qs__cross_entropy_passes[QS__CROSS_ENTROPY_PASSES];

/* ---- Rows by their number (embedding.c) ---- */

/* A copy of a case's ids, checked; caller frees it, also after a failure. */
qs_status qs__ids_read(const qs_case *one, const qs_tensor *operands, int32_t **out);

/* ---- Functions of one number: gelu, sigmoid, clip and others (activation.c) ---- */

/* The logistic function 1 / (1 + e^-x), which operators beside `sigmoid` are made of. */
double qs__sigmoid(double x);
/* A function of one number, or its derivative. */
typedef double (*qs__curve)(const qs_attributes *with, double x);
/* to = f(from), and diff_src = diff_dst f'(src): the curve in double, rounded once to fp32. */
qs_status qs__activation_apply(const qs_case *one, const qs_tensor *operands, qs_role from, qs_role to, qs__curve function);
qs_status qs__activation_backward(const qs_case *one, const qs_tensor *operands, qs__curve derivative);
qs_status qs__activation_check(const qs_case *one);
double qs__activation_flops(const qs_case *one);
/* The reference kernels `forward` and `backward` of a file, from its function and its derivative. */
#define QS__ACTIVATION_KERNELS(function, derivative)                                              \
    static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {  \
        (void)run;                                                                                \
        return qs__activation_apply(one, operands, QS_SRC, QS_DST, function);                     \
    }                                                                                             \
    static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) { \
        (void)run;                                                                                \
        return qs__activation_backward(one, operands, derivative);                                \
    }
/* Their passes, by the function of the operator's file that runs each, and by its rule. */
#define QS__ACTIVATION_FORWARD(run, rule)                                                                \
    {                                                                                                    \
        .name = "forward",                                                                               \
        QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}, \
                    {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}),        \
        .reference = (run), .flops = qs__activation_flops, .check = (rule)                               \
    }
#define QS__ACTIVATION_BACKWARD(run, rule)                                                                        \
    {                                                                                                             \
        .name = "backward",                                                                                       \
        QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, \
                    {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},                                        \
                    {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DIFF_SRC, .optional = true}),            \
        .reference = (run), .flops = qs__activation_flops, .check = (rule)                                        \
    }
/* Cases of format F and shape S, with attributes A; NAME is the operator's. */
#define QS__ACTIVATION_CASES_OF(NAME, F, S, A) \
    NAME "/forward src=" F S " dst=" F S A, NAME "/backward src=" F S " diff_dst=" F S " diff_src=" F S A
#define QS__ACTIVATION_CASES(NAME, A)                                                                               \
    QS__ACTIVATION_CASES_OF(NAME, "fp32", "[4,16,8,8]", A), QS__ACTIVATION_CASES_OF(NAME, "fp32", "[3,7,5]", A),    \
        QS__ACTIVATION_CASES_OF(NAME, "fp32", "[3,7]", A), QS__ACTIVATION_CASES_OF(NAME, "bf16", "[4,16,8,8]", A),  \
        QS__ACTIVATION_CASES_OF(NAME, "bf16", "[1,3,5]", A), QS__ACTIVATION_CASES_OF(NAME, "fp16", "[2,8,4,4]", A), \
        QS__ACTIVATION_CASES_OF(NAME, "bf16", "[3,33,5]", " absmax=fp32[1]" A), NAME "/forward src=bf16[2,9,3,3] dst=fp32[2,9,3,3]" A

/* All of such an operator behind its function and its derivative; A: the settings of its cases; the rest: what else it has (sign, settings,
 * a rule). */
#define QS__CURVE(NAME, A, ...)                                                                \
    QS__ACTIVATION_KERNELS(function, derivative)                                               \
    static const qs_pass passes[] = {QS__ACTIVATION_FORWARD(forward, qs__activation_check),    \
                                     QS__ACTIVATION_BACKWARD(backward, qs__activation_check)}; \
    static const char *const cases[] = {QS__ACTIVATION_CASES(#NAME, A), NULL};                 \
    const qs_op qs__op_##NAME = {.name = #NAME,                                                \
                                 .kind = QS_DEPENDENT,                                         \
                                 .decoding = QS_ONE_POSITION,                                  \
                                 .inputs = 1,                                                  \
                                 .passes = 2,                                                  \
                                 .pass = passes,                                               \
                                 .cases = cases,                                               \
                                 __VA_ARGS__}

/* ---- Functions of two numbers: multiply, subtract, divide and others (pair.c) ---- */

/* One of such functions, or its derivative by the first or the second number. */
typedef double (*qs__pair)(double a, double b);
qs_status qs__pair_forward(const qs_case *one, const qs_tensor *operands, qs__pair function);
qs_status qs__pair_backward(const qs_case *one, const qs_tensor *operands, qs__pair by_first, qs__pair by_second);
qs_status qs__pair_check(const qs_case *one);
double qs__pair_flops_backward(const qs_case *one);
/* Their passes, by the functions of the operator's file that run them, and by its rule. */
#define QS__PAIR_PASSES(run_forward, run_backward, rule)                                                                                 \
    {.name = "forward",                                                                                                                  \
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},                         \
                 {.role = QS_DST, .source = QS_TO_OUTPUT}, {.role = QS_ABSMAX, .source = QS_ABSMAX_OF, .of = QS_DST, .optional = true}), \
     .reference = (run_forward),                                                                                                         \
     .check = (rule)},                                                                                                                   \
    {                                                                                                                                    \
        .name = "backward",                                                                                                              \
        QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_SRC2, .source = QS_FROM_INPUT, .of = 1},                      \
                    {.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT},            \
                    {.role = QS_DIFF_SRC2, .source = QS_TO_INPUT_GRADIENT, .of = 1}),                                                    \
        .reference = (run_backward), .flops = qs__pair_flops_backward, .check = (rule)                                                   \
    }
#define QS__PAIR_CASES_OF(NAME, F, S)                  \
    NAME "/forward src=" F S " src2=" F S " dst=" F S, \
        NAME "/backward src=" F S " src2=" F S " diff_dst=" F S " diff_src=" F S " diff_src2=" F S
/* All of such an operator behind `function`, `by_first` and `by_second`; the rest: what else it has. */
#define QS__PAIR(NAME, ...)                                                                                                  \
    static qs_status infer(const qs_attributes *with, const qs_shape *src, int64_t outputs, qs_shape *dst) {                 \
        (void)with, (void)outputs;                                                                                           \
        return qs__infer_alike(#NAME, src, dst);                                                                             \
    }                                                                                                                        \
    static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {                             \
        (void)run;                                                                                                           \
        return qs__pair_forward(one, operands, function);                                                                    \
    }                                                                                                                        \
    static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {                            \
        (void)run;                                                                                                           \
        return qs__pair_backward(one, operands, by_first, by_second);                                                        \
    }                                                                                                                        \
    static const qs_pass passes[] = {QS__PAIR_PASSES(forward, backward, qs__pair_check)};                                    \
    static const char *const cases[] = {QS__PAIR_CASES_OF(#NAME, "fp32", "[4,16,8,8]"),                                      \
                                        QS__PAIR_CASES_OF(#NAME, "fp32", "[3,7,5]"),                                         \
                                        QS__PAIR_CASES_OF(#NAME, "fp32", "[3,11]"),                                          \
                                        QS__PAIR_CASES_OF(#NAME, "bf16", "[4,16,8,8]"),                                      \
                                        QS__PAIR_CASES_OF(#NAME, "bf16", "[1,3,5]"),                                         \
                                        QS__PAIR_CASES_OF(#NAME, "fp16", "[2,8,4]"),                                         \
                                        #NAME "/forward src=bf16[7,5,31] src2=bf16[7,5,31] dst=bf16[7,5,31] absmax=fp32[1]", \
                                        #NAME "/forward src=bf16[2,5,3,3] src2=fp32[2,5,3,3] dst=fp32[2,5,3,3]",             \
                                        NULL};                                                                               \
    const qs_op qs__op_##NAME = {.name = #NAME,                                                                              \
                                 .kind = QS_DEPENDENT,                                                                       \
                                 .decoding = QS_ONE_POSITION,                                                                \
                                 .inputs = 2,                                                                                \
                                 .infer = infer,                                                                             \
                                 .passes = 2,                                                                                \
                                 .pass = passes,                                                                             \
                                 .cases = cases,                                                                             \
                                 __VA_ARGS__}

/* ---- relu, alone or behind a normalisation (relu.c) ---- */

/* Shape of the mask for values of a shape. */
qs_shape qs__relu_mask(const qs_shape *values);
/* The same, for qs_op.beside of operators that have nothing else there. */
qs_shape qs__relu_beside(const qs_op *op, qs_role role, const qs_shape *dst);
/* values become their positive part below the ceiling (0: none); mask, unless NULL, is written. */
void qs__relu_values(int64_t count, float ceiling, float *values, uint8_t *mask);
/* The attribute relu: results are rounded to the format of dst and go through relu, whose mask is written where the case has it. */
void qs__relu_behind(const qs_case *one, const qs_tensor *operands, int64_t count, float *values);
/* values become 0 where the mask says so. */
void qs__relu_mask_values(int64_t count, const uint8_t *mask, float *values);

/* ---- The largest magnitude of what a pass writes: its optional operand absmax ---- */

qs_status qs__check_absmax(const qs_case *one);
/* Fills it, where it is present, from the written operand as it is stored. */
qs_status qs__deliver_absmax(const qs_case *one, const qs_tensor *operands, qs_role written);

/* ---- Operands of reference kernels (reference.c) ---- */

/* The tensor of a role; asserts that the pass has it. */
const qs_tensor *qs__operand(const qs_case *one, const qs_tensor *operands, qs_role role);
/* Data of an fp32 operand. */
float *qs__fp32(const qs_case *one, const qs_tensor *operands, qs_role role);
/* Decoded copy (integers as integers) on the heap; caller frees. */
qs_status qs__read(const qs_tensor *tensor, float **out);
/* Stores fp32 values in the tensor's format, nearest-even. */
void qs__write(const qs_tensor *tensor, const float *values);
/* The same from doubles, rounded to fp32 first. */
qs_status qs__write_double(const qs_tensor *tensor, const double *values);
/* Passes that only move elements: where element i of a part lies in the whole. */
typedef int64_t (*qs__place)(const qs_attributes *with, const qs_shape *whole, const qs_shape *part, int64_t i);
/* part[i] = whole[place(i)]. */
qs_status qs__take(const qs_case *one, const qs_tensor *operands, qs_role whole, qs_role part, qs__place place);
/* whole[place(i)] = part[i], 0 elsewhere. */
qs_status qs__put(const qs_case *one, const qs_tensor *operands, qs_role part, qs_role whole, qs__place place);

/* concat and slice go along channels, or with their setting along positions: the axis, and so many elements of a tensor that lie behind
 * each other are of one channel row, or one sample. */
#define QS__ALONG QS_SETTING(along, 0, 0, 1, "1: along positions, not channels")
static inline int qs__along(const qs_attributes *with) {
    return with->along != 0 ? 2 : 1;
}
static inline int64_t qs__moved_run(const qs_attributes *with, const qs_shape *shape) {
    return with->along != 0 ? shape->dim[1] * shape->dim[2] : shape->dim[1];
}
/* The rules of such passes where the shape of the part follows from that of the whole: that, and one format. */
qs_status qs__moving_forward_check(const qs_case *one);
qs_status qs__moving_backward_check(const qs_case *one);
/* The reference kernels `forward` and `backward` of an operator that moves values, and their passes. flops: forward's, NULL: one an element
 * of src. */
#define QS__MOVING_KERNELS(place)                                                                 \
    static qs_status forward(const qs_case *one, const qs_tensor *operands, const qs_run *run) {  \
        (void)run;                                                                                \
        return qs__take(one, operands, QS_SRC, QS_DST, place);                                    \
    }                                                                                             \
    static qs_status backward(const qs_case *one, const qs_tensor *operands, const qs_run *run) { \
        (void)run;                                                                                \
        return qs__put(one, operands, QS_DIFF_DST, QS_DIFF_SRC, place);                           \
    }
#define QS__MOVING_PASSES(flops_of_forward, rule_forward, rule_backward)                                                       \
    {.name = "forward",                                                                                                        \
     QS_OPERANDS({.role = QS_SRC, .source = QS_FROM_INPUT}, {.role = QS_DST, .source = QS_TO_OUTPUT}),                         \
     .reference = forward,                                                                                                     \
     .flops = (flops_of_forward),                                                                                              \
     .check = (rule_forward)},                                                                                                 \
    {                                                                                                                          \
        .name = "backward",                                                                                                    \
        QS_OPERANDS({.role = QS_DIFF_DST, .source = QS_FROM_GRADIENT}, {.role = QS_DIFF_SRC, .source = QS_TO_INPUT_GRADIENT}), \
        .reference = backward, .check = (rule_backward)                                                                        \
    }

/* The shape of samples of these extents: height and width 0: [N,channels], width 0: [N,channels,height] (reshape.c). */
qs_status qs__sample_shape(const char *name, const qs_attributes *with, int64_t samples, const int64_t extent[3], qs_shape *dst);

/* How many sequences lie one behind the other in the positions of a sample. */
static inline int64_t qs__sequences(const qs_attributes *with) {
    return with->sequences > 0 ? (int64_t)with->sequences : 1;
}
/* The setting `sequences` of a sequence [N,C,L] is a whole number that divides L; QS_USAGE in the name of the operator. */
qs_status qs__need_sequences(const qs_attributes *with, const qs_shape *src, const char *name);

/* ---- Sequences of which some positions are at hand ---- */

/* The place, where it is present, is one number: of batches of one sample. */
qs_status qs__check_place(const qs_case *one);
/* It, or 0 where it is absent. */
int32_t qs__place_read(const qs_case *one, const qs_tensor *operands);

/* Operands of an optimiser's pass before what it keeps: src and weights. */
enum { QS__FIRST_STATE = 2 };

#endif
