// SPDX-License-Identifier: Apache-2.0
/* From a finished candidate to the plan record: choices, recipes in use, kernel rows, schedule hash, prediction, reasons. */
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"
#include "session.h"

static qs_status recipe_add(qs_plan *plan, const qs_recipe *recipe) {
    if (qs_plan_recipe(plan, recipe->name)) return QS_OK;
    size_t capacity = (size_t)plan->recipes;
    QS_TRY(qs_grow(&plan->recipe, &capacity, (size_t)plan->recipes + 1, sizeof *plan->recipe));
    plan->recipe[plan->recipes++] = *recipe;
    return QS_OK;
}

static const char *stopped_by(const qs_candidate_class *one, int node, int next) {
    if (one->pinned[node]) return "pinned";
    if (next < 0) return "highest";
    return one->stopped[node][0] ? one->stopped[node] : "planner";
}

static void reason_fill(const qs_candidate *candidate, const qs_candidate_class *one, int node, qs_operator_reason *out) {
    const int next = qs__candidate_next(one, node, one->choice[node]);
    snprintf(out->name, sizeof out->name, "%s", candidate->graph->node[node].name);
    snprintf(out->stopped_by, sizeof out->stopped_by, "%s", stopped_by(one, node, next));
    if (next >= 0) snprintf(out->next, sizeof out->next, "%s", one->recipe[next].name);
    out->time_us = one->raise_us[node];
    out->bytes = one->raise_bytes[node];
    out->omega = one->omega[node * one->recipes + one->choice[node]];
}

/* Classes share a plan's recipes, so what only some of them add in stands with the operators. */
static qs_recipe recipe_plain(const qs_recipe *recipe) {
    qs_recipe plain = *recipe;
    memset(plain.accumulator, 0, sizeof plain.accumulator);
    return plain;
}

static qs_status operators_fill(const qs_candidate *candidate, const qs_candidate_class *one, qs_plan *plan, qs_class_plan *out) {
    const size_t nodes = (size_t)candidate->graph->nodes;
    QS_TRY(qs_allocate(nodes, sizeof *out->operator_, &out->operator_));
    QS_TRY(qs_allocate(nodes, sizeof *out->reason, &out->reason));
    for (int n = 1; n < candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(candidate, n)) continue;
        const qs_recipe *recipe = &one->recipe[one->choice[n]];
        const qs_recipe plain = recipe_plain(recipe);
        qs_operator_choice *choice = &out->operator_[out->operators++];
        snprintf(choice->name, sizeof choice->name, "%s", candidate->graph->node[n].name);
        snprintf(choice->recipe, sizeof choice->recipe, "%s", recipe->name);
        choice->pin = one->pinned[n];
        qs_choice_accumulate(choice, &plain, qs__candidate_recipe(one, n, one->choice[n])->accumulator);
        reason_fill(candidate, one, n, &out->reason[out->reasons++]);
        QS_TRY(recipe_add(plan, &plain));
    }
    return QS_OK;
}

static qs_status kernel_add(qs_class_plan *out, size_t *capacity, const qs_draft_case *one) {
    QS_TRY(qs_grow(&out->kernel, capacity, (size_t)out->kernels + 1, sizeof *out->kernel));
    qs_plan_kernel *kernel = &out->kernel[out->kernels++];
    QS_TRY(qs_format_text(&kernel->case_text, "%s", one->text));
    snprintf(kernel->kernel, sizeof kernel->kernel, "%s", one->row.kernel);
    kernel->scratch_bytes = (int64_t)one->row.scratch_bytes;
    kernel->allocates = one->row.allocates;
    return QS_OK;
}

/* Every case once, in the order of the steps. */
static qs_status cases_list(const qs_schedule_draft *schedule, qs_class_plan *out) {
    bool *seen = NULL;
    size_t capacity = 0, cases = 0;
    qs_status status = QS_OK;
    for (int segment = 0; segment < qs_schedule_draft_segments(schedule); segment++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(schedule, segment, &step);
        for (int s = 0; s < steps; s++) {
            const qs_draft_case *one = step[s].case_;
            if (step[s].kind != QS_STEP_KERNEL) continue;
            QS_GOTO(qs_grow(&seen, &cases, (size_t)one->index + 1, sizeof *seen));
            if (!seen[one->index]) QS_GOTO(kernel_add(out, &capacity, one));
            seen[one->index] = true;
        }
    }
done:
    free(seen);
    return status;
}

