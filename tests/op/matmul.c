// SPDX-License-Identifier: Apache-2.0
// labels: short
/* matmul: all passes against plain sums over (sample, head, row, column) and against differences; codes exact; what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("matmul");
}

TEST(gradients) {
    check_gradients("matmul");
}

/* Element (row, column) of a head as the head of matmul.c says it, from the logical axes. */
static float element(const qs_shape *shape, int64_t heads, const float *values, int64_t n, int64_t h, int64_t row, int64_t column) {
    const int64_t channels = shape->dim[1], positions = shape->dim[shape->axes - 1];
    if (shape->axes == 3) return values[(n * positions + row) * channels + h * (channels / heads) + column];
    return values[((n * heads + h) * positions + row) * channels + column];
}

/* Double sums: what is left is the rounding of the result to its format. */
static void forward_case(const char *text) {
    bound b;
    bound_parse(&b, text, 21);
    bound_run(&b);
    const qs_tensor *dst = bound_tensor(&b, QS_DST), *src = bound_tensor(&b, QS_SRC), *src2 = bound_tensor(&b, QS_SRC2);
    float *x = tensor_values(src), *w = tensor_values(src2), *y = tensor_values(dst);
    const qs_attributes *with = &b.one.attributes;
    const int64_t heads = (int64_t)with->heads, key_heads = with->key_heads > 0 ? (int64_t)with->key_heads : heads,
                  rows = src->shape.dim[src->shape.axes - 1], inner = src->shape.axes == 3 ? src->shape.dim[1] / heads : src->shape.dim[1],
                  columns = qs_shape_count(&dst->shape) / dst->shape.dim[0] / heads / rows;
    const bool codes = bound_tensor(&b, QS_SRC_STEP) != NULL;
    const double factor = codes ? (double)bound_fp32(&b, QS_SRC_STEP)[0] * (double)bound_fp32(&b, QS_SRC2_STEP)[0] : 1;
    for (int64_t at = 0; at < qs_shape_count(&dst->shape); at++) {
        const int64_t column = at % columns, row = at / columns % rows, h = at / columns / rows % heads, n = at / columns / rows / heads;
        double sum = 0, magnitude = 0;
        for (int64_t k = 0; k < inner; k++) {
            const int64_t shared = h / (heads / key_heads);
            const float second = with->transposed != 0 ? element(&src2->shape, key_heads, w, n, shared, column, k)
                                                       : element(&src2->shape, key_heads, w, n, shared, k, column);
            const double term = (double)element(&src->shape, heads, x, n, h, row, k) * (double)second;
            sum += term;
            magnitude += fabs(term);
        }
        const double expected = sum * factor, got = (double)element(&dst->shape, heads, y, n, h, row, column),
                     allowed = (dst->format->epsilon * 0.5 + 0x1p-24) * fabs(expected) + 1e-13 * magnitude * factor;
        if (!(fabs(got - expected) <= allowed))
            fail_msg("%s: head %d, row %d, column %d is %.9g, expected %.9g", text, (int)h, (int)row, (int)column, got, expected);
    }
    free(x), free(w), free(y);
    bound_release(&b);
}

TEST(forward_cases) {
    for (const char *const *text = qs_op_of("matmul")->cases; *text; text++)
        if (strstr(*text, "/forward")) forward_case(*text);
}

/* Gradients of codes are exact sums: those of the same numbers in fp32 times both steps. */
TEST(gradients_of_codes) {
    for (const char *const *text = qs_op_of("matmul")->cases; *text; text++) {
        bound codes, plain;
        if (!strstr(*text, "gradient") || !strstr(*text, "_step=")) continue;
        bound_parse(&codes, *text, 22);
        bound_run(&codes);
        qs_case one = codes.one;
        double factor = 1;
        for (int i = 0; i < one.operands; i++) {
            if (!one.operand[i].format) continue;
            const bool step = strstr(qs_role_name(one.operand[i].role), "_step") != NULL;
            if (step) factor *= (double)*(const float *)codes.operands[i].data;
            one.operand[i].format = step ? NULL : qs_format_of("fp32");
        }
        bound_make(&plain, &one, 23);
        bound_share(&plain, &codes);
        bound_run(&plain);
        for (int i = 0; i < one.operands; i++) {
            if (!qs_pass_writes(one.pass, i)) continue;
            float *got = tensor_values(&codes.operands[i]), *sums = tensor_values(&plain.operands[i]);
            const int64_t count = qs_shape_count(&one.operand[i].shape);
            for (int64_t k = 0; k < count; k++)
                sums[k] = (float)((double)sums[k] * factor);
            qs_round_array(codes.one.operand[i].format, QS_NEAREST_EVEN, QS_OVERFLOW_DEFAULT, (qs_random_stream){0}, count, sums, sums);
            assert_close(count, got, sums, 0, 0, *text);
            free(got), free(sums);
        }
        bound_release(&codes);
        bound_release(&plain);
    }
}

