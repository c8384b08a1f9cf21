// SPDX-License-Identifier: Apache-2.0
/* Planner `dbs` (dynamic batch sizing): the highest precision everywhere, and every class the share of the global batch that makes the
 * predicted iteration shortest within the memory limits. The global batch stays the job's, and with it the learning rate. */
#include "../shares.h"

qs_status qs__planner_dbs(qs_candidate *candidate) {
    qs__shares shares = {0};
    double iteration_us = 0;
    qs_status status = qs__shares_create(candidate, false, &shares);
    if (status == QS_OK) status = qs__shares_fastest(&shares, &iteration_us);
    qs__shares_release(&shares);
    return status;
}
