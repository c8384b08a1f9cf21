// SPDX-License-Identifier: Apache-2.0
/* Plans that are timed beside the profile's own and give it nothing: what its predictions are worth. Unlike those, all ranks run them
 * together, all-reduces and waiting included, as training would. */
#include "plans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIGURES = 5 }; /* of a check in profiler->checked: steps, median of all, undisturbed ones, their median, its confidence */

/* ---- Lowering ------------------------------------------------------------------------------------------------------------------------ */

static qs_status batches_check(const qs__profiler *profiler, const qs_plan *plan) {
    for (int i = 0; i < plan->classes; i++)
        if (plan->class_[i].batch > 0 && plan->class_[i].batch != profiler->job->batch)
            return qs_fail(QS_USAGE, "class %s: its batch is %lld, checks are timed at the profile's %lld", plan->class_[i].class_name,
                           (long long)plan->class_[i].batch, (long long)profiler->job->batch);
    return QS_OK;
}

static qs_status plan_check(const qs__profiler *profiler, const qs_plan *plan) {
    char signature[32];
    qs_graph_signature(profiler->graph, signature);
    if (plan->graph[0] && strcmp(plan->graph, signature) != 0)
        return qs_fail(QS_MISMATCH, "it is a plan for another model (%s) than %s (%s)", plan->graph, profiler->graph->name, signature);
    return batches_check(profiler, plan);
}

/* Cases are asked of the device itself: those of the profile stay the ones that its own plans may need. */
static qs_status check_lower(qs__profiler *profiler, const qs_plan *plan, qs_schedule **out) {
    const qs_recipe **recipe = NULL;
    qs_tensor_table tensors = {0};
    qs_status status = QS_OK;
    QS_GOTO(plan_check(profiler, plan));
    QS_GOTO(qs_plan_bind(plan, profiler->class_->name, profiler->graph, &recipe));
    QS_GOTO(qs_tensors_bind(qs_plan_class(plan, profiler->class_->name), profiler->graph, &tensors));
    const qs_lowering lowering = {.graph = profiler->graph,
                                  .batch = profiler->job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = profiler->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(profiler->class_),
                                  .tensors = &tensors,
                                  .lookup = qs_lookup_device,
                                  .context = profiler->device};
    QS_GOTO(qs_schedule_lower(&lowering, out));
done:
    qs_tensor_table_release(&tensors);
    free(recipe);
    return status;
}

qs_status qs__checks_lower(qs__campaign *all, size_t *arena_bytes) {
    const qs_profile_options *options = all->profiler->options;
    QS_TRY(qs_allocate((size_t)options->checks, sizeof *all->check, &all->check));
    for (; all->checks < options->checks; all->checks++) {
        qs_schedule **schedule = &all->check[all->checks].schedule;
        QS_TRY(qs_fail_within(check_lower(all->profiler, &options->check[all->checks], schedule), "check %s",
                              options->check_name[all->checks]));
        if ((*schedule)->arena_bytes > *arena_bytes) *arena_bytes = (*schedule)->arena_bytes;
    }
    return QS_OK;
}

/* ---- Running ------------------------------------------------------------------------------------------------------------------------- */

qs_status qs__checks_connect(qs__campaign *all) {
    qs__profiler *profiler = all->profiler;
    if (profiler->options->checks == 0 || profiler->ranks == 1) return QS_OK;
    QS_TRY(qs_comm_split(profiler->comm, 0, &all->together));
    return qs_comm_algorithm_set(all->together, profiler->job->algorithm);
}

static void observe(void *context, const qs_schedule *schedule, int step, double seconds) {
    qs__plan_run *run = context;
    if (schedule->step[step].kind == QS_STEP_KERNEL) run->busy_us += seconds * 1e6;
}

/* Long visits are few: at least two of each plan, spread over the rounds. */
static int most_steps(const qs__campaign *all) {
    return (all->most_rounds / all->check_every + 1) * QS__CHECK_STEPS;
}

qs_status qs__checks_bind(qs__campaign *all) {
    qs__profiler *profiler = all->profiler;
    const int capacity = most_steps(all);
    qs_comm *comm = all->together ? all->together : profiler->self;
    for (int c = 0; c < all->checks; c++) {
        qs__plan_run *run = &all->check[c];
        run->capacity = capacity;
        QS_TRY(qs_executor_create(run->schedule, profiler->device, comm, profiler->arena.memory, &run->executor));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->whole, &run->whole));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->data, &run->data));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->busy, &run->busy));
        QS_TRY(qs_allocate((size_t)capacity, sizeof *run->round, &run->round));
        qs_executor_observe(run->executor, observe, run);
    }
    return QS_OK;
}

