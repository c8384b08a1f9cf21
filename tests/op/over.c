// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: gain offset prelu
/* Operators with a parameter that is repeated: by hand for each setting of `over`, sums of gradients, gradients, refusals. */
#include "kit/cases.h"

static const char *const names[] = {"gain", "offset", "prelu"};

TEST(cases) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_cases(names[n]);
}

TEST(gradients) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_gradients(names[n]);
}

/* Two samples of two positions of two channels. */
static const float src[8] = {1, 2, 3, 4, -5, 6, 7, -8};

static void check_over(const char *text, int parameters, qs_role role, const float *expected) {
    static const float parameter[4] = {10, 100, 1000, 10000};
    bound b;
    bound_parse(&b, text, 71);
    memcpy(bound_fp32(&b, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&b, role), parameter, (size_t)parameters * sizeof *parameter);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), expected, sizeof src);
    bound_release(&b);
}

TEST(by_hand) {
    check_over("gain/forward src=fp32[2,2,2] scale=fp32[2] dst=fp32[2,2,2]", 2, QS_SCALE, (float[8]){10, 200, 30, 400, -50, 600, 70, -800});
    check_over("gain/forward src=fp32[2,2,2] scale=fp32[2,2] dst=fp32[2,2,2] over=1", 4, QS_SCALE,
               (float[8]){10, 200, 3000, 40000, -50, 600, 7000, -80000});
    check_over("gain/forward src=fp32[2,2,2] scale=fp32[1] dst=fp32[2,2,2] over=2", 1, QS_SCALE,
               (float[8]){10, 20, 30, 40, -50, 60, 70, -80});
    check_over("offset/forward src=fp32[2,2,2] shift=fp32[2] dst=fp32[2,2,2] over=3", 2, QS_SHIFT,
               (float[8]){11, 12, 103, 104, 5, 16, 107, 92});
    check_over("prelu/forward src=fp32[2,2,2] scale=fp32[2] dst=fp32[2,2,2]", 2, QS_SCALE, (float[8]){1, 2, 3, 4, -50, 6, 7, -800});
}

static void check_sums(const char *text, int parameters, qs_role role, const float *expected) {
    static const float diff[8] = {1, 2, 4, 8, 16, 32, 64, 128};
    bound b;
    bound_parse(&b, text, 72);
    if (bound_tensor(&b, QS_SRC)) memcpy(bound_fp32(&b, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&b, QS_DIFF_DST), diff, sizeof diff);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, role), expected, (size_t)parameters * sizeof *expected);
    bound_release(&b);
}

TEST(sums) {
    check_sums("offset/backward diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_shift=fp32[2]", 2, QS_DIFF_SHIFT, (float[2]){85, 170});
    check_sums("offset/backward diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_shift=fp32[2,2] over=1", 4, QS_DIFF_SHIFT,
               (float[4]){17, 34, 68, 136});
    check_sums("offset/backward diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_shift=fp32[1] over=2", 1, QS_DIFF_SHIFT, (float[1]){255});
    check_sums("offset/backward diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_shift=fp32[2] over=3", 2, QS_DIFF_SHIFT,
               (float[2]){51, 204});
    check_sums("gain/backward src=fp32[2,2,2] scale=fp32[2] diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_scale=fp32[2]", 2, QS_DIFF_SCALE,
               (float[2]){1 + 12 - 80 + 448, 4 + 32 + 192 - 1024});
    check_sums("prelu/backward src=fp32[2,2,2] scale=fp32[1] diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_scale=fp32[1] over=2", 1,
               QS_DIFF_SCALE, (float[1]){-80 - 1024});
}

TEST(parameters) {
    const qs_shape image = qs_shape_of(4, 3, 7, 5, 2);
    const struct {
        double over;
        qs_shape shape;
    } rules[] = {{0, {1, {7}}}, {1, {2, {10, 7}}}, {2, {1, {1}}}, {3, {1, {10}}}};
    for (size_t n = 0; n < COUNT_OF(names); n++)
        for (size_t r = 0; r < COUNT_OF(rules); r++) {
            qs_parameter_rule rule[QS_MAX_PARAMETERS];
            const qs_attributes with = {.over = rules[r].over};
            assert_int_equal(qs_op_of(names[n])->parameters(&with, &image, 0, false, rule), 1);
            assert_true(qs_shape_equal(&rule[0].shape, &rules[r].shape));
            assert_true(qs_op_of(names[n])->takes_all(&with) == (rules[r].over == 1 || rules[r].over == 3));
        }
}

TEST(refusals) {
    expect_refused("gain/forward src=fp32[2,2,3] scale=fp32[3] dst=fp32[2,2,3]", "scale");
    expect_refused("gain/forward src=fp32[2,2,3] scale=fp32[3] dst=fp32[2,2,3] over=1.5", "over is 1.5, must be 0 (channels)");
    expect_refused("offset/backward diff_dst=bf16[2,2] diff_src=fp32[2,2] diff_shift=fp32[2]", "handed on as it is");
    expect_refused("prelu/forward src=fp32[2] scale=fp32[2] dst=fp32[2]", "N,C");
}

TEST_MAIN(cases, gradients, by_hand, sums, parameters, refusals)
