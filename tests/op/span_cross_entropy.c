// SPDX-License-Identifier: Apache-2.0
// labels: short
/* span_cross_entropy: closed forms, exact match, gradients, labels. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("span_cross_entropy");
}

TEST(gradients) {
    check_gradients("span_cross_entropy");
}

static const char forward[] = "span_cross_entropy/forward src=fp32[2,2,4] labels=fp32[2,2] loss=fp32[2]";

/* All logits are 0 but one, far out: its end costs nothing where it is the label, the distance where not; the other end, of equal logits,
 * costs log 4 whatever its label. A sample's loss is the mean of its ends. Equal logits answer with the first position. */
TEST(ends_are_averaged) {
    bound f;
    bound_parse(&f, forward, 111);
    float *src = bound_fp32(&f, QS_SRC);
    memset(src, 0, 16 * sizeof *src);
    src[0 * 8 + 2 * 3] = 5000;     /* sample 0 begins at position 3 */
    src[1 * 8 + 2 * 1 + 1] = 5000; /* sample 1 ends at position 1 */
    memcpy(bound_tensor(&f, QS_LABELS)->data, (const int32_t[4]){3, 0, 0, 2}, 16);
    bound_run(&f);
    assert_near((double)bound_fp32(&f, QS_LOSS)[0], log(4) / 2 + (log(4) + 5000) / 2, 0x1p-23);
    assert_true(bound_fp32(&f, QS_LOSS)[1] == 1); /* sample 0: both; sample 1: its first position only */
    bound_release(&f);
}

TEST(labels_are_checked) {
    bound f;
    bound_parse(&f, forward, 112);
    ((int32_t *)bound_tensor(&f, QS_LABELS)->data)[3] = 4;
    assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "label 4 of sample 1: there are 4 positions");
    ((int32_t *)bound_tensor(&f, QS_LABELS)->data)[3] = -1;
    assert_refused(qs_case_reference(&f.one, f.operands, &f.run), QS_USAGE, "label -1 of sample 1");
    bound_release(&f);
}

TEST(shapes) {
    expect_refused("span_cross_entropy/forward src=fp32[2,3,4] labels=fp32[2,2] loss=fp32[2]", "N,2,L");
    expect_refused("span_cross_entropy/backward src=fp32[2,2,4] labels=fp32[2,4] diff_src=fp32[2,2,4]", "labels");
}

TEST_MAIN(cases, gradients, ends_are_averaged, labels_are_checked, shapes)
