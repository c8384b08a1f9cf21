// SPDX-License-Identifier: Apache-2.0
/* Counts of rounded tensors: added up over ranks after every step, so that all ranks see the same figures and decide alike. Promotion looks
 * at the ranks where a value is low: those where it stands in its higher format already would only dilute the share. */
#include "train_internal.h"

#include <stdlib.h>
#include <string.h>

qs_status qs__rounding_create(const qs_graph *graph, qs__rounding *all) {
    const size_t values = (size_t)graph->nodes + (size_t)graph->parameters, places = values + (size_t)graph->nodes;
    all->places = (int)places;
    all->values = (int)values;
    QS_TRY(qs_allocate(places + values, sizeof *all->step, &all->step));
    all->lower = all->step + places;
    QS_TRY(qs_allocate(values, sizeof *all->own, &all->own));
    QS_TRY(qs_allocate(places, sizeof *all->epoch, &all->epoch));
    QS_TRY(qs_allocate(places, sizeof *all->worst, &all->worst));
    QS_TRY(qs_allocate(values, sizeof *all->low, &all->low));
    QS_TRY(qs_allocate(places, QS_COUNTS_PITCH, &all->counts));
    return qs_allocate(values, sizeof *all->rise, &all->rise);
}

void qs__rounding_follow(qs__rounding *rounding, const qs_graph *graph, const qs_class_plan *class_plan) {
    for (int i = 0; i < rounding->values; i++) {
        const qs_tensor_choice *own = class_plan ? qs_class_plan_tensor(class_plan, qs__rounding_name(graph, i)) : NULL;
        rounding->low[i] = own && qs__tensor_is_low(own);
    }
}

void qs__rounding_release(qs__rounding *rounding) {
    free(rounding->step);
    free(rounding->epoch);
    free(rounding->worst);
    free(rounding->own);
    free(rounding->low);
    free(rounding->counts);
    free(rounding->rise);
    *rounding = (qs__rounding){0};
}

double qs__rounding_share(double part, double elements) {
    return elements > 0 ? part / elements : 0;
}

const char *qs__rounding_name(const qs_graph *graph, int place) {
    const int behind = place - graph->nodes - graph->parameters; /* gradients of outputs */
    if (behind >= 0) return graph->node[behind].name;
    return place < graph->nodes ? graph->node[place].name : graph->parameter[place - graph->nodes].name;
}

qs_quantizer qs__higher_of(const qs_tensor_choice *tensor) {
    qs_quantizer higher = tensor->promote_to;
    if (higher.format) return higher;
    higher = tensor->value;
    higher.format = qs_format_of("fp(6,9,0)");
    return higher;
}

bool qs__tensor_is_low(const qs_tensor_choice *tensor) {
    return tensor->value.format && tensor->value.format != qs__higher_of(tensor).format;
}

qs_state_part qs__rounding_part(const qs__rounding *rounding) {
    _Static_assert(sizeof(qs__rise) % sizeof(float) == 0, "a part consists of whole fp32 slots");
    return (qs_state_part){.name = "promotions",
                           .elements = rounding->values * (int64_t)(sizeof(qs__rise) / sizeof(float)),
                           .data = (float *)(void *)rounding->rise}; /* only ever copied as bytes */
}

/* What this rank's step counted: every counting step of its schedule says how many elements it rounds. Those that are computed again round
 * what was counted in forward. */
static qs_status step_count(const qs__program *program, char *counts, qs__rounding_sums *sums) {
    const qs_schedule *schedule = program->schedule;
    QS_TRY(qs_executor_read(program->executor, schedule->counts, 0, schedule->buffer[schedule->counts].bytes, counts));
    for (int s = 0; s < schedule->steps; s++) {
        const qs_step *step = &schedule->step[s];
        const int position = step->kind == QS_STEP_KERNEL ? qs_case_position(&step->case_, QS_COUNTS) : -1;
        if (step->recomputed || position < 0 || !step->case_.operand[position].format) continue;
        qs_rounding_counts found;
        memcpy(&found, counts + step->place[position].offset, sizeof found);
        qs__rounding_sums *one = &sums[step->place[position].offset / QS_COUNTS_PITCH];
        one->overflows += (double)found.overflows;
        one->underflows += (double)found.underflows;
        one->elements += (double)qs_shape_count(&step->case_.operand[0].shape);
    }
    return QS_OK;
}

qs_status qs__rounding_step(qs__rounding *all, const qs_plan *plan, qs_comm *comm, const qs__program *program, int64_t count) {
    bool rounds = false; /* ranks of classes without rounded tensors take part with zeros */
    for (int c = 0; plan && c < plan->classes; c++)
        rounds |= plan->class_[c].tensors > 0;
    if (!rounds) return QS_OK;
    memset(all->step, 0, (size_t)(all->places + all->values) * sizeof *all->step);
    if (count > 0 && program->schedule->counts >= 0) QS_TRY(step_count(program, all->counts, all->step));
    for (int i = 0; i < all->values; i++)
        if (all->low[i]) all->lower[i] = all->step[i];
    memcpy(all->own, all->lower, (size_t)all->values * sizeof *all->own);
    QS_TRY(qs_comm_sum(comm, (double *)all->step, 3 * (int64_t)(all->places + all->values)));
    for (int i = 0; i < all->places; i++) {
        const qs__rounding_sums *step = &all->step[i];
        const double share = qs__rounding_share(step->overflows, step->elements);
        all->epoch[i].overflows += step->overflows;
        all->epoch[i].underflows += step->underflows;
        all->epoch[i].elements += step->elements;
        if (share > all->worst[i]) all->worst[i] = share;
    }
    all->counted = true;
    return QS_OK;
}

void qs__rounding_epoch_end(qs__rounding *rounding) {
    memset(rounding->epoch, 0, (size_t)rounding->places * sizeof *rounding->epoch);
    memset(rounding->worst, 0, (size_t)rounding->places * sizeof *rounding->worst);
}
