// SPDX-License-Identifier: Apache-2.0
// labels: short
/* rotary: pairs and angles by hand, gradients, that backward turns back, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("rotary");
}

TEST(gradients) {
    check_gradients("rotary");
}

/* Two heads of 4 channels: pairs (0, 2) and (1, 3) of each; angles l and l / 10 with base 100. */
TEST(by_hand) {
    bound f;
    bound_parse(&f, "rotary/forward src=fp32[1,8,3] dst=fp32[1,8,3] heads=2 base=100", 61);
    bound_run(&f);
    const float *x = bound_fp32(&f, QS_SRC), *y = bound_fp32(&f, QS_DST);
    for (int l = 0; l < 3; l++)
        for (int head = 0; head < 2; head++)
            for (int i = 0; i < 2; i++) {
                const double angle = i ? l / 10.0 : l;
                const int a = l * 8 + head * 4 + i, b = a + 2;
                const double first = (double)x[a] * cos(angle) - (double)x[b] * sin(angle);
                const double second = (double)x[b] * cos(angle) + (double)x[a] * sin(angle);
                const double allowed = 0x1p-22 * (fabs((double)x[a]) + fabs((double)x[b]));
                assert_true(fabs((double)y[a] - first) <= allowed && fabs((double)y[b] - second) <= allowed);
            }
    bound_release(&f);
}

/* Two roundings to fp32 of values not above the pair's length. */
TEST(backward_turns_back) {
    bound f, b;
    bound_parse(&f, "rotary/forward src=fp32[2,64,67] dst=fp32[2,64,67] heads=2 base=10000", 62);
    bound_parse(&b, "rotary/backward diff_dst=fp32[2,64,67] diff_src=fp32[2,64,67] heads=2 base=10000", 63);
    bound_run(&f);
    memcpy(bound_fp32(&b, QS_DIFF_DST), bound_fp32(&f, QS_DST), tensor_bytes(bound_tensor(&f, QS_DST)));
    bound_run(&b);
    assert_close(bound_count(&f, QS_SRC), bound_fp32(&b, QS_DIFF_SRC), bound_fp32(&f, QS_SRC), 8 * 0x1p-23, 0, "there and back");
    bound_release(&f);
    bound_release(&b);
}

/* Positions 5 and 6 of a sequence, alone, are turned as they are within it: the same numbers by the same formula, the same bits. */
TEST(at_a_place) {
    bound whole, part;
    bound_parse(&whole, "rotary/forward src=fp32[1,24,7] dst=fp32[1,24,7] heads=2 base=10000", 64);
    bound_parse(&part, "rotary/forward src=fp32[1,24,2] place=fp32[1,1] dst=fp32[1,24,2] heads=2 base=10000", 65);
    memcpy(bound_fp32(&part, QS_SRC), bound_fp32(&whole, QS_SRC) + 5 * 24, 2 * 24 * sizeof(float));
    *(int32_t *)bound_tensor(&part, QS_PLACE)->data = 5;
    bound_run(&whole);
    bound_run(&part);
    assert_memory_equal(bound_fp32(&part, QS_DST), bound_fp32(&whole, QS_DST) + 5 * 24, 2 * 24 * sizeof(float));
    bound_release(&whole);
    bound_release(&part);
}

TEST(refusals) {
    expect_refused("rotary/forward src=fp32[1,6,3] dst=fp32[1,6,3] heads=2 base=100", "do not make pairs in 2 heads");
    expect_refused("rotary/forward src=fp32[1,8,3] dst=fp32[1,8,3] heads=1.5 base=100", "1.5 heads");
    expect_refused("rotary/forward src=fp32[1,8] dst=fp32[1,8] heads=2 base=100", "N,C,L");
    expect_refused("rotary/forward src=fp32[1,8,3] dst=fp32[1,8,3] heads=2 base=0.5", "base");
}

TEST_MAIN(cases, gradients, by_hand, backward_turns_back, at_a_place, refusals)
