// SPDX-License-Identifier: Apache-2.0
// labels: short
/* round: every element is qs_round_value's with the counters that the door promises; packed storage decodes to the rounded values;
 * counts are those of the elements. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("round");
}

/* A few values far out, so that every case overflows and underflows. */
static void extremes_set(bound *b) {
    float *src = bound_fp32(b, QS_SRC);
    src[0] = 3.4e38f;
    src[1] = -3.4e38f;
    src[2] = 1e-45f;
    src[3] = 0;
}

static void one_case(const char *text) {
    bound b;
    bound_parse(&b, text, 211);
    b.run.first_sample = 5;
    extremes_set(&b);
    float *x = tensor_values(&b.operands[0]);
    bound_run(&b);
    const qs_attributes *with = &b.one.attributes;
    const qs_random_rows rows = qs_op_random_rows(&b.one, &b.run);
    const float *y = bound_fp32(&b, QS_DST);
    qs_rounding_counts expected = {0, 0}, counts;
    for (int64_t i = 0; i < rows.rows * rows.per_row; i++) {
        const uint64_t at = rows.first + (uint64_t)(i / rows.per_row) * rows.stride + (uint64_t)(i % rows.per_row);
        bool overflowed;
        const float rounded = qs_round_value(with->to, with->rounding, with->overflow, x[i], qs_random_bits(rows.key, at), &overflowed);
        assert_true(y[i] == rounded);
        expected.overflows += overflowed;
        expected.underflows += x[i] != 0 && rounded == 0;
    }
    if (bound_tensor(&b, QS_PACKED)) {
        float *decoded = tensor_values(bound_tensor(&b, QS_PACKED));
        for (int64_t i = 0; i < rows.rows * rows.per_row; i++)
            assert_true(decoded[i] == y[i]);
        free(decoded);
    }
    if (bound_tensor(&b, QS_COUNTS)) {
        memcpy(&counts, bound_fp32(&b, QS_COUNTS), sizeof counts);
        assert_int_equal(counts.overflows, expected.overflows);
        assert_int_equal(counts.underflows, expected.underflows);
        assert_true(counts.overflows + counts.underflows > 0);
    }
    free(x);
    bound_release(&b);
}

TEST(values) {
    for (const char *const *text = qs_op_of("round")->cases; *text; text++)
        one_case(*text);
}

static void refusals(void **state) {
    static const char *const bad[][2] = {
        {"round/forward src=fp32[4,8] dst=fp32[4,8]", "must be a float format"},
        {"round/forward src=fp32[4,8] dst=fp32[4,8] to=int8", "to=int8 must be a float format"},
        {"round/forward src=fp32[4,8] dst=bf16[4,8] to=bf16", "dst is bf16, it must be fp32"},
        {"round/pack src=fp32[4,8] dst=fp32[4,8] packed=bf16[4,8] to=fp16", "packed is bf16, must be fp16"},
        {"round/pack src=fp32[4,8] dst=fp32[4,8] packed=fp(4,2,1)[4,8] rounding=stochastic to=fp(4,2,1) batched", "whole bytes"},
        {"round/forward src=fp32[4,8] dst=fp32[4,8] counts=fp32[2] to=bf16", "counts is [2]"}};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        qs_case one;
        assert_ok(qs_case_parse(bad[i][0], &one));
        assert_refused(qs_case_check(&one), QS_USAGE, bad[i][1]);
    }
}

TEST_MAIN(cases, values, refusals)