/* With an accumulator as wide as fp32's, sums are fp32's: near the exact ones; and a narrow one is another. */
TEST(accumulators) {
    static const char text[] = "matmul/weight_gradient src=fp32[1,17,6,17] diff_dst=fp32[1,48,17] diff_src2=fp32[1,16,17] heads=6 "
                               "key_heads=2 merged=1";
    char narrow[QS_CASE_TEXT];
    bound exact, wide, few;
    bound_parse(&exact, text, 24);
    bound_run(&exact);
    snprintf(narrow, sizeof narrow, "%s accumulator=fp(8,23)/nearest-even", text);
    bound_parse(&wide, narrow, 24);
    bound_run(&wide);
    snprintf(narrow, sizeof narrow, "%s accumulator=fp(8,4)/stochastic", text);
    bound_parse(&few, narrow, 24);
    bound_run(&few);
    const float *right = bound_fp32(&exact, QS_DIFF_SRC2), *sums = bound_fp32(&wide, QS_DIFF_SRC2), *rough = bound_fp32(&few, QS_DIFF_SRC2);
    int64_t differ = 0;
    for (int64_t i = 0; i < bound_count(&exact, QS_DIFF_SRC2); i++) {
        /* 51 products of about 1 in magnitude, each addition within 2^-24 of a sum below 51. */
        assert_true(fabsf(sums[i] - right[i]) <= 51 * 51 * 0x1p-24f);
        differ += fabsf(rough[i] - right[i]) > 0x1p-10f;
    }
    assert_true(differ > bound_count(&exact, QS_DIFF_SRC2) / 2);
    bound_release(&exact);
    bound_release(&wide);
    bound_release(&few);
}

static void refused(double heads, double key_heads, double transposed, qs_shape src, qs_shape src2, const char *why) {
    const qs_attributes with = {.heads = heads, .key_heads = key_heads, .transposed = transposed};
    const qs_shape both[2] = {src, src2};
    qs_shape dst;
    assert_refused(qs_op_infer(qs_op_of("matmul"), &with, both, 0, &dst), QS_USAGE, why);
}

TEST(refusals) {
    const qs_shape q = qs_shape_of(3, 2, 32, 9), k = qs_shape_of(3, 2, 32, 7), p = qs_shape_of(4, 2, 7, 4, 9);
    refused(5, 0, 1, q, k, "5 heads do not divide its channels");
    refused(4, 3, 1, q, k, "do not share 3 key heads evenly");
    refused(0.5, 0, 1, q, k, "whole numbers");
    refused(4, 8, 1, q, k, "no more than heads");
    refused(2, 0, 0, p, k, "has 4 matrices a sample, not 2");
    refused(4, 0, 0, q, k, "columns of 7");
    refused(4, 2, 1, q, k, "rows of 16");
    refused(4, 0, 1, q, qs_shape_of(3, 3, 32, 7), "other numbers of samples");
    refused(4, 0, 1, qs_shape_of(2, 2, 32), k, "N,C,L or N,C,H,W");
    expect_refused("matmul/forward src=int8[2,32,9] src_step=fp32[1] src2=fp32[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1",
                   "both be integer or both be float");
    expect_refused("matmul/forward src=int8[2,32,9] src_step=fp32[1] src2=int8[2,32,7] dst=fp32[2,7,4,9] heads=4 transposed=1",
                   "src2_step comes with an integer src2");
    expect_refused("matmul/forward src=fp32[2,32,9] src2=fp32[2,32,7] dst=fp32[2,28,9] heads=4 transposed=1", "the other operands need");
}

TEST_MAIN(cases, forward_cases, gradients, gradients_of_codes, accumulators, refusals)
