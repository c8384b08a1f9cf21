// SPDX-License-Identifier: Apache-2.0
/* What changes replaced, newest last: taking a change back puts its entries back in reverse order, without emitting anything. */
#include <stdlib.h>

#include "schedule_internal.h"

qs_status qs__journal_begin(qs_schedule_draft *draft) {
    qs_journal *journal = &draft->journal;
    QS_TRY(qs_grow(&journal->change, &journal->change_capacity, (size_t)journal->changes + 1, sizeof *journal->change));
    journal->change[journal->changes++] = journal->entries;
    draft->journaling = true;
    return QS_OK;
}

qs_status qs__journal_add(qs_schedule_draft *draft, qs_entry entry) {
    qs_journal *journal = &draft->journal;
    if (!draft->journaling) return QS_OK;
    QS_TRY(qs_grow(&journal->entry, &journal->entry_capacity, (size_t)journal->entries + 1, sizeof *journal->entry));
    journal->entry[journal->entries++] = entry;
    return QS_OK;
}

static void entry_restore(qs_schedule_draft *draft, const qs_entry *entry) {
    switch (entry->kind) {
    case QS_ENTRY_RECIPE:
        draft->recipe[entry->index] = entry->old.recipe;
        return;
    case QS_ENTRY_FACTS:
        draft->facts[entry->index] = entry->old.facts;
        return;
    case QS_ENTRY_SEGMENT:
        qs__segment_retire(draft, qs__segment_swap(draft, entry->index, entry->old.segment));
        return;
    }
}

void qs__journal_restore(qs_schedule_draft *draft) {
    qs_journal *journal = &draft->journal;
    const int first = journal->change[--journal->changes];
    while (journal->entries > first)
        entry_restore(draft, &journal->entry[--journal->entries]);
    draft->journaling = false;
}

void qs__journal_forget(qs_schedule_draft *draft) {
    qs_journal *journal = &draft->journal;
    for (int i = 0; i < journal->entries; i++)
        if (journal->entry[i].kind == QS_ENTRY_SEGMENT) free(journal->entry[i].old.segment);
    journal->entries = journal->changes = 0;
}
