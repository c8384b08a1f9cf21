// SPDX-License-Identifier: Apache-2.0
/* The whole allocator (docs/method.md §5.3): precision recovered from several starts, exchanged where that lowers ΣΩ further, the best plan
 * kept. The starts are the fastest uniform plan, whose ΣΩ the result therefore never exceeds, the paper's initial plan, and that of the
 * relaxation. */
#include "allocate.h"

#include <stdlib.h>
#include <string.h>

static qs_status present_recover(qs__allocation *one) {
    QS_TRY(qs__accept(one));
    return qs__recover_and_accept(one, false);
}

/* The paper's initial plan, and exchanges. */
static qs_status search_further(qs__allocation *one, const int *uniform) {
    /* By the paper's rule, so that the plan is never noisier than planner qsync-heap's; more is recovered of the best plan only. */
    QS_TRY(qs__search_go(one->search, uniform));
    QS_TRY(qs__initial_choose(one));
    QS_TRY(qs__accept(one));
    QS_TRY(qs__recover_and_accept(one, true));

    /* Quick answers end where the full prediction refuses; what that leaves is recovered once more. */
    QS_TRY(qs__search_go(one->search, one->best));
    QS_TRY(qs__accept(one));
    QS_TRY(qs__improve(one));
    return present_recover(one);
}

static qs_status search(qs__allocation *one, const int *uniform) {
    QS_TRY(present_recover(one));
    if (!qs__is_large(one->candidate->graph)) QS_TRY(search_further(one, uniform));
    QS_TRY(qs__search_go(one->search, one->best));
    QS_TRY(qs__prove_best(one));
    QS_TRY(qs__search_go(one->search, one->best));
    return qs__accept(one);
}

qs_status qs__allocate_precision(qs_candidate *candidate, const char *indicator) {
    qs__allocation one = {0};
    int *uniform = NULL;
    double limit_us = 0;
    qs_status status = QS_OK;
    if (indicator) QS_GOTO(qs__candidate_judge(candidate, indicator));
    QS_GOTO(qs__candidate_guard(candidate));
    QS_GOTO(qs__uniform_choose(candidate, false, &limit_us));
    QS_GOTO(qs__allocation_start(candidate, limit_us, &one));
    QS_GOTO(qs_allocate((size_t)candidate->cluster->classes * (size_t)candidate->graph->nodes, sizeof *uniform, &uniform));
    qs__search_choices(one.search, uniform);
    QS_GOTO(search(&one, uniform));
    if (indicator) QS_GOTO(qs__candidate_judge(candidate, NULL));
    for (int c = 0; indicator && c < candidate->cluster->classes; c++)
        candidate->class_[c].least = 0; /* of that one's Ω, as this is */
    if (indicator) candidate->least = 0;
    QS_GOTO(qs__reasons_find(&one));
    QS_GOTO(qs__allocation_end(&one));
done:
    qs__allocation_end(&one);
    free(uniform);
    return status;
}
