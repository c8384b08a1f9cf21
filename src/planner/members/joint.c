// SPDX-License-Identifier: Apache-2.0
/* Planner `joint`: shares of the global batch and precision together, throughput first. The fastest pair of shares and one recipe a class
 * says how long an iteration may take (with the tolerance); among the shares that can keep to that, precision is recovered, and the plan
 * with the least ΣΩ, every class's Ω at its own batch, is kept.
 *
 * The plans of `uniform` (equal shares) and `dbs` (highest precision) are such pairs: none is faster beyond the tolerance, and where one is
 * as fast it is a start of its own here, so that ΣΩ never exceeds its. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../search/allocate.h"
#include "../shares.h"

enum { MOST_STARTS = 10 };

/* Shares and choices from which precision is recovered. */
typedef struct start {
    int64_t *batch; /* (classes) */
    int *choice;    /* (classes × nodes) */
    double iteration_us;
} start;

typedef struct joint {
    qs_candidate *candidate;
    int starts;
    start start[MOST_STARTS];
    start best;
    double limit_us, best_omega;
} joint;

static size_t classes_of(const qs_candidate *candidate) {
    return (size_t)candidate->cluster->classes;
}

static qs_status start_take(const qs_candidate *candidate, double iteration_us, start *out) {
    const size_t nodes = (size_t)candidate->graph->nodes;
    if (!out->batch) QS_TRY(qs_allocate(classes_of(candidate), sizeof *out->batch, &out->batch));
    if (!out->choice) QS_TRY(qs_allocate(classes_of(candidate) * nodes, sizeof *out->choice, &out->choice));
    memcpy(out->batch, candidate->batch, classes_of(candidate) * sizeof *out->batch);
    for (size_t c = 0; c < classes_of(candidate); c++)
        memcpy(&out->choice[c * nodes], candidate->class_[c].choice, nodes * sizeof *out->choice);
    out->iteration_us = iteration_us;
    return QS_OK;
}

static qs_status start_put(qs_candidate *candidate, const start *from) {
    const size_t nodes = (size_t)candidate->graph->nodes;
    for (size_t c = 0; c < classes_of(candidate); c++) {
        QS_TRY(qs__candidate_batch_set(candidate, (int)c, from->batch[c]));
        memcpy(candidate->class_[c].choice, &from->choice[c * nodes], nodes * sizeof *from->choice);
    }
    return QS_OK;
}

static void start_release(start *one) {
    free(one->batch);
    free(one->choice);
}

/* ---- Starts ------------------------------------------------------------------------------------------------------------------------ */

/* The candidate as it stands, if it fits. */
static qs_status present_add(joint *one) {
    qs_prediction prediction;
    if (one->starts == MOST_STARTS) return QS_OK;
    QS_TRY(qs__candidate_predict(one->candidate, &prediction));
    const bool fits = prediction.fits;
    const double iteration_us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    return fits ? start_take(one->candidate, iteration_us, &one->start[one->starts++]) : QS_OK;
}

/* Where nothing fits there is no such start; the others may do. */
static qs_status uniform_add(joint *one) {
    double limit_us = 0;
    for (size_t c = 0; c < classes_of(one->candidate); c++)
        QS_TRY(qs__candidate_batch_set(one->candidate, (int)c, one->candidate->job->batch));
    const qs_status status = qs__uniform_choose(one->candidate, false, &limit_us);
    if (status == QS_INFEASIBLE) return QS_OK;
    QS_TRY(status);
    return present_add(one);
}

static qs_status dbs_add(joint *one) {
    qs__shares shares = {0};
    double iteration_us = 0;
    qs_status status = qs__shares_create(one->candidate, false, &shares);
    if (status == QS_OK) status = qs__shares_fastest(&shares, &iteration_us);
    qs__shares_release(&shares);
    if (status == QS_INFEASIBLE) return QS_OK;
    QS_TRY(status);
    return present_add(one);
}

