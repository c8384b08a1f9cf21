// SPDX-License-Identifier: Apache-2.0
/* The set of cases: what lowering asked the device about, found again by text. */
#include "profiler_internal.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_of(const qs__cases *cases, const char *text) {
    size_t at = (size_t)qs_hash(text, strlen(text), 0) & (cases->slots - 1);
    while (cases->slot[at] >= 0 && strcmp(cases->entry[cases->slot[at]].text, text) != 0)
        at = (at + 1) & (cases->slots - 1);
    return at;
}

int qs__cases_find(const qs__cases *cases, const char *case_text) {
    return cases->slots ? cases->slot[slot_of(cases, case_text)] : -1;
}

/* At most half full; a power of two. */
static qs_status slots_grow(qs__cases *cases) {
    if ((size_t)cases->count * 2 < cases->slots) return QS_OK;
    const size_t slots = cases->slots ? cases->slots * 2 : 256;
    int *fresh = NULL;
    QS_TRY(qs_allocate(slots, sizeof *fresh, &fresh));
    free(cases->slot);
    cases->slot = fresh;
    cases->slots = slots;
    for (size_t i = 0; i < slots; i++)
        fresh[i] = -1;
    for (int i = 0; i < cases->count; i++)
        fresh[slot_of(cases, cases->entry[i].text)] = i;
    return QS_OK;
}

static qs_status entry_add(qs__cases *cases, const qs_case *one, const char *text, int *index) {
    qs_kernel_row row;
    char *copy = NULL;
    QS_TRY(qs_lookup_device(cases->device, one, text, &row));
    QS_TRY(qs_grow(&cases->entry, &cases->capacity, (size_t)cases->count + 1, sizeof *cases->entry));
    QS_TRY(slots_grow(cases));
    QS_TRY(qs_format_text(&copy, "%s", text));
    cases->slot[slot_of(cases, text)] = cases->count;
    cases->entry[cases->count] = (qs__entry){.text = copy, .case_ = *one, .row = row};
    *index = cases->count++;
    return QS_OK;
}

qs_status qs__cases_lookup(void *context, const qs_case *one, const char *case_text, qs_kernel_row *out) {
    qs__cases *cases = context;
    int index = qs__cases_find(cases, case_text);
    if (index < 0) QS_TRY(entry_add(cases, one, case_text, &index));
    *out = cases->entry[index].row;
    return QS_OK;
}

void qs__cases_release(qs__cases *cases) {
    for (int i = 0; i < cases->count; i++) {
        free(cases->entry[i].text);
        free(cases->entry[i].kernel_us.value);
        free(cases->entry[i].conversion_us.value);
        for (int c = 0; c < QS__CACHES; c++)
            free(cases->entry[i].cold[c].value);
        free(cases->entry[i].alone.value);
    }
    free(cases->entry);
    free(cases->slot);
    *cases = (qs__cases){0};
}
