// SPDX-License-Identifier: Apache-2.0
/* From a finished candidate to the plan record: choices, recipes in use, kernel rows, schedule hash, prediction, reasons. */
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"
#include "session.h"

/* The operators' recipes and what stopped each from the next one. Classes share a plan's recipes, so what only some of them add in stands
 * with the operators. */
static qs_status operators_fill(const qs_candidate *candidate, const qs_candidate_class *one, qs_plan *plan, qs_class_plan *out) {
    const size_t nodes = (size_t)candidate->graph->nodes;
    QS_TRY(qs_allocate(nodes, sizeof *out->operator_, &out->operator_));
    QS_TRY(qs_allocate(nodes, sizeof *out->reason, &out->reason));
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++) {
        if (!qs__is_adjustable(candidate, n)) continue;
        const char *name = candidate->graph->node[n].name;
        qs_recipe plain = one->recipe[one->choice[n]];
        memset(plain.accumulator, 0, sizeof plain.accumulator);
        qs_operator_choice *choice = &out->operator_[out->operators++];
        snprintf(choice->name, sizeof choice->name, "%s", name);
        snprintf(choice->recipe, sizeof choice->recipe, "%s", plain.name);
        choice->pin = one->pinned[n];
        qs_choice_accumulate(choice, &plain, qs__candidate_recipe(one, n, one->choice[n])->accumulator);
        if (!qs_plan_recipe(plan, plain.name)) {
            size_t capacity = (size_t)plan->recipes;
            QS_TRY(qs_grow(&plan->recipe, &capacity, (size_t)plan->recipes + 1, sizeof *plan->recipe));
            plan->recipe[plan->recipes++] = plain;
        }
        const int next = qs__candidate_next(one, n, one->choice[n]);
        const char *why = one->pinned[n] ? "pinned" : next < 0 ? "highest" : one->stopped[n][0] ? one->stopped[n] : "planner";
        qs_operator_reason *reason = &out->reason[out->reasons++];
        snprintf(reason->name, sizeof reason->name, "%s", name);
        snprintf(reason->stopped_by, sizeof reason->stopped_by, "%s", why);
        if (next >= 0) snprintf(reason->next, sizeof reason->next, "%s", one->recipe[next].name);
        reason->time_us = one->raise_us[n];
        reason->bytes = one->raise_bytes[n];
        reason->omega = one->omega[n * one->recipes + one->choice[n]];
    }
    return QS_OK;
}

/* The kernel of every case of one length that no shorter one has, in the order of the steps. A draft of the schedule is enough: nobody asks
 * where buffers lie. */
static qs_status length_kernels_fill(const qs_lowering *lowering, size_t *capacity, qs_class_plan *out) {
    qs_schedule_draft *schedule = NULL;
    const int before = out->kernels;
    bool *seen = NULL;
    size_t cases = 0;
    qs_status status = QS_OK;
    QS_TRY(qs_schedule_draft_create(lowering, &schedule));
    for (int segment = 0; segment < qs_schedule_draft_segments(schedule); segment++) {
        const qs_draft_step *step = NULL;
        const int steps = qs_schedule_draft_steps(schedule, segment, &step);
        for (int s = 0; s < steps; s++) {
            const qs_draft_case *one = step[s].case_;
            if (step[s].kind != QS_STEP_KERNEL) continue;
            QS_GOTO(qs_grow(&seen, &cases, (size_t)one->index + 1, sizeof *seen));
            if (seen[one->index]) continue;
            seen[one->index] = true;
            bool there = false;
            for (int i = 0; i < before && !there; i++)
                there = strcmp(out->kernel[i].case_text, one->text) == 0;
            if (there) continue;
            QS_GOTO(qs_grow(&out->kernel, capacity, (size_t)out->kernels + 1, sizeof *out->kernel));
            qs_plan_kernel *kernel = &out->kernel[out->kernels++];
            QS_GOTO(qs_format_text(&kernel->case_text, "%s", one->text));
            snprintf(kernel->kernel, sizeof kernel->kernel, "%s", one->row.kernel);
            kernel->scratch_bytes = (int64_t)one->row.scratch_bytes;
            kernel->allocates = one->row.allocates;
        }
    }
done:
    free(seen);
    qs_schedule_draft_release(schedule);
    return status;
}

static qs_status kernels_fill(const qs_candidate *candidate, int c, qs_class_plan *out) {
    qs_lowering lowering = qs__candidate_lowering(candidate, c);
    size_t capacity = 0;
    for (int k = 0; k < candidate->lengths.count; k++) {
        lowering.graph = candidate->lengths.graph[k];
        QS_TRY(length_kernels_fill(&lowering, &capacity, out));
    }
    return QS_OK;
}

