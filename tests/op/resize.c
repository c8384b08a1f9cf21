// SPDX-License-Identifier: Apache-2.0
// labels: short
/* resize: lines that ONNX's rules give by hand for every coordinate and rounding, gradients, extents, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("resize");
}

TEST(gradients) {
    check_gradients("resize");
}

/* 1, 2, 3, 4 resized to `count` places. */
static void expect_line(const char *with, int count, const float *expected) {
    char text[QS_CASE_TEXT];
    bound b;
    snprintf(text, sizeof text, "resize/forward src=fp32[1,1,4] dst=fp32[1,1,%d]%s", count, with);
    bound_parse(&b, text, 85);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    bound_run(&b);
    for (int i = 0; i < count; i++) { /* weights and the result are rounded to fp32 */
        const double got = (double)bound_fp32(&b, QS_DST)[i], wanted = (double)expected[i];
        if (!(fabs(got - wanted) <= 0x1p-21)) fail_msg("%s: result %d is %.9g, expected %.9g", text, i, got, wanted);
    }
    bound_release(&b);
}

TEST(linear) {
    expect_line(" mode=1 scale_height=2", 8, (float[]){1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4});
    expect_line(" mode=1 scale_height=2 coordinates=1", 8, (float[]){1, 1.5f, 2, 2.5f, 3, 3.5f, 4, 4});
    expect_line(" mode=1 height=7 coordinates=2", 7, (float[]){1, 1.5f, 2, 2.5f, 3, 3.5f, 4});
    expect_line(" mode=1 height=1 coordinates=2", 1, (float[]){1});
    expect_line(" mode=1 height=1", 1, (float[]){2.5f});
    expect_line(" mode=1 height=1 coordinates=3", 1, (float[]){1});
    /* floor(4 · 0.6) = 2 of 2.4 places: half_pixel lies at 1/3 and 2, the symmetric one 1/3 further in */
    expect_line(" mode=1 scale_height=0.6", 2, (float[]){4.0f / 3, 3});
    expect_line(" mode=1 scale_height=0.6 coordinates=4", 2, (float[]){5.0f / 3, 10.0f / 3});
}

TEST(nearest) {
    expect_line(" scale_height=2", 8, (float[]){1, 1, 2, 2, 3, 3, 4, 4});
    expect_line(" height=2", 2, (float[]){1, 3}); /* at 0.5 and 2.5: half down */
    expect_line(" height=2 nearest=1", 2, (float[]){2, 4});
    expect_line(" height=2 nearest=2", 2, (float[]){1, 3});
    expect_line(" height=2 nearest=3", 2, (float[]){2, 4});
    expect_line(" height=3 coordinates=1 nearest=2", 3, (float[]){1, 2, 3}); /* at 0, 4/3, 8/3 */
    expect_line(" height=3 coordinates=1 nearest=3", 3, (float[]){1, 3, 4});
    expect_line(" height=3 coordinates=1", 3, (float[]){1, 2, 4});
}

/* A place outside with no weight is not looked at. */
TEST(infinite_neighbours) {
    bound b;
    bound_parse(&b, "resize/forward src=fp32[1,1,2] dst=fp32[1,1,3] mode=1 height=3 coordinates=2", 86);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, INFINITY}, 2 * sizeof(float));
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_DST)[0] == 1 && isinf(bound_fp32(&b, QS_DST)[1]));
    bound_release(&b);
}

TEST(extents) {
    const qs_op *op = qs_op_of("resize");
    qs_shape image = qs_shape_of(4, 2, 3, 7, 9), sequence = qs_shape_of(3, 2, 3, 7), dst;
    assert_ok(qs_op_infer(op, &(qs_attributes){.scale_height = 1.5, .width = 4}, &image, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {2, 3, 10, 4}}));
    assert_ok(qs_op_infer(op, &(qs_attributes){.scale_height = 2}, &image, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {2, 3, 14, 9}}));
    assert_refused(qs_op_infer(op, &(qs_attributes){.scale_height = 0.1}, &image, 0, &dst), QS_USAGE, "height of 7 would become 0");
    assert_refused(qs_op_infer(op, &(qs_attributes){.width = 2.5}, &image, 0, &dst), QS_USAGE, "would become 2.5");
    assert_refused(qs_op_infer(op, &(qs_attributes){.width = 2}, &sequence, 0, &dst), QS_USAGE, "no width");
    assert_refused(qs_op_infer(op, &(qs_attributes){.coordinates = 1.5}, &image, 0, &dst), QS_USAGE, "whole numbers");
}

TEST_MAIN(cases, gradients, linear, nearest, infinite_neighbours, extents)
