// SPDX-License-Identifier: Apache-2.0
// labels: short
/* layer_norm: values by hand, gradients by differences, one position at a time, the relu behind; what it refuses. */
#include "norm_support.h"

TEST(cases) {
    check_cases("layer_norm");
}

TEST(gradients) {
    check_gradients("layer_norm");
}

TEST(relu_behind) {
    check_relu_behind("layer_norm");
}

TEST(positions_apart) {
    check_positions_apart("layer_norm");
}

/* Positions x = 1, 2, 3, 4 and 10, 10, 14, 14: means 2.5 and 12, variances 1.25 and 4. y = (x - mean) / sqrt(variance + 1e-5) · scale +
 * shift, with scale 1, 2, 3, 4 and shift 0, 0, 0, 1; fp32 rounds y < 8 by at most 2^-22, and src, mean and variance are exact. */
TEST(by_hand) {
    bound b;
    bound_parse(
        &b, "layer_norm/forward src=fp32[2,4] scale=fp32[4] shift=fp32[4] mean=fp32[2] variance=fp32[2] dst=fp32[2,4] epsilon=1e-05", 51);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 4, 10, 10, 14, 14}, 8 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SCALE), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SHIFT), (float[]){0, 0, 0, 1}, 4 * sizeof(float));
    bound_run(&b);
    const double narrow = sqrt(1.25 + 1e-5), wide = sqrt(4 + 1e-5);
    const double expected[] = {-1.5 / narrow, -1 / narrow, 1.5 / narrow, 6 / narrow + 1, -2 / wide, -4 / wide, 6 / wide, 8 / wide + 1};
    assert_true(bound_fp32(&b, QS_MEAN)[0] == 2.5f && bound_fp32(&b, QS_MEAN)[1] == 12);
    assert_true(bound_fp32(&b, QS_VARIANCE)[0] == 1.25f && bound_fp32(&b, QS_VARIANCE)[1] == 4);
    for (int i = 0; i < 8; i++)
        assert_true(fabs((double)bound_fp32(&b, QS_DST)[i] - expected[i]) < 0x1p-21);
    bound_release(&b);
}

TEST(refusals) {
    check_layer_refused("layer_norm/inference src=fp32[4,1] scale=fp32[1] shift=fp32[1] dst=fp32[4,1]", "one channel");
    check_layer_refused("layer_norm/forward src=fp32[4,2] scale=fp32[2] shift=fp32[2] mean=fp32[2] variance=fp32[4] dst=fp32[4,2]",
                        "mean is [2], the other operands need [4]");
    check_layer_refused("layer_norm/inference src=int8[4,2] scale=fp32[2] shift=fp32[2] dst=fp32[4,2]", "as a float without src_step");
}

TEST_MAIN(cases, gradients, relu_behind, positions_apart, by_hand, refusals)
