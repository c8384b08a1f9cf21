// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* The same on two ranks, each with its own samples: the profile has the means of both, and the extremes of all. */
#include "statistics_hand.h"

static const char cluster[] = "{\"schema\":\"qsync/cluster/2\",\"classes\":{"
                              "\"pair\":{\"role\":\"training\",\"backend\":\"ref\",\"count\":2,\"formats\":[\"fp32\"]}}}";

static void the_mean_of_both(void **state) {
    bench b;
    (void)state;
    bench_open(&b, cluster, NULL, "mlp:width=0.125", BATCH);
    b.options.statistics_iterations = 1;
    profile_and_check(&b);
    bench_close(&b);
}

TEST_MAIN(the_mean_of_both)
