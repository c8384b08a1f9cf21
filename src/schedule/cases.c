// SPDX-License-Identifier: Apache-2.0
/* The cases of a draft, by structural hash: the text of a case is made, checked and looked up in the kernel table once, however often it
 * is emitted. Cases stay until the draft is released, so that a change that comes back finds them. */
#include <stdlib.h>
#include <string.h>

#include "schedule_internal.h"

enum { FIRST_SLOTS = 256 };

static qs_case_slot *slot_find(const qs_cases *cases, uint64_t hash, const qs_case *one) {
    size_t at = (size_t)hash & (cases->slots - 1);
    while (cases->slot[at].entry && !(cases->slot[at].hash == hash && qs_case_equal(&cases->slot[at].entry->case_, one)))
        at = (at + 1) & (cases->slots - 1);
    return &cases->slot[at];
}

static qs_status slots_grow(qs_cases *cases) {
    if ((size_t)cases->count * 2 < cases->slots) return QS_OK;
    qs_cases larger = {.slots = cases->slots ? 2 * cases->slots : FIRST_SLOTS, .count = cases->count};
    QS_TRY(qs_allocate(larger.slots, sizeof *larger.slot, &larger.slot));
    for (size_t i = 0; i < cases->slots; i++)
        if (cases->slot[i].entry) *slot_find(&larger, cases->slot[i].hash, &cases->slot[i].entry->case_) = cases->slot[i];
    free(cases->slot);
    *cases = larger;
    return QS_OK;
}

static void entry_free(qs_draft_case *entry) {
    if (!entry) return;
    free(entry->text);
    free(entry);
}

static qs_status entry_make(const qs_lowering *in, const qs_case *one, int index, qs_draft_case **out) {
    char text[QS_CASE_TEXT];
    qs_draft_case *entry = NULL;
    qs_status status = QS_OK;
    QS_TRY(qs_case_check(one));
    qs_case_text(one, text);
    QS_TRY(qs_allocate(1, sizeof *entry, &entry));
    entry->case_ = *one;
    entry->index = index;
    QS_GOTO(in->lookup(in->context, one, text, &entry->row));
    QS_GOTO(qs_format_text(&entry->text, "%s", text));
    *out = entry;
    entry = NULL;
done:
    entry_free(entry);
    return status;
}

qs_status qs__case_find(qs_schedule_draft *draft, int node, const qs_case *one, const qs_draft_case **out) {
    qs_cases *cases = &draft->cases;
    QS_TRY(slots_grow(cases));
    const uint64_t hash = qs_case_hash(one);
    qs_case_slot *slot = slot_find(cases, hash, one);
    if (!slot->entry) {
        const char *name = node >= 0 ? draft->graph->node[node].name : "update";
        QS_TRY(qs_fail_within(entry_make(&draft->in, one, cases->count, &slot->entry), "operator %s", name));
        slot->hash = hash;
        cases->count++;
    }
    *out = slot->entry;
    return QS_OK;
}

void qs__case_table_release(qs_cases *cases) {
    for (size_t i = 0; i < cases->slots; i++)
        entry_free(cases->slot[i].entry);
    free(cases->slot);
}
