// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Several typed inputs on two ranks: what they learn is what one rank with the global batch does, also where the labels that count are not
 * dealt out evenly, nor the samples. */
#include "inputs_support.h"
#include "unequal_support.h"

/* samples: in the last batch of an epoch there may be fewer. */
static void compare(qs_target_kind kind, bool unequal, int64_t samples) {
    double loss[2], test[2];
    for (int alone = 0; alone < 2; alone++) {
        bench here;
        two_inputs own;
        qs_plan plan = {0};
        qs_train_result result;
        bench_open(&here, fast_backend(), alone ? "self" : NULL, "two inputs", alone ? 32 : 16);
        two_open(&own, kind, IDS, samples);
        two_job(&here, &own, 2);
        if (unequal && !alone) unequal_ranks(&here, &plan);
        assert_ok(qs_job_optimizer_set(&here.job, "sgd"));
        here.options.hash_every = 1;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        loss[alone] = result.training_loss;
        test[alone] = result.test_loss;
        result_release(&result);
        qs_plan_release(&plan);
        two_close(&own);
        bench_close(&here);
    }
    assert_near(loss[0], loss[1], tolerance);
    assert_near(test[0], test[1], tolerance);
}

TEST(two_ranks_learn_what_one_does) {
    for (int kind = 0; kind < KINDS; kind++)
        compare((qs_target_kind)kind, false, TRAINING);
}

/* 25 samples beside 7, of lengths of their own: the loss is a mean over the positions of both that count. */
TEST(unequal_ranks_learn_what_one_does) {
    for (int kind = 0; kind < KINDS; kind++)
        compare((qs_target_kind)kind, true, TRAINING - 15);
}

TEST_MAIN_RANKS(two_ranks_learn_what_one_does, unequal_ranks_learn_what_one_does)
