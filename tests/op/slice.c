// SPDX-License-Identifier: Apache-2.0
// labels: short
/* slice: the channels taken, zeros for the others in the gradient, rules. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("slice");
}

TEST(gradients) {
    check_gradients("slice");
}

/* By hand: channels 1 and 2 of two positions of four; and back. Agrees with x[:, 1:3] of PyTorch and its gradient. */
TEST(channels) {
    static const float whole[] = {1, 2, 3, 4, 5, 6, 7, 8}, taken[] = {2, 3, 6, 7}, back[] = {0, 2, 3, 0, 0, 6, 7, 0};
    check_by_hand("slice/forward src=fp32[1,4,1,2] dst=fp32[1,2,1,2] offset=1", QS_SRC, whole, QS_DST, taken);
    check_by_hand("slice/backward diff_dst=fp32[1,2,1,2] diff_src=fp32[1,4,1,2] offset=1", QS_DIFF_DST, taken, QS_DIFF_SRC, back);
}

/* Positions 1 and 2 of three of two channels, as x[:, :, 1:3] of [N,C,L]. */
TEST(positions) {
    static const float whole[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, taken[] = {3, 4, 5, 6, 9, 10, 11, 12},
                       back[] = {0, 0, 3, 4, 5, 6, 0, 0, 9, 10, 11, 12};
    check_by_hand("slice/forward src=fp32[2,2,3] dst=fp32[2,2,2] offset=1 along=1", QS_SRC, whole, QS_DST, taken);
    check_by_hand("slice/backward diff_dst=fp32[2,2,2] diff_src=fp32[2,2,3] offset=1 along=1", QS_DIFF_DST, taken, QS_DIFF_SRC, back);
    expect_refused("slice/forward src=fp32[2,2,3] dst=fp32[2,2,2] offset=2 along=1", "no 2 positions from position 2 on");
    expect_refused("slice/forward src=fp32[2,2,3,3] dst=fp32[2,2,2,3] along=1", "has no axes N,C,L");
}

TEST(rules) {
    const qs_shape src = qs_shape_of(4, 4, 10, 3, 3), vector = qs_shape_of(1, 4);
    qs_shape dst;
    const qs_op *op = qs_op_of("slice");
    assert_ok(qs_op_infer(op, &(qs_attributes){.offset = 4}, &src, 6, &dst));
    assert_int_equal(dst.dim[1], 6);
    assert_refused(qs_op_infer(op, &(qs_attributes){.offset = 5}, &src, 6, &dst), QS_USAGE, "[4,10,3,3] has no 6 channels from channel 5");
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = 0}, &src, 0, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = -1}, &src, 2, &dst), QS_USAGE);
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.offset = 0}, &vector, 1, &dst), QS_USAGE);
    qs_case one;
    assert_ok(qs_case_parse("slice/forward src=fp32[2,6,4,4] dst=bf16[2,3,4,4] offset=3", &one));
    assert_refused(qs_case_check(&one), QS_USAGE, "dst is bf16");
    one.attributes.offset = 4;
    assert_int_equal(qs_case_check(&one), QS_USAGE);
}

TEST_MAIN(cases, gradients, channels, positions, rules)
