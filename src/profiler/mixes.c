// SPDX-License-Identifier: Apache-2.0
/* Plans of a class that together contain every case that any of its plans may contain (qs_schedule_case_plans), the uniform ones first.
 * A few of them, whose kernels cover the cases as far as possible, are then measured. */
#include "kinds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Node 0, the images, has no recipe: its place in a choice says that tensors may have formats of their own. No format is given, but
 * operators that are otherwise done by one kernel (a relu behind a normalisation) then stand apart, as they do where their tensors are
 * rounded one by one. */
enum { APART = 0 };

static qs_status tensors_make(const qs_graph *graph, const unsigned char *choice, qs_tensor_table *out) {
    if (!choice[APART]) return QS_OK;
    QS_TRY(qs_allocate((size_t)graph->nodes, sizeof *out->value, &out->value));
    return qs_allocate((size_t)graph->parameters + 1, sizeof *out->parameter, &out->parameter);
}

qs_status qs__mix_lower(qs__profiler *profiler, const unsigned char *choice, qs_mode mode, int64_t batch, qs_schedule **out) {
    const qs_graph *graph = profiler->graph;
    const qs_recipe **recipe = NULL;
    qs_tensor_table tensors = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, sizeof *recipe, &recipe));
    QS_GOTO(tensors_make(graph, choice, &tensors));
    for (int n = 1; n < graph->nodes; n++)
        if (graph->node[n].op->kind == QS_ADJUSTABLE) recipe[n] = &profiler->recipe[choice[n]];
    const qs_lowering lowering = {.graph = graph,
                                  .batch = batch,
                                  .mode = mode,
                                  .job = profiler->job,
                                  .recipe = recipe,
                                  .half = qs_class_half(profiler->class_),
                                  .tensors = &tensors,
                                  .lookup = qs__cases_lookup,
                                  .context = &profiler->cases};
    status = qs_schedule_lower(&lowering, out);
done:
    qs_tensor_table_release(&tensors);
    free(recipe);
    return qs_fail_within(status, "class %s", profiler->class_->name);
}

/* Marks what the schedule's cases serve as and lists its kernels, each once. */
static qs_status kernels_list(qs__cases *cases, const qs_schedule *schedule, qs__mix *mix) {
    bool *listed = NULL;
    QS_TRY(qs_allocate((size_t)cases->count, sizeof *listed, &listed));
    const qs_status status = qs_allocate((size_t)schedule->steps, sizeof *mix->kernel, &mix->kernel);
    for (int s = 0; status == QS_OK && s < schedule->steps; s++) {
        if (schedule->step[s].kind != QS_STEP_KERNEL) continue;
        const int index = qs__cases_find(cases, schedule->step[s].case_text);
        if (schedule->step[s].conversion) {
            cases->entry[index].as_conversion = true;
            continue;
        }
        cases->entry[index].as_kernel = true;
        if (!listed[index]) mix->kernel[mix->kernels++] = index;
        listed[index] = true;
    }
    free(listed);
    return status;
}

/* Lowers a copy of `choice` and keeps it. */
static qs_status mix_add(qs__profiler *profiler, const unsigned char *choice) {
    qs__mixes *mixes = &profiler->mixes;
    const size_t nodes = (size_t)profiler->graph->nodes;
    qs_schedule *schedule = NULL;
    QS_TRY(qs_grow(&mixes->mix, &mixes->capacity, (size_t)mixes->count + 1, sizeof *mixes->mix));
    QS_TRY(qs__mix_lower(profiler, choice, QS_MODE_TRAIN, profiler->job->batch, &schedule));
    qs__mix *mix = &mixes->mix[mixes->count++];
    qs_status status = qs_allocate(nodes, 1, &mix->choice);
    if (status == QS_OK) {
        memcpy(mix->choice, choice, nodes);
        mix->arena_bytes = schedule->arena_bytes;
        status = kernels_list(&profiler->cases, schedule, mix);
    }
    qs_schedule_release(schedule);
    return status;
}

