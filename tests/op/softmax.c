// SPDX-License-Identifier: Apache-2.0
// labels: short
/* softmax: definition and differences; what is left out counts for nothing, whatever stands there. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("softmax");
}

TEST(gradients) {
    check_gradients("softmax");
}

/* Rows add up to 1, ratios are those of exponentials, what keep or causal leave out is 0. */
TEST(rows) {
    bound b;
    bound_parse(&b, "softmax/forward src=fp32[1,40,2,40] keep=fp32[1,40] dst=fp32[1,40,2,40] scale=0.125 causal=1", 31);
    int32_t *keep = bound_tensor(&b, QS_KEEP)->data;
    keep[0] = 1;
    bound_run(&b);
    const float *x = bound_fp32(&b, QS_SRC), *y = bound_fp32(&b, QS_DST);
    int64_t left_out = 0;
    for (int64_t row = 0; row < 80; row++) {
        double sum = 0;
        for (int64_t c = 0; c < 40; c++) {
            const float here = y[row * 40 + c];
            sum += (double)here;
            if (c > row % 40 || !keep[c]) {
                assert_true(here == 0);
                left_out++;
                continue;
            }
            const double ratio = (double)here / (double)y[row * 40], expected = exp(((double)x[row * 40 + c] - (double)x[row * 40]) / 8);
            assert_true(fabs(ratio - expected) <= 0x1p-22 * expected); /* two roundings to fp32 */
        }
        assert_true(fabs(sum - 1) <= 40 * 0x1p-25);
    }
    assert_true(left_out > 80 * 39 / 2);
    bound_release(&b);
}

/* Infinite and huge values where nothing counts; a sample without any position that counts; the gradient of what is left out. */
TEST(left_out) {
    bound b, back;
    bound_parse(&b, "softmax/forward src=fp32[2,3,1,2] keep=fp32[2,3] dst=fp32[2,3,1,2] scale=1", 32);
    int32_t *keep = bound_tensor(&b, QS_KEEP)->data;
    float *x = bound_fp32(&b, QS_SRC);
    for (int i = 0; i < 6; i++)
        keep[i] = i == 0 || i == 2;
    x[1] = INFINITY, x[4] = NAN, x[0] = 1000, x[2] = 1000;
    bound_run(&b);
    const float *y = bound_fp32(&b, QS_DST);
    assert_true(y[0] == 0.5f && y[1] == 0 && y[2] == 0.5f && y[4] == 0);
    for (int i = 6; i < 12; i++)
        assert_true(y[i] == 0);
    bound_parse(&back, "softmax/backward src=fp32[2,3,1,2] keep=fp32[2,3] diff_dst=fp32[2,3,1,2] diff_src=fp32[2,3,1,2] scale=1", 33);
    bound_share(&back, &b);
    memcpy(bound_tensor(&back, QS_KEEP)->data, keep, 6 * sizeof *keep);
    bound_run(&back);
    const float *gradient = bound_fp32(&back, QS_DIFF_SRC);
    assert_true(gradient[0] != 0 && gradient[1] == 0 && gradient[4] == 0);
    for (int i = 6; i < 12; i++)
        assert_true(gradient[i] == 0);
    bound_release(&b);
    bound_release(&back);
}

TEST(refusals) {
    const qs_attributes causal = {.causal = 1};
    qs_shape src = qs_shape_of(4, 2, 9, 4, 7), dst;
    assert_refused(qs_op_infer(qs_op_of("softmax"), &causal, &src, 0, &dst), QS_USAGE, "as many positions");
    expect_refused("softmax/forward src=fp32[2,9,4,7] keep=fp32[2,7] dst=fp32[2,9,4,7]", "keep is [2,7]");
    expect_refused("softmax/forward src=fp32[2,9,4,7] dst=fp32[2,9,4,7] causal=1", "as many positions");
}

TEST_MAIN(cases, gradients, rows, left_out, refusals)
