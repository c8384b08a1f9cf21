// SPDX-License-Identifier: Apache-2.0
/* What a change of a draft has still to look at, and what it has replaced. Marks are sets of small numbers that are visited in order while
 * they grow ahead of the visit. The journal has what changes replaced, newest last: taking a change back puts its entries back in reverse
 * order, without emitting anything (draft.c). */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { WORD = 64 };

qs_status qs__marks_make(int count, qs_marks *out) {
    out->words = count / WORD + 1;
    return qs_allocate((size_t)out->words, sizeof *out->word, &out->word);
}

void qs__mark(qs_marks *marks, int index) {
    marks->word[index / WORD] |= (uint64_t)1 << (index % WORD);
}

static int unmark(qs_marks *marks, int index) {
    marks->word[index / WORD] &= ~((uint64_t)1 << (index % WORD));
    return index;
}

int qs__mark_first(qs_marks *marks) {
    for (int at = 0; at < marks->words; at++)
        if (marks->word[at]) return unmark(marks, at * WORD + __builtin_ctzll(marks->word[at]));
    return -1;
}

int qs__mark_last(qs_marks *marks) {
    for (int at = marks->words - 1; at >= 0; at--)
        if (marks->word[at]) return unmark(marks, at * WORD + WORD - 1 - __builtin_clzll(marks->word[at]));
    return -1;
}

qs_status qs__journal_add(qs_schedule_draft *draft, qs_entry entry) {
    qs_journal *journal = &draft->journal;
    if (!draft->journaling) return QS_OK;
    QS_TRY(qs_grow(&journal->entry, &journal->entry_capacity, (size_t)journal->entries + 1, sizeof *journal->entry));
    journal->entry[journal->entries++] = entry;
    return QS_OK;
}
