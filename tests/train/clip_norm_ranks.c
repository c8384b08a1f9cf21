// SPDX-License-Identifier: Apache-2.0
// labels: medium
// ranks: 2
/* Clipping on two ranks: weights stay alike after every step, a bound above every norm leaves the run's bits, a low one does not; with and
 * without dynamic loss scaling. */
#include "train_support.h"

static uint64_t weights_of(double bound, bool scaled) {
    bench here;
    qs_train_result result;
    bench_open(&here, fast_backend(), NULL, "lenet5", 16);
    here.job.clip_norm = bound;
    here.job.dynamic_loss_scaling = scaled;
    here.job.loss_scale = scaled ? 1024 : 1;
    here.options.hash_every = 1; /* refuses ranks with unlike weights */
    here.options.max_steps = 6;
    assert_ok(qs_train(&here.options, here.device, here.comm, &result));
    assert_int_equal(result.steps, 6);
    const uint64_t hash = result.weights_hash;
    result_release(&result);
    assert_ok(qs_comm_barrier(here.comm));
    bench_close(&here);
    return hash;
}

TEST(ranks_stay_alike) {
    for (int scaled = 0; scaled < 2; scaled++) {
        const uint64_t plain = weights_of(0, scaled);
        assert_true(weights_of(1e6, scaled) == plain);
        const uint64_t clipped = weights_of(0.05, scaled);
        assert_true(clipped != plain);
        assert_true(weights_of(0.05, scaled) == clipped);
    }
}

TEST_MAIN_RANKS(ranks_stay_alike)
