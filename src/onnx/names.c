// SPDX-License-Identifier: Apache-2.0
/* Names with a number each: a hash table with open addressing. */
#include <stdlib.h>
#include <string.h>

#include "onnx_internal.h"

/* The slot of a key, or the free one where it would stand. */
static struct qs__name *slot_of(const qs__names *names, const char *key) {
    size_t at = (size_t)qs_hash(key, strlen(key), 0) & (names->capacity - 1);
    while (names->slot[at].key && strcmp(names->slot[at].key, key) != 0)
        at = (at + 1) & (names->capacity - 1);
    return &names->slot[at];
}

/* Twice the room, or the first. */
static qs_status grow(qs__names *names) {
    qs__names larger = {.count = names->count, .capacity = names->capacity ? 2 * names->capacity : 8};
    QS_TRY(qs_allocate(larger.capacity, sizeof *larger.slot, &larger.slot));
    for (size_t i = 0; i < names->capacity; i++)
        if (names->slot[i].key) *slot_of(&larger, names->slot[i].key) = names->slot[i];
    free(names->slot);
    *names = larger;
    return QS_OK;
}

qs_status qs__names_set(qs__names *names, const char *key, int64_t number) {
    if (2 * (names->count + 1) > names->capacity) QS_TRY(grow(names));
    struct qs__name *slot = slot_of(names, key);
    names->count += !slot->key;
    if (!slot->key) slot->key = key;
    slot->number = number;
    return QS_OK;
}

bool qs__names_get(const qs__names *names, const char *key, int64_t *number) {
    if (names->capacity == 0) return false;
    const struct qs__name *slot = slot_of(names, key);
    if (!slot->key) return false;
    *number = slot->number;
    return true;
}

void qs__names_release(qs__names *names) {
    free(names->slot);
    *names = (qs__names){0};
}
