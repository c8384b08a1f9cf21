// SPDX-License-Identifier: Apache-2.0
/* Schedules under test: lowering without a device (every case has a kernel), a memory that remembers which value lies where, and a run of
 * all steps by the reference kernels on plain memory. */
#ifndef QSYNC_TESTS_KIT_SCHEDULE
#define QSYNC_TESTS_KIT_SCHEDULE

#include "kit.h"
#include "qsync/schedule.h"

/* ---- Lowering ---- */

/* Kernel facts made up from the case: every fourth one wants scratch, of a size that follows from its bytes. */
static inline qs_status stub_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    const uint64_t draw = qs_hash(case_text, strlen(case_text), 1);
    *out = (qs_kernel_row){.kernel = "stub"};
    if (!context && draw % 4 == 0) out->scratch_bytes = (size_t)(qs_case_bytes(one) / 8) + draw % 100;
    return QS_OK;
}
/* The same without scratch: any non-NULL context. */
#define NO_SCRATCH ((void *)(uintptr_t)1)

static inline qs_job stub_job(int64_t batch) {
    qs_job job;
    qs_job_default(&job);
    job.batch = batch;
    return job;
}

static inline qs_recipe recipe_of(const char *name) {
    qs_recipe recipe;
    assert_ok(qs_recipe_builtin(name, &recipe));
    return recipe;
}

/* One recipe for every node; entries of nodes that take none are ignored. Caller frees. */
static inline const qs_recipe **recipes_uniform(const qs_graph *graph, const qs_recipe *recipe) {
    const qs_recipe **list = calloc((size_t)graph->nodes, sizeof *list);
    assert_non_null(list);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        list[n] = recipe;
    return list;
}

static inline qs_lowering lowering_of(const qs_graph *graph, const qs_job *job, qs_mode mode, const qs_recipe *const *recipe) {
    return (qs_lowering){.graph = graph,
                         .batch = job->batch,
                         .mode = mode,
                         .job = job,
                         .recipe = recipe,
                         .half = qs_format_of("bf16"),
                         .lookup = stub_lookup};
}

static inline qs_schedule *lower(const qs_lowering *lowering) {
    qs_schedule *schedule = NULL;
    assert_ok(qs_schedule_lower(lowering, &schedule));
    return schedule;
}

static inline qs_schedule *lower_uniform(const qs_graph *graph, const qs_job *job, qs_mode mode, const char *recipe_name) {
    const qs_recipe recipe = recipe_of(recipe_name);
    const qs_recipe **list = recipes_uniform(graph, &recipe);
    const qs_lowering lowering = lowering_of(graph, job, mode, list);
    qs_schedule *schedule = lower(&lowering);
    free(list);
    return schedule;
}

/* ---- Running ---- */

typedef struct runner {
    const qs_schedule *schedule;
    char *memory;
    qs_run run;
} runner;

static inline void *runner_place(const runner *one, qs_place place) {
    return place.buffer < 0 ? NULL : one->memory + one->schedule->buffer[place.buffer].offset + place.offset;
}

static inline void *runner_buffer(const runner *one, int buffer) {
    return runner_place(one, (qs_place){buffer, 0});
}

/* Plain memory, filled with a pattern whose floats are NaN: nothing that was never written goes unnoticed. */
static inline runner runner_make(const qs_schedule *schedule, const qs_graph *graph) {
    runner one = {
        schedule,
        malloc(schedule->arena_bytes),
        {.seed = 1, .step = 7, .samples = schedule->batch, .global_samples = schedule->batch, .loss_scale = 1, .learning_rate = 0}};
    assert_non_null(one.memory);
    memset(one.memory, 0xFF, schedule->arena_bytes);
    memset(runner_buffer(&one, schedule->state[0]), 0, schedule->buffer[schedule->state[0]].bytes);
    memset(runner_buffer(&one, schedule->gradients), 0, schedule->buffer[schedule->gradients].bytes);
    qs_graph_initialize(graph, 3, runner_buffer(&one, schedule->masters), runner_buffer(&one, schedule->running));
    return one;
}

/* Images and labels lie in memory that later steps may use again, so they are filled before each run. */
static inline void runner_fill(const runner *one, int classes) {
    float *images = runner_buffer(one, one->schedule->input[0]);
    int32_t *labels = runner_buffer(one, one->schedule->target);
    const uint64_t key = qs_random_key(5, 0, 0, 0);
    const size_t count = one->schedule->buffer[one->schedule->input[0]].bytes / sizeof(float);
    for (size_t i = 0; i < count; i++)
        images[i] = qs_random_normal(key, i);
    for (int64_t i = 0; i < one->schedule->batch; i++)
        labels[i] = (int32_t)(i * 7 + 3) % classes;
    if (one->schedule->flag >= 0) *(float *)runner_buffer(one, one->schedule->flag) = 1;
}

static inline void step_run(const runner *one, const qs_step *step) {
    qs_tensor operands[QS_MAX_OPERANDS] = {0};
    qs_run run = one->run;
    run.operator_id = step->node >= 0 ? (uint64_t)step->node : (uint64_t)one->schedule->nodes;
    run.stream = step->stream;
    for (int i = 0; i < step->case_.operands; i++) {
        const qs_operand *operand = &step->case_.operand[i];
        operands[i] = (qs_tensor){operand->shape, operand->format, operand->format ? runner_place(one, step->place[i]) : NULL};
    }
    assert_ok(qs_case_reference(&step->case_, operands, &run));
}

/* Runs the steps up to and with a phase; returns the mean loss. */
static inline double runner_run(const runner *one, int classes, qs_phase last) {
    runner_fill(one, classes);
    double loss = 0;
    for (int s = 0; s < one->schedule->steps; s++) {
        const qs_step *step = &one->schedule->step[s];
        if (step->phase > last) break;
        if (step->kind == QS_STEP_KERNEL) step_run(one, step);
    }
    loss = (double)*(float *)runner_buffer(one, one->schedule->loss);
    return loss / (double)one->run.samples;
}

#endif
