// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The executor alone: buffers lie where the schedule says, each step is observed once and in order, runs repeat to the bit and depend on
 * what a run is told, and programs that share memory keep the weights. */
#include "program_support.h"

static int set_up(void **state) {
    return program_open(state, "lenet5", 4);
}

static const qs_run one_run = {.samples = 4, .global_samples = 4, .loss_scale = 1, .learning_rate = 0.01};

static uint64_t buffer_hash(const program *here, int buffer) {
    return qs_hash(qs_executor_buffer(here->executor, buffer), here->schedule->buffer[buffer].bytes, 0);
}

static void buffers_lie_in_the_arena(void **state) {
    program *here = *state;
    for (int b = 0; b < here->schedule->buffers; b++) {
        const qs_buffer *buffer = &here->schedule->buffer[b];
        assert_ptr_equal(qs_executor_buffer(here->executor, b), (char *)here->arena.memory + buffer->offset);
        assert_true(buffer->offset + buffer->bytes <= here->arena.bytes);
    }
    assert_null(qs_executor_buffer(here->executor, -1));
}

static void memory_must_be_aligned(void **state) {
    program *here = *state;
    qs_executor *executor = NULL;
    char *memory = (char *)here->arena.memory + 32;
    assert_refused(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, memory, &executor), QS_USAGE, "multiple of 64");
    assert_null(executor);
}

typedef struct seen {
    const qs_schedule *schedule;
    int next;
    double seconds;
} seen;

static void step_note(void *context, const qs_schedule *schedule, int step, double seconds) {
    seen *here = context;
    assert_ptr_equal(schedule, here->schedule);
    assert_int_equal(step, here->next++);
    assert_true(seconds >= 0);
    here->seconds += seconds;
}

static void steps_are_observed(void **state) {
    program *here = *state;
    seen note = {.schedule = here->schedule};
    qs_executor_observe(here->executor, step_note, &note);
    const double begin = qs_clock();
    assert_ok(qs_executor_run(here->executor, &one_run));
    const double all = qs_clock() - begin;
    assert_int_equal(note.next, here->schedule->steps);
    assert_true(note.seconds > 0 && note.seconds <= all);
    qs_executor_observe(here->executor, NULL, NULL);
    assert_ok(qs_executor_run(here->executor, &one_run));
    assert_int_equal(note.next, here->schedule->steps);
}

static void runs_repeat(void **state) {
    program *here = *state;
    const int masters = here->schedule->masters;
    const uint64_t before = buffer_hash(here, masters);
    assert_ok(qs_executor_run(here->executor, &one_run));
    const uint64_t after = buffer_hash(here, masters);
    assert_true(after != before);
    weights_start(here);
    inputs_fill(here);
    assert_true(buffer_hash(here, masters) == before);
    assert_ok(qs_executor_run(here->executor, &one_run));
    assert_true(buffer_hash(here, masters) == after);
    qs_run slower = one_run;
    slower.learning_rate = 0.001;
    weights_start(here);
    inputs_fill(here);
    assert_ok(qs_executor_run(here->executor, &slower));
    assert_true(buffer_hash(here, masters) != after);
}

/* Zero gradients and fresh momentum: the update is weight decay alone, w - lr · d · w in fp32. */
static void no_samples_no_gradient(void **state) {
    program *here = *state;
    const qs_run none = {.samples = 0, .global_samples = 4, .loss_scale = 1, .learning_rate = 0.01};
    float *masters = qs_executor_buffer(here->executor, here->schedule->masters), *before = NULL;
    const int64_t count = here->graph->trained_elements;
    assert_ok(qs_allocate((size_t)count, sizeof *before, &before));
    assert_ok(qs_executor_run(here->executor, &one_run)); /* leaves gradients behind */
    weights_start(here);
    memcpy(before, masters, (size_t)count * sizeof *before);
    assert_ok(qs_executor_run(here->executor, &none));
    for (int64_t i = 0; i < count; i++) {
        assert_true(masters[i] == before[i] - (float)0.01 * ((float)*qs_job_setting(&here->bench.job, "weight_decay") * before[i]));
    }
    free(before);
}

/* Evaluation over the memory of training leaves all that outlives a step alone. */
static void programs_share_memory(void **state) {
    program *here = *state;
    qs_executor *evaluation = NULL;
    qs_schedule *schedule = program_lowered(here, QS_MODE_EVALUATION);
    assert_true(schedule->arena_bytes <= here->arena.bytes);
    assert_ok(qs_executor_create(schedule, here->bench.device, here->bench.comm, here->arena.memory, &evaluation));
    assert_ok(qs_executor_run(here->executor, &one_run));
    const uint64_t masters = buffer_hash(here, here->schedule->masters), momentum = buffer_hash(here, here->schedule->state[0]);
    memset(qs_executor_buffer(evaluation, schedule->images), 0, schedule->buffer[schedule->images].bytes);
    memset(qs_executor_buffer(evaluation, schedule->labels), 0, schedule->buffer[schedule->labels].bytes);
    assert_ok(qs_executor_run(evaluation, &one_run));
    assert_true(buffer_hash(here, here->schedule->masters) == masters);
    assert_true(buffer_hash(here, here->schedule->state[0]) == momentum);
    qs_executor_release(evaluation);
    qs_schedule_release(schedule);
}

#define PROGRAM(name) cmocka_unit_test_setup_teardown(name, set_up, program_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM(buffers_lie_in_the_arena), PROGRAM(memory_must_be_aligned), PROGRAM(steps_are_observed), PROGRAM(runs_repeat),
        PROGRAM(no_samples_no_gradient),   PROGRAM(programs_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
