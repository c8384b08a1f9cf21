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

/* Weights by hand of the places that lie 1/4, 3/4, 5/4, 7/4 and 1/2, 3/2 away: 225/256, 67/256, -27/256, -9/256; 19/32, -3/32. */
TEST(cubic) {
    expect_line(" mode=2 scale_height=2", 8,
                (float[]){0.89453125f, 1.19140625f, 1.66796875f, 2.296875f, 2.703125f, 3.33203125f, 3.80859375f, 4.10546875f});
    expect_line(" mode=2 height=7 coordinates=2", 7, (float[]){1, 1.40625f, 2, 2.5f, 3, 3.59375f, 4});
    /* with a = -1/2: 9/16 and -1/16 */
    expect_line(" mode=2 height=7 coordinates=2 coefficient=-0.5", 7, (float[]){1, 1.4375f, 2, 2.5f, 3, 3.5625f, 4});
    expect_line(" mode=5 scale_height=2", 8,
                (float[]){171.0f / 198, 332.0f / 283, 436.0f / 265, 2.296875f, 2.703125f, 889.0f / 265, 1083.0f / 283, 819.0f / 198});
}

/* Half as many: distances count half, so that a result at 1/2 sees the places -1 to 2 with 1/4, 3/4, 3/4, 1/4. */
TEST(against_aliasing) {
    expect_line(" mode=3 height=2", 2, (float[]){1.625f, 3.375f});
    expect_line(" mode=6 height=2", 2, (float[]){12.0f / 7, 23.0f / 7});
    expect_line(" mode=3 scale_height=2", 8, (float[]){1, 1.25f, 1.75f, 2.25f, 2.75f, 3.25f, 3.75f, 4}); /* larger: as ever */
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
    assert_refused(qs_op_infer(op, &(qs_attributes){.mode = 4, .height = 1, .width = 1}, &(qs_shape){4, {1, 1, 100, 9}}, 0, &dst), QS_USAGE,
                   "from 100 to 1 would sum 400 places for each result: at most 64; modes below 3 sum 4");
    assert_refused(qs_op_infer(op, &(qs_attributes){.coordinates = 1.5}, &image, 0, &dst), QS_USAGE, "whole numbers");
}

TEST_MAIN(cases, gradients, linear, cubic, against_aliasing, nearest, infinite_neighbours, extents)