/* A candidate is enough: nobody asks where buffers lie. */
static qs_status kernels_fill(const qs_candidate *candidate, int c, qs_class_plan *out) {
    const qs_lowering lowering = qs__candidate_lowering(candidate, c);
    qs_schedule_draft *schedule = NULL;
    QS_TRY(qs_schedule_draft_create(&lowering, &schedule));
    const qs_status status = cases_list(schedule, out);
    qs_schedule_draft_release(schedule);
    return status;
}

/* The candidate's table of them is not asked any more. */
static void tensors_move(qs_candidate_class *from, qs_class_plan *out) {
    out->tensors = from->assigned.tensors;
    out->tensor = from->assigned.tensor;
    out->assignment = from->assigned.assignment;
    from->assigned = (qs_class_plan){0};
}

static qs_status class_fill(qs_candidate *candidate, int c, const qs_prediction *prediction, qs_plan *plan) {
    qs_class_plan *out = &plan->class_[c];
    const qs_prediction_class *predicted = &prediction->class_[c];
    snprintf(out->class_name, sizeof out->class_name, "%s", candidate->cluster->class_[c].name);
    out->batch = candidate->batch[c];
    QS_TRY(operators_fill(candidate, &candidate->class_[c], plan, out));
    QS_TRY(kernels_fill(candidate, c, out));
    memcpy(out->schedule, predicted->schedule, sizeof out->schedule);
    tensors_move(&candidate->class_[c], out);
    out->predicted.iteration_us = prediction->iteration_us;
    out->predicted.compute_us = predicted->compute_us;
    out->predicted.waiting_us = predicted->waiting_us;
    out->predicted.phases = predicted->phases;
    out->predicted.arena_bytes = (int64_t)predicted->arena_bytes;
    out->predicted.communication_bytes = predicted->communication_bytes;
    out->predicted.base_bytes = predicted->base_bytes;
    out->predicted.program_bytes = predicted->program_bytes;
    out->predicted.sum_omega = qs__candidate_sum_omega(candidate, c);
    return qs__bound_of_plan(candidate, c, &out->predicted.lower_bound);
}

static qs_status memory_check(const qs_candidate *candidate, const qs_prediction *prediction) {
    for (int c = 0; c < prediction->classes; c++)
        if (!prediction->class_[c].fits)
            return qs_fail(QS_INFEASIBLE,
                           "class %s: the plan needs %.1f MiB but the limit is %.1f MiB; use planner qsync or uniform, or lower the batch",
                           candidate->cluster->class_[c].name, (double)prediction->class_[c].arena_bytes / 1048576.0,
                           (double)candidate->cluster->class_[c].memory_limit / 1048576.0);
    return QS_OK;
}

qs_status qs__candidate_assemble(qs_candidate *candidate, const char *planner, qs_plan *out) {
    qs_plan plan = {.job = *candidate->job};
    qs_prediction prediction = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__candidate_predict(candidate, &prediction));
    QS_GOTO(memory_check(candidate, &prediction));
    snprintf(plan.planner, sizeof plan.planner, "%s", planner);
    qs_graph_signature(candidate->graph, plan.graph);
    qs_cluster_signature(candidate->cluster, plan.cluster);
    snprintf(plan.profile, sizeof plan.profile, "%s", qs__session_profile_signature(candidate->session));
    QS_GOTO(qs_allocate((size_t)candidate->cluster->classes, sizeof *plan.class_, &plan.class_));
    plan.classes = candidate->cluster->classes;
    plan.images_per_second = prediction.images_per_second;
    for (int c = 0; c < plan.classes; c++)
        QS_GOTO(class_fill(candidate, c, &prediction, &plan));
    *out = plan;
    plan = (qs_plan){0};
done:
    qs_prediction_release(&prediction);
    qs_plan_release(&plan);
    return status;
}
