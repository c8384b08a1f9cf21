// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync-heap`: what the paper says and no more (docs/method.md §5.1 and §5.2). From the initial plan, block by block the fastest
 * mix that fits the memory, the operator whose next recipe saves most Ω is raised one step; kept if the plan still fits and keeps T_min,
 * else the operator is dropped. */
#include <math.h>

#include "../search/allocate.h"

static qs_status recover(qs__allocation *one) {
    QS_TRY(qs__initial_choose(one));
    one->best_omega = INFINITY; /* not the uniform plan, whatever its ΣΩ */
    QS_TRY(qs__accept(one));
    QS_TRY(qs__recover_and_accept(one, true));
    QS_TRY(qs__search_go(one->search, one->best));
    QS_TRY(qs__accept(one));
    return qs__reasons_find(one);
}

qs_status qs__planner_qsync_heap(qs_candidate *candidate) {
    qs__allocation one = {0};
    double limit_us = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs__candidate_guard(candidate));
    QS_GOTO(qs__uniform_choose(candidate, false, &limit_us));
    QS_GOTO(qs__allocation_start(candidate, limit_us, &one));
    QS_GOTO(recover(&one));
    QS_GOTO(qs__allocation_end(&one));
done:
    qs__allocation_end(&one);
    return status;
}
