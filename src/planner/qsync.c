// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync` (docs/method.md §5.3): precision recovered from several starts, exchanged where that lowers ΣΩ further, the best plan
 * kept. The starts are the fastest uniform plan, whose ΣΩ the result therefore never exceeds, the paper's initial plan, and the fastest
 * mixed one. */
#include <stdlib.h>
#include <string.h>

#include "allocate.h"

static qs_status from_present(qs__allocation *one) {
    QS_TRY(qs__settle(one));
    return qs__polish(one, false);
}

/* Quick answers end where the truth refuses; what that leaves is recovered once more. */
static qs_status best_improve(qs__allocation *one, qs_status (*improve)(qs__allocation *)) {
    QS_TRY(qs__search_go(one->search, one->best));
    QS_TRY(qs__settle(one));
    QS_TRY(improve(one));
    return from_present(one);
}

static qs_status from_fastest(qs__allocation *one) {
    for (int c = 0; c < one->draft->cluster->classes; c++)
        QS_TRY(qs__descend(one, c));
    return from_present(one);
}

/* By the paper's rule, so that the plan is never noisier than planner qsync-heap's; more is recovered of the best plan only. */
static qs_status from_initial(qs__allocation *one) {
    QS_TRY(qs__initial_choose(one));
    QS_TRY(qs__settle(one));
    return qs__polish(one, true);
}

static qs_status search(qs__allocation *one, const int *uniform) {
    QS_TRY(from_present(one));
    QS_TRY(qs__search_go(one->search, uniform));
    QS_TRY(from_fastest(one));
    QS_TRY(qs__search_go(one->search, uniform));
    QS_TRY(from_initial(one));
    QS_TRY(best_improve(one, qs__improve));
    QS_TRY(best_improve(one, qs__branch));
    QS_TRY(qs__search_go(one->search, one->best));
    return qs__settle(one);
}

qs_status qs__allocate_precision(qs_draft_plan *draft, const char *indicator) {
    qs__allocation one = {0};
    int *uniform = NULL;
    double limit_us = 0;
    qs_status status = QS_OK;
    if (indicator) QS_GOTO(qs__draft_judge(draft, indicator));
    QS_GOTO(qs__uniform_choose(draft, false, &limit_us));
    QS_GOTO(qs__allocation_start(draft, limit_us, &one));
    QS_GOTO(qs_allocate((size_t)draft->cluster->classes * (size_t)draft->graph->nodes, sizeof *uniform, &uniform));
    qs__search_choices(one.search, uniform);
    QS_GOTO(search(&one, uniform));
    if (indicator) QS_GOTO(qs__draft_judge(draft, NULL));
    QS_GOTO(qs__reasons_find(&one));
    QS_GOTO(qs__allocation_end(&one));
done:
    qs__allocation_end(&one);
    free(uniform);
    return status;
}

qs_status qs__planner_qsync(qs_draft_plan *draft) {
    return qs__allocate_precision(draft, NULL);
}
