// SPDX-License-Identifier: Apache-2.0
/* Planner `exact`: the plan with the least ΣΩ of all that keep memory and T_min by the full prediction, by best-first branch and bound. For
 * small models: where it would ask too much it refuses rather than give less than its name says. */
#include <stdlib.h>

#include "allocate.h"
#include "best_first.h"

/* Relaxations times nodes: some seconds; full predictions are far fewer. */
enum { MOST_WORK = 2000000, STEPS = 12 };

typedef struct exact {
    qs_draft_plan *draft;
    double limit_us;
    int classes;
    int *class_index; /* (classes) of those that are lowered */
    int *weight;
    int **recipe;      /* (classes) the draft's choices */
    qs__bound **bound; /* (classes) */
} exact;

static qs_status judge(void *context, int *const *recipe, bool *feasible) {
    exact *one = context;
    qs_prediction prediction = {0};
    (void)recipe; /* they are the draft's choices */
    const qs_status status = qs__draft_predict(one->draft, &prediction);
    *feasible = status == QS_OK && prediction.fits && prediction.iteration_us <= one->limit_us;
    qs_prediction_release(&prediction);
    return status == QS_MISMATCH ? QS_OK : status;
}

static qs_status classes_find(exact *one) {
    const size_t classes = (size_t)one->draft->cluster->classes;
    QS_TRY(qs_allocate(classes, sizeof *one->class_index, &one->class_index));
    QS_TRY(qs_allocate(classes, sizeof *one->weight, &one->weight));
    QS_TRY(qs_allocate(classes, sizeof *one->recipe, &one->recipe));
    QS_TRY(qs_allocate(classes, sizeof *one->bound, &one->bound));
    for (int c = 0; c < one->draft->cluster->classes; c++) {
        if (!qs__class_is_lowered(one->draft, c)) continue;
        one->class_index[one->classes] = c;
        one->weight[one->classes] = one->draft->cluster->class_[c].count;
        one->recipe[one->classes++] = one->draft->class_[c].choice;
    }
    return QS_OK;
}

static double omega_of(const exact *one) {
    double sum = 0;
    for (int i = 0; i < one->classes; i++)
        sum += one->weight[i] * qs__draft_sum_omega(one->draft, one->class_index[i]);
    return sum;
}

static int operators_of(const exact *one) {
    int count = 0;
    for (int n = 1; n < one->draft->graph->nodes; n++)
        count += qs__is_adjustable(one->draft, n);
    return count * one->classes;
}

static qs_status bounds_make(exact *one) {
    for (int i = 0; i < one->classes; i++) {
        QS_TRY(qs__bound_create(one->draft, one->class_index[i], one->limit_us, &one->bound[i]));
        QS_TRY(qs__bound_raise(one->bound[i], qs__draft_sum_omega(one->draft, one->class_index[i])));
    }
    return QS_OK;
}

/* Leaves are tried in the draft; where the start is the optimum, or nothing is proven, its choices come back. */
static qs_status search(exact *one, const int *start) {
    const size_t nodes = (size_t)one->draft->graph->nodes;
    qs__best_first tree = {.classes = one->classes,
                           .bound = one->bound,
                           .weight = one->weight,
                           .reached = omega_of(one),
                           .most_minima = MOST_WORK / one->draft->graph->nodes,
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

qs_status qs__planner_exact(qs_draft_plan *draft) {
    const size_t nodes = (size_t)draft->graph->nodes;
    exact one = {.draft = draft};
    int *start = NULL;
    qs_status status = QS_OK;
    QS_GOTO(classes_find(&one));
    QS_GOTO(qs__uniform_choose(draft, false, &one.limit_us));
    QS_GOTO(qs_allocate(nodes * (size_t)one.classes, sizeof *start, &start));
    for (int i = 0; i < one.classes; i++)
        for (size_t n = 0; n < nodes; n++)
            start[(size_t)i * nodes + n] = one.recipe[i][n];
    QS_GOTO(bounds_make(&one));
    if (one.classes > 0) QS_GOTO(search(&one, start));
    draft->proven = one.classes == 1;
    QS_GOTO(qs__draft_explain(draft, one.limit_us));
done:
    exact_release(&one);
    free(start);
    return status;
}
