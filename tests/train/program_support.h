// SPDX-License-Identifier: Apache-2.0
/* A training step that is ready to run: schedule, arena and executor of a small job, weights and inputs drawn. Set-up and tear-down of a
 * cmocka test. */
#ifndef QSYNC_TRAIN_PROGRAM_SUPPORT_H
#define QSYNC_TRAIN_PROGRAM_SUPPORT_H

#include "kit/job_model.h"
#include "train_support.h"

typedef struct program {
    bench bench;
    qs_graph *graph;
    const qs_recipe **recipe; /* (nodes) NULL: all in fp32 */
    qs_schedule *schedule;
    qs_memory *memory;
    qs_executor *executor;
} program;

/* (nodes) The caller frees. */
static inline const qs_recipe **recipe_everywhere(const qs_graph *graph, const qs_recipe *recipe) {
    const qs_recipe **all = calloc((size_t)graph->nodes, sizeof *all);
    assert_non_null(all);
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) all[n] = recipe;
    return all;
}

/* The caller releases. */
static inline qs_schedule *program_lowered(const program *here, qs_mode mode) {
    qs_schedule *schedule = NULL;
    const qs_lowering lowering = {.graph = here->graph,
                                  .batch = here->bench.job.batch,
                                  .mode = mode,
                                  .job = &here->bench.job,
                                  .recipe = here->recipe,
                                  .half = qs_format_of(here->recipe ? "bf16" : "fp32"),
                                  .lookup = qs_lookup_device,
                                  .context = here->bench.device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    return schedule;
}

static inline void weights_start(const program *here) {
    assert_ok(qs_executor_initialize(here->executor, here->graph, 3));
    assert_ok(qs_executor_clear(here->executor, here->schedule->state[0]));
}

/* Later steps may write where images and labels lie: to be filled before every run that must repeat. */
static inline void inputs_fill(const program *here) {
    inputs_draw(here->executor, here->schedule);
}

/* recipe: of every adjustable operator, outlives the program; NULL: fp32. */
static inline int program_open_as(void **state, const char *backend, const char *model, const qs_recipe *recipe, int64_t batch) {
    program *here = calloc(1, sizeof *here);
    assert_non_null(here);
    bench_open(&here->bench, backend, "self", model, batch);
    assert_ok(job_model(&here->bench.job, &here->graph));
    if (recipe) here->recipe = recipe_everywhere(here->graph, recipe);
    here->schedule = program_lowered(here, QS_MODE_TRAIN);
    assert_ok(qs_memory_reserve(here->bench.device, here->schedule->arena_bytes, &here->memory));
    assert_ok(qs_executor_create(here->schedule, here->bench.device, here->bench.comm, here->memory, &here->executor));
    weights_start(here);
    inputs_fill(here);
    *state = here;
    return 0;
}

/* In fp32 on the reference device. */
static inline int program_open(void **state, const char *model, int64_t batch) {
    return program_open_as(state, "ref", model, NULL, batch);
}

static inline int program_close(void **state) {
    program *here = *state;
    qs_executor_release(here->executor);
    qs_memory_release(here->memory);
    qs_schedule_release(here->schedule);
    qs_graph_release(here->graph);
    free(here->recipe);
    bench_close(&here->bench);
    free(here);
    return 0;
}

#endif
