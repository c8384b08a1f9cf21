// SPDX-License-Identifier: Apache-2.0
// labels: short
/* gate: by hand along channels and positions, sums of gradients, gradients, shapes that do not spread. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("gate");
}

TEST(gradients) {
    check_gradients("gate");
}

static const float src[8] = {1, 2, 3, 4, -5, 6, 7, -8}, gates[4] = {10, 100, 1000, 10000};

static void check_gate(const char *text, const float *expected) {
    bound b;
    bound_parse(&b, text, 81);
    memcpy(bound_fp32(&b, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&b, QS_SRC2), gates, tensor_bytes(bound_tensor(&b, QS_SRC2)));
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DST), expected, sizeof src);
    bound_release(&b);
}

TEST(by_hand) {
    check_gate("gate/forward src=fp32[2,2,2] src2=fp32[2,2] dst=fp32[2,2,2]", (float[8]){10, 200, 30, 400, -5000, 60000, 7000, -80000});
    check_gate("gate/forward src=fp32[2,2,2] src2=fp32[2,1,2] dst=fp32[2,2,2]", (float[8]){10, 20, 300, 400, -5000, 6000, 70000, -80000});
    check_gate("gate/forward src=fp32[2,2,2] src2=fp32[2,1] dst=fp32[2,2,2]", (float[8]){10, 20, 30, 40, -500, 600, 700, -800});
    check_gate("gate/forward src=fp32[1,2,2,2] src2=fp32[1,2,1,2] dst=fp32[1,2,2,2]",
               (float[8]){10, 200, 3000, 40000, -50, 600, 7000, -80000});
}

TEST(sums) {
    static const float diff[8] = {1, 2, 4, 8, 16, 32, 64, 128}, expected[4] = {1 + 12, 4 + 32, -80 + 448, 192 - 1024};
    bound b;
    bound_parse(&b, "gate/backward src=fp32[2,2,2] src2=fp32[2,2,1] diff_dst=fp32[2,2,2] diff_src=fp32[2,2,2] diff_src2=fp32[2,2,1]", 82);
    memcpy(bound_fp32(&b, QS_SRC), src, sizeof src);
    memcpy(bound_fp32(&b, QS_DIFF_DST), diff, sizeof diff);
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC2), expected, sizeof expected);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("gate/forward src=fp32[2,4,3] src2=fp32[2,3] dst=fp32[2,4,3]", "gate: [2,3] does not broadcast to [2,4,3]");
    expect_refused("gate/forward src=fp32[2,4,3] src2=fp32[1,4] dst=fp32[2,4,3]", "2 samples and 1");
    expect_refused("gate/forward src=fp32[2,4] src2=fp32[2,4,1] dst=fp32[2,4]", "does not broadcast");
    expect_refused("gate/backward src=fp32[2,4,3] src2=fp32[2,4] diff_dst=fp32[2,4,3] diff_src=fp32[2,4,3] diff_src2=fp32[2,4,1]",
                   "diff_src2");
}

TEST_MAIN(cases, gradients, by_hand, sums, refusals)
