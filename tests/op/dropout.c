// SPDX-License-Identifier: Apache-2.0
// labels: short
/* dropout: frequency and scale of kept elements, equal masks in both passes, independence of ranks. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("dropout");
}

TEST(gradients) {
    check_gradients("dropout");
}

/* The share of kept elements is binomial: within 5 standard deviations of 1 - p; kept ones are exactly x / (1 - p), so the mean of y is
 * that of x (all ones here) as closely. */
TEST(keeps_its_share) {
    const double n = 40000, p = 0.3;
    bound b;
    bound_parse(&b, "dropout/forward src=fp32[40,1000] dst=fp32[40,1000] probability=0.3 batched", 91);
    for (int i = 0; i < 40000; i++)
        bound_fp32(&b, QS_SRC)[i] = 1;
    bound_run(&b);
    double kept = 0;
    for (int i = 0; i < 40000; i++) {
        float y = bound_fp32(&b, QS_DST)[i];
        assert_true(y == 0 || y == (float)(1 / (1 - p)));
        kept += y != 0;
    }
    assert_true(fabs(kept - n * (1 - p)) < 5 * sqrt(n * p * (1 - p)));
    bound_release(&b);
}

static void masks(const char *text, int64_t first_sample, uint64_t step, int64_t count, bool *mask) {
    bound b;
    bound_parse(&b, text, 92);
    for (int64_t i = 0; i < count; i++)
        ((float *)b.operands[0].data)[i] = 1;
    b.run.first_sample = first_sample;
    b.run.step = step;
    bound_run(&b);
    for (int64_t i = 0; i < count; i++)
        mask[i] = ((float *)b.operands[1].data)[i] != 0;
    bound_release(&b);
}

TEST(one_mask_for_both_passes_and_all_ranks) {
    bool forward[60], backward[60], halves[60], later[60];
    masks("dropout/forward src=fp32[4,15] dst=fp32[4,15] probability=0.5 batched", 6, 1, 60, forward);
    masks("dropout/backward diff_dst=fp32[4,15] diff_src=fp32[4,15] probability=0.5 batched", 6, 1, 60, backward);
    masks("dropout/forward src=fp32[2,15] dst=fp32[2,15] probability=0.5 batched", 6, 1, 30, halves);
    masks("dropout/forward src=fp32[2,15] dst=fp32[2,15] probability=0.5 batched", 8, 1, 30, halves + 30);
    masks("dropout/forward src=fp32[4,15] dst=fp32[4,15] probability=0.5 batched", 6, 2, 60, later);
    assert_memory_equal(forward, backward, sizeof forward);
    assert_memory_equal(forward, halves, sizeof forward);
    assert_memory_not_equal(forward, later, sizeof forward);
}

TEST(probability_below_one) {
    qs_case one;
    assert_ok(qs_case_parse("dropout/forward src=fp32[2,9] dst=fp32[2,9] probability=1", &one));
    assert_int_equal(qs_case_check(&one), QS_USAGE);
}

TEST_MAIN(cases, gradients, keeps_its_share, one_mask_for_both_passes_and_all_ranks, probability_below_one)
