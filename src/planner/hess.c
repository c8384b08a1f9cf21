// SPDX-License-Identifier: Apache-2.0
/* Planner `hess` (docs/method.md §6): the allocator of `qsync`, judging by the Hessian's top eigenvalues. */
#include "allocate.h"

qs_status qs__planner_hess(qs_draft_plan *draft) {
    return qs__allocate_precision(draft, "hess");
}
