// SPDX-License-Identifier: Apache-2.0
// labels: short
/* expand: by hand along positions and channels, gradients, what does not broadcast. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("expand");
}

TEST(gradients) {
    check_gradients("expand");
}

TEST(by_hand) {
    static const float src[4] = {1, 2, 3, 4};
    check_by_hand("expand/forward src=fp32[2,2] dst=fp32[2,2,2] height=2", QS_SRC, src, QS_DST, (float[8]){1, 2, 1, 2, 3, 4, 3, 4});
    check_by_hand("expand/forward src=fp32[2,1,2] dst=fp32[2,2,2] channels=2", QS_SRC, src, QS_DST, (float[8]){1, 1, 2, 2, 3, 3, 4, 4});
    check_by_hand("expand/backward diff_dst=fp32[1,2,2] diff_src=fp32[1,2] height=2", QS_DIFF_DST, src, QS_DIFF_SRC, (float[2]){4, 6});
}

TEST(shapes) {
    const qs_op *op = qs_op_of("expand");
    const qs_shape pixel = qs_shape_of(4, 2, 5, 1, 1), channel = qs_shape_of(3, 2, 1, 7);
    qs_shape dst;
    assert_ok(qs_op_infer(op, &(qs_attributes){.extent = {3, 4}}, &pixel, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {2, 5, 3, 4}}));
    assert_ok(qs_op_infer(op, &(qs_attributes){.extent = {0, 0, 6}}, &channel, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){3, {2, 6, 7}}));
    assert_refused(qs_op_infer(op, &(qs_attributes){.extent = {9}}, &channel, 0, &dst), QS_USAGE, "does not broadcast to [2,1,9]");
    assert_refused(qs_op_infer(op, &(qs_attributes){.extent = {0, 4}}, &(qs_shape){2, {2, 5}}, 0, &dst), QS_USAGE, "beside a height");
    assert_refused(qs_op_infer(op, &(qs_attributes){.extent = {2.5}}, &channel, 0, &dst), QS_USAGE, "whole numbers");
    expect_refused("expand/forward src=fp32[2,1,2] dst=fp32[2,3,2] channels=2", "dst");
}

TEST_MAIN(cases, gradients, by_hand, shapes)