/* What was predicted of each length, where there are several. */
static qs_status lengths_fill(const qs_prediction *prediction, int c, qs_class_plan *out) {
    if (prediction->lengths == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)prediction->lengths, sizeof *out->length, &out->length));
    for (; out->lengths < prediction->lengths; out->lengths++) {
        const qs_prediction_length *from = &prediction->length[out->lengths];
        const qs_prediction_class *class_ = &from->class_[c];
        qs_length_plan *row = &out->length[out->lengths];
        *row = (qs_length_plan){.length = from->length,
                                .share = from->share,
                                .iteration_us = from->iteration_us,
                                .compute_us = class_->compute_us,
                                .waiting_us = class_->waiting_us,
                                .arena_bytes = (int64_t)class_->arena_bytes,
                                .program_bytes = class_->program_bytes,
                                .phases = class_->phases};
        memcpy(row->schedule, class_->schedule, sizeof row->schedule);
    }
    return QS_OK;
}

static qs_status class_fill(qs_candidate *candidate, int c, const qs_prediction *prediction, qs_plan *plan) {
    qs_class_plan *out = &plan->class_[c], *assigned = &candidate->class_[c].assigned;
    const qs_prediction_class *predicted = &prediction->class_[c];
    snprintf(out->class_name, sizeof out->class_name, "%s", candidate->cluster->class_[c].name);
    out->batch = qs__candidate_lowered_batch(candidate, c);
    out->idle = candidate->batch[c] == 0;
    QS_TRY(operators_fill(candidate, &candidate->class_[c], plan, out));
    QS_TRY(kernels_fill(candidate, c, out));
    QS_TRY(lengths_fill(prediction, c, out));
    memcpy(out->schedule, predicted->schedule, sizeof out->schedule);
    /* Moved, not copied: the candidate's table of them is not asked any more. */
    out->tensors = assigned->tensors;
    out->tensor = assigned->tensor;
    out->assignment = assigned->assignment;
    out->recomputes = assigned->recomputes;
    out->recompute = assigned->recompute;
    memcpy(out->recompute_why, assigned->recompute_why, sizeof out->recompute_why);
    *assigned = (qs_class_plan){0};
    out->predicted.recompute_us = predicted->recompute_us;
    if (out->recomputes > 0) {
        const qs_lowering lowering = qs__candidate_lowering(candidate, c);
        size_t kept;
        QS_TRY(qs_schedule_kept_bytes(&lowering, &kept));
        out->predicted.kept_bytes = (int64_t)kept;
    }
    out->predicted.iteration_us = prediction->iteration_us;
    for (int i = 0; plan->confidence > 0 && i < candidate->doubts; i++)
        if (strcmp(candidate->doubt[i].class_name, out->class_name) == 0) out->predicted.doubt = candidate->doubt[i].factor - 1;
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

/* The upper bound that the plan was accepted by; from here on expected times count. */
static qs_status guard_end(qs_candidate *candidate, qs_plan *plan) {
    const qs_cost_options expected = {.no_casts = candidate->costs.no_casts};
    qs_prediction upper = {0};
    if (candidate->costs.slowdowns == 0) return QS_OK;
    QS_TRY(qs__candidate_predict(candidate, &upper));
    plan->confidence = candidate->options->confidence;
    plan->upper_us = upper.iteration_us;
    plan->longest_us = candidate->limit_us;
    qs_prediction_release(&upper);
    return qs__candidate_price(candidate, &expected);
}

qs_status qs__candidate_assemble(qs_candidate *candidate, const char *planner, qs_plan *out) {
    const qs_cluster *cluster = candidate->cluster;
    qs_plan plan = {.job = *candidate->job};
    qs_prediction prediction = {0};
    qs_status status = QS_OK;
    QS_GOTO(guard_end(candidate, &plan));
    QS_GOTO(qs__candidate_predict(candidate, &prediction));
    for (int c = 0; c < prediction.classes; c++)
        if (!prediction.class_[c].fits)
            QS_GOTO(qs_fail(QS_INFEASIBLE,
                            "class %s: the plan needs %.1f MiB but the limit is %.1f MiB; use planner qsync or uniform, or lower the batch",
                            cluster->class_[c].name, (double)prediction.class_[c].arena_bytes / 1048576.0,
                            (double)cluster->class_[c].memory_limit / 1048576.0));
    snprintf(plan.planner, sizeof plan.planner, "%s", planner);
    qs_graph_signature(candidate->graph, plan.graph);
    qs_cluster_signature(cluster, plan.cluster);
    snprintf(plan.profile, sizeof plan.profile, "%s", qs__session_profile_signature(candidate->session));
    QS_GOTO(qs_allocate((size_t)cluster->classes, sizeof *plan.class_, &plan.class_));
    plan.classes = cluster->classes;
    plan.samples_per_second = prediction.samples_per_second;
    snprintf(plan.unit, sizeof plan.unit, "%s", prediction.unit);
    for (int c = 0; c < plan.classes; c++)
        QS_GOTO(class_fill(candidate, c, &prediction, &plan));
    *out = plan;
    plan = (qs_plan){0};
done:
    qs_prediction_release(&prediction);
    qs_plan_release(&plan);
    return status;
}
