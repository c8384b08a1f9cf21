// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Statistics of the first iteration of a small mlp against a computation by hand, on one rank. */
#include "statistics_hand.h"

static void first_iteration_equals_hand_computation(void **state) {
    bench b;
    (void)state;
    bench_open(&b, NULL, "ref", "mlp:width=0.125", BATCH);
    profile_and_check(&b);
    bench_close(&b);
}

TEST_MAIN(first_iteration_equals_hand_computation)
