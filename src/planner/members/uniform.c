// SPDX-License-Identifier: Apache-2.0
/* Planner `uniform` (UP): every lowered class in its fastest recipe that fits. */
#include <math.h>

#include "../search/allocate.h"

qs_status qs__planner_uniform(qs_candidate *candidate) {
    double limit_us = 0;
    QS_TRY(qs__candidate_guard(candidate));
    QS_TRY(qs__uniform_choose(candidate, candidate->options->until_fits, &limit_us));
    /* Where it lowers until memory fits, nothing else stopped it. */
    return qs__candidate_explain(candidate, candidate->options->until_fits ? INFINITY : limit_us);
}