/* Ranks wait for each other in a step, so whatever stops one before it is agreed upon first. */
static qs_status check_run(qs__campaign *all, qs__plan_run *run, int timed) {
    QS_TRY(qs_comm_barrier(all->profiler->comm));
    qs_status status = qs__step_run(all, run, false);
    for (int i = 0; i < timed && status == QS_OK; i++)
        status = qs__step_run(all, run, true);
    return qs_comm_agree(all->profiler->comm, status);
}

qs_status qs__checks_warm_up(qs__campaign *all) {
    for (int c = 0; c < all->checks; c++)
        QS_TRY(check_run(all, &all->check[c], 0));
    return QS_OK;
}

qs_status qs__checks_visit(qs__campaign *all) {
    for (int c = all->round % all->check_every; c < all->checks; c += all->check_every)
        QS_TRY(check_run(all, &all->check[c], QS__CHECK_STEPS));
    return QS_OK;
}

void qs__checks_release(qs__campaign *all) {
    for (int c = 0; all->check && c < all->profiler->options->checks; c++)
        qs__plan_run_release(&all->check[c]);
    free(all->check);
    qs_comm_close(all->together);
}

/* ---- Medians ------------------------------------------------------------------------------------------------------------------------- */

/* A step is disturbed when the kernels of any rank took longer than they usually do there: on a machine that others use, one rank or the
 * other often is. What is predicted on top of kernels, waiting and all-reduces, does not decide about it. flag[i] becomes 0 or 1. */
static qs_status disturbed_find(const qs__campaign *all, const qs__plan_run *run, double *flag) {
    memcpy(flag, run->busy, (size_t)run->timed * sizeof *flag);
    const double most = qs__disturbed * qs__quartiles_of(run->timed, flag).median;
    for (int i = 0; i < run->timed; i++)
        flag[i] = run->busy[i] > most;
    return qs_comm_max(all->profiler->comm, flag, run->timed);
}

/* Every rank has timed the same steps. */
static void figures_take(const qs__plan_run *run, double *value, double *figure) {
    int undisturbed = 0;
    for (int i = 0; i < run->timed; i++)
        if (value[i] == 0) value[undisturbed++] = run->whole[i];
    figure[0] = run->timed;
    figure[1] = qs__quartiles_of(run->timed, run->whole).median;
    figure[2] = undisturbed;
    figure[3] = undisturbed > 0 ? qs__quartiles_of(undisturbed, value).median : figure[1];
    figure[4] = undisturbed > 0 ? fmin(qs__confidence_of(undisturbed, value), 1) : 1;
}

/* The slowest rank's; every rank learns them. */
qs_status qs__checks_keep(qs__campaign *all) {
    qs__samples *kept = &all->profiler->checked;
    double *value = NULL;
    qs_status status = qs_allocate((size_t)most_steps(all), sizeof *value, &value);
    if (status == QS_OK) status = qs_grow(&kept->value, &kept->capacity, (size_t)FIGURES * (size_t)all->checks, sizeof *kept->value);
    QS_GOTO(qs_comm_agree(all->profiler->comm, status));
    for (int c = 0; c < all->checks; c++, kept->count += FIGURES) {
        QS_GOTO(disturbed_find(all, &all->check[c], value));
        figures_take(&all->check[c], value, kept->value + kept->count);
    }
    QS_GOTO(qs_comm_max(all->profiler->comm, kept->value, kept->count));
done:
    free(value);
    return status;
}

qs_status qs__checks_fill(const qs__profiler *profiler, qs_profile *out) {
    const qs_profile_options *options = profiler->options;
    if (options->checks == 0) return QS_OK;
    QS_TRY(qs_allocate((size_t)options->checks, sizeof *out->check, &out->check));
    for (; out->checks < options->checks; out->checks++) {
        const double *figure = profiler->checked.value + (size_t)FIGURES * (size_t)out->checks;
        qs_profile_check *row = &out->check[out->checks];
        snprintf(row->plan, sizeof row->plan, "%s", options->check_name[out->checks]);
        row->steps = (int)figure[0];
        row->median_us = figure[1];
        row->undisturbed = (int)figure[2];
        row->measured_us = figure[3];
        row->confidence = figure[4];
    }
    return QS_OK;
}
