// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Learning rates and loss scales as the door defines them. */
#include "train_support.h"

enum { STEPS = 100 }; /* an epoch */

static qs_job job_with(qs_rate_schedule schedule, double warmup_epochs, int epochs) {
    qs_job job;
    qs_job_default(&job);
    job.rate.base = 0.5;
    job.rate.schedule = schedule;
    job.rate.warmup_epochs = warmup_epochs;
    job.epochs = epochs;
    return job;
}

/* Rates are short expressions in double: a few roundings. */
#define assert_rate(job, step, expected)                                                    \
    do {                                                                                    \
        const double rate_actual = qs_learning_rate(job, step, STEPS);                      \
        if (!(fabs(rate_actual - (expected)) <= 8 * 2.3e-16))                               \
            fail_msg("step %d: %.17g, expected %.17g", (int)(step), rate_actual, expected); \
    } while (0)

TEST(warmup_is_linear) {
    const qs_job job = job_with(QS_RATE_CONSTANT, 0.5, 2);
    for (int step = 0; step < 50; step++)
        assert_rate(&job, step, 0.05 + 0.45 * step / 50);
    for (int step = 50; step < 2 * STEPS; step++)
        assert_rate(&job, step, 0.5);
    const qs_job none = job_with(QS_RATE_CONSTANT, 0, 2);
    assert_rate(&none, 0, 0.5);
}

/* Warm-up longer than the run: it ends with the run. */
TEST(warmup_may_be_all) {
    const qs_job job = job_with(QS_RATE_COSINE, 5, 2);
    assert_rate(&job, 0, 0.05);
    assert_rate(&job, 100, 0.275);
    assert_rate(&job, 200, 0.0);
}

TEST(step_falls_twice) {
    const qs_job job = job_with(QS_RATE_STEP, 0.5, 4);
    assert_rate(&job, 50, 0.5);
    assert_rate(&job, 199, 0.5);
    assert_rate(&job, 200, 0.05);
    assert_rate(&job, 299, 0.05);
    assert_rate(&job, 300, 0.005);
    assert_rate(&job, 399, 0.005);
}

TEST(cosine_falls_to_zero) {
    const qs_job job = job_with(QS_RATE_COSINE, 1, 3);
    assert_rate(&job, 100, 0.5);
    assert_rate(&job, 200, 0.25);
    assert_rate(&job, 150, 0.25 * (1 + sqrt(0.5)));
    assert_rate(&job, 300, 0.0);
    for (int step = 100; step < 300; step++) {
        assert_true(qs_learning_rate(&job, step + 1, STEPS) < qs_learning_rate(&job, step, STEPS));
    }
}

TEST(linear_falls_to_zero) {
    const qs_job job = job_with(QS_RATE_LINEAR, 1, 3);
    assert_rate(&job, 0, 0.05);
    assert_rate(&job, 100, 0.5);
    assert_rate(&job, 150, 0.375);
    assert_rate(&job, 299, 0.0025);
    assert_rate(&job, 300, 0.0);
}

/* Steps stand in place of epochs, and are cut off where the run ends. */
TEST(warmup_may_be_in_steps) {
    qs_job job = job_with(QS_RATE_LINEAR, 1, 2);
    job.rate.warmup_steps = 40;
    assert_rate(&job, 0, 0.05);
    assert_rate(&job, 20, 0.275);
    assert_rate(&job, 40, 0.5);
    assert_rate(&job, 120, 0.25);
    job.rate.warmup_steps = 1000;
    assert_rate(&job, 100, 0.275);
    assert_rate(&job, 200, 0.0);
}

/* ---- Loss scale -------------------------------------------------------------------------------------------------------------- */

static qs_loss_scale scale_of(bool dynamic, double start) {
    qs_job job;
    qs_job_default(&job);
    job.dynamic_loss_scaling = dynamic;
    job.loss_scale = start;
    return qs_loss_scale_start(&job);
}

TEST(fixed_scale_stays) {
    qs_loss_scale scale = scale_of(false, 128);
    qs_loss_scale_update(&scale, false);
    for (int i = 0; i < 5000; i++)
        qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 128);
}

TEST(scale_halves_down_to_one) {
    qs_loss_scale scale = scale_of(true, 4);
    const double expected[] = {2, 1, 1};
    for (int i = 0; i < 3; i++) {
        qs_loss_scale_update(&scale, false);
        assert_true(scale.value == expected[i]);
    }
}

TEST(scale_doubles_after_its_steps) {
    qs_loss_scale scale = scale_of(true, 1024);
    scale.growth_steps = 2000;
    for (int i = 0; i < 1999; i++)
        qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 1024);
    qs_loss_scale_update(&scale, false); /* starts the count again */
    assert_true(scale.value == 512);
    for (int i = 0; i < 1999; i++)
        qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 512);
    qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 1024);
    for (int i = 0; i < 40 * 2000; i++)
        qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 16777216);
}

TEST(skipped_in_a_row) {
    qs_loss_scale scale = scale_of(true, 1024);
    const bool finite[] = {false, false, true, false, true, true};
    const int64_t skipped[] = {1, 2, 0, 1, 0, 0};
    for (int i = 0; i < 6; i++) {
        qs_loss_scale_update(&scale, finite[i]);
        assert_int_equal(scale.skipped, skipped[i]);
    }
    for (int i = 0; i < 5000; i++)
        qs_loss_scale_update(&scale, true);
    assert_true(scale.value == 128); /* without growth_steps it never grows */
}

TEST_MAIN(warmup_is_linear, warmup_may_be_all, step_falls_twice, cosine_falls_to_zero, linear_falls_to_zero, warmup_may_be_in_steps,
          skipped_in_a_row, fixed_scale_stays, scale_halves_down_to_one, scale_doubles_after_its_steps)
