// SPDX-License-Identifier: Apache-2.0
/* Recovery: a max-heap per lowered class of what Ω an operator's next recipe saves. */
#include <stdlib.h>

#include "allocate.h"

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

/* *kept: the operator stays in the other recipe. */
static qs_status raise(qs__allocation *one, int c, const heap_entry *entry, bool *kept) {
    const qs_status status = qs__search_set(one->search, c, entry->node, entry->recipe);
    *kept = false;
    if (status != QS_OK) return status == QS_MISMATCH ? QS_OK : status;
    *kept = qs__is_feasible(one);
    return *kept ? QS_OK : qs__search_undo(one->search);
}

static qs_status pass(qs__allocation *one, int c, bool paper, heap *queue, int *raised) {
    const qs_draft_class *class_ = &one->draft->class_[c];
    *raised = 0;
    for (int n = 1; n < one->draft->graph->nodes; n++)
        if (qs__is_free(one->draft, c, n)) entry_push(class_, queue, n, qs__draft_next(class_, n, class_->choice[n]));
    while (queue->count > 0) {
        const heap_entry entry = heap_pop(queue);
        bool kept = false;
        QS_TRY(raise(one, c, &entry, &kept));
        *raised += kept;
        if (kept || !paper) entry_push(class_, queue, entry.node, qs__draft_next(class_, entry.node, entry.recipe));
    }
    return QS_OK;
}

qs_status qs__recover(qs__allocation *one, bool paper) {
    heap queue = {0};
    qs_status status = QS_OK;
    QS_TRY(qs_allocate((size_t)one->draft->graph->nodes, sizeof *queue.entry, &queue.entry));
    for (int c = 0; c < one->draft->cluster->classes; c++) {
        int raised = qs__class_is_lowered(one->draft, c);
        for (int i = 0; i < (paper ? 1 : MOST_PASSES) && raised > 0; i++)
            QS_GOTO(pass(one, c, paper, &queue, &raised));
    }
done:
    free(queue.entry);
    return status;
}
