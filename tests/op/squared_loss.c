// SPDX-License-Identifier: Apache-2.0
// labels: short
/* squared_loss: by hand, padded samples, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("squared_loss");
}

TEST(gradients) {
    check_gradients("squared_loss");
}

/* Small whole numbers: every operation is exact. Sample 2 is padding. */
TEST(values) {
    static const float src[6] = {1, 2, 3, 4, NAN, 6}, target[6] = {0, 4, 3, 1, 0, 0}, expected[6] = {2, -4, 0, 6, 0, 0};
    bound f, b;
    bound_parse(&f, "squared_loss/forward src=fp32[3,2] target=fp32[3,2] loss=fp32[2]", 121);
    bound_parse(&b, "squared_loss/backward src=fp32[3,2] target=fp32[3,2] diff_src=fp32[3,2]", 121);
    memcpy(bound_fp32(&f, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&f, QS_TARGET), target, sizeof target);
    bound_share(&b, &f);
    f.run.samples = b.run.samples = 2;
    b.run.global_samples = 8;
    b.run.loss_scale = 16;
    bound_run(&f);
    bound_run(&b);
    assert_true(bound_fp32(&f, QS_LOSS)[0] == 7 && bound_fp32(&f, QS_LOSS)[1] == 0); /* (1 + 4) / 2 + (0 + 9) / 2 */
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), expected, sizeof expected);
    bound_release(&f);
    bound_release(&b);
}

TEST(shapes) {
    expect_refused("squared_loss/forward src=fp32[3,2,4] target=fp32[3,2,4] loss=fp32[2]", "N,C");
    expect_refused("squared_loss/backward src=fp32[3,2] target=fp32[3,1] diff_src=fp32[3,2]", "target");
}

TEST_MAIN(cases, gradients, values, shapes)
