// SPDX-License-Identifier: Apache-2.0
// labels: short
/* reshape: its shapes, an extent that follows, what does not fit, and that it is an alias without passes. */
#include "kit/cases.h"

static qs_status shape_of(double height, double width, double channels, qs_shape *dst) {
    const qs_shape image = qs_shape_of(4, 8, 16, 5, 3);
    return qs_op_infer(qs_op_of("reshape"), &(qs_attributes){.extent = {height, width, channels}}, &image, 0, dst);
}

TEST(shapes) {
    qs_shape dst;
    assert_ok(shape_of(0, 0, 240, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){2, {8, 240}}));
    assert_ok(shape_of(15, 0, -1, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){3, {8, 16, 15}}));
    assert_ok(shape_of(-1, 8, 2, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){4, {8, 2, 15, 8}}));
}

TEST(refusals) {
    qs_shape dst;
    assert_refused(shape_of(0, 0, 241, &dst), QS_USAGE, "a sample of [8,16,5,3] has 240 values");
    assert_refused(shape_of(-1, 7, 2, &dst), QS_USAGE, "height -1, width 7, channels 2");
    assert_refused(shape_of(-1, -1, 2, &dst), QS_USAGE, "one of them may be -1");
    assert_refused(shape_of(2.5, 0, 96, &dst), QS_USAGE, "whole numbers");
    assert_refused(shape_of(240, 0, 0, &dst), QS_USAGE, "always channels");
    assert_refused(shape_of(0, 240, 1, &dst), QS_USAGE, "beside a height");
    assert_refused(shape_of(2147483647, 2147483647, -1, &dst), QS_USAGE, "are not height");
}

TEST(moves_nothing) {
    const qs_op *op = qs_op_of("reshape");
    assert_true(op->alias);
    assert_int_equal(op->passes, 0);
}

TEST_MAIN(shapes, refusals, moves_nothing)
