// SPDX-License-Identifier: Apache-2.0
/* Planner `random` (docs/method.md §6): the allocator of `qsync`, blind to what matters. */
#include "../search/allocate.h"

qs_status qs__planner_random(qs_candidate *candidate) {
    return qs__allocate_precision(candidate, "random");
}
