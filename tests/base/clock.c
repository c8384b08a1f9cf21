// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The clock never goes back; waiting never ends early, and ends soon after its deadline. */
#include "kit/kit.h"

TEST(clock_is_monotonic) {
    double last = qs_clock();
    for (int i = 0; i < 10000; i++) {
        double now = qs_clock();
        assert_true(now >= last);
        last = now;
    }
}

TEST(waits_long_enough) {
    double least = 1;
    for (int i = 0; i < 1000 && least >= 20e-6; i++) {
        double deadline = qs_clock() + 0.002;
        qs_wait_until(deadline);
        double late = qs_clock() - deadline;
        assert_true(late >= 0);
        if (late < least) least = late;
    }
    /* One of so many is not disturbed by other work on the machine; a plain sleep is 50 µs late at the least. */
    assert_true(least < 20e-6);
}

TEST(past_deadlines_return) {
    double start = qs_clock();
    qs_wait_until(start - 5);
    qs_wait_until(0);
    assert_true(qs_clock() - start < 1);
}

TEST_MAIN(clock_is_monotonic, waits_long_enough, past_deadlines_return)
