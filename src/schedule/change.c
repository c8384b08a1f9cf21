// SPDX-License-Identifier: Apache-2.0
/* Changing one operator's recipe in a draft, and taking it back. A change notes what it replaces as it goes; when it fails half-way, what
 * it noted is put back. */
#include <stdlib.h>

#include "schedule_internal.h"

/* Adds what differs between two states of a segment to a report. */
static void difference_add(qs_schedule_draft *draft, int index, const qs_segment *old, const qs_segment *now, qs_draft_change *out) {
    int first = 0, behind = 0;
    while (first < old->steps && first < now->steps && qs__step_same(&old->step[first], &now->step[first]))
        first++;
    while (behind < old->steps - first && behind < now->steps - first &&
           qs__step_same(&old->step[old->steps - 1 - behind], &now->step[now->steps - 1 - behind]))
        behind++;
    const int removed = old->steps - first - behind, added = now->steps - first - behind;
    if (removed == 0 && added == 0) return;
    draft->report[out->segments++] = (qs_segment_change){index, first, removed, added, old->step + first, now->step + first};
    out->removed += removed;
    out->added += added;
}

/* The last change's segments against those that stand now; `back`: as taking it back sees them. */
static void change_report(qs_schedule_draft *draft, bool back, qs_draft_change *out) {
    const qs_journal *journal = &draft->journal;
    qs_draft_change change = {.segment = draft->report};
    if (!out) return;
    for (int i = journal->change[journal->changes - 1]; i < journal->entries; i++) {
        const qs_entry *entry = &journal->entry[i];
        if (entry->kind != QS_ENTRY_SEGMENT) continue;
        const qs_segment *old = entry->old.segment, *now = draft->segment[entry->index];
        difference_add(draft, entry->index, back ? now : old, back ? old : now, &change);
    }
    *out = change;
}

static qs_status recipe_set(qs_schedule_draft *draft, int node, const qs_recipe *recipe) {
    const qs_recipe *own = NULL;
    QS_TRY(qs__recipe_keep(draft, recipe, &own));
    if (own == draft->recipe[node]) return QS_OK;
    QS_TRY(qs__journal_add(draft, (qs_entry){.kind = QS_ENTRY_RECIPE, .index = node, .old.recipe = draft->recipe[node]}));
    draft->recipe[node] = own;
    for (int i = 0; i < draft->graph->node[node].inputs; i++)
        qs__mark(&draft->need_dirty, draft->graph->node[node].input[i]);
    qs__mark(&draft->value_dirty, node);
    qs__mark(&draft->changed, node);
    QS_TRY(qs__facts_update(draft));
    return qs__segments_emit(draft);
}

static void marks_clear(qs_schedule_draft *draft) {
    qs__marks_clear(&draft->dirty);
    qs__marks_clear(&draft->need_dirty);
    qs__marks_clear(&draft->value_dirty);
    qs__marks_clear(&draft->changed);
}

static qs_status node_check(const qs_schedule_draft *draft, int node) {
    if (node < 1 || node >= draft->graph->nodes) return qs_fail(QS_USAGE, "node %d: the graph has 1 to %d", node, draft->graph->nodes - 1);
    if (draft->graph->node[node].op->kind == QS_ADJUSTABLE) return QS_OK;
    return qs_fail(QS_USAGE, "operator %s (%s) takes no recipe: it follows others", draft->graph->node[node].name,
                   draft->graph->node[node].op->name);
}

qs_status qs_schedule_change(qs_schedule_draft *draft, int node, const qs_recipe *recipe, qs_draft_change *change) {
    QS_TRY(node_check(draft, node));
    qs__retired_free(draft);
    QS_TRY(qs__journal_begin(draft));
    const qs_status status = recipe_set(draft, node, recipe);
    if (status != QS_OK) {
        marks_clear(draft);
        qs__journal_restore(draft);
        qs__live_settle(draft);
        return status;
    }
    draft->journaling = false;
    qs__live_settle(draft);
    change_report(draft, false, change);
    return QS_OK;
}

qs_status qs_schedule_undo(qs_schedule_draft *draft, qs_draft_change *change) {
    if (draft->journal.changes == 0) return qs_fail(QS_USAGE, "no change of this draft is left to take back");
    qs__retired_free(draft);
    change_report(draft, true, change);
    qs__journal_restore(draft);
    qs__live_settle(draft);
    return QS_OK;
}

void qs_schedule_keep(qs_schedule_draft *draft) {
    qs__journal_forget(draft);
    qs__retired_free(draft);
}
