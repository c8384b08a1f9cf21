// SPDX-License-Identifier: Apache-2.0
// labels: short
/* Clipping by the global norm in training steps: one update against arithmetic written down, loss scaling, a bound above every norm. */
#include "program_support.h"

static int set_up(void **state) {
    return program_open(state, "mlp:width=0.1", 8);
}

/* Schedule and executor anew, for a job with this bound. */
static void bound_set(program *here, double bound, bool checked) {
    qs_executor_release(here->executor);
    qs_schedule_release(here->schedule);
    qs_memory_release(here->memory);
    here->bench.job.clip_norm = bound;
    here->bench.job.dynamic_loss_scaling = checked;
    here->schedule = program_lowered(here, QS_MODE_TRAIN);
    assert_ok(qs_memory_reserve(here->bench.device, here->schedule->arena_bytes, &here->memory));
    assert_ok(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, here->memory, &here->executor));
}

/* One step from the start; the caller frees the gradients that the update saw and the weights that it left. */
static void step_take(program *here, double bound, double loss_scale, bool checked, float **gradients, float **weights) {
    const qs_run run = {.seed = 1, .samples = 8, .global_samples = 8, .loss_scale = loss_scale, .learning_rate = here->bench.job.rate.base};
    bound_set(here, bound, checked);
    weights_start(here);
    inputs_fill(here);
    assert_ok(qs_executor_run(here->executor, &run));
    *gradients = buffer_read(here->executor, here->schedule, here->schedule->gradients);
    *weights = buffer_read(here->executor, here->schedule, here->schedule->masters);
}

static double norm_of(int64_t count, const float *values) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

static void norm_is_bounded(void **state) {
    program *here = *state;
    const int64_t count = here->graph->trained_elements;
    float *plain, *clipped, *start, *weights, *moved;
    step_take(here, 0, 1, false, &plain, &moved);
    const double norm = norm_of(count, plain), bound = norm / 3;
    assert_true(norm > 0);
    weights_start(here);
    start = buffer_read(here->executor, here->schedule, here->schedule->masters);
    step_take(here, bound, 1, false, &clipped, &weights);
    const double decay = *qs_job_setting(&here->bench.job, "weight_decay"), rate = here->bench.job.rate.base;
    for (int64_t i = 0; i < count; i++) {
        const double expected = (double)plain[i] / 3, left = (double)start[i] - rate * (expected + decay * (double)start[i]);
        assert_true(fabs((double)clipped[i] - expected) <= 0x1p-22 * fabs(expected));
        assert_true(fabs((double)weights[i] - left) <= 0x1p-21 * (fabs((double)start[i]) + fabs(rate * expected)));
    }
    assert_true(fabs(norm_of(count, clipped) - bound) < 0x1p-22 * bound);
    assert_true(memcmp(weights, moved, (size_t)count * sizeof *weights) != 0);
    free(plain);
    free(clipped);
    free(start);
    free(weights);
    free(moved);
}

/* A power of two as loss scale leaves the bits of the update: the bound is for the gradient that it was multiplied into. */
static void loss_scale_divides_out(void **state) {
    program *here = *state;
    const size_t bytes = (size_t)here->graph->trained_elements * sizeof(float);
    float *plain, *one, *scaled, *weights[2];
    step_take(here, 0, 1, false, &plain, &one);
    const double bound = norm_of(here->graph->trained_elements, plain) / 2;
    free(one);
    step_take(here, bound, 1, false, &one, &weights[0]);
    step_take(here, bound, 256, true, &scaled, &weights[1]);
    assert_memory_equal(weights[0], weights[1], bytes);
    assert_true(memcmp(one, scaled, bytes) != 0);
    for (int i = 0; i < 2; i++)
        free(weights[i]);
    free(plain);
    free(one);
    free(scaled);
}

/* A bound that no norm exceeds leaves the bits of the step without one; with loss scaling, the order of checks as well. */
static void large_bounds_change_nothing(void **state) {
    program *here = *state;
    const size_t bytes = (size_t)here->graph->trained_elements * sizeof(float);
    for (int checked = 0; checked < 2; checked++) {
        float *gradients[2], *weights[2];
        for (int clips = 0; clips < 2; clips++)
            step_take(here, clips ? 1e6 : 0, checked ? 256 : 1, checked, &gradients[clips], &weights[clips]);
        assert_memory_equal(gradients[0], gradients[1], bytes);
        assert_memory_equal(weights[0], weights[1], bytes);
        for (int clips = 0; clips < 2; clips++) {
            free(gradients[clips]);
            free(weights[clips]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(norm_is_bounded, set_up, program_close),
        cmocka_unit_test_setup_teardown(loss_scale_divides_out, set_up, program_close),
        cmocka_unit_test_setup_teardown(large_bounds_change_nothing, set_up, program_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
