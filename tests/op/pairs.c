// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: subtract divide minimum maximum
/* Functions of two values: by hand, what two equal ones and a NaN give, gradients. */
#include "kit/cases.h"

static const char *const names[] = {"subtract", "divide", "minimum", "maximum"};

TEST(cases) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_cases(names[n]);
}

TEST(gradients) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_gradients(names[n]);
}

static void check_pair(const char *name, const float *y, const float *by_first, const float *by_second) {
    static const float a[4] = {1, -2, 4, 3}, b[4] = {4, 0.5f, -8, 3}, ones[4] = {1, 1, 1, 1};
    char text[QS_CASE_TEXT];
    bound f, d;
    snprintf(text, sizeof text, "%s/forward src=fp32[2,2] src2=fp32[2,2] dst=fp32[2,2]", name);
    bound_parse(&f, text, 51);
    memcpy(bound_fp32(&f, QS_SRC), a, sizeof a);
    memcpy(bound_fp32(&f, QS_SRC2), b, sizeof b);
    bound_run(&f);
    assert_memory_equal(bound_fp32(&f, QS_DST), y, sizeof a);
    snprintf(text, sizeof text, "%s/backward src=fp32[2,2] src2=fp32[2,2] diff_dst=fp32[2,2] diff_src=fp32[2,2] diff_src2=fp32[2,2]", name);
    bound_parse(&d, text, 52);
    bound_share(&d, &f);
    memcpy(bound_fp32(&d, QS_DIFF_DST), ones, sizeof ones);
    bound_run(&d);
    assert_memory_equal(bound_fp32(&d, QS_DIFF_SRC), by_first, sizeof a);
    assert_memory_equal(bound_fp32(&d, QS_DIFF_SRC2), by_second, sizeof a);
    bound_release(&f);
    bound_release(&d);
}

TEST(by_hand) {
    check_pair("subtract", (float[4]){-3, -2.5f, 12, 0}, (float[4]){1, 1, 1, 1}, (float[4]){-1, -1, -1, -1});
    check_pair("divide", (float[4]){0.25f, -4, -0.5f, 1}, (float[4]){0.25f, 2, -0.125f, (float)(1.0 / 3)},
               (float[4]){-0.0625f, 8, -0.0625f, (float)(-1.0 / 3)});
    check_pair("minimum", (float[4]){1, -2, -8, 3}, (float[4]){1, 1, 0, 0.5f}, (float[4]){0, 0, 1, 0.5f});
    check_pair("maximum", (float[4]){4, 0.5f, 4, 3}, (float[4]){0, 0, 1, 0.5f}, (float[4]){1, 1, 0, 0.5f});
}

TEST(not_a_number) {
    for (size_t n = 2; n < COUNT_OF(names); n++) {
        char text[QS_CASE_TEXT];
        bound b;
        snprintf(text, sizeof text, "%s/forward src=fp32[2,2] src2=fp32[2,2] dst=fp32[2,2]", names[n]);
        bound_parse(&b, text, 53);
        bound_fp32(&b, QS_SRC)[1] = NAN;
        bound_fp32(&b, QS_SRC2)[2] = NAN;
        bound_run(&b);
        for (int i = 0; i < 4; i++)
            assert_true(isnan(bound_fp32(&b, QS_DST)[i]) == (i == 1 || i == 2));
        bound_release(&b);
    }
}

TEST(shapes) {
    for (size_t n = 0; n < COUNT_OF(names); n++) {
        const qs_shape unlike[2] = {qs_shape_of(2, (int64_t)2, (int64_t)3), qs_shape_of(2, (int64_t)3, (int64_t)2)};
        qs_shape dst;
        assert_refused(qs_op_infer(qs_op_of(names[n]), &(qs_attributes){0}, unlike, 0, &dst), QS_USAGE, "must have one shape");
    }
    expect_refused("divide/forward src=fp32[2,2] src2=fp32[2,3] dst=fp32[2,2]", "src2");
}

TEST_MAIN(cases, gradients, by_hand, not_a_number, shapes)
