// SPDX-License-Identifier: Apache-2.0
// labels: short
/* channel_shuffle: the order of channels, backward undoes forward, rules. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("channel_shuffle");
}

TEST(gradients) {
    check_gradients("channel_shuffle");
}

/* By hand: two groups of three channels at two positions. Agrees with channel_shuffle of PyTorch. */
TEST(order) {
    static const float src[] = {1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16}, dst[] = {1, 4, 2, 5, 3, 6, 11, 14, 12, 15, 13, 16};
    check_by_hand("channel_shuffle/forward src=fp32[1,6,1,2] dst=fp32[1,6,1,2] groups=2", QS_SRC, src, QS_DST, dst);
    check_by_hand("channel_shuffle/backward diff_dst=fp32[1,6,1,2] diff_src=fp32[1,6,1,2] groups=2", QS_DIFF_DST, dst, QS_DIFF_SRC, src);
}

TEST(rules) {
    const qs_shape src = qs_shape_of(4, 4, 10, 3, 3), vector = qs_shape_of(1, 4);
    qs_shape dst;
    const qs_op *op = qs_op_of("channel_shuffle");
    assert_refused(qs_op_infer(op, &(qs_attributes){.groups = 3}, &src, 0, &dst), QS_USAGE, "[4,10,3,3] are not 3 equal groups");
    assert_int_equal(qs_op_infer(op, &(qs_attributes){.groups = 2}, &vector, 0, &dst), QS_USAGE);
    qs_case one;
    assert_ok(qs_case_parse("channel_shuffle/forward src=fp32[2,6] dst=bf16[2,6] groups=2", &one));
    assert_refused(qs_case_check(&one), QS_USAGE, "dst is bf16");
}

TEST_MAIN(cases, gradients, order, rules)
