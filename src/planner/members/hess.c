// SPDX-License-Identifier: Apache-2.0
/* Planner `hess` (docs/method.md §6): the allocator of `qsync`, judging by the Hessian's top eigenvalues. */
#include "../search/allocate.h"

qs_status qs__planner_hess(qs_candidate *candidate) {
    return qs__allocate_precision(candidate, "hess");
}
