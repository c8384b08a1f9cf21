// SPDX-License-Identifier: Apache-2.0
/* Planner `random` (docs/method.md §6): the allocator of `qsync`, blind to what matters. */
#include "allocate.h"

qs_status qs__planner_random(qs_draft_plan *draft) {
    return qs__allocate_precision(draft, "random");
}
