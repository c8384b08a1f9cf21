// SPDX-License-Identifier: Apache-2.0
// labels: short
/* multiply: products by hand, both gradients, shapes that differ. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("multiply");
}

TEST(gradients) {
    check_gradients("multiply");
}

TEST(products) {
    static const float a[4] = {1, -2, 0.5f, 3}, b[4] = {4, 0.25f, -8, 0}, product[4] = {4, -0.5f, -4, 0};
    bound forward;
    bound_parse(&forward, "multiply/forward src=fp32[2,2] src2=fp32[2,2] dst=fp32[2,2]", 51);
    memcpy(bound_fp32(&forward, QS_SRC), a, sizeof a);
    memcpy(bound_fp32(&forward, QS_SRC2), b, sizeof b);
    bound_run(&forward);
    assert_memory_equal(bound_fp32(&forward, QS_DST), product, sizeof product);
    bound_release(&forward);
}

TEST(shapes) {
    const qs_shape unlike[2] = {qs_shape_of(2, (int64_t)2, (int64_t)3), qs_shape_of(2, (int64_t)3, (int64_t)2)};
    qs_shape dst;
    assert_refused(qs_op_infer(qs_op_of("multiply"), &(qs_attributes){0}, unlike, 0, &dst), QS_USAGE,
                   "multiply: inputs [2,3] and [3,2] must have one shape");
    expect_refused("multiply/forward src=fp32[2,2] src2=fp32[2,3] dst=fp32[2,2]", "src2");
    expect_refused("multiply/backward src=fp32[2,2] src2=fp32[2,2] diff_dst=fp32[2,2] diff_src=fp32[2,2] diff_src2=fp32[4]", "diff_src2");
}

TEST_MAIN(cases, gradients, products, shapes)
