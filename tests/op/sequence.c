// SPDX-License-Identifier: Apache-2.0
// labels: short
/* sequence: its shape, and that it is an alias without passes. */
#include "kit/cases.h"

TEST(shapes) {
    const qs_op *op = qs_op_of("sequence");
    qs_shape image = qs_shape_of(4, 8, 16, 5, 3), matrix = qs_shape_of(2, 8, 7), dst;
    assert_ok(qs_op_infer(op, &(qs_attributes){0}, &image, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){3, {8, 16, 15}}));
    assert_refused(qs_op_infer(op, &(qs_attributes){0}, &matrix, 0, &dst), QS_USAGE, "N,C,H,W");
}

TEST(moves_nothing) {
    const qs_op *op = qs_op_of("sequence");
    assert_true(op->alias);
    assert_int_equal(op->passes, 0);
}

TEST_MAIN(shapes, moves_nothing)
