// SPDX-License-Identifier: Apache-2.0
#include "allocate.h"

#include <math.h>
#include <stdlib.h>

/* Quick answers are sums in another order than the full ones. */
static const double rounding = 1e-12;
/* Changes asked for at most, by the size of the model: each costs about as much as it has operators. */
static const int64_t most_work = 600000;

bool qs__is_free(const qs_draft_plan *draft, int class_index, int node) {
    return qs__is_adjustable(draft, node) && !draft->class_[class_index].pinned[node];
}

bool qs__is_within(qs__allocation *one, double limit_us) {
    for (int c = 0; c < one->draft->cluster->classes; c++)
        if (!qs__search_fits(one->search, c)) return false;
    return qs__search_iteration_us(one->search) <= limit_us;
}

bool qs__is_feasible(qs__allocation *one) {
    return qs__is_within(one, one->limit_us * (1 + rounding));
}

bool qs__is_spent(const qs__allocation *one) {
    return qs__search_changes(one->search) >= one->most_changes;
}

qs_status qs__allocation_start(qs_draft_plan *draft, double limit_us, qs__allocation *out) {
    const size_t all = (size_t)draft->cluster->classes * (size_t)draft->graph->nodes;
    qs__truth truth;
    *out = (qs__allocation){.draft = draft, .limit_us = limit_us, .best_omega = INFINITY, .most_changes = most_work / draft->graph->nodes};
    QS_TRY(qs_allocate(all, sizeof *out->best, &out->best));
    QS_TRY(qs_allocate(all, sizeof *out->refused, &out->refused));
    QS_TRY(qs__search_create(draft, &out->search));
    QS_TRY(qs__search_accept(out->search, &truth));
    qs__search_choices(out->search, out->best);
    out->best_omega = qs__search_omega(out->search);
    return QS_OK;
}

qs_status qs__allocation_end(qs__allocation *one) {
    qs_status status = QS_OK;
    if (one->search) status = qs__search_go(one->search, one->best);
    qs__search_release(one->search);
    free(one->best);
    free(one->refused);
    *one = (qs__allocation){0};
    return status;
}
