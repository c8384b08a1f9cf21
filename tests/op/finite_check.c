// SPDX-License-Identifier: Apache-2.0
// labels: short
/* finite_check: finds one bad value anywhere, accumulates by minimum. */
#include "kit/cases.h"

TEST(cases) {
    check_cases("finite_check");
}

static float flag_with(int64_t place, float bad, float before) {
    bound b;
    bound_parse(&b, "finite_check/forward src=fp32[131] flag=fp32[1]", 151);
    bound_fp32(&b, QS_SRC)[place] = bad;
    bound_fp32(&b, QS_FLAG)[0] = before;
    bound_run(&b);
    float flag = bound_fp32(&b, QS_FLAG)[0];
    bound_release(&b);
    return flag;
}

TEST(finds_every_place) {
    for (int64_t place = 0; place < 131; place++) {
        assert_true(flag_with(place, NAN, 1) == 0);
        assert_true(flag_with(place, INFINITY, 1) == 0);
        assert_true(flag_with(place, -INFINITY, 1) == 0);
        assert_true(flag_with(place, 3.4e38f, 1) == 1);
    }
}

TEST(accumulates) {
    assert_true(flag_with(0, 1, 0) == 0);
    assert_true(flag_with(0, NAN, 0) == 0);
}

TEST_MAIN(cases, finds_every_place, accumulates)
