// SPDX-License-Identifier: Apache-2.0
// labels: short
/* softmax_cross_entropy: closed forms, large logits, padded rows, scaling, gradients. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("softmax_cross_entropy");
}

TEST(gradients) {
    check_gradients("softmax_cross_entropy");
}

static const char forward[] = "softmax_cross_entropy/forward src=fp32[4,10] labels=fp32[4] loss=fp32[2]";
static const char backward[] = "softmax_cross_entropy/backward src=fp32[4,10] labels=fp32[4] diff_src=fp32[4,10]";

/* Equal logits: loss log 10 a row whatever their value, gradient 1/10 off the label and -9/10 on it; the first class is the answer. */
TEST(equal_logits) {
    bound f, b;
    bound_parse(&f, forward, 101);
    bound_parse(&b, backward, 101);
    b.run.loss_scale = 1024;
    b.run.global_samples = 8;
    for (int i = 0; i < 40; i++)
        bound_fp32(&f, QS_SRC)[i] = 1e30f;
    memcpy(bound_tensor(&f, QS_LABELS)->data, (const int32_t[4]){0, 3, 0, 9}, 16);
    bound_share(&b, &f);
    bound_run(&f);
    bound_run(&b);
    assert_true(fabs((double)bound_fp32(&f, QS_LOSS)[0] - 4 * log(10)) < 9.3 * 0x1p-24);
    assert_true(bound_fp32(&f, QS_LOSS)[1] == 2);
    const float *g = bound_fp32(&b, QS_DIFF_SRC);
    assert_true(fabs((double)g[13] - -0.9 * 128) < 115 * 0x1p-23 && fabs((double)g[14] - 0.1 * 128) < 13 * 0x1p-23);
    bound_release(&f);
    bound_release(&b);
}

/* A logit that stands far out: probability 1 to the last bit, loss 0; on another label the loss is the distance. */
TEST(extreme_logits) {
    bound f;
    bound_parse(&f, forward, 102);
    memset(bound_fp32(&f, QS_SRC), 0, 160);
    for (int n = 0; n < 4; n++)
        bound_fp32(&f, QS_SRC)[n * 10 + 2] = 5000;
    memcpy(bound_tensor(&f, QS_LABELS)->data, (const int32_t[4]){2, 2, 2, 7}, 16);
    bound_run(&f);
    assert_true(bound_fp32(&f, QS_LOSS)[0] == 5000 && bound_fp32(&f, QS_LOSS)[1] == 3);
    bound_release(&f);
}

/* Rows from run->samples on count for nothing, whatever their labels hold. */
TEST(padded_rows) {
    bound f, b, part;
    bound_parse(&f, forward, 103);
    bound_parse(&b, backward, 103);
    bound_parse(&part, "softmax_cross_entropy/forward src=fp32[3,10] labels=fp32[3] loss=fp32[2]", 103);
    memcpy(bound_fp32(&part, QS_SRC), bound_fp32(&f, QS_SRC), 120);
    memcpy(bound_tensor(&part, QS_LABELS)->data, bound_tensor(&f, QS_LABELS)->data, 12);
    ((int32_t *)bound_tensor(&f, QS_LABELS)->data)[3] = -7;
    bound_share(&b, &f);
    f.run.samples = b.run.samples = 3;
    bound_run(&f);
    bound_run(&b);
    bound_run(&part);
    assert_memory_equal(bound_fp32(&f, QS_LOSS), bound_fp32(&part, QS_LOSS), 8);
    for (int n = 0; n < 4; n++) {
        double sum = 0, magnitude = 0;
        for (int c = 0; c < 10; c++) {
            sum += (double)bound_fp32(&b, QS_DIFF_SRC)[n * 10 + c];
            magnitude += fabs((double)bound_fp32(&b, QS_DIFF_SRC)[n * 10 + c]);
        }
        assert_true(n < 3 ? magnitude > 0 && fabs(sum) <= 10 * 0x1p-24 * magnitude : magnitude == 0); /* probabilities sum to 1 */
    }
    bound_release(&f);
    bound_release(&b);
    bound_release(&part);
}

TEST(labels_are_checked) {
    bound f;
    bound_parse(&f, forward, 104);
    ((int32_t *)bound_tensor(&f, QS_LABELS)->data)[1] = 10;
    assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "label 10 of sample 1");
    bound_release(&f);
}

TEST_MAIN(cases, gradients, equal_logits, extreme_logits, padded_rows, labels_are_checked)
