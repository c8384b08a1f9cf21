// SPDX-License-Identifier: Apache-2.0
// labels: short
/* absmax: maxima by hand, per channel, non-finite values. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("absmax");
}

TEST(maxima) {
    for (const char *const *text = qs_op_of("absmax")->cases; *text; text++) {
        bound b;
        bound_parse(&b, *text, 121);
        bound_run(&b);
        float *x = tensor_values(&b.operands[0]);
        const double allowed = transform_values(&b, QS_SRC, x);
        const int64_t channels = bound_count(&b, QS_ABSMAX), count = bound_count(&b, QS_SRC);
        for (int64_t c = 0; c < channels; c++) {
            float expected = 0;
            for (int64_t i = c; i < count; i += channels)
                expected = fmaxf(expected, fabsf(x[i]));
            assert_true(fabs((double)bound_fp32(&b, QS_ABSMAX)[c] - (double)expected) <= allowed);
        }
        free(x);
        bound_release(&b);
    }
}

TEST(non_finite_values_show) {
    const float bad[3] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        bound b;
        bound_parse(&b, "absmax/forward src=fp32[37,2] absmax=fp32[2] axis=1 per_channel", 122);
        bound_fp32(&b, QS_SRC)[41] = bad[i];
        bound_run(&b);
        assert_true(isfinite(bound_fp32(&b, QS_ABSMAX)[0]));
        assert_false(isfinite(bound_fp32(&b, QS_ABSMAX)[1]));
        bound_release(&b);
    }
}

TEST_MAIN(cases, maxima, non_finite_values_show)
