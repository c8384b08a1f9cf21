// SPDX-License-Identifier: Apache-2.0
/* Planner `exact`: the plan with the least ΣΩ of all that keep memory and T_min by the full prediction, by best-first branch and bound. For
 * small models: where it would ask too much it refuses rather than give less than its name says. */
#include <stdlib.h>
#include <string.h>

#include "../search/allocate.h"

/* Relaxations times nodes: some seconds; full predictions are far fewer. */
enum { MOST_WORK = 2000000 };

static int operators_of(const qs_candidate *candidate) {
    int count = 0;
    for (int c = 0; c < candidate->cluster->classes; c++)
        for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes && qs__class_is_lowered(candidate, c); n++)
            count += qs__is_adjustable(candidate, n);
    return count;
}

qs_status qs__planner_exact(qs_candidate *candidate) {
    const size_t nodes = (size_t)candidate->graph->nodes, classes = (size_t)candidate->cluster->classes;
    double limit_us;
    int *found = NULL;
    qs__proof proof;
    qs_status status = QS_OK;
    if (candidate->lengths.count > 1)
        return qs_fail(QS_UNSUPPORTED, "planner exact: its bounds are of one length, the job has %d; use planner qsync",
                       candidate->lengths.count);
    QS_GOTO(qs__candidate_guard(candidate));
    QS_GOTO(qs__uniform_choose(candidate, false, &limit_us));
    QS_GOTO(qs_allocate(nodes * classes, sizeof *found, &found));
    QS_GOTO(qs__prove(candidate, limit_us, MOST_WORK / candidate->graph->nodes, found, &proof));
    if (!proof.proven)
        QS_GOTO(qs_fail(QS_UNSUPPORTED,
                        "planner exact: %d operators are too many: after %d relaxations and %d predictions the least sum of Omega lies "
                        "between %g and %g; use planner qsync, or pin operators",
                        operators_of(candidate), proof.minima, proof.judged, proof.least, proof.reached));
    for (size_t c = 0; c < classes; c++)
        memcpy(candidate->class_[c].choice, &found[c * nodes], nodes * sizeof *found);
    QS_GOTO(qs__candidate_explain(candidate, limit_us));
done:
    free(found);
    return status;
}
