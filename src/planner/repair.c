// SPDX-License-Identifier: Apache-2.0
/* What a plan is over its limits, and the changes that bring it back for the least Ω. */
#include <math.h>

#include "allocate.h"

/* How far over: shares of the limits, added up; 0: feasible. */
static double excess(qs__allocation *one) {
    double sum = fmax(qs__search_iteration_us(one->search) / one->limit_us - 1, 0);
    for (int c = 0; c < one->draft->cluster->classes; c++) {
        const double limit = (double)one->draft->cluster->class_[c].memory_limit;
        if (limit > 0) sum += fmax((double)qs__search_arena_bytes(one->search, c) / limit - 1, 0);
    }
    return sum;
}

typedef struct relief {
    double price; /* Ω for a share of relief */
    int class_index, node, recipe;
} relief;

static qs_status relief_try(qs__allocation *one, double present, relief wanted, relief *best) {
    const qs_draft_class *class_ = &one->draft->class_[wanted.class_index];
    const double *omega = &class_->omega[wanted.node * class_->recipes];
    const double before = omega[class_->choice[wanted.node]];
    if (isinf(omega[wanted.recipe])) return QS_OK;
    const qs_status status = qs__search_set(one->search, wanted.class_index, wanted.node, wanted.recipe);
    if (status != QS_OK) return status == QS_MISMATCH ? QS_OK : status;
    const double won = present - excess(one);
    /* What is more than enough counts as enough. */
    wanted.price = won > 0 ? one->draft->cluster->class_[wanted.class_index].count * (omega[wanted.recipe] - before) / won : INFINITY;
    if (wanted.price < best->price) *best = wanted;
    return qs__search_undo(one->search);
}

static qs_status relief_find(qs__allocation *one, double present, relief *best) {
    *best = (relief){.price = INFINITY};
    for (int c = 0; c < one->draft->cluster->classes; c++)
        for (int n = 1; qs__class_is_lowered(one->draft, c) && n < one->draft->graph->nodes; n++)
            for (int r = 0; qs__is_free(one->draft, c, n) && r < one->draft->class_[c].recipes; r++)
                if (r != one->draft->class_[c].choice[n]) QS_TRY(relief_try(one, present, (relief){0, c, n, r}, best));
    return QS_OK;
}

qs_status qs__repair(qs__allocation *one, bool *done) {
    for (;;) {
        const double present = excess(one);
        relief best;
        *done = present == 0;
        if (*done || qs__is_spent(one)) return QS_OK;
        QS_TRY(relief_find(one, present, &best));
        if (isinf(best.price)) return QS_OK;
        QS_TRY(qs__search_set(one->search, best.class_index, best.node, best.recipe));
    }
}
