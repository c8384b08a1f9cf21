// SPDX-License-Identifier: Apache-2.0
// labels: short
/* average_pool: means that count no padding, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("average_pool");
}

TEST(gradients) {
    check_gradients("average_pool");
}

TEST(constant_images_stay) {
    bound b;
    bound_parse(&b, "average_pool/forward src=fp32[2,3,5,7] dst=fp32[2,3,3,4] kernel=3x3 stride=2x2 padding=1x1", 71);
    for (int64_t i = 0; i < bound_count(&b, QS_SRC); i++)
        bound_fp32(&b, QS_SRC)[i] = 1.5f;
    bound_run(&b);
    for (int64_t i = 0; i < bound_count(&b, QS_DST); i++)
        assert_true(bound_fp32(&b, QS_DST)[i] == 1.5f);
    bound_release(&b);
}

TEST(a_corner_averages_four) {
    bound b;
    bound_parse(&b, "average_pool/forward src=fp32[1,1,3,3] dst=fp32[1,1,3,3] kernel=3x3 padding=1x1", 72);
    for (int i = 0; i < 9; i++)
        bound_fp32(&b, QS_SRC)[i] = (float)i;
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_DST)[0] == (0 + 1 + 3 + 4) / 4.0f);
    assert_true(bound_fp32(&b, QS_DST)[1] == (0 + 1 + 2 + 3 + 4 + 5) / 6.0f);
    assert_true(bound_fp32(&b, QS_DST)[4] == 4);
    bound_release(&b);
}

/* Where padding counts, every sum is divided by the whole window, also where that reaches over more padding behind. */
TEST(padding_that_counts) {
    bound b;
    bound_parse(&b,
                "average_pool/forward src=fp32[1,1,3,3] dst=fp32[1,1,2,2] kernel=3x3 stride=2x2 padding=1x1 padding_more=1x0 count_padding",
                73);
    for (int i = 0; i < 9; i++)
        bound_fp32(&b, QS_SRC)[i] = (float)i;
    bound_run(&b);
    assert_true(bound_fp32(&b, QS_DST)[0] == (0 + 1 + 3 + 4) / 9.0f);
    assert_true(bound_fp32(&b, QS_DST)[3] == (4 + 5 + 7 + 8) / 9.0f);
    bound_release(&b);
}

/* Taps two apart. */
TEST(dilation) {
    bound b;
    bound_parse(&b, "average_pool/forward src=fp32[1,1,1,4] dst=fp32[1,1,1,3] kernel=1x3 dilation=1x2 padding=0x2 padding_more=0x-1", 74);
    for (int i = 0; i < 4; i++)
        bound_fp32(&b, QS_SRC)[i] = (float)(1 << i);
    bound_run(&b);
    const float expected[] = {(1 + 4) / 2.0f, (2 + 8) / 2.0f, (1 + 4) / 2.0f};
    assert_memory_equal(bound_fp32(&b, QS_DST), expected, sizeof expected);
    bound_release(&b);
}

TEST_MAIN(cases, gradients, constant_images_stay, a_corner_averages_four, padding_that_counts, dilation)
