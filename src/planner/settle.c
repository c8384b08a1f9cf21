// SPDX-License-Identifier: Apache-2.0
/* Where quick answers meet the truth. */
#include "allocate.h"

#define MOST_REPAIRS 6
#define MOST_ROUNDS 4

qs_status qs__accepted(qs__allocation *one, bool *yes) {
    qs__truth truth;
    QS_TRY(qs__search_accept(one->search, &truth));
    *yes = truth.known && truth.fits && truth.iteration_us <= one->limit_us;
    if (!*yes || qs__search_omega(one->search) >= one->best_omega) return QS_OK;
    qs__search_choices(one->search, one->best);
    one->best_omega = qs__search_omega(one->search);
    return QS_OK;
}

/* Each refusal has calibrated the quick answers, so that the next repair knows what was missing. What it gave away for nothing comes back
 * on the way to the plan that was refused. */
qs_status qs__settle(qs__allocation *one) {
    bool yes = false, repaired = true;
    QS_TRY(qs__accepted(one, &yes));
    if (yes) {
        qs__search_keep(one->search);
        return QS_OK;
    }
    qs__search_choices(one->search, one->refused);
    for (int i = 0; i < MOST_REPAIRS && !yes && repaired; i++) {
        QS_TRY(qs__repair(one, &repaired));
        if (repaired) QS_TRY(qs__accepted(one, &yes));
    }
    if (!yes) {
        QS_TRY(qs__search_go(one->search, one->best));
        QS_TRY(qs__accepted(one, &yes));
    }
    qs__search_keep(one->search);
    return qs__approach(one, one->refused);
}

qs_status qs__polish(qs__allocation *one, bool paper) {
    for (int i = 0; i < MOST_ROUNDS; i++) {
        const double before = qs__search_omega(one->search);
        QS_TRY(qs__recover(one, paper));
        if (!(qs__search_omega(one->search) < before)) return QS_OK;
        QS_TRY(qs__settle(one));
        if (paper || !(qs__search_omega(one->search) < before)) return QS_OK;
    }
    return QS_OK;
}
