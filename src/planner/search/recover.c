// SPDX-License-Identifier: Apache-2.0
/* Operators one by one: recovery (a max-heap per lowered class of what Ω an operator's next recipe saves), and what keeps the operators of
 * a finished plan from their next recipe. */
#include <math.h>
#include <stdlib.h>

#include "allocate.h"

enum { MOST_PASSES = 4, MOST_ROUNDS = 4, MOST_REFUSED = 100 /* of a large model, one after the other */ };

/* ---- Recovery ---- */

typedef struct heap_entry {
    double gain;
    int node, recipe; /* to be raised to */
} heap_entry;

typedef struct heap {
    int count;
    heap_entry *entry;
} heap;

/* Larger gain first; ties by node, so that plans are reproducible. */
static bool before(const heap_entry *a, const heap_entry *b) {
    return a->gain != b->gain ? a->gain > b->gain : a->node < b->node;
}

/* An operator and the recipe to raise it to next; nothing where that is -1. */
static void heap_push(const qs_candidate_class *class_, heap *one, int node, int recipe) {
    if (recipe < 0) return;
    const double *omega = &class_->omega[node * class_->recipes];
    const heap_entry entry = {omega[class_->choice[node]] - omega[recipe], node, recipe};
    int i = one->count++;
    for (; i > 0 && before(&entry, &one->entry[(i - 1) / 2]); i = (i - 1) / 2)
        one->entry[i] = one->entry[(i - 1) / 2];
    one->entry[i] = entry;
}

static heap_entry heap_pop(heap *one) {
    const heap_entry top = one->entry[0], last = one->entry[--one->count];
    int i = 0;
    for (int child = 1; child < one->count; child = 2 * i + 1) {
        if (child + 1 < one->count && before(&one->entry[child + 1], &one->entry[child])) child++;
        if (!before(&one->entry[child], &last)) break;
        one->entry[i] = one->entry[child];
        i = child;
    }
    if (one->count > 0) one->entry[i] = last;
    return top;
}

/* One pass over a class; *raised: how many operators rose. Large models have room for no more once so many were refused one after the
 * other. */
static qs_status class_recover(qs__allocation *one, int c, bool paper, heap *queue, int *raised) {
    const qs_candidate_class *class_ = &one->candidate->class_[c];
    const bool large = qs__is_large(one->candidate->graph);
    int refused = 0;
    *raised = 0;
    for (int n = one->candidate->graph->samples.inputs; n < one->candidate->graph->nodes; n++)
        if (qs__is_free(one->candidate, c, n)) heap_push(class_, queue, n, qs__candidate_next(class_, n, class_->choice[n]));
    while (queue->count > 0 && !(large && refused == MOST_REFUSED)) {
        const heap_entry entry = heap_pop(queue);
        const qs_status status = qs__search_set(one->search, c, entry.node, entry.recipe);
        if (status != QS_OK && status != QS_MISMATCH) return status;
        const bool kept = status == QS_OK && qs__is_feasible(one);
        if (status == QS_OK && !kept) QS_TRY(qs__search_undo(one->search));
        *raised += kept;
        refused = kept ? 0 : refused + 1;
        if (kept || !paper) heap_push(class_, queue, entry.node, qs__candidate_next(class_, entry.node, entry.recipe));
    }
    queue->count = 0;
    return QS_OK;
}

qs_status qs__recover(qs__allocation *one, bool paper) {
    heap queue = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)one->candidate->graph->nodes, sizeof *queue.entry, &queue.entry));
    for (int c = 0; c < one->candidate->cluster->classes; c++) {
        int raised = qs__class_is_lowered(one->candidate, c);
        for (int i = 0; i < (paper || qs__is_large(one->candidate->graph) ? 1 : MOST_PASSES) && raised > 0; i++)
            QS_GOTO(class_recover(one, c, paper, &queue, &raised));
    }
done:
    free(queue.entry);
    return status;
}

qs_status qs__recover_and_accept(qs__allocation *one, bool paper) {
    for (int i = 0; i < MOST_ROUNDS; i++) {
        const double omega = qs__search_omega(one->search);
        QS_TRY(qs__recover(one, paper));
        if (!(qs__search_omega(one->search) < omega)) return QS_OK;
        QS_TRY(qs__accept(one));
        if (paper || qs__is_large(one->candidate->graph) || !(qs__search_omega(one->search) < omega)) return QS_OK;
    }
    return QS_OK;
}

/* ---- Reasons ---- */

/* The finished plan. */
typedef struct finished {
    double iteration_us, *end_us; /* (classes) */
    int64_t arena_bytes;          /* of the class at hand */
} finished;

/* What keeps a class from the raise that has just been made: where it would keep to T_min if the others ended as before, it is they, whom
 * it slows down. */
static const char *refusal(qs__allocation *one, int c, double us, const finished *plan) {
    if (!qs__search_fits(one->search, c)) return "memory";
    if (us <= one->limit_us) return "planner";
    return qs__search_beside_us(one->search, c, plan->end_us) <= one->limit_us ? "neighbours" : "throughput";
}

/* By quick answers calibrated at that very plan. */
static qs_status node_explain(qs__allocation *one, int c, int node, const finished *plan) {
    qs_candidate_class *class_ = &one->candidate->class_[c];
    const int next = qs__candidate_next(class_, node, class_->choice[node]);
    if (next < 0) return QS_OK;
    const qs_status status = qs__search_set(one->search, c, node, next);
    if (status != QS_OK && status != QS_MISMATCH) return status;
    const bool known = status == QS_OK;
    const double us = known ? qs__search_iteration_us(one->search) : plan->iteration_us;
    snprintf(class_->stopped[node], sizeof class_->stopped[node], "%s", known ? refusal(one, c, us, plan) : "profile");
    if (!known) return QS_OK;
    class_->raise_us[node] = us - plan->iteration_us;
    class_->raise_bytes[node] = qs__search_arena_bytes(one->search, c) - plan->arena_bytes;
    return qs__search_undo(one->search);
}

qs_status qs__reasons_find(qs__allocation *one) {
    finished plan = {.iteration_us = qs__search_iteration_us(one->search)};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)one->candidate->cluster->classes, sizeof *plan.end_us, &plan.end_us));
    qs__search_ends(one->search, plan.end_us);
    for (int c = 0; c < one->candidate->cluster->classes && status == QS_OK; c++) {
        plan.arena_bytes = qs__search_arena_bytes(one->search, c);
        for (int n = 1; qs__class_is_lowered(one->candidate, c) && n < one->candidate->graph->nodes && status == QS_OK; n++)
            if (qs__is_free(one->candidate, c, n)) status = node_explain(one, c, n, &plan);
    }
    free(plan.end_us);
    return status;
}

qs_status qs__candidate_explain(qs_candidate *candidate, double limit_us) {
    qs__allocation one = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs__allocation_start(candidate, limit_us, &one));
    QS_GOTO(qs__reasons_find(&one));
    QS_GOTO(qs__allocation_end(&one));
done:
    qs__allocation_end(&one);
    return status;
}
