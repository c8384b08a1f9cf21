// SPDX-License-Identifier: Apache-2.0
/* Planner `fp32` (ORACLE): the highest precision everywhere; infeasible when that does not fit. */
#include "../planner_internal.h"

qs_status qs__planner_fp32(qs_candidate *candidate) {
    for (int c = 0; c < candidate->cluster->classes; c++)
        qs__candidate_set_uniform(candidate, c, 0);
    return QS_OK;
}
