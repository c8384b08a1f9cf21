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

/* Σ r y of the probabilities y of scores x plus a mask m, one number for each head, query and key. */
static double masked(bound *offset, bound *softmax, const float *r) {
    double sum = 0;
    bound_run(offset);
    memcpy(bound_fp32(softmax, QS_SRC), bound_fp32(offset, QS_DST), (size_t)bound_count(offset, QS_DST) * sizeof *r);
    bound_run(softmax);
    for (int64_t i = 0; i < bound_count(softmax, QS_DST); i++)
        sum += (double)r[i] * (double)bound_fp32(softmax, QS_DST)[i];
    return sum;
}

/* A mask that is added, by an offset in front: -10000 leaves out as keep does, to the bit, and the gradient of what is learned there is
 * that of central differences: steps of 2^-7 leave 2^-14 of third derivatives, all below 1, and some 2^-24 / 2^-7 of roundings. */
TEST(added_masks) {
    enum { SCORES = 2 * 3 * 2 * 5, MASK = 3 * 2 * 5 };
    const float h = 0x1p-7f;
    bound offset, softmax, kept, back, learned;
    bound_parse(&offset, "offset/forward src=fp32[2,3,2,5] shift=fp32[10,3] dst=fp32[2,3,2,5] over=1", 34);
    bound_parse(&softmax, "softmax/forward src=fp32[2,3,2,5] dst=fp32[2,3,2,5] scale=1", 35);
    bound_parse(&kept, "softmax/forward src=fp32[2,3,2,5] keep=fp32[2,3] dst=fp32[2,3,2,5] scale=1", 36);
    bound_parse(&back, "softmax/backward src=fp32[2,3,2,5] diff_dst=fp32[2,3,2,5] diff_src=fp32[2,3,2,5] scale=1", 37);
    bound_parse(&learned, "offset/backward diff_dst=fp32[2,3,2,5] diff_src=fp32[2,3,2,5] diff_shift=fp32[10,3] over=1", 38);
    float *mask = bound_fp32(&offset, QS_SHIFT), *r = bound_fp32(&back, QS_DIFF_DST);
    for (int i = 0; i < MASK; i++)
        mask[i] = i % 3 == 1 ? -10000 : 0;
    masked(&offset, &softmax, r);
    memcpy(bound_fp32(&kept, QS_SRC), bound_fp32(&offset, QS_SRC), SCORES * sizeof *r);
    for (int i = 0; i < 6; i++)
        ((int32_t *)bound_tensor(&kept, QS_KEEP)->data)[i] = i % 3 != 1;
    bound_run(&kept);
    assert_memory_equal(bound_fp32(&softmax, QS_DST), bound_fp32(&kept, QS_DST), SCORES * sizeof *r);
    for (int i = 0; i < MASK; i++)
        mask[i] = 0.125f * (float)(i % 7 - 3);
    masked(&offset, &softmax, r);
    bound_share(&back, &softmax);
    bound_run(&back);
    memcpy(bound_fp32(&learned, QS_DIFF_DST), bound_fp32(&back, QS_DIFF_SRC), SCORES * sizeof *r);
    bound_run(&learned);
    for (int i = 0; i < MASK; i++) {
        const float at = mask[i];
        mask[i] = at + h;
        const double above = masked(&offset, &softmax, r);
        mask[i] = at - h;
        const double slope = (above - masked(&offset, &softmax, r)) / (2 * (double)h);
        mask[i] = at;
        assert_true(fabs(slope - (double)bound_fp32(&learned, QS_DIFF_SHIFT)[i]) <= 10 * (0x1p-14 + 0x1p-17));
    }
    bound_release(&offset);
    bound_release(&softmax);
    bound_release(&kept);
    bound_release(&back);
    bound_release(&learned);
}

TEST(refusals) {
    const qs_attributes causal = {.causal = 1};
    qs_shape src = qs_shape_of(4, 2, 9, 4, 7), dst;
    assert_refused(qs_op_infer(qs_op_of("softmax"), &causal, &src, 0, &dst), QS_USAGE, "as many positions");
    expect_refused("softmax/forward src=fp32[2,9,4,7] keep=fp32[2,7] dst=fp32[2,9,4,7]", "keep is [2,7]");
    expect_refused("softmax/forward src=fp32[2,9,4,7] dst=fp32[2,9,4,7] causal=1", "as many positions");
}

TEST_MAIN(cases, gradients, rows, left_out, added_masks, refusals)
