// SPDX-License-Identifier: Apache-2.0
// labels: short
/* The executor alone: buffers lie where the schedule says, each step is observed once and in order, runs repeat to the bit and depend on
 * what a run is told, and programs that share memory keep the weights. */
#include "train_support.h"

typedef struct program {
    bench bench;
    qs_graph *graph;
    qs_schedule *schedule;
    qs_arena arena;
    qs_executor *executor;
} program;

static qs_schedule *lowered(const program *here, qs_mode mode) {
    qs_schedule *schedule = NULL;
    const qs_lowering lowering = {.graph = here->graph,
                                  .batch = here->bench.job.batch,
                                  .mode = mode,
                                  .job = &here->bench.job,
                                  .half = qs_format_of("fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->bench.device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    return schedule;
}

static void weights_start(const program *here) {
    qs_graph_initialize(here->graph, 3, qs_executor_buffer(here->executor, here->schedule->masters),
                        qs_executor_buffer(here->executor, here->schedule->running));
    memset(qs_executor_buffer(here->executor, here->schedule->momentum), 0, here->schedule->buffer[here->schedule->momentum].bytes);
}

static void inputs_fill(const program *here) {
    const qs_schedule *schedule = here->schedule;
    float *images = qs_executor_buffer(here->executor, schedule->images);
    int32_t *labels = qs_executor_buffer(here->executor, schedule->labels);
    for (size_t i = 0; i < schedule->buffer[schedule->images].bytes / sizeof *images; i++)
        images[i] = qs_random_normal(11, i);
    for (int64_t i = 0; i < schedule->batch; i++)
        labels[i] = (int32_t)(i % 10);
}

static int set_up(void **state) {
    program *here = calloc(1, sizeof *here);
    bench_open(&here->bench, "ref", "self", "lenet5", 4);
    assert_ok(qs_job_model(&here->bench.job, &here->graph));
    here->schedule = lowered(here, QS_MODE_TRAIN);
    assert_ok(qs_arena_reserve(here->schedule->arena_bytes, &here->arena));
    assert_ok(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, here->arena.memory, &here->executor));
    weights_start(here);
    inputs_fill(here);
    *state = here;
    return 0;
}

static int tear_down(void **state) {
    program *here = *state;
    qs_executor_release(here->executor);
    qs_arena_release(&here->arena);
    qs_schedule_release(here->schedule);
    qs_graph_release(here->graph);
    bench_close(&here->bench);
    free(here);
    return 0;
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
        assert_true(masters[i] == before[i] - (float)0.01 * ((float)here->bench.job.optimizer.weight_decay * before[i]));
    }
    free(before);
}

/* Evaluation over the memory of training leaves all that outlives a step alone. */
static void programs_share_memory(void **state) {
    program *here = *state;
    qs_executor *evaluation = NULL;
    qs_schedule *schedule = lowered(here, QS_MODE_EVALUATION);
    assert_true(schedule->arena_bytes <= here->arena.bytes);
    assert_ok(qs_executor_create(schedule, here->bench.device, here->bench.comm, here->arena.memory, &evaluation));
    assert_ok(qs_executor_run(here->executor, &one_run));
    const uint64_t masters = buffer_hash(here, here->schedule->masters), momentum = buffer_hash(here, here->schedule->momentum);
    memset(qs_executor_buffer(evaluation, schedule->images), 0, schedule->buffer[schedule->images].bytes);
    memset(qs_executor_buffer(evaluation, schedule->labels), 0, schedule->buffer[schedule->labels].bytes);
    assert_ok(qs_executor_run(evaluation, &one_run));
    assert_true(buffer_hash(here, here->schedule->masters) == masters);
    assert_true(buffer_hash(here, here->schedule->momentum) == momentum);
    qs_executor_release(evaluation);
    qs_schedule_release(schedule);
}

#define PROGRAM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        PROGRAM(buffers_lie_in_the_arena), PROGRAM(memory_must_be_aligned), PROGRAM(steps_are_observed), PROGRAM(runs_repeat),
        PROGRAM(no_samples_no_gradient),   PROGRAM(programs_share_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
