// SPDX-License-Identifier: Apache-2.0
/* Planner `exact`: the plan with the least ΣΩ of all that keep memory and T_min by the full prediction, by best-first branch and bound. For
 * small models: where it would ask too much it refuses rather than give less than its name says. */
#include <stdlib.h>

#include "../search/allocate.h"
#include "../bound/bound.h"

/* Relaxations times nodes: some seconds; full predictions are far fewer. */
enum { MOST_WORK = 2000000, STEPS = 12 };

typedef struct exact {
    qs_candidate *candidate;
    double limit_us;
    int classes;
    int *class_index; /* (classes) of those that are lowered */
    int *weight;
    int **recipe;      /* (classes) the candidate's choices */
    qs__bound **bound; /* (classes) */
} exact;

static qs_status judge(void *context, int *const *recipe, bool *feasible) {
    exact *one = context;
    qs_prediction prediction = {0};
    (void)recipe; /* they are the candidate's choices */
    const qs_status status = qs__candidate_predict(one->candidate, &prediction);
    *feasible = status == QS_OK && prediction.fits && prediction.iteration_us <= one->limit_us;
    qs_prediction_release(&prediction);
    return status == QS_MISMATCH ? QS_OK : status;
}

static qs_status classes_find(exact *one) {
    const size_t classes = (size_t)one->candidate->cluster->classes;
    QS_TRY(qs_allocate(classes, sizeof *one->class_index, &one->class_index));
    QS_TRY(qs_allocate(classes, sizeof *one->weight, &one->weight));
    QS_TRY(qs_allocate(classes, sizeof *one->recipe, &one->recipe));
    QS_TRY(qs_allocate(classes, sizeof *one->bound, &one->bound));
    for (int c = 0; c < one->candidate->cluster->classes; c++) {
        if (!qs__class_is_lowered(one->candidate, c)) continue;
        one->class_index[one->classes] = c;
        one->weight[one->classes] = one->candidate->cluster->class_[c].count;
        one->recipe[one->classes++] = one->candidate->class_[c].choice;
    }
    return QS_OK;
}

static double omega_of(const exact *one) {
    double sum = 0;
    for (int i = 0; i < one->classes; i++)
        sum += one->weight[i] * qs__candidate_sum_omega(one->candidate, one->class_index[i]);
    return sum;
}

static int operators_of(const exact *one) {
    int count = 0;
    for (int n = one->candidate->graph->samples.inputs; n < one->candidate->graph->nodes; n++)
        count += qs__is_adjustable(one->candidate, n);
    return count * one->classes;
}

static qs_status bounds_make(exact *one) {
    for (int i = 0; i < one->classes; i++) {
        QS_TRY(qs__bound_create(one->candidate, one->class_index[i], one->limit_us, &one->bound[i]));
        QS_TRY(qs__bound_raise(one->bound[i], qs__candidate_sum_omega(one->candidate, one->class_index[i])));
    }
    return QS_OK;
}

/* Leaves are tried in the candidate; where the start is the optimum, or nothing is proven, its choices come back. */
static qs_status search(exact *one, const int *start) {
    const size_t nodes = (size_t)one->candidate->graph->nodes;
    qs__best_first tree = {.classes = one->classes,
                           .bound = one->bound,
                           .weight = one->weight,
                           .reached = omega_of(one),
                           .most_minima = MOST_WORK / one->candidate->graph->nodes,
                           .steps = STEPS,
                           .judge = judge,
                           .context = one,
                           .recipe = one->recipe};
    QS_TRY(qs__best_first_run(&tree));
    if (!tree.proven)
        return qs_fail(QS_UNSUPPORTED,
                       "planner exact: %d operators are too many: after %d relaxations and %d predictions the least sum of Omega lies "
                       "between %g and %g; use planner qsync, or pin operators",
                       operators_of(one), tree.minima, tree.judged, tree.least, tree.reached);
    for (int i = 0; i < one->classes && tree.least >= tree.reached; i++)
        for (size_t n = 0; n < nodes; n++)
            one->recipe[i][n] = start[(size_t)i * nodes + n];
    return QS_OK;
}

static void exact_release(exact *one) {
    for (int i = 0; i < one->classes; i++)
        qs__bound_release(one->bound[i]);
    free(one->class_index);
    free(one->weight);
    free(one->recipe);
    free(one->bound);
}

qs_status qs__planner_exact(qs_candidate *candidate) {
    const size_t nodes = (size_t)candidate->graph->nodes;
    exact one = {.candidate = candidate};
    int *start = NULL;
    qs_status status = QS_OK;
    if (candidate->lengths.count > 1)
        return qs_fail(QS_UNSUPPORTED, "planner exact: its bounds are of one length, the job has %d; use planner qsync",
                       candidate->lengths.count);
    QS_GOTO(classes_find(&one));
    QS_GOTO(qs__candidate_guard(candidate));
    QS_GOTO(qs__uniform_choose(candidate, false, &one.limit_us));
    QS_GOTO(qs_allocate(nodes * (size_t)one.classes, sizeof *start, &start));
    for (int i = 0; i < one.classes; i++)
        for (size_t n = 0; n < nodes; n++)
            start[(size_t)i * nodes + n] = one.recipe[i][n];
    QS_GOTO(bounds_make(&one));
    if (one.classes > 0) QS_GOTO(search(&one, start));
    candidate->proven = one.classes == 1;
    QS_GOTO(qs__candidate_explain(candidate, one.limit_us));
done:
    exact_release(&one);
    free(start);
    return status;
}
