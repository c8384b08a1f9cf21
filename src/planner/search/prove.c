// SPDX-License-Identifier: Apache-2.0
/* Best-first branch and bound over all lowered classes (bound/bound.h), its leaves judged by the full prediction: the optimum, or the bound
 * that the work allows. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../bound/bound.h"
#include "allocate.h"

enum { STEPS = 12 /* prices tried at a node of the tree */ };

typedef struct tree {
    qs_candidate *candidate;
    double limit_us;
    size_t nodes;
    int *start, *found;    /* (classes × nodes) */
    int classes;           /* that are lowered */
    int *weight, **recipe; /* (classes) */
    qs__bound **bound;     /* (classes) */
} tree;

static void choices_set(const tree *one, const int *choice) {
    for (int c = 0; c < one->candidate->cluster->classes; c++)
        memcpy(one->candidate->class_[c].choice, &choice[(size_t)c * one->nodes], one->nodes * sizeof *choice);
}

static qs_status judge(void *context, int *const *recipe, bool *feasible) {
    const tree *one = context;
    qs_prediction prediction = {0};
    (void)recipe; /* they are one->found's */
    choices_set(one, one->found);
    const qs_status status = qs__candidate_predict(one->candidate, &prediction);
    choices_set(one, one->start);
    *feasible = status == QS_OK && prediction.fits && prediction.iteration_us <= one->limit_us;
    qs_prediction_release(&prediction);
    return status == QS_MISMATCH ? QS_OK : status;
}

/* The bounds, raised towards the candidate's ΣΩ. */
static qs_status proof_start(tree *one) {
    const size_t classes = (size_t)one->candidate->cluster->classes;
    QS_TRY(qs_allocate(classes * one->nodes, sizeof *one->start, &one->start));
    QS_TRY(qs_allocate(classes, sizeof *one->weight, &one->weight));
    QS_TRY(qs_allocate(classes, sizeof *one->recipe, &one->recipe));
    QS_TRY(qs_allocate(classes, sizeof *one->bound, &one->bound));
    for (size_t c = 0; c < classes; c++) {
        if (!qs__class_is_lowered(one->candidate, (int)c)) continue;
        qs__bound **bound = &one->bound[one->classes];
        QS_TRY(qs__bound_create(one->candidate, (int)c, one->limit_us, bound));
        one->weight[one->classes] = one->candidate->cluster->class_[c].count;
        one->recipe[one->classes++] = &one->found[c * one->nodes];
        QS_TRY(qs__bound_raise(*bound, qs__candidate_sum_omega(one->candidate, (int)c)));
        one->candidate->class_[c].least = (*bound)->value;
    }
    return QS_OK;
}

static void proof_end(tree *one) {
    for (int i = 0; i < one->classes; i++)
        qs__bound_release(one->bound[i]);
    free(one->start);
    free(one->weight);
    free(one->recipe);
    free(one->bound);
}

/* From the candidate's choices, which are an accepted plan. */
static qs_status proof_run(tree *one, int most_minima, int most_judged, qs__proof *out) {
    const int classes = one->candidate->cluster->classes;
    double reached = 0;
    *out = (qs__proof){.proven = true};
    if (one->classes == 0) return QS_OK;
    for (int c = 0; c < classes; c++) {
        memcpy(&one->start[(size_t)c * one->nodes], one->candidate->class_[c].choice, one->nodes * sizeof *one->start);
        if (qs__class_is_lowered(one->candidate, c))
            reached += one->candidate->cluster->class_[c].count * qs__candidate_sum_omega(one->candidate, c);
    }
    memcpy(one->found, one->start, (size_t)classes * one->nodes * sizeof *one->found);
    qs__best_first search = {.classes = one->classes,
                             .bound = one->bound,
                             .weight = one->weight,
                             .reached = reached,
                             .most_minima = most_minima,
                             .most_judged = most_judged,
                             .steps = STEPS,
                             .judge = judge,
                             .context = one,
                             .recipe = one->recipe};
    QS_TRY(qs__best_first_run(&search));
    *out = (qs__proof){search.proven, search.proven && search.least < reached, search.least, reached, search.minima, search.judged};
    if (one->classes == 1) one->candidate->least = search.proven ? INFINITY : search.least / one->weight[0];
    if (!out->better) memcpy(one->found, one->start, (size_t)classes * one->nodes * sizeof *one->found);
    return QS_OK;
}

qs_status qs__prove(qs_candidate *candidate, double limit_us, int most_minima, int *found, qs__proof *out) {
    tree one = {.candidate = candidate, .limit_us = limit_us, .nodes = (size_t)candidate->graph->nodes, .found = found};
    qs_status status = QS_OK;
    QS_GOTO(proof_start(&one));
    QS_GOTO(proof_run(&one, most_minima, INT_MAX, out));
done:
    proof_end(&one);
    return status;
}

/* ---- Within a search --------------------------------------------------------------------------------------------------------------- */

/* The relaxation's own plan, made to fit: where the bound is close, so is this one. */
static qs_status relaxed_accept(qs__allocation *all, tree *one) {
    qs__search_choices(all->search, one->found);
    for (int i = 0; i < one->classes; i++)
        QS_TRY(qs__bound_recipes(one->bound[i], one->recipe[i]));
    const qs_status status = qs__search_go(all->search, one->found);
    if (status != QS_OK) return status == QS_MISMATCH ? QS_OK : status;
    QS_TRY(qs__accept(all));
    QS_TRY(qs__recover_and_accept(all, false));
    return qs__search_go(all->search, all->best);
}

qs_status qs__prove_best(qs__allocation *all) {
    enum { MOST_JUDGED = 64 };
    qs_candidate *candidate = all->candidate;
    tree one = {.candidate = candidate, .limit_us = all->limit_us, .nodes = (size_t)candidate->graph->nodes};
    qs__proof result = {0};
    bool yes;
    qs_status status = QS_OK;
    if (!qs__bound_is_known(candidate)) return QS_OK;
    QS_GOTO(qs_allocate((size_t)candidate->cluster->classes * one.nodes, sizeof *one.found, &one.found));
    status = proof_start(&one);
    if (status == QS_OK) QS_GOTO(relaxed_accept(all, &one));
    if (status == QS_OK && one.classes > 0 && !qs__is_large(candidate->graph))
        QS_GOTO(proof_run(&one, qs__bound_minima(one.bound[0]), MOST_JUDGED, &result));
    if (result.better) QS_GOTO(qs__search_go(all->search, one.found));
    if (result.better) QS_GOTO(qs__predict_in_full(all, &yes));
done:
    proof_end(&one);
    free(one.found);
    return status == QS_UNSUPPORTED ? QS_OK : status; /* values in more formats than the bound's tables hold */
}
