// SPDX-License-Identifier: Apache-2.0
/* A plan as a planner would write it: recipes for all adjustable operators, the kernels of the device at hand, and the schedule's hash. */
#ifndef QSYNC_TRAIN_PLAN_SUPPORT_H
#define QSYNC_TRAIN_PLAN_SUPPORT_H

#include "kit/job_model.h"
#include "train_support.h"

/* Recipes in turn, from `first` on. */
static inline void plan_operators_fill(const qs_graph *graph, const char *const *recipe, int recipes, int first, qs_class_plan *out) {
    assert_ok(qs_allocate((size_t)graph->nodes, sizeof *out->operator_, &out->operator_));
    for (int n = graph->samples.inputs; n < graph->nodes; n++) {
        if (graph->node[n].op->kind != QS_ADJUSTABLE) continue;
        qs_operator_choice *choice = &out->operator_[out->operators++];
        snprintf(choice->name, sizeof choice->name, "%s", graph->node[n].name);
        snprintf(choice->recipe, sizeof choice->recipe, "%s", recipe[(first + out->operators - 1) % recipes]);
    }
}

static inline bool plan_has_kernel(const qs_class_plan *plan, const char *case_text) {
    for (int i = 0; i < plan->kernels; i++) {
        if (strcmp(plan->kernel[i].case_text, case_text) == 0) return true;
    }
    return false;
}

static inline void plan_kernels_fill(const qs_schedule *schedule, qs_class_plan *out) {
    assert_ok(qs_allocate((size_t)schedule->steps, sizeof *out->kernel, &out->kernel));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        if (step->kind != QS_STEP_KERNEL || plan_has_kernel(out, step->case_text)) continue;
        qs_plan_kernel *row = &out->kernel[out->kernels++];
        assert_ok(qs_format_text(&row->case_text, "%s", step->case_text));
        snprintf(row->kernel, sizeof row->kernel, "%s", step->kernel);
        row->scratch_bytes = step->scratch.buffer >= 0 ? (int64_t)schedule->buffer[step->scratch.buffer].bytes : 0;
    }
}

static inline void plan_schedule_fill(bench *here, qs_plan *plan, const qs_graph *graph) {
    const qs_class *one = &here->cluster.class_[0];
    const qs_recipe **recipe = NULL;
    qs_schedule *schedule = NULL;
    assert_ok(qs_plan_bind(plan, one->name, graph, &recipe));
    const qs_lowering lowering = {.graph = graph,
                                  .batch = here->job.batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = &here->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(one),
                                  .lookup = qs_lookup_device,
                                  .context = here->device};
    assert_ok(qs_schedule_lower(&lowering, &schedule));
    plan_kernels_fill(schedule, plan->class_);
    qs_schedule_hash(schedule, plan->class_->schedule);
    plan->class_->predicted.arena_bytes = (int64_t)schedule->arena_bytes;
    qs_schedule_release(schedule);
    free(recipe);
}

/* Released by qs_plan_release. */
static inline void plan_mix_fill(bench *here, const char *const *recipe, int recipes, int first, qs_plan *out) {
    qs_graph *graph = NULL;
    memset(out, 0, sizeof *out);
    assert_ok(job_model(&here->job, &graph));
    snprintf(out->planner, sizeof out->planner, "uniform");
    qs_graph_signature(graph, out->graph);
    qs_cluster_signature(&here->cluster, out->cluster);
    out->job = here->job;
    assert_ok(qs_allocate((size_t)recipes, sizeof *out->recipe, &out->recipe));
    for (; out->recipes < recipes; out->recipes++)
        assert_ok(qs_recipe_builtin(recipe[out->recipes], &out->recipe[out->recipes]));
    assert_ok(qs_allocate(1, sizeof *out->class_, &out->class_));
    out->classes = 1;
    snprintf(out->class_->class_name, sizeof out->class_->class_name, "%s", here->cluster.class_[0].name);
    out->class_->batch = here->job.batch;
    plan_operators_fill(graph, recipe, recipes, first, out->class_);
    plan_schedule_fill(here, out, graph);
    qs_graph_release(graph);
}

static inline void plan_fill(bench *here, const char *recipe, qs_plan *out) {
    plan_mix_fill(here, &recipe, 1, 0, out);
}

#endif
