// SPDX-License-Identifier: Apache-2.0
// labels: short
/* flatten: its shape, and that it is an alias without passes. */
#include "kit/cases.h"

TEST(shapes) {
    const qs_op *op = qs_op_of("flatten");
    qs_shape image = qs_shape_of(4, 8, 16, 5, 3), matrix = qs_shape_of(2, 8, 7), scalar = qs_shape_of(0), dst;
    assert_ok(qs_op_infer(op, &(qs_attributes){0}, &image, 0, &dst));
    assert_true(qs_shape_equal(&dst, &(qs_shape){2, {8, 240}}));
    assert_ok(qs_op_infer(op, &(qs_attributes){0}, &matrix, 0, &dst));
    assert_true(qs_shape_equal(&dst, &matrix));
    assert_int_equal(qs_op_infer(op, &(qs_attributes){0}, &scalar, 0, &dst), QS_USAGE);
}

TEST(moves_nothing) {
    const qs_op *op = qs_op_of("flatten");
    assert_true(op->alias);
    assert_int_equal(op->passes, 0);
    assert_null(qs_op_pass(op, "forward"));
}

TEST_MAIN(shapes, moves_nothing)
