// SPDX-License-Identifier: Apache-2.0
/* Planner `dpro` (docs/method.md §6): the allocator of `qsync` with a replayer that does not know what conversions cost. The plan may
 * therefore miss T_min; its stored prediction is the true one. */
#include "../search/allocate.h"

qs_status qs__planner_dpro(qs_candidate *candidate) {
    const qs_cost_options with_casts = candidate->costs;
    qs_cost_options without = with_casts;
    without.no_casts = true;
    QS_TRY(qs__candidate_price(candidate, &without));
    QS_TRY(qs__allocate_precision(candidate, NULL));
    candidate->limit_us = 0; /* of other costs: it bounds nothing here */
    return qs__candidate_price(candidate, &with_casts);
}
