// SPDX-License-Identifier: Apache-2.0
/* Counts of rounded tensors: added up over ranks after every step, so that all ranks see the same figures and decide alike. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

qs_status qs__rounding_create(qs__trainer *trainer) {
    qs__rounding *all = &trainer->rounding;
    const size_t places = 2 * (size_t)trainer->graph->nodes + (size_t)trainer->graph->parameters;
    all->places = (int)places;
    QS_TRY(qs_allocate(places, sizeof *all->step, &all->step));
    QS_TRY(qs_allocate(places, sizeof *all->epoch, &all->epoch));
    QS_TRY(qs_allocate(places, sizeof *all->worst, &all->worst));
    QS_TRY(qs_allocate(places, sizeof *all->own, &all->own));
    return qs_allocate(places, sizeof *all->refused, &all->refused);
}

void qs__rounding_release(qs__rounding *rounding) {
    free(rounding->step);
    free(rounding->epoch);
    free(rounding->worst);
    free(rounding->own);
    free(rounding->refused);
    *rounding = (qs__rounding){0};
}

double qs__rounding_share(double part, double elements) {
    return elements > 0 ? part / elements : 0;
}

/* Ranks of classes without such tensors take part with zeros. */
static bool plan_rounds(const qs_plan *plan) {
    for (int c = 0; plan && c < plan->classes; c++)
        if (plan->class_[c].tensors > 0) return true;
    return false;
}

const char *qs__rounding_name(const qs_graph *graph, int place) {
    const int behind = place - graph->nodes - graph->parameters; /* gradients of outputs */
    if (behind >= 0) return graph->node[behind].name;
    return place < graph->nodes ? graph->node[place].name : graph->parameter[place - graph->nodes].name;
}

bool qs__rounding_tensor(const qs__trainer *trainer, int place, const qs_tensor_choice **tensor, bool *gradient) {
    const qs_plan *plan = trainer->plan;
    *gradient = place >= trainer->graph->nodes + trainer->graph->parameters;
    for (int c = 0; plan && c < plan->classes; c++) {
        *tensor = qs_class_plan_tensor(&plan->class_[c], qs__rounding_name(trainer->graph, place));
        if (*tensor && (*gradient ? (*tensor)->gradient.format : (*tensor)->value.format)) return true;
    }
    return false;
}

/* What this rank's step counted: every counting step of its schedule says how many elements it rounds. */
static void step_count(const qs__program *program, qs__rounding_sums *sums) {
    const qs_schedule *schedule = program->schedule;
    const char *counts = qs_executor_buffer(program->executor, schedule->counts);
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const int position = step->kind == QS_STEP_KERNEL ? qs_case_position(&step->case_, QS_COUNTS) : -1;
        if (position < 0 || !step->case_.operand[position].format) continue;
        qs_rounding_counts found;
        memcpy(&found, counts + step->place[position].offset, sizeof found);
        qs__rounding_sums *one = &sums[step->place[position].offset / QS_COUNTS_PITCH];
        one->overflows += (double)found.overflows;
        one->underflows += (double)found.underflows;
        one->elements += (double)qs_shape_count(&step->case_.operand[0].shape);
    }
}

static void step_keep(qs__rounding *all) {
    for (int i = 0; i < all->places; i++) {
        const qs__rounding_sums *step = &all->step[i];
        const double share = qs__rounding_share(step->overflows, step->elements);
        all->epoch[i].overflows += step->overflows;
        all->epoch[i].underflows += step->underflows;
        all->epoch[i].elements += step->elements;
        if (share > all->worst[i]) all->worst[i] = share;
    }
}

qs_status qs__rounding_step(qs__trainer *trainer, const qs__program *program, int64_t count) {
    qs__rounding *all = &trainer->rounding;
    if (!plan_rounds(trainer->plan)) return QS_OK;
    memset(all->step, 0, (size_t)all->places * sizeof *all->step);
    if (count > 0 && program->schedule->counts >= 0) step_count(program, all->step);
    for (int i = 0; i < all->places; i++)
        all->own[i] = qs__rounding_share(all->step[i].overflows, all->step[i].elements);
    QS_TRY(qs_comm_sum(trainer->comm, (double *)all->step, 3 * (int64_t)all->places));
    step_keep(all);
    all->counted = true;
    return QS_OK;
}
