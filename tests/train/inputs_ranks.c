// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Several typed inputs on two ranks: what they learn is what one rank with twice the batch does, also where the labels that count are not
 * dealt out evenly. */
#include "inputs_support.h"

/* fp32 sums of another order, behind that many steps of a smooth loss: a few thousand ulps. */
static const double tolerance = 1e-3;

static void compare(qs_target_kind kind) {
    double loss[2], test[2];
    for (int alone = 0; alone < 2; alone++) {
        bench here;
        two_inputs own;
        qs_train_result result;
        bench_open(&here, fast_backend(), alone ? "self" : NULL, "two inputs", alone ? 32 : 16);
        two_open(&own, kind, IDS, TRAINING);
        two_job(&here, &own, 2);
        assert_ok(qs_job_optimizer_set(&here.job, "sgd"));
        here.options.hash_every = 1;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        loss[alone] = result.training_loss;
        test[alone] = result.test_loss;
        result_release(&result);
        two_close(&own);
        bench_close(&here);
    }
    assert_near(loss[0], loss[1], tolerance);
    assert_near(test[0], test[1], tolerance);
}

TEST(two_ranks_learn_what_one_does) {
    for (int kind = 0; kind < KINDS; kind++)
        compare((qs_target_kind)kind);
}

TEST_MAIN_RANKS(two_ranks_learn_what_one_does)
