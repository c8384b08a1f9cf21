// SPDX-License-Identifier: Apache-2.0
// labels: short
/* softmax_cross_entropy: closed forms, large logits, padded rows, scaling, gradients; a class for each position is a row for each. */
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

/* Logits [N,C,L] are N·L rows of C in memory: losses and gradients have the bits of the same rows as samples, without those that have no
 * label. */
TEST(positions_are_rows) {
    bound f, b, rows, rows_back;
    bound_parse(&f, "softmax_cross_entropy/forward src=fp32[2,5,3] labels=fp32[2,3] loss=fp32[2]", 105);
    bound_parse(&b, "softmax_cross_entropy/backward src=fp32[2,5,3] labels=fp32[2,3] diff_src=fp32[2,5,3]", 105);
    bound_parse(&rows, "softmax_cross_entropy/forward src=fp32[4,5] labels=fp32[4] loss=fp32[2]", 105);
    bound_parse(&rows_back, "softmax_cross_entropy/backward src=fp32[4,5] labels=fp32[4] diff_src=fp32[4,5]", 105);
    memcpy(bound_tensor(&f, QS_LABELS)->data, (const int32_t[6]){1, -1, 4, 0, -9, 2}, 24);
    memcpy(bound_tensor(&rows, QS_LABELS)->data, (const int32_t[4]){1, 4, 0, 2}, 16);
    static const int kept[4] = {0, 2, 3, 5};
    for (int r = 0; r < 4; r++)
        memcpy(bound_fp32(&rows, QS_SRC) + 5 * r, bound_fp32(&f, QS_SRC) + 5 * kept[r], 20);
    bound_share(&b, &f);
    bound_share(&rows_back, &rows);
    b.run.global_samples = rows_back.run.global_samples = 4;
    bound_run(&f);
    bound_run(&b);
    bound_run(&rows);
    bound_run(&rows_back);
    assert_memory_equal(bound_fp32(&f, QS_LOSS), bound_fp32(&rows, QS_LOSS), 8);
    for (int r = 0; r < 4; r++)
        assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC) + 5 * kept[r], bound_fp32(&rows_back, QS_DIFF_SRC) + 5 * r, 20);
    static const float none[5] = {0};
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC) + 5, none, 20);
    assert_memory_equal(bound_fp32(&b, QS_DIFF_SRC) + 20, none, 20);
    bound_release(&f);
    bound_release(&b);
    bound_release(&rows);
    bound_release(&rows_back);
}

/* One class a sample: a label is a class, always. */
TEST(no_label_is_ignored_without_positions) {
    bound f;
    bound_parse(&f, forward, 106);
    ((int32_t *)bound_tensor(&f, QS_LABELS)->data)[2] = -1;
    assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "label -1 of sample 2: there are 10 classes");
    bound_release(&f);
}

TEST_MAIN(cases, gradients, equal_logits, extreme_logits, padded_rows, labels_are_checked, positions_are_rows,
          no_label_is_ignored_without_positions)
