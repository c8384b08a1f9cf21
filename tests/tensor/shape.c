// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Shapes: making, counting, comparing, printing, refusing; bytes by format. */
#include "kit/kit.h"
#include "qsync/tensor.h"

TEST(making_and_counting) {
    size_t n = 7; /* extents of any integer type */
    qs_shape shape = qs_shape_of(4, n, 3, (int64_t)32, 32u), scalar = qs_shape_of(0);
    assert_int_equal(shape.axes, 4);
    assert_int_equal(qs_shape_count(&shape), 7 * 3 * 32 * 32);
    assert_int_equal(qs_shape_count(&scalar), 1);
    char text[96];
    assert_string_equal(qs_shape_text(&shape, text), "[7,3,32,32]");
    assert_string_equal(qs_shape_text(&scalar, text), "[]");
}

TEST(comparing) {
    qs_shape a = qs_shape_of(2, 3, 4), b = qs_shape_of(2, 3, 4), c = qs_shape_of(2, 4, 3), d = qs_shape_of(3, 3, 4, 1);
    b.dim[3] = 99; /* beyond its axes: not part of it */
    assert_true(qs_shape_equal(&a, &b));
    assert_false(qs_shape_equal(&a, &c));
    assert_false(qs_shape_equal(&a, &d));
}

TEST(refusing) {
    qs_shape good = qs_shape_of(2, (int64_t)1 << 20, (int64_t)1 << 20), large = qs_shape_of(2, (int64_t)1 << 20, ((int64_t)1 << 20) + 1);
    qs_shape wraps = qs_shape_of(4, (int64_t)1 << 40, (int64_t)1 << 40, (int64_t)1 << 40, 2), empty = qs_shape_of(2, 3, 0);
    assert_ok(qs_shape_check(&good, "weights"));
    assert_refused(qs_shape_check(&large, "weights"), QS_USAGE, "weights is [1048576,1048577]");
    assert_int_equal(qs_shape_check(&wraps, "weights"), QS_USAGE);
    assert_refused(qs_shape_check(&empty, "bias"), QS_USAGE, "bias is [3,0]");
    good.axes = 5;
    assert_int_equal(qs_shape_check(&good, "weights"), QS_USAGE);
}

TEST(bytes) {
    qs_shape shape = qs_shape_of(2, 3, 5);
    assert_int_equal(qs_tensor_bytes(&shape, qs_format_of("fp32")), 60);
    assert_int_equal(qs_tensor_bytes(&shape, qs_format_of("bf16")), 30);
    assert_int_equal(qs_tensor_bytes(&shape, qs_format_of("int8")), 15);
}

TEST_MAIN(making_and_counting, comparing, refusing, bytes)
