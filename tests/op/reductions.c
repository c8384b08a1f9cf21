// SPDX-License-Identifier: Apache-2.0
// labels: short
// covers: reduce_sum reduce_mean reduce_max
/* Reductions: by hand along positions, channels and both, to whom the gradient of a maximum goes, gradients, refusals. */
#include "kit/cases.h"

static const char *const names[] = {"reduce_sum", "reduce_mean", "reduce_max"};

TEST(cases) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_cases(names[n]);
}

TEST(gradients) {
    for (size_t n = 0; n < COUNT_OF(names); n++)
        check_gradients(names[n]);
}

/* Two samples of two positions of two channels. */
static const float src[8] = {1, 2, 3, 4, -5, 6, 7, -8};

TEST(by_hand) {
    check_by_hand("reduce_sum/forward src=fp32[2,2,2] dst=fp32[2,2,1]", QS_SRC, src, QS_DST, (float[4]){4, 6, 2, -2});
    check_by_hand("reduce_sum/forward src=fp32[2,2,2] dst=fp32[2,1,2] over=1", QS_SRC, src, QS_DST, (float[4]){3, 7, 1, -1});
    check_by_hand("reduce_mean/forward src=fp32[2,2,2] dst=fp32[2,1,1] over=2", QS_SRC, src, QS_DST, (float[2]){2.5f, 0});
    check_by_hand("reduce_max/forward src=fp32[2,2,2] dst=fp32[2,2,1]", QS_SRC, src, QS_DST, (float[4]){3, 4, 7, 6});
    check_by_hand("reduce_max/forward src=fp32[2,2,2] dst=fp32[2,1,2] over=1", QS_SRC, src, QS_DST, (float[4]){2, 4, 6, 7});
    check_by_hand("reduce_mean/backward diff_dst=fp32[2,1,2] diff_src=fp32[2,2,2] over=1", QS_DIFF_DST, src, QS_DIFF_SRC,
                  (float[8]){0.5f, 0.5f, 1, 1, 1.5f, 1.5f, 2, 2});
    check_by_hand("reduce_sum/backward diff_dst=fp32[2,2,1] diff_src=fp32[2,2,2]", QS_DIFF_DST, src, QS_DIFF_SRC,
                  (float[8]){1, 2, 1, 2, 3, 4, 3, 4});
}

/* The first of equal ones; a NaN is larger than all. */
TEST(whose_maximum) {
    static const float equal[6] = {1, 3, 3, 2, NAN, 5};
    bound f, b;
    bound_parse(&f, "reduce_max/forward src=fp32[2,3] dst=fp32[2,1] over=1", 91);
    bound_parse(&b, "reduce_max/backward src=fp32[2,3] diff_dst=fp32[2,1] diff_src=fp32[2,3] over=1", 92);
    memcpy(bound_fp32(&f, QS_SRC), equal, sizeof equal);
    bound_run(&f);
    assert_true(bound_fp32(&f, QS_DST)[0] == 3 && isnan(bound_fp32(&f, QS_DST)[1]));
    bound_share(&b, &f);
    bound_fp32(&b, QS_DIFF_DST)[0] = 7;
    bound_fp32(&b, QS_DIFF_DST)[1] = 8;
    bound_run(&b);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC), ((float[6]){0, 7, 0, 0, 8, 0}), sizeof equal);
    bound_release(&f);
    bound_release(&b);
}

TEST(refusals) {
    expect_refused("reduce_sum/forward src=fp32[2,3] dst=fp32[2,3]", "over positions: input [2,3] has none");
    expect_refused("reduce_max/forward src=fp32[2,3] dst=fp32[2,1] over=3", "over is 3");
    expect_refused("reduce_mean/forward src=fp32[2,3] dst=fp32[2,2] over=1", "dst");
}

TEST_MAIN(cases, gradients, by_hand, whose_maximum, refusals)