qs_status qs__mixes_enumerate(qs__profiler *profiler) {
    const qs_graph *graph = profiler->graph;
    const qs_lowering lowering = {.graph = graph,
                                  .batch = profiler->job->batch,
                                  .mode = QS_MODE_TRAIN,
                                  .job = profiler->job,
                                  .half = qs_class_half(profiler->class_)};
    qs_case_plans plans = {0};
    unsigned char *choice = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)graph->nodes, 1, &choice));
    for (int r = 0; r < profiler->recipes; r++) {
        for (int n = 1; n < graph->nodes; n++)
            if (graph->node[n].op->kind == QS_ADJUSTABLE) choice[n] = (unsigned char)r;
        QS_GOTO(qs_fail_within(mix_add(profiler, choice), "recipe %s", profiler->recipe[r].name));
    }
    /* The highest recipe everywhere, for planners that assign formats to tensors. */
    memset(choice, 0, (size_t)graph->nodes);
    choice[APART] = 1;
    if (qs__class_simulates(profiler->class_)) QS_GOTO(mix_add(profiler, choice));
    /* Two recipes in turn: many operators of a block then differ from their neighbours, so few such plans hold many cases. */
    choice[APART] = 0;
    for (int a = 0; a < profiler->recipes; a++)
        for (int b = 0; b < profiler->recipes; b++) {
            for (int n = 1, turn = 0; n < graph->nodes; n++)
                if (graph->node[n].op->kind == QS_ADJUSTABLE) choice[n] = (unsigned char)(turn++ % 2 ? a : b);
            if (a != b) QS_GOTO(mix_add(profiler, choice));
        }
    if (profiler->recipes > 1) QS_GOTO(qs_schedule_case_plans(&lowering, profiler->recipes, profiler->recipe, &plans));
    for (int p = 0; p < plans.plans; p++)
        QS_GOTO(mix_add(profiler, plans.choice + (size_t)p * (size_t)plans.nodes));
done:
    qs_case_plans_release(&plans);
    free(choice);
    return status;
}

qs_status qs__mixes_repeat(qs__profiler *profiler, const qs__mixes *like) {
    for (int i = 0; i < like->count; i++)
        QS_TRY(mix_add(profiler, like->mix[i].choice));
    return QS_OK;
}

void qs__mixes_release(qs__mixes *mixes) {
    for (int i = 0; i < mixes->count; i++) {
        free(mixes->mix[i].choice);
        free(mixes->mix[i].kernel);
    }
    free(mixes->mix);
    *mixes = (qs__mixes){0};
}

/* ---- Covering ---------------------------------------------------------------------------------------------------------------- */

static void cover(const qs__mix *mix, int *covered) {
    for (int i = 0; i < mix->kernels; i++)
        covered[mix->kernel[i]]++;
}

/* What a plan adds: a case that was never met counts most. */
static double gain(const qs__mix *mix, const int *covered) {
    double sum = 0;
    for (int i = 0; i < mix->kernels; i++)
        if (covered[mix->kernel[i]] < QS__WANTED_PLANS) sum += ldexp(1, -4 * covered[mix->kernel[i]]);
    return sum;
}

qs_status qs__mixes_cover(const qs__profiler *profiler, int most, int *chosen, int *chosen_count) {
    const qs__mixes *mixes = &profiler->mixes;
    const int first = profiler->recipes + qs__class_simulates(profiler->class_);
    int *covered = NULL, count = 0;
    QS_TRY(qs_allocate((size_t)profiler->cases.count, sizeof *covered, &covered));
    for (; count < first && count < most; count++) {
        chosen[count] = count;
        cover(&mixes->mix[count], covered);
    }
    while (profiler->recipes > 1 && count < most) {
        int best = -1;
        double best_gain = 0;
        for (int i = first; i < mixes->count; i++) {
            const double one = gain(&mixes->mix[i], covered);
            if (one <= best_gain) continue;
            best = i;
            best_gain = one;
        }
        if (best < 0) break;
        chosen[count++] = best;
        cover(&mixes->mix[best], covered);
    }
    free(covered);
    *chosen_count = count;
    return QS_OK;
}