static bool is_known(const joint *one) {
    for (int s = 0; s < one->starts; s++)
        if (memcmp(one->start[s].batch, one->candidate->batch, classes_of(one->candidate) * sizeof *one->candidate->batch) == 0)
            return true;
    return false;
}

/* Shares one exchange away from `from`. */
static qs_status neighbours_add(joint *one, qs__shares *shares, const int *from, int *place, double limit_us) {
    const int classes = (int)classes_of(one->candidate);
    for (int pair = 0; pair < classes * classes; pair++) {
        double iteration_us = INFINITY;
        memcpy(place, from, (size_t)classes * sizeof *place);
        if (pair / classes == pair % classes || !qs__shares_exchange(shares, pair / classes, pair % classes, place)) continue;
        QS_TRY(qs__shares_try(shares, place, &iteration_us));
        if (iteration_us <= limit_us && !is_known(one)) QS_TRY(present_add(one));
    }
    return QS_OK;
}

/* All shares that exchanges reach from the fastest ones without leaving the limit. */
static qs_status reachable_add(joint *one, qs__shares *shares) {
    const size_t classes = classes_of(one->candidate);
    int *from = NULL, *place = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(classes, sizeof *from, &from));
    QS_GOTO(qs_allocate(classes, sizeof *place, &place));
    for (int s = 0; s < one->starts; s++) {
        if (one->start[s].iteration_us > one->limit_us) continue;
        for (size_t c = 0; c < classes; c++)
            from[c] = qs__shares_place(shares, one->start[s].batch[c]);
        QS_GOTO(neighbours_add(one, shares, from, place, one->limit_us));
    }
done:
    free(from);
    free(place);
    return status;
}

static qs_status starts_find(joint *one, qs__shares *shares) {
    double fastest_us = INFINITY;
    QS_TRY(qs__shares_fastest(shares, &fastest_us));
    QS_TRY(present_add(one));
    QS_TRY(uniform_add(one));
    QS_TRY(dbs_add(one));
    for (int s = 0; s < one->starts; s++)
        fastest_us = fmin(fastest_us, one->start[s].iteration_us);
    one->limit_us = qs__candidate_time_allowed(one->candidate, fastest_us);
    return reachable_add(one, shares);
}

/* ---- Recovery ----------------------------------------------------------------------------------------------------------------------- */

static qs_status start_recover(joint *one, const start *from) {
    qs__allocation allocation = {0};
    qs_status status = QS_OK;
    bool better = false;
    QS_TRY(start_put(one->candidate, from));
    QS_GOTO(qs__allocation_start(one->candidate, one->limit_us, &allocation));
    QS_GOTO(qs__accept(&allocation));
    QS_GOTO(qs__recover_and_accept(&allocation, false));
    better = allocation.best_omega < one->best_omega;
    if (better) one->best_omega = allocation.best_omega;
    QS_GOTO(qs__allocation_end(&allocation));
    if (better) status = start_take(one->candidate, from->iteration_us, &one->best);
done:
    qs__allocation_end(&allocation);
    return status;
}

static qs_status plan(joint *one, qs__shares *shares) {
    QS_TRY(qs__shares_create(one->candidate, true, shares));
    QS_TRY(starts_find(one, shares));
    one->candidate->limit_us = one->limit_us;
    for (int s = 0; s < one->starts; s++)
        if (one->start[s].iteration_us <= one->limit_us) QS_TRY(start_recover(one, &one->start[s]));
    QS_TRY(start_put(one->candidate, &one->best));
    return qs__candidate_explain(one->candidate, one->limit_us);
}

qs_status qs__planner_joint(qs_candidate *candidate) {
    joint one = {.candidate = candidate, .best_omega = INFINITY};
    qs__shares shares = {0};
    const qs_status status = plan(&one, &shares);
    qs__shares_release(&shares);
    for (int s = 0; s < one.starts; s++)
        start_release(&one.start[s]);
    start_release(&one.best);
    return status;
}
