// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Several lengths over two ranks, equal and unequal ones: what they learn is what one rank with the global batch does, where the loss is a
 * mean over samples and where it is one over the positions that count. */
#include "inputs_support.h"
#include "lengths_support.h"
#include "unequal_support.h"

/* positions: labels of positions, which are not dealt out evenly; else a class of each sentence, by a transformer. */
static void compare(bool positions, bool unequal) {
    double loss[2], test[2];
    for (int alone = 0; alone < 2; alone++) {
        bench here;
        two_inputs own = {0};
        sentences others = {0};
        qs_plan plan = {0};
        qs_train_result result;
        bench_open(&here, fast_backend(), alone ? "self" : NULL, positions ? "two inputs" : small_bert, alone ? 32 : 16);
        if (positions) {
            two_open(&own, QS_TARGET_CLASS_PER_POSITION, IDS, TRAINING - 15);
            two_job(&here, &own, 2);
            here.job.lengths = (qs_lengths){3, {2, 5, LENGTH}};
        } else {
            sentences_open(&here, small_bert, &others);
        }
        if (unequal && !alone) unequal_ranks(&here, &plan);
        assert_ok(qs_job_optimizer_set(&here.job, "sgd"));
        here.options.hash_every = 1;
        assert_ok(qs_train(&here.options, here.device, here.comm, &result));
        loss[alone] = result.training_loss;
        test[alone] = result.test_loss;
        result_release(&result);
        qs_plan_release(&plan);
        if (positions)
            two_close(&own);
        else
            sentences_close(&others);
        bench_close(&here);
    }
    assert_near(loss[0], loss[1], tolerance);
    assert_near(test[0], test[1], tolerance);
}

TEST(two_ranks_learn_what_one_does) {
    compare(false, false);
    compare(true, false);
}

TEST(unequal_ranks_learn_what_one_does) {
    compare(false, true);
    compare(true, true);
}

TEST_MAIN_RANKS(two_ranks_learn_what_one_does, unequal_ranks_learn_what_one_does)
