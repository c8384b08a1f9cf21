// SPDX-License-Identifier: Apache-2.0
// labels: short
/* group_norm: values by hand, groups that are normalised, one group beside a layer norm, gradients, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("group_norm");
}

TEST(gradients) {
    check_gradients("group_norm");
}

/* Groups of two channels: 1, 3 and 10, 30 have means 2 and 20, deviations 1 and 10. */
TEST(by_hand) {
    bound b;
    bound_parse(&b, "group_norm/forward src=fp32[1,4] scale=fp32[4] shift=fp32[4] dst=fp32[1,4] groups=2 epsilon=1e-05", 91);
    memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 3, 10, 30}, 4 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SCALE), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
    memcpy(bound_fp32(&b, QS_SHIFT), (float[]){0, 1, 0, 1}, 4 * sizeof(float));
    bound_run(&b);
    const double near = 1 / sqrt(1 + 1e-5), far = 10 / sqrt(100 + 1e-5), expected[] = {-near, 2 * near + 1, -3 * far, 4 * far + 1};
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)bound_fp32(&b, QS_DST)[i] - expected[i]) < 0x1p-21);
    bound_release(&b);
}

/* Without scale and shift every group of every sample has mean 0 and variance 1, but for epsilon and the rounding to fp32. */
TEST(groups_are_normal) {
    bound b;
    bound_parse(&b, "group_norm/forward src=fp32[3,6,5,7] scale=fp32[6] shift=fp32[6] dst=fp32[3,6,5,7] groups=2 epsilon=1e-05", 92);
    for (int c = 0; c < 6; c++)
        bound_fp32(&b, QS_SCALE)[c] = 1, bound_fp32(&b, QS_SHIFT)[c] = 0;
    bound_run(&b);
    for (int g = 0; g < 6; g++) {
        double sum = 0, squares = 0;
        for (int i = 0; i < 3 * 35; i++) {
            const double y = (double)bound_fp32(&b, QS_DST)[(g / 2 * 35 + i / 3) * 6 + g % 2 * 3 + i % 3];
            sum += y, squares += y * y;
        }
        assert_true(fabs(sum / 105) < 1e-6 && fabs(squares / 105 - 1) < 1e-4);
    }
    bound_release(&b);
}

/* One group of a matrix is a layer norm: the same sums in another order. */
TEST(one_group) {
    bound group, layer;
    bound_parse(&group, "group_norm/forward src=fp32[5,24] scale=fp32[24] shift=fp32[24] dst=fp32[5,24] epsilon=1e-05", 93);
    bound_parse(&layer, "layer_norm/inference src=fp32[5,24] scale=fp32[24] shift=fp32[24] dst=fp32[5,24] epsilon=1e-05", 93);
    const qs_role roles[] = {QS_SRC, QS_SCALE, QS_SHIFT};
    for (int i = 0; i < 3; i++)
        memcpy(bound_fp32(&layer, roles[i]), bound_fp32(&group, roles[i]), (size_t)bound_count(&group, roles[i]) * sizeof(float));
    bound_run(&group);
    bound_run(&layer);
    assert_close(5 * 24, bound_fp32(&group, QS_DST), bound_fp32(&layer, QS_DST), 0x1p-22, 0x1p-22, "one group");
    bound_release(&group);
    bound_release(&layer);
}

TEST(refusals) {
    expect_refused("group_norm/forward src=fp32[2,6,3] scale=fp32[6] shift=fp32[6] dst=fp32[2,6,3] groups=4 epsilon=1e-05", "4 groups");
    expect_refused("group_norm/forward src=fp32[2,6] scale=fp32[6] shift=fp32[6] dst=fp32[2,6] groups=6 epsilon=1e-05", "no variance");
    expect_refused("group_norm/forward src=fp32[2,6,3] scale=fp32[3] shift=fp32[6] dst=fp32[2,6,3] groups=2 epsilon=1e-05", "scale");
}

TEST_MAIN(cases, gradients, by_hand, groups_are_normal, one_group, refusals)
