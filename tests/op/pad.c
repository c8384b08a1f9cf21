// SPDX-License-Identifier: Apache-2.0
// labels: short
/* pad: what lies around an image in every mode, what is cut off, gradients, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("pad");
}

TEST(gradients) {
    check_gradients("pad");
}

static void expect_line(const char *with, int64_t count, const float *expected) {
    char text[QS_CASE_TEXT];
    bound b;
    snprintf(text, sizeof text, "pad/forward src=fp32[1,1,4] dst=fp32[1,1,%d]%s", (int)count, with);
    bound_parse(&b, text, 81);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    bound_run(&b);
    if (memcmp(bound_fp32(&b, QS_DST), expected, (size_t)count * sizeof(float)) != 0) fail_msg("%s", text);
    bound_release(&b);
}

TEST(modes) {
    expect_line(" padding=2x0 padding_more=-1x0 value=7", 7, (float[]){7, 7, 1, 2, 3, 4, 7});
    expect_line(" padding=3x0 mode=1", 10, (float[]){4, 3, 2, 1, 2, 3, 4, 3, 2, 1});
    expect_line(" padding=2x0 mode=2", 8, (float[]){1, 1, 1, 2, 3, 4, 4, 4});
    expect_line(" padding=3x0 padding_more=1x0 mode=3", 11, (float[]){2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
    expect_line(" padding_more=-2x0", 2, (float[]){1, 2});
}

/* Lines and columns of an image: a corner is its own reflection across both edges. */
TEST(images) {
    bound b;
    bound_parse(&b, "pad/forward src=fp32[1,1,2,3] dst=fp32[1,1,3,4] padding=1x1 padding_more=-1x-1 mode=1", 82);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 4, 5, 6}, 6 * sizeof(float));
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), ((float[]){5, 4, 5, 6, 2, 1, 2, 3, 5, 4, 5, 6}), 12 * sizeof(float));
    bound_release(&b);
}

/* Every place gets what its copies get. */
TEST(gradient_by_hand) {
    bound b;
    bound_parse(&b, "pad/backward diff_dst=fp32[1,1,6] diff_src=fp32[1,1,3] padding=2x0 padding_more=-1x0 mode=2", 83);
    memcpy(bound_fp32(&b, QS_DIFF_DST), (float[]){1, 2, 4, 8, 16, 32}, 6 * sizeof(float));
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), ((float[]){7, 8, 48}), 3 * sizeof(float));
    bound_release(&b);
}

TEST(refusals) {
    const qs_op *op = qs_op_of("pad");
    qs_shape image = qs_shape_of(4, 1, 3, 4, 5), sequence = qs_shape_of(3, 1, 3, 4), matrix = qs_shape_of(2, 1, 3), dst;
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding = {4, 0}, .mode = 1}, &image, 0, &dst), QS_USAGE, "not so many to reflect");
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding = {0, 6}, .mode = 3}, &image, 0, &dst), QS_USAGE, "not so many to repeat");
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding_more = {-4, 0}}, &image, 0, &dst), QS_USAGE, "leave nothing");
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding = {-1, 0}}, &image, 0, &dst), QS_USAGE, "cut with a slice");
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding = {1, 1}}, &sequence, 0, &dst), QS_USAGE, "no width");
    assert_refused(qs_op_infer(op, &(qs_attributes){.padding = {1, 0}}, &matrix, 0, &dst), QS_USAGE, "needs the axes");
    assert_refused(qs_op_infer(op, &(qs_attributes){.mode = 0.5}, &image, 0, &dst), QS_USAGE, "mode is 0.5");
    expect_refused("pad/forward src=fp32[1,3,4,5] dst=fp32[1,3,6,6] padding=1x1", "dst");
}

TEST_MAIN(cases, gradients, modes, images, gradient_by_hand, refusals)
