// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync` (qsync.md §5): from the fastest plan that fits the memory, recover precision where it matters most. A max-heap per
 * lowered class holds what Ω an operator's next recipe saves; the best one is raised if the plan still fits and keeps T_min.
 *
 * Two starts are recovered: the fastest uniform plan, whose ΣΩ the result therefore never exceeds, and the fastest mixed one. A refused
 * step is tried one recipe higher (a float between two fixed-point neighbours may cost more casts than fp32), and passes repeat until none
 * raises anything: neighbours that rose meanwhile make casts disappear. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

#define MOST_PASSES 4

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

static void heap_push(heap *one, heap_entry entry) {
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

static void entry_push(const qs_draft_class *one, heap *queue, int node, int recipe) {
    const double *omega = &one->omega[node * one->recipes];
    if (recipe >= 0) heap_push(queue, (heap_entry){omega[one->choice[node]] - omega[recipe], node, recipe});
}

/* A prediction of the draft; *known is false when the profile lacks a case that only this mix needs. */
static qs_status ask(qs_draft_plan *draft, bool *known, qs_prediction *out) {
    *out = (qs_prediction){0};
    const qs_status status = qs__draft_predict(draft, out);
    *known = status == QS_OK;
    return status == QS_MISMATCH ? QS_OK : status;
}

static bool is_free(const qs_draft_plan *draft, int c, int node) {
    return qs__is_adjustable(draft, node) && !draft->class_[c].pinned[node];
}

/* Changes an operator's recipe where that makes the class itself faster, the iteration no slower, and keeps the memory. */
static qs_status node_descend(qs_draft_plan *draft, int c, int node, double *compute_us, double *iteration_us) {
    qs_draft_class *one = &draft->class_[c];
    int chosen = one->choice[node];
    for (int r = 0; r < one->recipes; r++) {
        qs_prediction prediction;
        bool known;
        if (r == chosen || isinf(one->omega[node * one->recipes + r])) continue;
        one->choice[node] = r;
        QS_TRY(ask(draft, &known, &prediction));
        if (known && prediction.class_[c].fits && prediction.class_[c].compute_us < *compute_us &&
            prediction.iteration_us <= *iteration_us) {
            *compute_us = prediction.class_[c].compute_us;
            *iteration_us = prediction.iteration_us;
            chosen = r;
        }
        qs_prediction_release(&prediction);
    }
    one->choice[node] = chosen;
    return QS_OK;
}

/* A mixed plan may beat every uniform one. */
static qs_status descend(qs_draft_plan *draft, int c) {
    qs_prediction prediction;
    QS_TRY(qs__draft_predict(draft, &prediction));
    double compute_us = prediction.class_[c].compute_us, iteration_us = prediction.iteration_us;
    qs_prediction_release(&prediction);
    for (int n = 1; n < draft->graph->nodes; n++)
        if (is_free(draft, c, n)) QS_TRY(node_descend(draft, c, n, &compute_us, &iteration_us));
    return QS_OK;
}

/* Tries an operator in another recipe; *kept tells whether it stays there. */
static qs_status raise(qs_draft_plan *draft, int c, const heap_entry *entry, double limit_us, bool *kept) {
    qs_prediction prediction;
    bool known;
    int *choice = &draft->class_[c].choice[entry->node];
    const int before = *choice;
    *choice = entry->recipe;
    QS_TRY(ask(draft, &known, &prediction));
    *kept = known && prediction.class_[c].fits && prediction.iteration_us <= limit_us;
    if (!*kept) *choice = before;
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status pass(qs_draft_plan *draft, int c, double limit_us, heap *queue, int *raised) {
    const qs_draft_class *one = &draft->class_[c];
    *raised = 0;
    for (int n = 1; n < draft->graph->nodes; n++)
        if (is_free(draft, c, n)) entry_push(one, queue, n, qs__draft_next(one, n, one->choice[n]));
    while (queue->count > 0) {
        const heap_entry entry = heap_pop(queue);
        bool kept = false;
        QS_TRY(raise(draft, c, &entry, limit_us, &kept));
        *raised += kept;
        entry_push(one, queue, entry.node, qs__draft_next(one, entry.node, entry.recipe));
    }
    return QS_OK;
}

static qs_status recover(qs_draft_plan *draft, double limit_us, heap *queue) {
    for (int c = 0; c < draft->cluster->classes; c++) {
        int raised = qs__class_is_lowered(draft, c);
        for (int i = 0; i < MOST_PASSES && raised > 0; i++)
            QS_TRY(pass(draft, c, limit_us, queue, &raised));
    }
    return QS_OK;
}

/* What keeps an operator of the finished plan from its next recipe. */
static qs_status node_explain(qs_draft_plan *draft, int c, int node, double limit_us, const qs_prediction *present) {
    qs_draft_class *one = &draft->class_[c];
    const int before = one->choice[node], next = qs__draft_next(one, node, before);
    qs_prediction prediction;
    bool known;
    if (next < 0) return QS_OK;
    one->choice[node] = next;
    QS_TRY(ask(draft, &known, &prediction));
    one->choice[node] = before;
    const char *why = !known                               ? "profile"
                      : !prediction.class_[c].fits         ? "memory"
                      : prediction.iteration_us > limit_us ? "throughput"
                                                           : "planner";
    snprintf(one->stopped[node], sizeof one->stopped[node], "%s", why);
    if (known) {
        one->raise_us[node] = prediction.iteration_us - present->iteration_us;
        one->raise_bytes[node] = (int64_t)prediction.class_[c].arena_bytes - (int64_t)present->class_[c].arena_bytes;
    }
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status explain(qs_draft_plan *draft, double limit_us) {
    qs_prediction present;
    qs_status status = QS_OK;
    QS_TRY(qs__draft_predict(draft, &present));
    for (int c = 0; c < draft->cluster->classes; c++)
        for (int n = 1; qs__class_is_lowered(draft, c) && n < draft->graph->nodes; n++)
            if (is_free(draft, c, n)) QS_GOTO(node_explain(draft, c, n, limit_us, &present));
done:
    qs_prediction_release(&present);
    return status;
}

/* ΣΩ over all devices. */
static double total_omega(const qs_draft_plan *draft) {
    double sum = 0;
    for (int c = 0; c < draft->cluster->classes; c++)
        sum += draft->cluster->class_[c].count * qs__draft_sum_omega(draft, c);
    return sum;
}

static void choices_copy(const qs_draft_plan *draft, int *copy, bool restore) {
    const size_t nodes = (size_t)draft->graph->nodes;
    for (int c = 0; c < draft->cluster->classes; c++) {
        int *choice = draft->class_[c].choice, *kept = copy + nodes * (size_t)c;
        memcpy(restore ? choice : kept, restore ? kept : choice, nodes * sizeof *copy);
    }
}

/* The better of the plans recovered from the uniform and from the mixed start. */
static qs_status search(qs_draft_plan *draft, double limit_us, heap *queue, int *uniform, int *best) {
    choices_copy(draft, uniform, false);
    QS_TRY(recover(draft, limit_us, queue));
    const double omega = total_omega(draft);
    choices_copy(draft, best, false);
    choices_copy(draft, uniform, true);
    for (int c = 0; c < draft->cluster->classes; c++)
        if (qs__class_is_lowered(draft, c)) QS_TRY(descend(draft, c));
    QS_TRY(recover(draft, limit_us, queue));
    if (!(total_omega(draft) < omega)) choices_copy(draft, best, true);
    return QS_OK;
}

qs_status qs__planner_qsync(qs_draft_plan *draft) {
    const size_t nodes = (size_t)draft->graph->nodes, all = nodes * (size_t)draft->cluster->classes;
    heap queue = {0};
    int *uniform = NULL, *best = NULL;
    double limit_us = 0;
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate(nodes, sizeof *queue.entry, &queue.entry));
    QS_GOTO(qs_allocate(all, sizeof *uniform, &uniform));
    QS_GOTO(qs_allocate(all, sizeof *best, &best));
    QS_GOTO(qs__uniform_choose(draft, false, &limit_us));
    QS_GOTO(search(draft, limit_us, &queue, uniform, best));
    QS_GOTO(explain(draft, limit_us));
done:
    free(queue.entry);
    free(uniform);
    free(best);
    return status;
}
