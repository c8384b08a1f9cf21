// SPDX-License-Identifier: Apache-2.0
/* Plans by quick answers held against the full prediction: what it refuses is repaired, each refusal having calibrated the quick answers,
 * and what the repair gave away for nothing is taken back by bisection. */
#include <math.h>
#include <stdlib.h>

#include "allocate.h"

enum { MOST_REPAIRS = 6, MOST_PREDICTIONS = 16 /* of one bisection */, MOST_OF_LARGE = 3 };

/* Quick answers are sums in another order than the full ones. */
static const double rounding = 1e-12;
/* Changes asked for at most, by the size of the model: each costs about as much as it has operators. */
static const int64_t most_work = 600000;

/* ---- The state of an allocation ---- */

qs_status qs__allocation_start(qs_candidate *candidate, double limit_us, qs__allocation *out) {
    const size_t all = (size_t)candidate->cluster->classes * (size_t)candidate->graph->nodes;
    qs__full_answer full;
    *out = (qs__allocation){
        .candidate = candidate, .limit_us = limit_us, .best_omega = INFINITY, .most_changes = most_work / candidate->graph->nodes};
    QS_TRY(qs_allocate(all, sizeof *out->best, &out->best));
    QS_TRY(qs_allocate(all, sizeof *out->refused, &out->refused));
    QS_TRY(qs__search_create(candidate, &out->search));
    QS_TRY(qs__search_predict(out->search, &full));
    qs__search_choices(out->search, out->best);
    out->best_omega = qs__search_omega(out->search);
    return QS_OK;
}

qs_status qs__allocation_end(qs__allocation *one) {
    qs_status status = QS_OK;
    if (one->search) status = qs__search_go(one->search, one->best);
    qs__search_release(one->search);
    free(one->best);
    free(one->refused);
    *one = (qs__allocation){0};
    return status;
}

bool qs__is_free(const qs_candidate *candidate, int class_index, int node) {
    return qs__is_adjustable(candidate, node) && !candidate->class_[class_index].pinned[node];
}

bool qs__is_within(qs__allocation *one, double limit_us) {
    for (int c = 0; c < one->candidate->cluster->classes; c++)
        if (!qs__search_fits(one->search, c)) return false;
    return !qs__search_is_late(one->search, limit_us) && qs__search_iteration_us(one->search) <= limit_us;
}

bool qs__is_feasible(qs__allocation *one) {
    return qs__is_within(one, one->limit_us * (1 + rounding));
}

bool qs__is_spent(const qs__allocation *one) {
    return qs__search_changes(one->search) >= one->most_changes;
}

qs_status qs__predict_in_full(qs__allocation *one, bool *yes) {
    qs__full_answer full;
    QS_TRY(qs__search_predict(one->search, &full));
    *yes = full.known && full.fits && full.iteration_us <= one->limit_us;
    if (!*yes || qs__search_omega(one->search) >= one->best_omega) return QS_OK;
    qs__search_choices(one->search, one->best);
    one->best_omega = qs__search_omega(one->search);
    return QS_OK;
}

/* ---- Repair ---- */

/* How far over: shares of the limits, added up; 0: feasible. */
static double excess(qs__allocation *one) {
    double sum = fmax(qs__search_iteration_us(one->search) / one->limit_us - 1, 0);
    for (int c = 0; c < one->candidate->cluster->classes; c++) {
        const double limit = (double)one->candidate->cluster->class_[c].memory_limit;
        if (limit > 0) sum += fmax((double)qs__search_arena_bytes(one->search, c) / limit - 1, 0);
    }
    return sum;
}

/* A change that brings a plan nearer to its limits. */
typedef struct relief {
    double price; /* Ω for a share of relief; what is more than enough counts as enough */
    int class_index, node, recipe;
} relief;

static qs_status relief_try(qs__allocation *one, double present, relief wanted, relief *best) {
    const qs_candidate_class *class_ = &one->candidate->class_[wanted.class_index];
    const double *omega = &class_->omega[wanted.node * class_->recipes];
    const double before = omega[class_->choice[wanted.node]];
    if (wanted.recipe == class_->choice[wanted.node] || isinf(omega[wanted.recipe])) return QS_OK;
    const qs_status status = qs__search_set(one->search, wanted.class_index, wanted.node, wanted.recipe);
    if (status != QS_OK) return status == QS_MISMATCH ? QS_OK : status;
    const double won = present - excess(one);
    wanted.price = won > 0 ? one->candidate->cluster->class_[wanted.class_index].count * (omega[wanted.recipe] - before) / won : INFINITY;
    if (wanted.price < best->price) *best = wanted;
    return qs__search_undo(one->search);
}

