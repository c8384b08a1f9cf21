// SPDX-License-Identifier: Apache-2.0
/* Planner `fp32` (ORACLE): the highest precision everywhere; infeasible when that does not fit. */
#include "planner_internal.h"

qs_status qs__planner_fp32(qs_draft_plan *draft) {
    for (int c = 0; c < draft->cluster->classes; c++)
        qs__draft_set_uniform(draft, c, 0);
    return QS_OK;
}
