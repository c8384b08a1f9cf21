// SPDX-License-Identifier: Apache-2.0
/* Planner `qsync` (qsync.md §5): from the fastest plan that fits the memory, recover precision where it matters most. A max-heap per lowered
 * class holds Ω(recipe) - Ω(next higher); the best operator is raised one step if the plan still fits and keeps T_min. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner_internal.h"

typedef struct heap_entry {
    double gain;
    int node;
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
    for (; i > 0 && before(&entry, &one->entry[(i - 1) / 2]); i = (i - 1) / 2) one->entry[i] = one->entry[(i - 1) / 2];
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

static void entry_push(const qs_draft_class *one, heap *queue, int node) {
    const int choice = one->choice[node];
    const double *omega = &one->omega[node * one->recipes];
    heap_push(queue, (heap_entry){isinf(omega[choice]) ? INFINITY : omega[choice] - omega[choice - 1], node});
}

/* Lowers or raises single operators wherever that makes the class itself faster and keeps the memory: a mixed plan may beat every uniform one. */
static qs_status descend(qs_draft_plan *draft, int c) {
    qs_draft_class *one = &draft->class_[c];
    qs_prediction prediction;
    QS_TRY(qs__draft_predict(draft, &prediction));
    double best = prediction.class_[c].compute_us;
    qs_prediction_release(&prediction);
    for (int n = 1; n < draft->graph->nodes; n++) {
        if (!qs__is_adjustable(draft, n) || one->pinned[n]) continue;
        int chosen = one->choice[n];
        for (int r = 0; r < one->recipes; r++) {
            if (r == chosen || isinf(one->omega[n * one->recipes + r])) continue;
            one->choice[n] = r;
            QS_TRY(qs__draft_predict(draft, &prediction));
            if (prediction.class_[c].fits && prediction.class_[c].compute_us < best) {
                best = prediction.class_[c].compute_us;
                chosen = r;
            }
            qs_prediction_release(&prediction);
        }
        one->choice[n] = chosen;
    }
    return QS_OK;
}

/* Tries to raise an operator one step; *kept tells whether it stays. */
static qs_status raise(qs_draft_plan *draft, int c, int node, double limit_us, qs_prediction *present, bool *kept) {
    qs_draft_class *one = &draft->class_[c];
    qs_prediction prediction;
    one->choice[node]--;
    QS_TRY(qs__draft_predict(draft, &prediction));
    const bool fits = prediction.class_[c].fits;
    *kept = fits && prediction.iteration_us <= limit_us;
    if (*kept) {
        qs_prediction_release(present);
        *present = prediction;
        return QS_OK;
    }
    one->choice[node]++;
    one->raise_us[node] = prediction.iteration_us - present->iteration_us;
    one->raise_bytes[node] = (int64_t)prediction.class_[c].arena_bytes - (int64_t)present->class_[c].arena_bytes;
    snprintf(one->stopped[node], sizeof one->stopped[node], "%s", fits ? "throughput" : "memory");
    qs_prediction_release(&prediction);
    return QS_OK;
}

static qs_status recover(qs_draft_plan *draft, int c, double limit_us) {
    qs_draft_class *one = &draft->class_[c];
    heap queue = {0};
    qs_prediction present = {0};
    qs_status status = QS_OK;
    QS_GOTO(qs_allocate((size_t)draft->graph->nodes, sizeof *queue.entry, &queue.entry));
    QS_GOTO(qs__draft_predict(draft, &present));
    for (int n = 1; n < draft->graph->nodes; n++)
        if (qs__is_adjustable(draft, n) && !one->pinned[n] && one->choice[n] > 0) entry_push(one, &queue, n);
    while (queue.count > 0) {
        const int node = heap_pop(&queue).node;
        bool kept = false;
        QS_GOTO(raise(draft, c, node, limit_us, &present, &kept));
        if (kept && one->choice[node] > 0) entry_push(one, &queue, node);
    }
done:
    free(queue.entry);
    qs_prediction_release(&present);
    return status;
}

qs_status qs__planner_qsync(qs_draft_plan *draft) {
    double uniform_us = 0;
    QS_TRY(qs__uniform_choose(draft, false, &uniform_us));
    const double limit_us = uniform_us * (1 + draft->options->tolerance);
    for (int c = 0; c < draft->cluster->classes; c++)
        if (qs__class_is_lowered(draft, c)) QS_TRY(descend(draft, c));
    for (int c = 0; c < draft->cluster->classes; c++)
        if (qs__class_is_lowered(draft, c)) QS_TRY(recover(draft, c, limit_us));
    return QS_OK;
}
