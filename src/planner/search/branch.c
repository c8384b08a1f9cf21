// SPDX-License-Identifier: Apache-2.0
/* Branch and bound over the operators of a small class: those first whose recipes differ most in Ω. A branch is cut where its Ω with the
 * least of the rest is no better than the best plan so far, and where it is clearly too slow with all of the rest at their fastest. */
#include <math.h>
#include <stdlib.h>

#include "allocate.h"

enum { MOST_OPERATORS = 16, MOST_REFUSALS = 64 /* by the full prediction */ };

/* The rest at its fastest was found one operator at a time: together they may be a little faster. */
static const double slack = 0.02;
static const double doubt = 0.0025;

typedef struct branch {
    qs__allocation *all;
    int class_index, operators;
    int node[MOST_OPERATORS];
    double rest[MOST_OPERATORS + 1]; /* least Ω of this operator and those behind it */
    double best;                     /* of the class */
    int refusals;
    int *found; /* (classes × nodes) */
    bool better;
} branch;

static double omega_of(const branch *one, int node, int recipe) {
    const qs_candidate_class *class_ = &one->all->candidate->class_[one->class_index];
    return class_->omega[node * class_->recipes + recipe];
}

static double spread(const branch *one, int node) {
    double least = INFINITY, most = 0;
    for (int r = 0; r < one->all->candidate->class_[one->class_index].recipes; r++) {
        const double omega = omega_of(one, node, r);
        least = fmin(least, omega);
        if (isfinite(omega)) most = fmax(most, omega);
    }
    return most - least;
}

/* False: there are too many. */
static bool operators_list(branch *one) {
    const qs_candidate *candidate = one->all->candidate;
    one->operators = 0;
    for (int n = candidate->graph->samples.inputs; n < candidate->graph->nodes; n++) {
        if (!qs__is_free(candidate, one->class_index, n)) continue;
        if (one->operators == MOST_OPERATORS) return false;
        int i = one->operators++;
        for (; i > 0 && spread(one, one->node[i - 1]) < spread(one, n); i--)
            one->node[i] = one->node[i - 1];
        one->node[i] = n;
    }
    one->rest[one->operators] = 0;
    for (int i = one->operators - 1; i >= 0; i--) {
        double least = INFINITY;
        for (int r = 0; r < candidate->class_[one->class_index].recipes; r++)
            least = fmin(least, omega_of(one, one->node[i], r));
        one->rest[i] = one->rest[i + 1] + least;
    }
    return one->operators > 0;
}

/* Little over the limit by quick answers may be within it. A refusal calibrates them where the next leaves are. */
static qs_status leaf_note(branch *one, double omega) {
    bool yes;
    if (!(omega < one->best) || one->refusals == MOST_REFUSALS) return QS_OK;
    if (!qs__is_within(one->all, one->all->limit_us * (1 + doubt))) return QS_OK;
    QS_TRY(qs__predict_in_full(one->all, &yes));
    if (!yes) {
        one->refusals++;
        return QS_OK;
    }
    one->best = omega;
    one->better = true;
    qs__search_choices(one->all->search, one->found);
    return QS_OK;
}

/* Depth first, at most MOST_OPERATORS levels. */
static qs_status operator_branch(branch *one, int level, double omega) {
    qs__search *search = one->all->search;
    if (level == one->operators) return leaf_note(one, omega);
    const int node = one->node[level], present = one->all->candidate->class_[one->class_index].choice[node];
    for (int r = 0; r < one->all->candidate->class_[one->class_index].recipes && !qs__is_spent(one->all); r++) {
        const double sum = omega + omega_of(one, node, r);
        const int mark = qs__search_mark(search);
        if (!(sum + one->rest[level + 1] < one->best)) continue;
        const qs_status status = r == present ? QS_OK : qs__search_set(search, one->class_index, node, r);
        if (status == QS_MISMATCH) continue;
        QS_TRY(status);
        if (qs__search_alone_us(search, one->class_index) <= one->all->limit_us * (1 + slack)) QS_TRY(operator_branch(one, level + 1, sum));
        QS_TRY(qs__search_back(search, mark));
    }
    return QS_OK;
}

static qs_status class_branch(branch *one) {
    qs_candidate *candidate = one->all->candidate;
    if (!operators_list(one)) return QS_OK;
    one->best = qs__candidate_sum_omega(candidate, one->class_index);
    QS_TRY(qs__descend(one->all, one->class_index));
    double pinned = qs__candidate_sum_omega(candidate, one->class_index);
    for (int i = 0; i < one->operators; i++)
        pinned -= omega_of(one, one->node[i], candidate->class_[one->class_index].choice[one->node[i]]);
    return operator_branch(one, 0, pinned);
}

qs_status qs__branch(qs__allocation *all) {
    const size_t choices = (size_t)all->candidate->cluster->classes * (size_t)all->candidate->graph->nodes;
    branch one = {.all = all};
    int *present = NULL;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(choices, sizeof *one.found, &one.found));
    QS_GOTO(qs_allocate(choices, sizeof *present, &present));
    for (one.class_index = 0; one.class_index < all->candidate->cluster->classes; one.class_index++) {
        if (!qs__class_is_lowered(all->candidate, one.class_index)) continue;
        qs__search_choices(all->search, present);
        one.better = false;
        one.refusals = 0;
        QS_GOTO(class_branch(&one));
        QS_GOTO(qs__search_go(all->search, one.better ? one.found : present));
    }
done:
    free(one.found);
    free(present);
    return status;
}
