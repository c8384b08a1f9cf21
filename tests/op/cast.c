// SPDX-License-Identifier: Apache-2.0
// labels: short
/* cast: equals value-by-value rounding, stochastic draws follow the global sample. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("cast");
}

/* Every case against qs_round_value with the counters that the door promises. */
static void one_case(const char *text) {
    bound b;
    bound_parse(&b, text, 111);
    b.run.first_sample = 5;
    bound_run(&b);
    qs_random_rows rows = qs_op_random_rows(&b.one, &b.run);
    qs_rounding rounding = b.one.attributes.rounding;
    float *x = tensor_values(&b.operands[0]), *y = tensor_values(&b.operands[1]);
    for (int64_t row = 0; row < rows.rows; row++) {
        for (int64_t i = 0; i < rows.per_row; i++) {
            uint32_t draw = qs_random_bits(rows.key, rows.first + (uint64_t)row * rows.stride + (uint64_t)i);
            int64_t at = row * rows.per_row + i;
            assert_true(y[at] == qs_round_value(b.operands[1].format, rounding, b.one.attributes.overflow, x[at], draw, NULL));
        }
    }
    free(x), free(y);
    bound_release(&b);
}

TEST(values) {
    for (const char *const *text = qs_op_of("cast")->cases; *text; text++)
        one_case(*text);
}

TEST(ranks_draw_alike) {
    bound whole, half;
    bound_parse(&whole, "cast/forward src=fp32[4,3,3,3] dst=bf16[4,3,3,3] rounding=stochastic batched", 112);
    bound_parse(&half, "cast/forward src=fp32[2,3,3,3] dst=bf16[2,3,3,3] rounding=stochastic batched", 112);
    memcpy(half.operands[0].data, (char *)whole.operands[0].data + 2 * 27 * 4, 2 * 27 * 4);
    half.run.first_sample = 2;
    bound_run(&whole);
    bound_run(&half);
    assert_memory_equal(half.operands[1].data, (char *)whole.operands[1].data + 2 * 27 * 2, 2 * 27 * 2);
    bound_release(&whole);
    bound_release(&half);
}

/* One value past the largest of fp16 and of e4m3fn. */
TEST(overflow_policies) {
    static const struct {
        const char *text;
        float stored;
    } rows[] = {{"cast/forward src=fp32[1] dst=fp16[1]", INFINITY},
                {"cast/forward src=fp32[1] dst=fp16[1] overflow=saturate", 65504.0f},
                {"cast/forward src=fp32[1] dst=e4m3fn[1]", 448.0f}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bound b;
        bound_parse(&b, rows[i].text, 113);
        *(float *)b.operands[0].data = 1e6f;
        bound_run(&b);
        float *y = tensor_values(&b.operands[1]);
        assert_true(y[0] == rows[i].stored);
        free(y);
        bound_release(&b);
    }
}

TEST_MAIN(cases, values, ranks_draw_alike, overflow_policies)
