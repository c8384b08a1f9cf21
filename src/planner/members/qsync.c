// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync`: the allocator by the indicator of the options. */
#include "../search/allocate.h"

qs_status qs__planner_qsync(qs_candidate *candidate) {
    return qs__allocate_precision(candidate, NULL);
}
