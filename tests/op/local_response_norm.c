// SPDX-License-Identifier: Apache-2.0
// labels: short
/* local_response_norm: values by hand, windows of even sizes and at the edges, gradients, what it refuses. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("local_response_norm");
}

TEST(gradients) {
    check_gradients("local_response_norm");
}

/* Channels 1, 2, 3, 4 of one position; beta 1 makes it a quotient. Of 4 channels one lies before and two behind. */
TEST(by_hand) {
    static const struct {
        const char *with;
        double sum[4]; /* of squares */
        double size;
    } rows[] = {{" size=3 alpha=3 beta=1 bias=1", {5, 14, 29, 25}, 3}, {" size=4 alpha=4 beta=1 bias=1", {14, 30, 29, 25}, 4}};
    for (size_t k = 0; k < COUNT_OF(rows); k++) {
        char text[QS_CASE_TEXT];
        bound b;
        snprintf(text, sizeof text, "local_response_norm/forward src=fp32[1,4] dst=fp32[1,4]%s", rows[k].with);
        bound_parse(&b, text, 87);
        memcpy(bound_fp32(&b, QS_SRC), (float[]){1, 2, 3, 4}, 4 * sizeof(float));
        bound_run(&b);
        for (int c = 0; c < 4; c++)
            assert_true(fabs((double)bound_fp32(&b, QS_DST)[c] - (c + 1) / (1 + rows[k].sum[c])) < 0x1p-23);
        bound_release(&b);
    }
}

TEST(refusals) {
    expect_refused("local_response_norm/forward src=fp32[2,4] dst=fp32[2,5] size=3", "dst");
    expect_refused("local_response_norm/forward src=fp32[2,4] dst=fp32[2,4] size=2.5", "whole number");
    expect_refused("local_response_norm/forward src=fp32[2,4] dst=fp32[2,4] size=3 bias=-1", "bias");
    expect_refused("local_response_norm/forward src=fp32[2,4] dst=fp32[2,4] size=3 alpha=-1", "alpha");
}

TEST_MAIN(cases, gradients, by_hand, refusals)
