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
    void *data = buffer_read(here->executor, here->schedule, buffer);
    const uint64_t hash = qs_hash(data, here->schedule->buffer[buffer].bytes, 0);
    free(data);
    return hash;
}

static void buffers_lie_in_the_arena(void **state) {
    program *here = *state;
    const char *memory = qs_memory_host(here->memory); /* NULL: only copies reach it */
    for (int b = 0; b < here->schedule->buffers; b++) {
        const qs_buffer *buffer = &here->schedule->buffer[b];
        void *data = buffer_read(here->executor, here->schedule, b);
        if (memory) assert_memory_equal(data, memory + buffer->offset, buffer->bytes);
        assert_true(buffer->offset + buffer->bytes <= qs_memory_bytes(here->memory));
        free(data);
    }
}

static void buffers_are_read_and_written(void **state) {
    program *here = *state;
    const int loss = here->schedule->loss;
    const float values[2] = {1, 2};
    float found = 0;
    assert_ok(qs_executor_write(here->executor, loss, 0, sizeof values, values));
    assert_ok(qs_executor_read(here->executor, loss, sizeof found, sizeof found, &found));
    assert_true(found == 2);
    assert_ok(qs_executor_clear(here->executor, loss));
    assert_ok(qs_executor_read(here->executor, loss, sizeof found, sizeof found, &found));
    assert_true(found == 0);
    const size_t bytes = here->schedule->buffer[loss].bytes;
    assert_refused(qs_executor_read(here->executor, loss, bytes, 1, &found), QS_USAGE, "not 1 from byte");
    assert_refused(qs_executor_write(here->executor, loss, 0, bytes + 1, values), QS_USAGE, "bytes, not");
    assert_refused(qs_executor_read(here->executor, -1, 0, 1, &found), QS_USAGE, "buffer -1");
    assert_refused(qs_executor_clear(here->executor, here->schedule->buffers), QS_USAGE, "the schedule has buffers 0 to");
}

/* What samples leave of the batch is zero. */
static void samples_are_loaded(void **state) {
    program *here = *state;
    const int64_t indices[] = {2, 0, 1}, image = 32 * 32 * 3;
    qs_dataset set;
    float expected[3 * 32 * 32 * 3];
    int32_t labels[3];
    assert_ok(qs_dataset_load("shapes", NULL, QS_PART_TRAINING, 8, &set));
    const qs_batch batch = {.input = {expected}, .extent = {{32, 32}}, .target = labels};
    assert_ok(qs_batch_fill(&set, NULL, indices, 3, &batch));
    assert_ok(qs_executor_load(here->executor, here->graph, &set, NULL, indices, 3));
    float *images = buffer_read(here->executor, here->schedule, here->schedule->input[0]);
    int32_t *loaded = buffer_read(here->executor, here->schedule, here->schedule->target);
    assert_memory_equal(images, expected, sizeof expected);
    assert_memory_equal(loaded, labels, sizeof labels);
    for (int64_t i = 3 * image; i < 4 * image; i++)
        assert_true(images[i] == 0);
    assert_int_equal(loaded[3], 0);
    assert_refused(qs_executor_load(here->executor, here->graph, &set, NULL, indices, 5), QS_USAGE, "5 samples");
    free(images);
    free(loaded);
    qs_dataset_release(&set);
}

static void memory_must_suffice(void **state) {
    program *here = *state;
    qs_executor *executor = NULL;
    qs_memory *memory = NULL;
    assert_ok(qs_memory_reserve(here->bench.device, here->schedule->arena_bytes - 64, &memory));
    assert_refused(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, memory, &executor), QS_USAGE,
                   "reserve as many");
    assert_null(executor);
    qs_memory_release(memory);
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
    inputs_fill(here); /* what a step read may have been written over within it */
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
    const int64_t count = here->graph->trained_elements;
    assert_ok(qs_executor_run(here->executor, &one_run)); /* leaves gradients behind */
    weights_start(here);
    float *before = buffer_read(here->executor, here->schedule, here->schedule->masters);
    assert_ok(qs_executor_run(here->executor, &none));
    float *masters = buffer_read(here->executor, here->schedule, here->schedule->masters);
    for (int64_t i = 0; i < count; i++) {
        assert_true(masters[i] == before[i] - (float)0.01 * ((float)*qs_job_setting(&here->bench.job, "weight_decay") * before[i]));
    }
    free(before);
    free(masters);
}

/* Evaluation over the memory of training leaves all that outlives a step alone. */
static void programs_share_memory(void **state) {
    program *here = *state;
    qs_executor *evaluation = NULL;
    qs_schedule *schedule = program_lowered(here, QS_MODE_EVALUATION);
    assert_true(schedule->arena_bytes <= qs_memory_bytes(here->memory));
    assert_ok(qs_executor_create(schedule, here->bench.device, here->bench.comm, here->memory, &evaluation));
    assert_ok(qs_executor_run(here->executor, &one_run));
    const uint64_t masters = buffer_hash(here, here->schedule->masters), momentum = buffer_hash(here, here->schedule->state[0]);
    assert_ok(qs_executor_clear(evaluation, schedule->input[0]));
    assert_ok(qs_executor_clear(evaluation, schedule->target));
    assert_ok(qs_executor_run(evaluation, &one_run));
    assert_true(buffer_hash(here, here->schedule->masters) == masters);
    assert_true(buffer_hash(here, here->schedule->state[0]) == momentum);
    qs_executor_release(evaluation);
    qs_schedule_release(schedule);
}

#define PROGRAM(name) cmocka_unit_test_setup_teardown(name, set_up, program_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM(buffers_lie_in_the_arena), PROGRAM(buffers_are_read_and_written), PROGRAM(samples_are_loaded),
        PROGRAM(memory_must_suffice),      PROGRAM(steps_are_observed),           PROGRAM(runs_repeat),
        PROGRAM(no_samples_no_gradient),   PROGRAM(programs_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