/* Lowers operators until the plan is feasible by quick answers, least Ω for the relief first; *done: it is. */
static qs_status repair(qs__allocation *one, bool *done) {
    const qs_candidate *candidate = one->candidate;
    for (;;) {
        const double present = excess(one);
        relief best = {.price = INFINITY};
        *done = present == 0;
        if (*done || qs__is_spent(one)) return QS_OK;
        for (int c = 0; c < candidate->cluster->classes; c++)
            for (int n = 1; qs__class_is_lowered(candidate, c) && n < candidate->graph->nodes; n++)
                for (int r = 0; qs__is_free(candidate, c, n) && r < candidate->class_[c].recipes; r++)
                    QS_TRY(relief_try(one, present, (relief){0, c, n, r}, &best));
        if (isinf(best.price)) return QS_OK;
        QS_TRY(qs__search_set(one->search, best.class_index, best.node, best.recipe));
    }
}

/* ---- Raises by bisection ---- */

typedef struct raise {
    double gain; /* in Ω */
    int class_index, node, recipe;
} raise;

static int raise_compare(const void *left, const void *right) {
    const raise *a = left, *b = right;
    if (a->gain != b->gain) return a->gain > b->gain ? -1 : 1;
    if (a->class_index != b->class_index) return a->class_index - b->class_index;
    return a->node - b->node;
}

/* Raises on top of the present plan: they stay if the full prediction accepts them. */
static qs_status raises_try(qs__allocation *one, const raise *all, int count, int *predictions, bool *holds) {
    const int mark = qs__search_mark(one->search);
    qs_status status = QS_OK;
    for (int i = 0; i < count && status == QS_OK; i++)
        status = qs__search_set(one->search, all[i].class_index, all[i].node, all[i].recipe);
    if (status != QS_OK && status != QS_MISMATCH) return status;
    *holds = status == QS_OK;
    if (*holds) {
        ++*predictions;
        QS_TRY(qs__predict_in_full(one, holds));
    }
    if (!*holds) return qs__search_back(one->search, mark);
    qs__search_keep(one->search);
    return QS_OK;
}

/* From the present plan, which was accepted, as far towards `wanted` (classes × nodes) as the full prediction lets it, which quick answers
 * do not tell: of the raises, those first that save most Ω, as many are added as hold, which bisection finds; the one behind them is left
 * out, and so on with the rest. */
static qs_status bisect_raises(qs__allocation *one, const int *wanted) {
    const qs_candidate *candidate = one->candidate;
    const int nodes = candidate->graph->nodes;
    raise *all = NULL;
    int raises = 0, predictions = 0;
    const int most = qs__is_large(candidate->graph) ? MOST_OF_LARGE : MOST_PREDICTIONS;
    bool calibrated = true /* at the present plan */, holds = false;
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)candidate->cluster->classes * (size_t)nodes, sizeof *all, &all));
    for (int c = 0; c < candidate->cluster->classes; c++) {
        const qs_candidate_class *class_ = &candidate->class_[c];
        for (int n = 1; n < nodes; n++) {
            const int recipe = wanted[(size_t)c * (size_t)nodes + (size_t)n];
            const double *omega = &class_->omega[n * class_->recipes];
            if (!qs__is_free(candidate, c, n) || !(omega[recipe] < omega[class_->choice[n]])) continue;
            all[raises++] = (raise){omega[class_->choice[n]] - omega[recipe], c, n, recipe};
        }
    }
    qsort(all, (size_t)raises, sizeof *all, raise_compare);
    for (int first = 0; first < raises && predictions < most;) {
        int end = raises, middle = end;
        do {
            const int before = predictions;
            QS_GOTO(raises_try(one, &all[first], middle - first, &predictions, &holds));
            if (predictions > before) calibrated = holds;
            *(holds ? &first : &end) = middle;
            middle = first + (end - first) / 2;
        } while (end - first > 1 && predictions < most);
        first = end;
    }
    if (!calibrated) status = qs__predict_in_full(one, &holds);
done:
    free(all);
    return status;
}

/* ---- Acceptance ---- */

qs_status qs__accept(qs__allocation *one) {
    bool yes = false, repaired = true;
    QS_TRY(qs__predict_in_full(one, &yes));
    if (yes) {
        qs__search_keep(one->search);
        return QS_OK;
    }
    qs__search_choices(one->search, one->refused);
    for (int i = 0; i < MOST_REPAIRS && !yes && repaired; i++) {
        QS_TRY(repair(one, &repaired));
        if (repaired) QS_TRY(qs__predict_in_full(one, &yes));
    }
    if (!yes) {
        QS_TRY(qs__search_go(one->search, one->best));
        QS_TRY(qs__predict_in_full(one, &yes));
    }
    qs__search_keep(one->search);
    return bisect_raises(one, one->refused);
}
