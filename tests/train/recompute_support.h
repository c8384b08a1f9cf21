// SPDX-License-Identifier: Apache-2.0
/* Training steps with and without blocks that are computed again: what they leave must be the same bits. */
#ifndef QSYNC_TRAIN_RECOMPUTE_SUPPORT_H
#define QSYNC_TRAIN_RECOMPUTE_SUPPORT_H

#include "train_support.h"

enum { STEPS = 3 };

typedef struct outcome {
    size_t arena;
    size_t bytes[3];
    void *buffer[3]; /* weights, running statistics, optimiser state */
} outcome;

/* Integers within the bounds of the input, numbers otherwise; labels within the classes; other values on every rank. */
static inline void batch_draw(qs_executor *executor, const qs_schedule *schedule, const qs_graph *graph, uint64_t seed) {
    for (int i = 0; i < schedule->inputs; i++) {
        const qs_input *input = &graph->samples.input[i];
        const size_t count = schedule->buffer[schedule->input[i]].bytes / sizeof(float);
        float *value = calloc(count, sizeof *value);
        assert_non_null(value);
        for (size_t k = 0; k < count; k++) {
            const int32_t whole = (int32_t)(qs_random_bits(seed + (uint64_t)i, k) % (uint32_t)(input->bound > 0 ? input->bound : 1));
            value[k] = qs_random_normal(seed + (uint64_t)i, k);
            if (input->type == QS_INPUT_I32) memcpy(&value[k], &whole, sizeof whole);
        }
        assert_ok(qs_executor_write(executor, schedule->input[i], 0, count * sizeof *value, value));
        free(value);
    }
    const size_t count = schedule->buffer[schedule->target].bytes / sizeof(int32_t);
    int32_t *label = calloc(count, sizeof *label);
    assert_non_null(label);
    for (size_t k = 0; k < count; k++)
        label[k] = (int32_t)(qs_random_bits(seed + 9, k) % (uint32_t)graph->samples.target.classes);
    assert_ok(qs_executor_write(executor, schedule->target, 0, count * sizeof *label, label));
    free(label);
}

/* STEPS steps under a recipe; `blocks` as qs_recompute_list has them, `joins` as qs_lowering. */
static inline outcome steps_take(const bench *here, const qs_graph *graph, const char *recipe_name, const char *blocks, bool joins) {
    qs_recipe recipe;
    const qs_recipe **all = calloc((size_t)graph->nodes, sizeof *all);
    qs_class_plan plan = {.class_name = "one"};
    qs_tensor_table table;
    qs_schedule *schedule = NULL;
    qs_memory *memory = NULL;
    qs_executor *executor = NULL;
    outcome out = {0};
    assert_non_null(all);
    assert_ok(qs_recipe_builtin(recipe_name, &recipe));
    for (int n = graph->samples.inputs; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) all[n] = &recipe;
    assert_ok(qs_recompute_list(blocks, graph, &plan));
    assert_ok(qs_tensors_bind(&plan, graph, &table));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .recipe = all,
                                  .half = qs_format_of(strcmp(recipe_name, "fp32") ? "bf16" : "fp32"),
                                  .tensors = &table,
                                  .joins = joins,
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    assert_ok(qs_memory_reserve(here->device, schedule->arena_bytes, &memory));
    assert_ok(qs_executor_create(schedule, here->device, here->comm, memory, &executor));
    assert_ok(qs_executor_initialize(executor, graph, 3));
    for (int i = 0; i < schedule->states; i++)
        assert_ok(qs_executor_clear(executor, schedule->state[i]));
    const int rank = qs_comm_rank(here->comm), ranks = qs_comm_size(here->comm);
    for (uint64_t step = 0; step < STEPS; step++) {
        const qs_run run = {.seed = 1,
                            .step = step,
                            .first_sample = rank * here->job.batch,
                            .samples = here->job.batch,
                            .global_samples = ranks * here->job.batch,
                            .loss_scale = 1,
                            .learning_rate = 0.05,
                            .updates = (int64_t)step};
        batch_draw(executor, schedule, graph, 100 * step + 10 * (uint64_t)rank);
        assert_ok(qs_executor_run(executor, &run));
    }
    const int buffer[3] = {schedule->masters, schedule->running, schedule->state[0]};
    for (int i = 0; i < 3; i++) {
        out.bytes[i] = schedule->buffer[buffer[i]].bytes;
        out.buffer[i] = buffer_read(executor, schedule, buffer[i]);
    }
    out.arena = schedule->arena_bytes;
    qs_executor_release(executor);
    qs_memory_release(memory);
    qs_schedule_release(schedule);
    qs_tensor_table_release(&table);
    free(plan.recompute);
    free(all);
    return out;
}

static inline void outcome_free(outcome *one) {
    for (int i = 0; i < 3; i++)
        free(one->buffer[i]);
}

/* All blocks, and one of them by name; with all the arena is smaller. (One of a small model may take more where the peak is.) */
static inline void bits_compare(const char *backend, const char *comm_name, const char *model, const char *recipe, const char *block,
                                int64_t batch) {
    static const char *const names[] = {"weights", "running statistics", "states"};
    bench here;
    qs_graph *graph = NULL;
    bench_open(&here, backend, comm_name, model, batch);
    assert_ok(qs_model_build(model, NULL, &graph));
    outcome kept = steps_take(&here, graph, recipe, "no", false);
    const char *const some[2] = {"all", block};
    for (int i = 0; i < 2; i++) {
        outcome again = steps_take(&here, graph, recipe, some[i], false);
        for (int k = 0; k < 3; k++) {
            assert_true(kept.bytes[k] == again.bytes[k]);
            if (memcmp(kept.buffer[k], again.buffer[k], kept.bytes[k]) != 0)
                fail_msg("%s on %s in %s, %s computed again: other %s", model, backend, recipe, some[i], names[k]);
        }
        if (i == 0 && again.arena >= kept.arena)
            fail_msg("%s on %s in %s, %s computed again: %zu bytes, kept %zu", model, backend, recipe, some[i], again.arena, kept.arena);
        outcome_free(&again);
    }
    outcome_free(&kept);
    qs_graph_release(graph);
    bench_close(&here);
}

#endif
